package mantissa.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

class PackedReplyTest {
    private static final Pattern PACKED = Pattern.compile("\"packed\": \"([0-9a-f]*)\"");
    private static final Pattern TYPE = Pattern.compile("\"type\": \"([A-Z0-9]+)\"");
    private static final Pattern NUMBERS = Pattern.compile("\"numbers\": \\[([^\\]]*)\\]");

    @Test
    void readsWhatItPacks() {
        double[] values = {-3, 20.5, Double.NaN};
        PackedReply reply = new PackedReply(PackedReply.pack(new String[] {"oslo", "r\u00f6m", ""}, values));
        assertArrayEquals(values, reply.doubles());
        assertEquals(20.5, reply.doubleBuffer().get(1));
        assertArrayEquals(new String[] {"oslo", "r\u00f6m", ""}, reply.names());
        assertArrayEquals(new double[0], new PackedReply(PackedReply.pack(new double[0])).doubles());
    }

    @Test
    void readsTheSharedVectors() throws Exception {
        Path file = Path.of("..", "..", "number", "vectors", "packed.json");
        assumeTrue(Files.exists(file), "number/vectors/packed.json is not there");
        int read = 0;
        int refused = 0;
        for (String line : Files.readAllLines(file)) {
            Matcher packed = PACKED.matcher(line);
            if (!packed.find()) {
                continue;
            }
            byte[] bytes = HexFormat.of().parseHex(packed.group(1));
            Matcher numbers = NUMBERS.matcher(line);
            Matcher type = TYPE.matcher(line);
            if (!numbers.find() || !type.find()) {
                assertThrows(IllegalArgumentException.class, () -> new PackedReply(bytes), line);
                refused++;
                continue;
            }
            PackedReply reply = new PackedReply(bytes);
            String[] texts = numbers.group(1).isEmpty() ? new String[0] : numbers.group(1).split(", ");
            assertEquals(texts.length, reply.count(), line);
            assertEquals(type.group(1), reply.type().name());
            check(reply, texts);
            read++;
        }
        assertTrue(read > 0 && refused > 0, read + " read, " + refused + " refused");
    }

    private static void check(PackedReply reply, String[] texts) {
        double[] doubles = reply.doubles();
        for (int index = 0; index < texts.length; index++) {
            String text = texts[index].replace("\"", "");
            assertEquals(text.equals("null"), reply.isNull(index));
            if (text.equals("null")) {
                assertTrue(Double.isNaN(doubles[index]));
                continue;
            }
            switch (reply.type()) {
                case F64 -> assertEquals(Double.longBitsToDouble(Long.parseUnsignedLong(text, 16)), doubles[index]);
                case F32 -> assertEquals(Float.intBitsToFloat(Integer.parseUnsignedInt(text, 16)), doubles[index]);
                default -> assertEquals(Long.parseLong(text), reply.longs()[index]);
            }
        }
    }
}
