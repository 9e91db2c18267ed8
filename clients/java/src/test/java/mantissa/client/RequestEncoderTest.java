package mantissa.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.DoubleAdder;
import org.junit.jupiter.api.Test;

class RequestEncoderTest {
    private static String encoded(Object... words) {
        RequestEncoder out = new RequestEncoder();
        Command.of(words).encode(out);
        return new String(out.buffer(), 0, out.length(), StandardCharsets.UTF_8);
    }

    @Test
    void encodesEveryKindOfWord() {
        assertEquals("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", encoded("GET", "k"));
        assertEquals("*3\r\n$1\r\nX\r\n$3\r\n2.5\r\n$2\r\n-7\r\n", encoded("X", 2.5, -7L));
        assertEquals("*2\r\n$1\r\nX\r\n$20\r\n-9223372036854775808\r\n", encoded("X", Long.MIN_VALUE));
        assertEquals("*2\r\n$1\r\nX\r\n$18\r\n0.1234567890123456\r\n", encoded("X", 0.1234567890123456));
        assertEquals("*2\r\n$1\r\nX\r\n$10\r\n1234567.25\r\n", encoded("X", 1234567.25));
        assertEquals("*2\r\n$1\r\nX\r\n$6\r\nh\u00e4\u20ac\r\n", encoded("X", "h\u00e4\u20ac"));
        assertEquals("*2\r\n$1\r\nX\r\n$0\r\n\r\n", encoded("X", ""));
        String large = "v".repeat(100_000);
        assertEquals("*2\r\n$1\r\nX\r\n$100000\r\n" + large + "\r\n", encoded("X", large));
    }

    @Test
    void numbersAreSentExactly() {
        assertEquals("*2\r\n$1\r\nX\r\n$3\r\n1.5\r\n", encoded("X", new BigDecimal("1.5")));
        assertEquals("*2\r\n$1\r\nX\r\n$3\r\n100\r\n", encoded("X", new BigDecimal("1E+2")));
        assertEquals("*2\r\n$1\r\nX\r\n$8\r\n1E+90000\r\n", encoded("X", new BigDecimal("1E+90000")));
        String digits = "123456789012345678901234567890";
        assertEquals("*2\r\n$1\r\nX\r\n$30\r\n" + digits + "\r\n", encoded("X", new BigInteger(digits)));
        assertEquals("*4\r\n$1\r\nX\r\n$1\r\n7\r\n$2\r\n-8\r\n$1\r\n9\r\n",
                encoded("X", new AtomicLong(7), new AtomicInteger(-8), (short) 9));
        assertEquals("*4\r\n$1\r\nX\r\n$3\r\n0.1\r\n$8\r\n16777216\r\n$4\r\n-inf\r\n",
                encoded("X", 0.1f, 16777216f, Float.NEGATIVE_INFINITY));
        Object[] words = {"X", new AtomicLong(7)};
        Command.of(words);
        assertEquals(AtomicLong.class, words[1].getClass());
    }

    @Test
    void refusesOtherWords() {
        assertThrows(IllegalArgumentException.class, () -> Command.of("X", new DoubleAdder()));
        assertThrows(IllegalArgumentException.class, () -> Command.of());
        assertThrows(IllegalArgumentException.class, () -> Command.of("GET", null));
        assertThrows(IllegalArgumentException.class, () -> Command.of("GET", 'c'));
    }
}
