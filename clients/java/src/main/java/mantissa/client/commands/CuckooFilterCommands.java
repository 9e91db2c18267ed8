package mantissa.client.commands;

import java.util.List;
import mantissa.client.Command;
import mantissa.client.Reply;
import mantissa.client.ReplyTypes;

/** Commands of the group cuckoo-filter. Made by commands/generate.py. */
public final class CuckooFilterCommands {
    private CuckooFilterCommands() {}

    /**
     * Adds an item to a Cuckoo filter once more, making the filter if need be.
     *
     * <p>{@code CF.ADD key item}.
     * Complexity: O(K) for K filters.
     */
    public static Command<Boolean> cfAdd(String key, Object item) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"CF.ADD", key, item});
    }

    /**
     * Adds an item to a Cuckoo filter unless it is there, making the filter if need be.
     *
     * <p>{@code CF.ADDNX key item}.
     * Complexity: O(K) for K filters.
     */
    public static Command<Boolean> cfAddnx(String key, Object item) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"CF.ADDNX", key, item});
    }

    /**
     * Moves the items of a Cuckoo filter's layers to older ones, and drops those that become empty.
     *
     * <p>{@code CF.COMPACT key}.
     * Complexity: O(N) for N slots.
     */
    public static Command<Reply> cfCompact(String key) {
        return Words.of(Reply.TYPE, new Object[] {"CF.COMPACT", key});
    }

    /**
     * Tells how often an item was added to a Cuckoo filter, at most.
     *
     * <p>{@code CF.COUNT key item}.
     * Complexity: O(K) for K filters.
     */
    public static Command<Long> cfCount(String key, Object item) {
        return Words.of(ReplyTypes.LONG, new Object[] {"CF.COUNT", key, item});
    }

    /**
     * Tells the numbers of a Cuckoo filter in one line.
     *
     * <p>{@code CF.DEBUG key}.
     * Complexity: O(1).
     */
    public static Command<Reply> cfDebug(String key) {
        return Words.of(Reply.TYPE, new Object[] {"CF.DEBUG", key});
    }

    /**
     * Deletes an item from a Cuckoo filter, once; one that was never added may delete another.
     *
     * <p>{@code CF.DEL key item}.
     * Complexity: O(K) for K filters.
     */
    public static Command<Boolean> cfDel(String key, Object item) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"CF.DEL", key, item});
    }

    /**
     * Tells whether an item was added to a Cuckoo filter: surely not, or probably.
     *
     * <p>{@code CF.EXISTS key item}.
     * Complexity: O(K) for K filters.
     */
    public static Command<Boolean> cfExists(String key, Object item) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"CF.EXISTS", key, item});
    }

    /**
     * Tells how a Cuckoo filter was made and how full it is.
     *
     * <p>{@code CF.INFO key}.
     * Complexity: O(1).
     */
    public static Command<Reply> cfInfo(String key) {
        return Words.of(Reply.TYPE, new Object[] {"CF.INFO", key});
    }

    /**
     * Adds items to a Cuckoo filter once more, making it as the options say if it is not there.
     *
     * <p>{@code CF.INSERT key [CAPACITY capacity] [NOCREATE] ITEMS item [item ...]}.
     * Complexity: O(N*K) for N items and K filters.
     */
    public static Command<Reply> cfInsert(String key, Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"CF.INSERT", key}, words);
    }

    /**
     * Adds items that are not there to a Cuckoo filter, making it as the options say if need be.
     *
     * <p>{@code CF.INSERTNX key [CAPACITY capacity] [NOCREATE] ITEMS item [item ...]}.
     * Complexity: O(N*K) for N items and K filters.
     */
    public static Command<List<Long>> cfInsertnx(String key, Object... words) {
        return Words.of(ReplyTypes.LONGS, new Object[] {"CF.INSERTNX", key}, words);
    }

    /**
     * Makes a Cuckoo filter from the pieces of another.
     *
     * <p>{@code CF.LOADCHUNK key iterator data}.
     * Complexity: O(N) for N bytes.
     */
    public static Command<Reply> cfLoadchunk(String key, long iterator, Object data) {
        return Words.of(Reply.TYPE, new Object[] {"CF.LOADCHUNK", key, iterator, data});
    }

    /**
     * Tells for each item whether it was added to a Cuckoo filter: surely not, or probably.
     *
     * <p>{@code CF.MEXISTS key item [item ...]}.
     * Complexity: O(N*K) for N items and K filters.
     */
    public static Command<List<Boolean>> cfMexists(String key, Object... items) {
        return Words.of(ReplyTypes.BOOLEANS, new Object[] {"CF.MEXISTS", key}, items);
    }

    /**
     * Makes a Cuckoo filter.
     *
     * <p>{@code CF.RESERVE key capacity [BUCKETSIZE bucketsize] [MAXITERATIONS maxiterations] [EXPANSION expansion]}.
     * Complexity: O(1).
     */
    public static Command<Boolean> cfReserve(String key, long capacity, Object... options) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"CF.RESERVE", key, capacity}, options);
    }

    /**
     * Returns a piece of a Cuckoo filter, and where the next begins.
     *
     * <p>{@code CF.SCANDUMP key iterator}.
     * Complexity: O(N) for N bytes.
     */
    public static Command<Reply> cfScandump(String key, long iterator) {
        return Words.of(Reply.TYPE, new Object[] {"CF.SCANDUMP", key, iterator});
    }
}
