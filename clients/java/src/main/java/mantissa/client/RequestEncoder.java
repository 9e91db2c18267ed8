package mantissa.client;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import mantissa.number.NumberWriter;

/** Writes requests into an array that grows and is used again. Strings and numbers are written in place. */
final class RequestEncoder {
    private static final int FIRST = 8192;
    /** An array larger than this is given back after use. */
    private static final int KEEP_MAX = 1024 * 1024;

    private byte[] buffer = new byte[FIRST];
    private int length;

    int length() {
        return length;
    }

    byte[] buffer() {
        return buffer;
    }

    void clear() {
        length = 0;
        if (buffer.length > KEEP_MAX) {
            buffer = new byte[FIRST];
        }
    }

    /** Takes back what was written after {@code earlier}. */
    void truncate(int earlier) {
        length = earlier;
    }

    private void reserve(int more) {
        if (buffer.length - length < more) {
            // Up to 2 GB, which is more than a request may have.
            long larger = Math.max(2L * buffer.length, (long) length + more);
            buffer = Arrays.copyOf(buffer, (int) Math.min(larger, Integer.MAX_VALUE - 16));
        }
    }

    /** The beginning of a request of {@code words} words. */
    void begin(int words) {
        reserve(16);
        header('*', words);
    }

    private void header(char kind, int number) {
        buffer[length++] = (byte) kind;
        if (number < 10) {
            buffer[length++] = (byte) ('0' + number);
        } else {
            length = NumberWriter.writeLong(buffer, length, number);
        }
        buffer[length++] = '\r';
        buffer[length++] = '\n';
    }

    /** Requests that are encoded already. */
    void raw(byte[] bytes, int from, int count) {
        reserve(count);
        System.arraycopy(bytes, from, buffer, length, count);
        length += count;
    }

    private void end() {
        buffer[length++] = '\r';
        buffer[length++] = '\n';
    }

    void bytes(byte[] word) {
        reserve(word.length + 20);
        header('$', word.length);
        System.arraycopy(word, 0, buffer, length, word.length);
        length += word.length;
        end();
    }

    void text(String word) {
        int chars = word.length();
        reserve(chars + 20);
        int start = length;
        header('$', chars);
        byte[] target = buffer;
        int at = length;
        for (int index = 0; index < chars; index++) {
            char character = word.charAt(index);
            if (character >= 0x80) {
                length = start;
                bytes(word.getBytes(StandardCharsets.UTF_8));
                return;
            }
            target[at + index] = (byte) character;
        }
        length = at + chars;
        end();
    }

    void number(long word) {
        reserve(40);
        int digits = NumberWriter.digitCount(word == Long.MIN_VALUE ? Long.MAX_VALUE : Math.abs(word));
        header('$', digits + (word < 0 ? 1 : 0));
        length = NumberWriter.writeLong(buffer, length, word);
        end();
    }

    void number(double word) {
        reserve(NumberWriter.DOUBLE_MAX + 20);
        // Two digits of the length, whatever it is: it is known afterwards.
        int start = length;
        int text = start + 5;
        int end = NumberWriter.writeDouble(buffer, text, word);
        int size = end - text;
        buffer[start] = '$';
        if (size < 10) {
            System.arraycopy(buffer, text, buffer, start + 4, size);
            buffer[start + 1] = (byte) ('0' + size);
            end--;
        } else {
            buffer[start + 1] = (byte) ('0' + size / 10);
            buffer[start + 2] = (byte) ('0' + size % 10);
        }
        int line = size < 10 ? start + 2 : start + 3;
        buffer[line] = '\r';
        buffer[line + 1] = '\n';
        length = end;
        end();
    }
}
