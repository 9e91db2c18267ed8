package mantissa.client.commands;

import java.util.List;
import mantissa.client.Command;
import mantissa.client.Reply;
import mantissa.client.ReplyTypes;

/** Commands of the group t-digest. Made by commands/generate.py. */
public final class TDigestCommands {
    private TDigestCommands() {}

    /**
     * Adds numbers to a t-digest.
     *
     * <p>{@code TDIGEST.ADD key values [values ...]}.
     * Complexity: O(N) for N numbers.
     */
    public static Command<Boolean> tdigestAdd(String key, Object... valuess) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"TDIGEST.ADD", key}, valuess);
    }

    /**
     * Estimates the numbers that have given ranks.
     *
     * <p>{@code TDIGEST.BYRANK key rank [rank ...]}.
     * Complexity: O(N*K) for N ranks and K nodes.
     */
    public static Command<double[]> tdigestByrank(String key, Object... ranks) {
        return Words.of(ReplyTypes.DOUBLES, new Object[] {"TDIGEST.BYRANK", key}, ranks);
    }

    /**
     * Estimates the numbers that have given ranks from the largest on.
     *
     * <p>{@code TDIGEST.BYREVRANK key reverse_rank [reverse_rank ...]}.
     * Complexity: O(N*K) for N ranks and K nodes.
     */
    public static Command<double[]> tdigestByrevrank(String key, Object... reverseRanks) {
        return Words.of(ReplyTypes.DOUBLES, new Object[] {"TDIGEST.BYREVRANK", key}, reverseRanks);
    }

    /**
     * Estimates the parts of all numbers that lie below given ones.
     *
     * <p>{@code TDIGEST.CDF key value [value ...]}.
     * Complexity: O(N*K) for N numbers and K nodes.
     */
    public static Command<double[]> tdigestCdf(String key, Object... values) {
        return Words.of(ReplyTypes.DOUBLES, new Object[] {"TDIGEST.CDF", key}, values);
    }

    /**
     * Makes a t-digest.
     *
     * <p>{@code TDIGEST.CREATE key [COMPRESSION compression]}.
     * Complexity: O(1).
     */
    public static Command<Boolean> tdigestCreate(String key, Object... options) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"TDIGEST.CREATE", key}, options);
    }

    /**
     * Tells how a t-digest was made and how full it is.
     *
     * <p>{@code TDIGEST.INFO key}.
     * Complexity: O(1).
     */
    public static Command<Reply> tdigestInfo(String key) {
        return Words.of(Reply.TYPE, new Object[] {"TDIGEST.INFO", key});
    }

    /**
     * Returns the largest number that a t-digest has seen.
     *
     * <p>{@code TDIGEST.MAX key}.
     * Complexity: O(1).
     */
    public static Command<Double> tdigestMax(String key) {
        return Words.of(ReplyTypes.DOUBLE, new Object[] {"TDIGEST.MAX", key});
    }

    /**
     * Adds what t-digests have seen to another one, or makes one of it.
     *
     * <p>{@code TDIGEST.MERGE destination-key numkeys source-key [source-key ...] [COMPRESSION compression]
     * [OVERRIDE]}.
     * Complexity: O(N*K) for N digests of K nodes.
     */
    public static Command<Boolean> tdigestMerge(String destinationKey, List<?> sourceKeys, Object... options) {
        return Words.flat(ReplyTypes.BOOLEAN,
                new Object[] {"TDIGEST.MERGE", destinationKey, sourceKeys.size(), sourceKeys}, options);
    }

    /**
     * Returns the least number that a t-digest has seen.
     *
     * <p>{@code TDIGEST.MIN key}.
     * Complexity: O(1).
     */
    public static Command<Double> tdigestMin(String key) {
        return Words.of(ReplyTypes.DOUBLE, new Object[] {"TDIGEST.MIN", key});
    }

    /**
     * Estimates the numbers below which given parts of all lie.
     *
     * <p>{@code TDIGEST.QUANTILE key quantile [quantile ...]}.
     * Complexity: O(N+K) for N quantiles in order and K nodes.
     */
    public static Command<double[]> tdigestQuantile(String key, Object... quantiles) {
        return Words.of(ReplyTypes.DOUBLES, new Object[] {"TDIGEST.QUANTILE", key}, quantiles);
    }

    /**
     * Estimates how many numbers lie below given ones.
     *
     * <p>{@code TDIGEST.RANK key value [value ...]}.
     * Complexity: O(N*K) for N numbers and K nodes.
     */
    public static Command<List<Long>> tdigestRank(String key, Object... values) {
        return Words.of(ReplyTypes.LONGS, new Object[] {"TDIGEST.RANK", key}, values);
    }

    /**
     * Forgets all numbers of a t-digest.
     *
     * <p>{@code TDIGEST.RESET key}.
     * Complexity: O(1).
     */
    public static Command<Boolean> tdigestReset(String key) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"TDIGEST.RESET", key});
    }

    /**
     * Estimates how many numbers lie above given ones.
     *
     * <p>{@code TDIGEST.REVRANK key value [value ...]}.
     * Complexity: O(N*K) for N numbers and K nodes.
     */
    public static Command<List<Long>> tdigestRevrank(String key, Object... values) {
        return Words.of(ReplyTypes.LONGS, new Object[] {"TDIGEST.REVRANK", key}, values);
    }

    /**
     * Estimates the mean of the numbers between two quantiles.
     *
     * <p>{@code TDIGEST.TRIMMED_MEAN key low_cut_quantile high_cut_quantile}.
     * Complexity: O(K) for K nodes.
     */
    public static Command<Double> tdigestTrimmedMean(String key, double lowCutQuantile, double highCutQuantile) {
        return Words.of(ReplyTypes.DOUBLE,
                new Object[] {"TDIGEST.TRIMMED_MEAN", key, lowCutQuantile, highCutQuantile});
    }
}
