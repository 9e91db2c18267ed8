package mantissa.client.commands;

import java.util.List;
import mantissa.client.Command;
import mantissa.client.Reply;
import mantissa.client.ReplyTypes;

/** Commands of the group list. Made by commands/generate.py. */
public final class ListCommands {
    private ListCommands() {}

    /**
     * Moves an element from list to list like LMOVE, waiting for one if need be.
     *
     * <p>{@code BLMOVE source destination <LEFT|RIGHT> <LEFT|RIGHT> timeout}.
     * Complexity: O(1).
     */
    public static Command<String> blmove(
            String source, String destination, String wherefrom, String whereto, double timeout) {
        return Words.of(ReplyTypes.STRING, new Object[] {"BLMOVE", source, destination, wherefrom, whereto, timeout});
    }

    /**
     * Moves elements from list to list like LMOVEM, waiting for them if need be.
     *
     * <p>{@code BLMOVEM source destination <LEFT|RIGHT> <LEFT|RIGHT> timeout [<COUNT count|EXACTLY exactly>
     * <OBO|BULK>]}.
     * Complexity: O(N) for N elements moved.
     */
    public static Command<List<String>> blmovem(
            String source, String destination, String wherefrom, String whereto, double timeout, Object... options) {
        return Words.of(ReplyTypes.STRINGS,
                new Object[] {"BLMOVEM", source, destination, wherefrom, whereto, timeout}, options);
    }

    /**
     * Takes elements from the first list that has any like LMPOP, waiting if need be.
     *
     * <p>{@code BLMPOP timeout numkeys key [key ...] <LEFT|RIGHT> [COUNT count]}.
     * Complexity: O(K+N) for K keys and N elements taken.
     */
    public static Command<Reply> blmpop(double timeout, List<?> keys, String where, Object... options) {
        return Words.flat(Reply.TYPE, new Object[] {"BLMPOP", timeout, keys.size(), keys, where}, options);
    }

    /**
     * Takes the first element of the first list that has one, waiting for it if need be.
     *
     * <p>{@code BLPOP key [key ...] timeout}.
     * Complexity: O(K) for K keys.
     */
    public static Command<Reply> blpop(List<?> keys, double timeout) {
        return Words.flat(Reply.TYPE, new Object[] {"BLPOP", keys, timeout});
    }

    /**
     * Takes the last element of the first list that has one, waiting for it if need be.
     *
     * <p>{@code BRPOP key [key ...] timeout}.
     * Complexity: O(K) for K keys.
     */
    public static Command<Reply> brpop(List<?> keys, double timeout) {
        return Words.flat(Reply.TYPE, new Object[] {"BRPOP", keys, timeout});
    }

    /**
     * Moves an element from list to list like RPOPLPUSH, waiting for one if need be.
     *
     * <p>{@code BRPOPLPUSH source destination timeout}.
     * Complexity: O(1).
     */
    public static Command<String> brpoplpush(String source, String destination, double timeout) {
        return Words.of(ReplyTypes.STRING, new Object[] {"BRPOPLPUSH", source, destination, timeout});
    }

    /**
     * Returns the element at an index.
     *
     * <p>{@code LINDEX key index}.
     * Complexity: O(log(N)) for a list of length N.
     */
    public static Command<String> lindex(String key, long index) {
        return Words.of(ReplyTypes.STRING, new Object[] {"LINDEX", key, index});
    }

    /**
     * Adds an element next to the first one that equals a pivot.
     *
     * <p>{@code LINSERT key <BEFORE|AFTER> pivot element}.
     * Complexity: O(N) for N elements up to the pivot.
     */
    public static Command<Long> linsert(String key, String where, Object pivot, Object element) {
        return Words.of(ReplyTypes.LONG, new Object[] {"LINSERT", key, where, pivot, element});
    }

    /**
     * Tells how many elements a list has.
     *
     * <p>{@code LLEN key}.
     * Complexity: O(1).
     */
    public static Command<Long> llen(String key) {
        return Words.of(ReplyTypes.LONG, new Object[] {"LLEN", key});
    }

    /**
     * Takes an element from an end of one list, adds it to an end of another, and returns it.
     *
     * <p>{@code LMOVE source destination <LEFT|RIGHT> <LEFT|RIGHT>}.
     * Complexity: O(1).
     */
    public static Command<String> lmove(String source, String destination, String wherefrom, String whereto) {
        return Words.of(ReplyTypes.STRING, new Object[] {"LMOVE", source, destination, wherefrom, whereto});
    }

