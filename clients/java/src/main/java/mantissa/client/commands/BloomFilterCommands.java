package mantissa.client.commands;

import java.util.List;
import mantissa.client.Command;
import mantissa.client.Reply;
import mantissa.client.ReplyTypes;

/** Commands of the group bloom-filter. Made by commands/generate.py. */
public final class BloomFilterCommands {
    private BloomFilterCommands() {}

    /**
     * Adds an item to a Bloom filter, making the filter if need be.
     *
     * <p>{@code BF.ADD key item}.
     * Complexity: O(K) for K hash functions.
     */
    public static Command<Boolean> bfAdd(String key, Object item) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"BF.ADD", key, item});
    }

    /**
     * Tells how many items were added to a Bloom filter.
     *
     * <p>{@code BF.CARD key}.
     * Complexity: O(1).
     */
    public static Command<Long> bfCard(String key) {
        return Words.of(ReplyTypes.LONG, new Object[] {"BF.CARD", key});
    }

    /**
     * Tells the layers of a Bloom filter.
     *
     * <p>{@code BF.DEBUG key}.
     * Complexity: O(N) for N filters.
     */
    public static Command<Reply> bfDebug(String key) {
        return Words.of(Reply.TYPE, new Object[] {"BF.DEBUG", key});
    }

    /**
     * Tells whether an item was added to a Bloom filter: surely not, or probably.
     *
     * <p>{@code BF.EXISTS key item}.
     * Complexity: O(K) for K hash functions.
     */
    public static Command<Boolean> bfExists(String key, Object item) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"BF.EXISTS", key, item});
    }

    /**
     * Tells how a Bloom filter was made and how full it is.
     *
     * <p>{@code BF.INFO key [CAPACITY|SIZE|FILTERS|ITEMS|EXPANSION]}.
     * Complexity: O(1).
     */
    public static Command<Reply> bfInfo(String key, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"BF.INFO", key}, options);
    }

    /**
     * Adds items to a Bloom filter, making it as the options say if it is not there.
     *
     * <p>{@code BF.INSERT key [CAPACITY capacity] [ERROR error] [EXPANSION expansion] [NOCREATE] [NONSCALING] ITEMS
     * item [item ...]}.
     * Complexity: O(K*N) for K hash functions and N items.
     */
    public static Command<List<Boolean>> bfInsert(String key, Object... words) {
        return Words.of(ReplyTypes.BOOLEANS, new Object[] {"BF.INSERT", key}, words);
    }

    /**
     * Makes a Bloom filter from the pieces of another.
     *
     * <p>{@code BF.LOADCHUNK key iterator data}.
     * Complexity: O(N) for N bytes.
     */
    public static Command<Reply> bfLoadchunk(String key, long iterator, Object data) {
        return Words.of(Reply.TYPE, new Object[] {"BF.LOADCHUNK", key, iterator, data});
    }

    /**
     * Adds items to a Bloom filter, making the filter if need be.
     *
     * <p>{@code BF.MADD key item [item ...]}.
     * Complexity: O(K*N) for K hash functions and N items.
     */
    public static Command<List<Boolean>> bfMadd(String key, Object... items) {
        return Words.of(ReplyTypes.BOOLEANS, new Object[] {"BF.MADD", key}, items);
    }

    /**
     * Tells for each item whether it was added to a Bloom filter: surely not, or probably.
     *
     * <p>{@code BF.MEXISTS key item [item ...]}.
     * Complexity: O(K*N) for K hash functions and N items.
     */
    public static Command<List<Boolean>> bfMexists(String key, Object... items) {
        return Words.of(ReplyTypes.BOOLEANS, new Object[] {"BF.MEXISTS", key}, items);
    }

    /**
     * Makes a Bloom filter.
     *
     * <p>{@code BF.RESERVE key error_rate capacity [EXPANSION expansion] [NONSCALING]}.
     * Complexity: O(1).
     */
    public static Command<Boolean> bfReserve(String key, double errorRate, long capacity, Object... options) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"BF.RESERVE", key, errorRate, capacity}, options);
    }

    /**
     * Returns a piece of a Bloom filter, and its end.
     *
     * <p>{@code BF.SCANDUMP key iterator}.
     * Complexity: O(N) for N bytes.
     */
    public static Command<Reply> bfScandump(String key, long iterator) {
        return Words.of(Reply.TYPE, new Object[] {"BF.SCANDUMP", key, iterator});
    }
}
