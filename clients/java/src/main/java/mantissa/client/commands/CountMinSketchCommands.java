package mantissa.client.commands;

import java.util.List;
import mantissa.client.Command;
import mantissa.client.Reply;
import mantissa.client.ReplyTypes;

/** Commands of the group count-min-sketch. Made by commands/generate.py. */
public final class CountMinSketchCommands {
    private CountMinSketchCommands() {}

    /**
     * Counts items, and estimates their counts.
     *
     * <p>{@code CMS.INCRBY key item increment [item increment ...]}.
     * Complexity: O(N) for N items.
     */
    public static Command<List<Long>> cmsIncrby(String key, Object... words) {
        return Words.of(ReplyTypes.LONGS, new Object[] {"CMS.INCRBY", key}, words);
    }

    /**
     * Tells the sides of a Count-Min sketch and the sum of all counts.
     *
     * <p>{@code CMS.INFO key}.
     * Complexity: O(1).
     */
    public static Command<Reply> cmsInfo(String key) {
        return Words.of(Reply.TYPE, new Object[] {"CMS.INFO", key});
    }

    /**
     * Makes a Count-Min sketch with given sides.
     *
     * <p>{@code CMS.INITBYDIM key width depth}.
     * Complexity: O(1).
     */
    public static Command<Boolean> cmsInitbydim(String key, long width, long depth) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"CMS.INITBYDIM", key, width, depth});
    }

    /**
     * Makes a Count-Min sketch that overestimates by no more than a part of all counts, but for a given probability.
     *
     * <p>{@code CMS.INITBYPROB key error probability}.
     * Complexity: O(1).
     */
    public static Command<Boolean> cmsInitbyprob(String key, double error, double probability) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"CMS.INITBYPROB", key, error, probability});
    }

    /**
     * Replaces a Count-Min sketch by the sum of sketches with the same sides.
     *
     * <p>{@code CMS.MERGE destination numKeys source [source ...] [WEIGHTS weight [weight ...]]}.
     * Complexity: O(N*W*D) for N sketches of width W and depth D.
     */
    public static Command<Boolean> cmsMerge(String destination, List<?> sources, Object... options) {
        return Words.flat(ReplyTypes.BOOLEAN,
                new Object[] {"CMS.MERGE", destination, sources.size(), sources}, options);
    }

    /**
     * Estimates the counts of items: never too low.
     *
     * <p>{@code CMS.QUERY key item [item ...]}.
     * Complexity: O(N) for N items.
     */
    public static Command<List<Long>> cmsQuery(String key, Object... items) {
        return Words.of(ReplyTypes.LONGS, new Object[] {"CMS.QUERY", key}, items);
    }
}
