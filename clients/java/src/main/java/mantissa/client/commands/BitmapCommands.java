package mantissa.client.commands;

import java.util.List;
import mantissa.client.Command;
import mantissa.client.Reply;
import mantissa.client.ReplyTypes;

/** Commands of the group bitmap. Made by commands/generate.py. */
public final class BitmapCommands {
    private BitmapCommands() {}

    /**
     * Counts the bits that are set in a string or a part of it.
     *
     * <p>{@code BITCOUNT key [start end [BYTE|BIT]]}.
     * Complexity: O(N) for N bytes looked at.
     */
    public static Command<Long> bitcount(String key, Object... options) {
        return Words.of(ReplyTypes.LONG, new Object[] {"BITCOUNT", key}, options);
    }

    /**
     * Reads and changes integers of any width inside a string.
     *
     * <p>{@code BITFIELD key [GET encoding offset|[OVERFLOW WRAP|SAT|FAIL] <SET encoding offset value|INCRBY
     * encoding offset increment> [GET encoding offset|[OVERFLOW WRAP|SAT|FAIL] <SET encoding offset value|INCRBY
     * encoding offset increment> ...]]}.
     * Complexity: O(1) for each operation.
     */
    public static Command<List<Long>> bitfield(String key, Object... options) {
        return Words.of(ReplyTypes.LONGS, new Object[] {"BITFIELD", key}, options);
    }

    /**
     * Reads integers of any width inside a string.
     *
     * <p>{@code BITFIELD_RO key [GET encoding offset [GET encoding offset ...]]}.
     * Complexity: O(1) for each operation.
     */
    public static Command<List<Long>> bitfieldRo(String key, Object... options) {
        return Words.of(ReplyTypes.LONGS, new Object[] {"BITFIELD_RO", key}, options);
    }

    /**
     * Combines strings bit by bit and stores the result.
     *
     * <p>{@code BITOP <AND|OR|XOR|NOT|DIFF|DIFF1|ANDOR|ONE> destkey key [key ...]}.
     * Complexity: O(N) for the N bytes of all sources.
     */
    public static Command<Long> bitop(String operation, String destkey, Object... keys) {
        return Words.of(ReplyTypes.LONG, new Object[] {"BITOP", operation, destkey}, keys);
    }

    /**
     * Finds the first bit of a given value in a string or a part of it.
     *
     * <p>{@code BITPOS key bit [start [end [BYTE|BIT]]]}.
     * Complexity: O(N) for N bytes looked at.
     */
    public static Command<Long> bitpos(String key, long bit, Object... options) {
        return Words.of(ReplyTypes.LONG, new Object[] {"BITPOS", key, bit}, options);
    }

    /**
     * Reads one bit of a string.
     *
     * <p>{@code GETBIT key offset}.
     * Complexity: O(1).
     */
    public static Command<Reply> getbit(String key, long offset) {
        return Words.of(Reply.TYPE, new Object[] {"GETBIT", key, offset});
    }

    /**
     * Sets or clears one bit of a string.
     *
     * <p>{@code SETBIT key offset value}.
     * Complexity: O(1).
     */
    public static Command<Reply> setbit(String key, long offset, long value) {
        return Words.of(Reply.TYPE, new Object[] {"SETBIT", key, offset, value});
    }
}
