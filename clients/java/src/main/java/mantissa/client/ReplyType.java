package mantissa.client;

import java.nio.charset.StandardCharsets;

/**
 * What a reply becomes. A reply that is one value goes to the method of its kind, an array, map or set to the
 * {@link Assembly} that {@link #aggregate} begins; both read the bytes where the socket's read has put them, and copy
 * what they keep. Kinds that a type does not expect are refused with {@link UnexpectedReplyException}.
 *
 * <p>Methods run on the connection's reading thread and must not block. A type has no state of its own.
 *
 * @param <T> the Java type of the reply
 */
public abstract class ReplyType<T> {
    /** A string of {@code length} bytes; the buffer is valid during the call only. */
    public T bulk(byte[] buffer, int offset, int length) {
        throw unexpected("a string");
    }

    /** A string too long for the buffer, in an array that the type may keep. */
    public T ownedBulk(byte[] bytes) {
        return bulk(bytes, 0, bytes.length);
    }

    /** A status, such as OK. */
    public T status(byte[] buffer, int offset, int length) {
        return bulk(buffer, offset, length);
    }

    /** An integer. */
    public T integer(long value) {
        throw unexpected("an integer");
    }

    /** A double of RESP3; RESP2 sends a string instead. */
    public T decimal(double value) {
        throw unexpected("a double");
    }

    /** The same with the text that came, for types that keep it; the buffer is valid during the call only. */
    public T decimal(double value, byte[] buffer, int offset, int length) {
        return decimal(value);
    }

    /** A boolean of RESP3; RESP2 sends 1 or 0 instead. */
    public T bool(boolean value) {
        return integer(value ? 1 : 0);
    }

    /** Null. */
    public T nil() {
        return null;
    }

    /** An array ({@code *}), set ({@code ~}), push ({@code >}) or map ({@code %}, {@code count} keys and values together). */
    public Assembly aggregate(char kind, int count) {
        throw unexpected("an array");
    }

    /** The exception for a reply of another kind. */
    protected final UnexpectedReplyException unexpected(String found) {
        return new UnexpectedReplyException(getClass().getSimpleName() + " does not take " + found);
    }

    static String text(byte[] buffer, int offset, int length) {
        return new String(buffer, offset, length, StandardCharsets.UTF_8);
    }
}
