package mantissa.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class ReplyDecoderTest {
    /** Decodes {@code text} in pieces of {@code size} bytes; replies, exceptions and pushes in order. */
    static List<Object> decode(byte[] text, int size, ReplyType<?> type) {
        List<Object> seen = new ArrayList<>();
        ReplyDecoder decoder = new ReplyDecoder(new ReplyDecoder.Handler() {
            @Override
            public ReplyType<?> expected() {
                return type;
            }

            @Override
            public void reply(Object value, RuntimeException failure) {
                seen.add(failure == null ? value : failure);
            }

            @Override
            public void push(Reply message) {
                seen.add("push " + message);
            }
        });
        for (int at = 0; at < text.length; ) {
            ByteBuffer target = decoder.readTarget();
            int count = Math.min(Math.min(size, text.length - at), target.remaining());
            target.put(text, at, count);
            at += count;
            decoder.decode();
        }
        return seen;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.ISO_8859_1);
    }

    private static String shown(List<Object> seen) {
        StringBuilder text = new StringBuilder();
        for (Object each : seen) {
            text.append(each instanceof RuntimeException broken ? "!" + broken.getMessage() : each).append('\n');
        }
        return text.toString();
    }

    @Test
    void aDoubleKeepsItsText() {
        for (String text : List.of("1", "1e+20", "inf", "-inf", "nan", "0.10000000000000001", "2.50")) {
            byte[] alone = bytes("," + text + "\r\n");
            byte[] listed = bytes("*2\r\n," + text + "\r\n:1\r\n");
            assertEquals(text, ((Reply) decode(alone, 7, Reply.TYPE).get(0)).asString());
            assertArrayEquals(bytes(text), ((Reply) decode(alone, 7, Reply.TYPE).get(0)).asBytes());
            assertEquals("[[" + text + ", 1]]", decode(listed, 7, Reply.TYPE).toString());
            assertEquals(text, decode(alone, 7, ReplyTypes.STRING).get(0));
            assertArrayEquals(bytes(text), (byte[]) decode(alone, 7, ReplyTypes.BYTES).get(0));
            assertEquals(List.of(text, "1"), decode(listed, 7, ReplyTypes.STRINGS).get(0));
        }
        assertEquals(2.5, ((Reply) decode(bytes(",2.5\r\n"), 7, Reply.TYPE).get(0)).asDouble());
        assertEquals(5, ((Reply) decode(bytes(",5\r\n"), 7, Reply.TYPE).get(0)).asLong());
        assertEquals("1", ((Reply) decode(bytes("#t\r\n"), 7, Reply.TYPE).get(0)).asString());
    }

    @Test
    void everySplitGivesTheSame() {
        String wire = "+OK\r\n-ERR no\r\n:-42\r\n$5\r\nhello\r\n$-1\r\n*-1\r\n$0\r\n\r\n,3.25\r\n,inf\r\n#t\r\n_\r\n"
                + "(12345678901234567890\r\n(17\r\n=7\r\ntxt:abc\r\n!5\r\nERR x\r\n*2\r\n:1\r\n*1\r\n$1\r\na\r\n"
                + ">2\r\n+message\r\n$2\r\nhi\r\n%2\r\n+a\r\n:1\r\n+b\r\n_\r\n~1\r\n,1.5e300\r\n"
                + "|1\r\n+ttl\r\n:3\r\n*2\r\n|1\r\n+k\r\n*0\r\n:7\r\n-ERR in\r\n*0\r\n$12\r\ntwelve bytes\r\n";
        String whole = shown(decode(bytes(wire), wire.length(), Reply.TYPE));
        assertEquals("OK\n!ERR no\n-42\nhello\nnull\nnull\n\n3.25\ninf\n1\nnull\n12345678901234567890\n17\nabc\n"
                + "!ERR x\n[1, [a]]\npush [message, hi]\n[a, 1, b, null]\n[1.5e300]\n[7, ERR in]\n[]\ntwelve bytes\n", whole);
        for (int size = 1; size < wire.length(); size++) {
            assertEquals(whole, shown(decode(bytes(wire), size, Reply.TYPE)));
        }
    }

    @Test
    void longStringsGoToTheirOwnArray() {
        byte[] value = new byte[300_000];
        for (int index = 0; index < value.length; index++) {
            value[index] = (byte) (index * 31);
        }
        byte[] begin = bytes("*3\r\n$300000\r\n");
        byte[] end = bytes("\r\n:1\r\n$4096\r\n" + "x".repeat(4096) + "\r\n+OK\r\n");
        byte[] wire = new byte[begin.length + value.length + end.length];
        System.arraycopy(begin, 0, wire, 0, begin.length);
        System.arraycopy(value, 0, wire, begin.length, value.length);
        System.arraycopy(end, 0, wire, begin.length + value.length, end.length);
        for (int size : new int[] {1, 7, 4096, 65535, 65536, wire.length}) {
            List<Object> seen = decode(wire, size, Reply.TYPE);
            assertEquals(2, seen.size());
            assertArrayEquals(value, ((Reply) seen.get(0)).asList().get(0).asBytes());
            assertEquals(4096, ((Reply) seen.get(0)).asList().get(2).asBytes().length);
        }
    }

    @Test
    void manySmallRepliesPassTheBuffersEnd() {
        StringBuilder wire = new StringBuilder();
        for (int index = 0; index < 50_000; index++) {
            wire.append(':').append(index).append("\r\n$3\r\nabc\r\n");
        }
        for (int size : new int[] {1000, 8191, 100_000}) {
            List<Object> seen = decode(bytes(wire.toString()), size, ReplyTypes.STRING);
            assertEquals(100_000, seen.size());
            assertEquals("49999", seen.get(99_998));
        }
    }

    @Test
    void membersWithScoresOfBothProtocols() {
        String nested = "*2\r\n*2\r\n$4\r\noslo\r\n,-3\r\n*2\r\n$4\r\nrome\r\n,20.5\r\n";
        String flat = "*4\r\n$4\r\noslo\r\n$2\r\n-3\r\n$4\r\nrome\r\n$4\r\n20.5\r\n";
        for (String wire : List.of(nested, flat)) {
            ScoredMembers members = (ScoredMembers) decode(bytes(wire), 5, ReplyTypes.SCORED).get(0);
            assertEquals(2, members.size());
            assertEquals("rome", members.member(1));
            assertArrayEquals(new double[] {-3, 20.5}, members.scores());
            assertThrows(IndexOutOfBoundsException.class, () -> members.score(2));
        }
    }

    @Test
    void pairsTakenInOneGoAreThoseTakenOneByOne() {
        List<String> scores = List.of("0", "-3", "20.5", "0.1234567890123456789012", "1e300", "inf", "-inf", "-0", "7.",
                "123456789012345678", "12345678901234567890", "0.30000000000000004", "-2.2250738585072014e-308");
        StringBuilder nested = new StringBuilder();
        StringBuilder flat = new StringBuilder();
        for (int number = 0; number < 500; number++) {
            String member = "\u00e9".repeat(number * 7 % 130);
            String score = scores.get(number % scores.size());
            nested.append("*2\r\n$" + member.length() + "\r\n" + member + "\r\n," + score + "\r\n");
            flat.append("$" + member.length() + "\r\n" + member + "\r\n$" + score.length() + "\r\n" + score + "\r\n");
        }
        byte[] pairs = bytes("*500\r\n" + nested + ":5\r\n");
        ScoredMembers expected = (ScoredMembers) decode(bytes("*1000\r\n" + flat), 100_000, ReplyTypes.SCORED).get(0);
        for (int size : new int[] {1, 7, 64, 1000, 8192, 1 << 20}) {
            ScoredMembers members = (ScoredMembers) decode(pairs, size, ReplyTypes.SCORED).get(0);
            assertEquals(500, members.size());
            assertArrayEquals(expected.scores(), members.scores());
            for (int index = 0; index < 500; index++) {
                assertArrayEquals(expected.memberBytes(index), members.memberBytes(index));
            }
        }
        String longer = "*2\r\n*2\r\n$1\r\na\r\n,1\r\n*3\r\n$1\r\nb\r\n,2\r\n,3\r\n:9\r\n";
        List<Object> seen = decode(bytes(longer), 100, ReplyTypes.SCORED);
        assertTrue(seen.get(0) instanceof UnexpectedReplyException);
    }

    @Test
    void aReplyOfAnotherKindFailsAlone() {
        String wire = "*2\r\n*1\r\n$1\r\na\r\n:5\r\n:3\r\n";
        List<Object> seen = decode(bytes(wire), 3, ReplyTypes.LONG);
        assertTrue(seen.get(0) instanceof UnexpectedReplyException);
        assertEquals(3L, seen.get(1));
    }

    @Test
    void whatIsNoRespIsRefused() {
        for (String wire : List.of("hello\r\n", "$x\r\n\r\n", ":\r\n", ":12a\r\n", "*-2\r\n", ",1,5\r\n", "$1\r\nabc\r\n",
                "+a\rb\r\n", "$-7\r\n\r\n", "*1\r\n".repeat(1025))) {
            assertThrows(ProtocolException.class, () -> decode(bytes(wire), 100, Reply.TYPE), wire);
        }
        assertThrows(ProtocolException.class, () -> decode(bytes("+" + "x".repeat(70_000)), 9000, Reply.TYPE));
    }
}
