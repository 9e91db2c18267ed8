package mantissa.number;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;

class NumberTest {
    private static String print(double value) {
        byte[] out = new byte[NumberWriter.DOUBLE_MAX + 6];
        int end = NumberWriter.writeDouble(out, 3, value);
        assertTrue(end - 3 <= NumberWriter.DOUBLE_MAX);
        return new String(out, 3, end - 3, StandardCharsets.US_ASCII);
    }

    private static double read(String text) {
        byte[] bytes = ("#" + text + "7").getBytes(StandardCharsets.UTF_8);
        return DoubleReader.parse(bytes, 1, bytes.length - 1);
    }

    @Test
    void readsTheSharedVectors() throws Exception {
        int read = 0;
        for (Map<String, String> row : Vectors.read("reading")) {
            String text = row.get("text");
            boolean whole = row.get("end").equals(Integer.toString(text.getBytes(StandardCharsets.UTF_8).length));
            if (row.get("status").equals("invalid") || !whole) {
                assertThrows(NumberFormatException.class, () -> read(text), text);
                continue;
            }
            if (row.get("status").equals("nan")) {
                assertTrue(Double.isNaN(read(text)), text);
                continue;
            }
            double expected = Double.longBitsToDouble(Long.parseUnsignedLong(row.get("f64"), 16));
            assertEquals(expected, read(text), text);
            read++;
        }
        assertTrue(read > 4000, "read " + read);
    }

    @Test
    void linesAreReadAsTextsAreOrLeft() throws Exception {
        int read = 0;
        double[] values = {0, 7};
        for (Map<String, String> row : Vectors.read("reading")) {
            byte[] line = ("," + row.get("text") + "\r\n+").getBytes(StandardCharsets.UTF_8);
            for (int limit = 2; limit < line.length; limit++) {
                int end = DoubleReader.parseLine(line, 1, limit, values, 1);
                assertTrue(end == -1 || end == line.length - 1 && limit == end, row.get("text"));
            }
            if (DoubleReader.parseLine(line, 1, line.length, values, 1) >= 0) {
                assertEquals(DoubleReader.parse(line, 1, line.length - 3), values[1], row.get("text"));
                read++;
            }
        }
        assertTrue(read > 800, "read " + read);
        assertEquals(0, values[0]);
    }

    @Test
    void printsTheSharedVectors() throws Exception {
        for (Map<String, String> row : Vectors.read("printing_f64")) {
            double value = Double.longBitsToDouble(Long.parseUnsignedLong(row.get("f64"), 16));
            assertEquals(row.get("text"), print(value), row.get("f64"));
        }
    }

    @Test
    void readsBackWhatItPrints() {
        Random random = new Random(20261124);
        double[] values = new double[1];
        int lines = 0;
        for (int round = 0; round < 200_000; round++) {
            long bits = random.nextLong();
            double value = switch (round % 3) {
                case 0 -> Double.longBitsToDouble(bits);
                case 1 -> (bits >>> 20) / Math.pow(10, 2 + round % 9);
                default -> random.nextDouble();
            };
            String text = print(value);
            assertEquals(value, read(text), text);
            if (!Double.isNaN(value) && !Double.isInfinite(value)) {
                assertEquals(value, Double.parseDouble(text), text);
            }
            byte[] line = (text + "\r\n").getBytes(StandardCharsets.US_ASCII);
            if (DoubleReader.parseLine(line, 0, line.length, values, 0) >= 0) {
                assertEquals(value, values[0], text);
                lines++;
            }
        }
        assertTrue(lines > 100_000, "lines " + lines);
    }

    @Test
    void printsIntegers() throws Exception {
        byte[] out = new byte[NumberWriter.LONG_MAX + 1];
        long[] edges = {0, 9, 10, 99, 100, -1, Long.MAX_VALUE, Long.MIN_VALUE, 1_000_000_000_000_000_000L, -10};
        for (long value : edges) {
            int end = NumberWriter.writeLong(out, 1, value);
            assertEquals(Long.toString(value), new String(out, 1, end - 1, StandardCharsets.US_ASCII));
        }
        for (Map<String, String> row : Vectors.read("integers")) {
            if (row.containsKey("i64") && !row.get("i64").equals("null")) {
                long value = Long.parseLong(row.get("i64"));
                int end = NumberWriter.writeLong(out, 0, value);
                assertEquals(row.get("i64"), new String(out, 0, end, StandardCharsets.US_ASCII));
            }
        }
    }
}
