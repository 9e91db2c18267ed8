package mantissa.client.commands;

import java.util.List;
import mantissa.client.Command;
import mantissa.client.Reply;
import mantissa.client.ReplyTypes;

/** Commands of the group top-k. Made by commands/generate.py. */
public final class TopKCommands {
    private TopKCommands() {}

    /**
     * Adds items to a Top-K sketch, and returns those that had to leave its list.
     *
     * <p>{@code TOPK.ADD key items [items ...]}.
     * Complexity: O(N*(D+K)) for N items, depth D and K places.
     */
    public static Command<Reply> topkAdd(String key, Object... itemss) {
        return Words.of(Reply.TYPE, new Object[] {"TOPK.ADD", key}, itemss);
    }

    /**
     * Estimates counts of items.
     *
     * <p>{@code TOPK.COUNT key item [item ...]}.
     * Complexity: O(N*(D+K)) for N items, depth D and K places.
     */
    public static Command<List<Long>> topkCount(String key, Object... items) {
        return Words.of(ReplyTypes.LONGS, new Object[] {"TOPK.COUNT", key}, items);
    }

    /**
     * Adds items several times to a Top-K sketch, and returns those that had to leave its list.
     *
     * <p>{@code TOPK.INCRBY key item increment [item increment ...]}.
     * Complexity: O(N*(D*I+K)) for N items, depth D, increments of I and K places.
     */
    public static Command<Reply> topkIncrby(String key, Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"TOPK.INCRBY", key}, words);
    }

    /**
     * Tells how a Top-K sketch was made.
     *
     * <p>{@code TOPK.INFO key}.
     * Complexity: O(1).
     */
    public static Command<Reply> topkInfo(String key) {
        return Words.of(Reply.TYPE, new Object[] {"TOPK.INFO", key});
    }

    /**
     * Lists the items seen most often.
     *
     * <p>{@code TOPK.LIST key [WITHCOUNT]}.
     * Complexity: O(K*log(K)) for K places.
     */
    public static Command<List<String>> topkList(String key, Object... options) {
        return Words.of(ReplyTypes.STRINGS, new Object[] {"TOPK.LIST", key}, options);
    }

    /**
     * Tells which items are in the list.
     *
     * <p>{@code TOPK.QUERY key items [items ...]}.
     * Complexity: O(N*K) for N items and K places.
     */
    public static Command<List<Boolean>> topkQuery(String key, Object... itemss) {
        return Words.of(ReplyTypes.BOOLEANS, new Object[] {"TOPK.QUERY", key}, itemss);
    }

    /**
     * Makes a Top-K sketch.
     *
     * <p>{@code TOPK.RESERVE key topk [width depth decay]}.
     * Complexity: O(1).
     */
    public static Command<Boolean> topkReserve(String key, long topk, Object... options) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"TOPK.RESERVE", key, topk}, options);
    }
}
