package mantissa.client.commands;

import java.util.List;
import mantissa.client.Command;
import mantissa.client.Reply;
import mantissa.client.ReplyTypes;

/** Commands of the group array. Made by commands/generate.py. */
public final class ArrayCommands {
    private ArrayCommands() {}

    /**
     * Tells how many elements an array has.
     *
     * <p>{@code ARCOUNT key}.
     * Complexity: O(1).
     */
    public static Command<Long> arcount(String key) {
        return Words.of(ReplyTypes.LONG, new Object[] {"ARCOUNT", key});
    }

    /**
     * Removes elements of an array by their indexes.
     *
     * <p>{@code ARDEL key index [index ...]}.
     * Complexity: O(N) for N indexes.
     */
    public static Command<Long> ardel(String key, Object... indexs) {
        return Words.of(ReplyTypes.LONG, new Object[] {"ARDEL", key}, indexs);
    }

    /**
     * Removes the elements of an array in one range of indexes or more.
     *
     * <p>{@code ARDELRANGE key start end [start end ...]}.
     * Complexity: O(N) for N elements in the ranges.
     */
    public static Command<Long> ardelrange(String key, Object... words) {
        return Words.of(ReplyTypes.LONG, new Object[] {"ARDELRANGE", key}, words);
    }

    /**
     * Reads the element at an index of an array.
     *
     * <p>{@code ARGET key index}.
     * Complexity: O(1).
     */
    public static Command<String> arget(String key, long index) {
        return Words.of(ReplyTypes.STRING, new Object[] {"ARGET", key, index});
    }

    /**
     * Reads all from one index of an array to another, null where it is empty.
     *
     * <p>{@code ARGETRANGE key start end}.
     * Complexity: O(N) for N indexes.
     */
    public static Command<List<String>> argetrange(String key, long start, long end) {
        return Words.of(ReplyTypes.STRINGS, new Object[] {"ARGETRANGE", key, start, end});
    }

    /**
     * Searches a range of an array for texts, globs and regular expressions.
     *
     * <p>{@code ARGREP key start end <EXACT string|MATCH string|GLOB pattern|RE pattern [EXACT string|MATCH
     * string|GLOB pattern|RE pattern ...]> [AND|OR|LIMIT limit|WITHVALUES|NOCASE [AND|OR|LIMIT
     * limit|WITHVALUES|NOCASE ...]]}.
     * Complexity: O(N*C) for N elements in the range and predicates that take C for one.
     */
    public static Command<Reply> argrep(String key, Object start, Object end, Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"ARGREP", key, start, end}, words);
    }

    /**
     * Tells how large an array is and how it is laid out.
     *
     * <p>{@code ARINFO key [FULL]}.
     * Complexity: O(N) for N elements.
     */
    public static Command<Reply> arinfo(String key, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"ARINFO", key}, options);
    }

    /**
     * Puts values into an array behind the last one that was inserted.
     *
     * <p>{@code ARINSERT key value [value ...]}.
     * Complexity: O(N) for N values.
     */
    public static Command<Reply> arinsert(String key, Object... values) {
        return Words.of(Reply.TYPE, new Object[] {"ARINSERT", key}, values);
    }

    /**
     * Reads what was inserted into an array last, null where it is empty.
     *
     * <p>{@code ARLASTITEMS key count [REV]}.
     * Complexity: O(N) for N items.
     */
    public static Command<List<String>> arlastitems(String key, long count, Object... options) {
        return Words.of(ReplyTypes.STRINGS, new Object[] {"ARLASTITEMS", key, count}, options);
    }

    /**
     * Tells the highest index of an array's elements, plus 1.
     *
     * <p>{@code ARLEN key}.
     * Complexity: O(1).
     */
    public static Command<Reply> arlen(String key) {
        return Words.of(Reply.TYPE, new Object[] {"ARLEN", key});
    }

    /**
     * Reads the elements at several indexes of an array.
     *
     * <p>{@code ARMGET key index [index ...]}.
     * Complexity: O(N) for N indexes.
     */
    public static Command<List<String>> armget(String key, Object... indexs) {
        return Words.of(ReplyTypes.STRINGS, new Object[] {"ARMGET", key}, indexs);
    }

    /**
     * Puts values into an array, each at its own index.
     *
     * <p>{@code ARMSET key index value [index value ...]}.
     * Complexity: O(N) for N values.
     */
    public static Command<Long> armset(String key, Object... words) {
        return Words.of(ReplyTypes.LONG, new Object[] {"ARMSET", key}, words);
    }

    /**
     * Tells the index at which ARINSERT goes on.
     *
     * <p>{@code ARNEXT key}.
     * Complexity: O(1).
     */
    public static Command<Reply> arnext(String key) {
        return Words.of(Reply.TYPE, new Object[] {"ARNEXT", key});
    }

    /**
     * Makes one value of the elements in a range of an array.
     *
     * <p>{@code AROP key start end <SUM|MIN|MAX|AND|OR|XOR|MATCH value|USED>}.
     * Complexity: O(N) for N elements in the range.
     */
    public static Command<Reply> arop(String key, long start, long end, Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"AROP", key, start, end}, words);
    }

    /**
     * Puts values into an array that begins anew at a size, so that the latest ones stay.
     *
     * <p>{@code ARRING key size value [value ...]}.
     * Complexity: O(N) for N values, and as many elements as the ring keeps if its size is another one.
     */
    public static Command<Reply> arring(String key, long size, Object... values) {
        return Words.of(Reply.TYPE, new Object[] {"ARRING", key, size}, values);
    }

    /**
     * Lists the elements from one index of an array to another, each with its index.
     *
     * <p>{@code ARSCAN key start end [LIMIT limit]}.
     * Complexity: O(N) for N elements in the range.
     */
    public static Command<Reply> arscan(String key, long start, long end, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"ARSCAN", key, start, end}, options);
    }

    /**
     * Sets the index at which ARINSERT and ARRING go on.
     *
     * <p>{@code ARSEEK key index}.
     * Complexity: O(1).
     */
    public static Command<Long> arseek(String key, long index) {
        return Words.of(ReplyTypes.LONG, new Object[] {"ARSEEK", key, index});
    }

    /**
     * Puts values into an array from an index on.
     *
     * <p>{@code ARSET key index value [value ...]}.
     * Complexity: O(N) for N values.
     */
    public static Command<Long> arset(String key, long index, Object... values) {
        return Words.of(ReplyTypes.LONG, new Object[] {"ARSET", key, index}, values);
    }
}