    /**
     * Moves several elements from an end of one list to an end of another and returns them.
     *
     * <p>{@code LMOVEM source destination <LEFT|RIGHT> <LEFT|RIGHT> [<COUNT count|EXACTLY exactly> <OBO|BULK>]}.
     * Complexity: O(N) for N elements moved.
     */
    public static Command<List<String>> lmovem(
            String source, String destination, String wherefrom, String whereto, Object... options) {
        return Words.of(ReplyTypes.STRINGS,
                new Object[] {"LMOVEM", source, destination, wherefrom, whereto}, options);
    }

    /**
     * Takes elements from an end of the first list that has any.
     *
     * <p>{@code LMPOP numkeys key [key ...] <LEFT|RIGHT> [COUNT count]}.
     * Complexity: O(K+N) for K keys and N elements taken.
     */
    public static Command<Reply> lmpop(List<?> keys, String where, Object... options) {
        return Words.flat(Reply.TYPE, new Object[] {"LMPOP", keys.size(), keys, where}, options);
    }

    /**
     * Takes elements from the start of a list and returns them.
     *
     * <p>{@code LPOP key [count]}.
     * Complexity: O(N) for N elements taken.
     */
    public static Command<Reply> lpop(String key, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"LPOP", key}, options);
    }

    /**
     * Finds the indexes of elements that equal a given one.
     *
     * <p>{@code LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]}.
     * Complexity: O(N) for N elements looked at.
     */
    public static Command<Reply> lpos(String key, Object element, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"LPOS", key, element}, options);
    }

    /**
     * Adds elements before the first one of a list, creating the list if need be.
     *
     * <p>{@code LPUSH key element [element ...]}.
     * Complexity: O(N) for N new elements.
     */
    public static Command<Long> lpush(String key, Object... elements) {
        return Words.of(ReplyTypes.LONG, new Object[] {"LPUSH", key}, elements);
    }

    /**
     * Adds elements before the first one of a list that is there already.
     *
     * <p>{@code LPUSHX key element [element ...]}.
     * Complexity: O(N) for N new elements.
     */
    public static Command<Long> lpushx(String key, Object... elements) {
        return Words.of(ReplyTypes.LONG, new Object[] {"LPUSHX", key}, elements);
    }

    /**
     * Returns the elements between two indexes.
     *
     * <p>{@code LRANGE key start stop}.
     * Complexity: O(log(L)+N) for N elements of a list of length L.
     */
    public static Command<List<String>> lrange(String key, long start, long stop) {
        return Words.of(ReplyTypes.STRINGS, new Object[] {"LRANGE", key, start, stop});
    }

    /**
     * Removes elements that equal a given one, counted from either end.
     *
     * <p>{@code LREM key count element}.
     * Complexity: O(N) for a list of length N.
     */
    public static Command<Long> lrem(String key, long count, Object element) {
        return Words.of(ReplyTypes.LONG, new Object[] {"LREM", key, count, element});
    }

    /**
     * Replaces the element at an index.
     *
     * <p>{@code LSET key index element}.
     * Complexity: O(log(N)) for a list of length N.
     */
    public static Command<Boolean> lset(String key, long index, Object element) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"LSET", key, index, element});
    }

    /**
     * Keeps only the elements between two indexes.
     *
     * <p>{@code LTRIM key start stop}.
     * Complexity: O(N) for N elements removed.
     */
    public static Command<Boolean> ltrim(String key, long start, long stop) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"LTRIM", key, start, stop});
    }

    /**
     * Takes elements from the end of a list and returns them.
     *
     * <p>{@code RPOP key [count]}.
     * Complexity: O(N) for N elements taken.
     */
    public static Command<Reply> rpop(String key, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"RPOP", key}, options);
    }

    /**
     * Moves the last element of one list to the start of another and returns it.
     *
     * <p>{@code RPOPLPUSH source destination}.
     * Complexity: O(1).
     */
    public static Command<String> rpoplpush(String source, String destination) {
        return Words.of(ReplyTypes.STRING, new Object[] {"RPOPLPUSH", source, destination});
    }

    /**
     * Adds elements after the last one of a list, creating the list if need be.
     *
     * <p>{@code RPUSH key element [element ...]}.
     * Complexity: O(N) for N new elements.
     */
    public static Command<Long> rpush(String key, Object... elements) {
        return Words.of(ReplyTypes.LONG, new Object[] {"RPUSH", key}, elements);
    }

    /**
     * Adds elements after the last one of a list that is there already.
     *
     * <p>{@code RPUSHX key element [element ...]}.
     * Complexity: O(N) for N new elements.
     */
    public static Command<Long> rpushx(String key, Object... elements) {
        return Words.of(ReplyTypes.LONG, new Object[] {"RPUSHX", key}, elements);
    }
}
