package mantissa.client.commands;

import java.util.List;
import mantissa.client.Command;
import mantissa.client.Reply;
import mantissa.client.ReplyTypes;

/** Commands of the group time-series. Made by commands/generate.py. */
public final class TimeSeriesCommands {
    private TimeSeriesCommands() {}

    /**
     * Adds a sample to a time series, making the series if need be.
     *
     * <p>{@code TS.ADD key timestamp value [RETENTION retention] [ENCODING UNCOMPRESSED|COMPRESSED] [CHUNK_SIZE
     * size] [ON_DUPLICATE BLOCK|FIRST|LAST|MIN|MAX|SUM] [IGNORE max-time-difference max-value-difference] [LABELS
     * label value [label value ...]]}.
     * Complexity: O(1), and that of its chunk for a sample that is not the latest.
     */
    public static Command<Long> tsAdd(String key, Object timestamp, double value, Object... options) {
        return Words.of(ReplyTypes.LONG, new Object[] {"TS.ADD", key, timestamp, value}, options);
    }

    /**
     * Changes the options of a time series.
     *
     * <p>{@code TS.ALTER key [RETENTION retention] [CHUNK_SIZE size] [DUPLICATE_POLICY BLOCK|FIRST|LAST|MIN|MAX|SUM]
     * [IGNORE max-time-difference max-value-difference] [LABELS label value [label value ...]]}.
     * Complexity: O(N) for N labels.
     */
    public static Command<Boolean> tsAlter(String key, Object... options) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"TS.ALTER", key}, options);
    }

    /**
     * Makes a time series.
     *
     * <p>{@code TS.CREATE key [RETENTION retention] [ENCODING UNCOMPRESSED|COMPRESSED] [CHUNK_SIZE size]
     * [DUPLICATE_POLICY BLOCK|FIRST|LAST|MIN|MAX|SUM] [IGNORE max-time-difference max-value-difference] [LABELS
     * label value [label value ...]]}.
     * Complexity: O(1).
     */
    public static Command<Boolean> tsCreate(String key, Object... options) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"TS.CREATE", key}, options);
    }

    /**
     * Makes a rule that keeps buckets of a time series in another.
     *
     * <p>{@code TS.CREATERULE sourcekey destkey <AGGREGATION
     * AVG|FIRST|LAST|MIN|MAX|SUM|RANGE|COUNT|STD.P|STD.S|VAR.P|VAR.S|TWA> bucketduration [aligntimestamp]}.
     * Complexity: O(1).
     */
    public static Command<Boolean> tsCreaterule(
            String sourcekey, String destkey, String aggregator, long bucketduration, Object... options) {
        return Words.of(ReplyTypes.BOOLEAN,
                new Object[] {"TS.CREATERULE", sourcekey, destkey, "AGGREGATION", aggregator, bucketduration}, options);
    }

    /**
     * Subtracts from the latest value of a time series, as a new sample.
     *
     * <p>{@code TS.DECRBY key value [TIMESTAMP timestamp] [RETENTION retention] [UNCOMPRESSED] [CHUNK_SIZE size]
     * [LABELS label value [label value ...]]}.
     * Complexity: O(1).
     */
    public static Command<Long> tsDecrby(String key, double value, Object... options) {
        return Words.of(ReplyTypes.LONG, new Object[] {"TS.DECRBY", key, value}, options);
    }

    /**
     * Deletes the samples between two times.
     *
     * <p>{@code TS.DEL key from_timestamp to_timestamp}.
     * Complexity: O(N) for N chunks between the times.
     */
    public static Command<Long> tsDel(String key, long fromTimestamp, long toTimestamp) {
        return Words.of(ReplyTypes.LONG, new Object[] {"TS.DEL", key, fromTimestamp, toTimestamp});
    }

    /**
     * Deletes a rule.
     *
     * <p>{@code TS.DELETERULE sourcekey destkey}.
     * Complexity: O(1).
     */
    public static Command<Boolean> tsDeleterule(String sourcekey, String destkey) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"TS.DELETERULE", sourcekey, destkey});
    }

    /**
     * Returns the latest sample.
     *
     * <p>{@code TS.GET key [LATEST]}.
     * Complexity: O(1).
     */
    public static Command<Reply> tsGet(String key, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"TS.GET", key}, options);
    }

    /**
     * Adds to the latest value of a time series, as a new sample.
     *
     * <p>{@code TS.INCRBY key value [TIMESTAMP timestamp] [RETENTION retention] [UNCOMPRESSED] [CHUNK_SIZE size]
     * [LABELS label value [label value ...]]}.
     * Complexity: O(1).
     */
    public static Command<Long> tsIncrby(String key, double value, Object... options) {
        return Words.of(ReplyTypes.LONG, new Object[] {"TS.INCRBY", key, value}, options);
    }

    /**
     * Tells about a time series.
     *
     * <p>{@code TS.INFO key [DEBUG]}.
     * Complexity: O(1).
     */
    public static Command<Reply> tsInfo(String key, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"TS.INFO", key}, options);
    }

    /**
     * Adds samples to one or more time series.
     *
     * <p>{@code TS.MADD key timestamp value [key timestamp value ...]}.
     * Complexity: O(N) for N samples, as TS.ADD for each.
     */
    public static Command<List<Long>> tsMadd(Object... words) {
        return Words.of(ReplyTypes.LONGS, new Object[] {"TS.MADD"}, words);
    }

    /**
     * Returns the latest samples of the series that have certain labels.
     *
     * <p>{@code TS.MGET [LATEST] [WITHLABELS|SELECTED_LABELS selected_labels [selected_labels ...]] FILTER
     * filterexpr [filterexpr ...]}.
     * Complexity: O(N) for N series with the labels.
     */
    public static Command<Reply> tsMget(Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"TS.MGET"}, words);
    }

    /**
     * Returns samples between two times of the series that have certain labels.
     *
     * <p>{@code TS.MRANGE fromtimestamp totimestamp [LATEST] [FILTER_BY_TS timestamp [timestamp ...]]
     * [FILTER_BY_VALUE min max] [WITHLABELS|SELECTED_LABELS selected_labels [selected_labels ...]] [COUNT count]
     * [[ALIGN align] AGGREGATION aggregator bucketduration [BUCKETTIMESTAMP buckettimestamp] [EMPTY]] FILTER
     * filterexpr [filterexpr ...] [GROUPBY label REDUCE reducer] [EXCLUDEEMPTY]}.
     * Complexity: O(N) for N samples of the series with the labels.
     */
    public static Command<Reply> tsMrange(Object fromtimestamp, Object totimestamp, Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"TS.MRANGE", fromtimestamp, totimestamp}, words);
    }

    /**
     * Returns samples between two times of the series that have certain labels, the latest first.
     *
     * <p>{@code TS.MREVRANGE fromtimestamp totimestamp [LATEST] [FILTER_BY_TS timestamp [timestamp ...]]
     * [FILTER_BY_VALUE min max] [WITHLABELS|SELECTED_LABELS selected_labels [selected_labels ...]] [COUNT count]
     * [[ALIGN align] AGGREGATION aggregator bucketduration [BUCKETTIMESTAMP buckettimestamp] [EMPTY]] FILTER
     * filterexpr [filterexpr ...] [GROUPBY label REDUCE reducer] [EXCLUDEEMPTY]}.
     * Complexity: O(N) for N samples of the series with the labels.
     */
    public static Command<Reply> tsMrevrange(Object fromtimestamp, Object totimestamp, Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"TS.MREVRANGE", fromtimestamp, totimestamp}, words);
    }

    /**
     * Returns samples, or values of buckets of them, of several series side by side.
     *
     * <p>{@code TS.NRANGE numkeys key [key ...] fromtimestamp totimestamp [LATEST] [FILTER_BY_TS timestamp
     * [timestamp ...]] [FILTER_BY_VALUE min max] [COUNT count] [[ALIGN align] AGGREGATION aggregator [aggregator
     * ...] bucketduration [BUCKETTIMESTAMP buckettimestamp] [EMPTY]]}.
     * Complexity: O(N*M) for N samples of each of M series.
     */
    public static Command<Reply> tsNrange(List<?> keys, Object fromtimestamp, Object totimestamp, Object... options) {
        return Words.flat(Reply.TYPE,
                new Object[] {"TS.NRANGE", keys.size(), keys, fromtimestamp, totimestamp}, options);
    }

    /**
     * Returns samples, or values of buckets of them, of several series in rows, the latest first.
     *
     * <p>{@code TS.NREVRANGE numkeys key [key ...] fromtimestamp totimestamp [LATEST] [FILTER_BY_TS timestamp
     * [timestamp ...]] [FILTER_BY_VALUE min max] [COUNT count] [[ALIGN align] AGGREGATION aggregator [aggregator
     * ...] bucketduration [BUCKETTIMESTAMP buckettimestamp] [EMPTY]]}.
     * Complexity: O(N*M) for N samples of each of M series.
     */
    public static Command<Reply> tsNrevrange(
            List<?> keys, Object fromtimestamp, Object totimestamp, Object... options) {
        return Words.flat(Reply.TYPE,
                new Object[] {"TS.NREVRANGE", keys.size(), keys, fromtimestamp, totimestamp}, options);
    }

    /**
     * Returns the keys of the series that have certain labels.
     *
     * <p>{@code TS.QUERYINDEX filterexpr [filterexpr ...]}.
     * Complexity: O(N) for N series with the labels.
     */
    public static Command<List<String>> tsQueryindex(Object... filterexprs) {
        return Words.of(ReplyTypes.STRINGS, new Object[] {"TS.QUERYINDEX"}, filterexprs);
    }

    /**
     * Returns the names of labels, or the values of one, of the series that have certain labels.
     *
     * <p>{@code TS.QUERYLABELS <LABELS|VALUES values> [FILTER filterexpr [filterexpr ...]]}.
     * Complexity: O(N) for N series with the labels, or all of them.
     */
    public static Command<Reply> tsQuerylabels(Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"TS.QUERYLABELS"}, words);
    }

    /**
     * Returns the samples between two times, or values of buckets of them.
     *
     * <p>{@code TS.RANGE key fromtimestamp totimestamp [LATEST] [FILTER_BY_TS timestamp [timestamp ...]]
     * [FILTER_BY_VALUE min max] [COUNT count] [[ALIGN align] AGGREGATION aggregator bucketduration [BUCKETTIMESTAMP
     * buckettimestamp] [EMPTY]]}.
     * Complexity: O(N) for N samples; buckets that hold whole chunks take one step for each of these.
     */
    public static Command<Reply> tsRange(String key, Object fromtimestamp, Object totimestamp, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"TS.RANGE", key, fromtimestamp, totimestamp}, options);
    }

    /**
     * Returns samples from a time on, waiting for them if asked to.
     *
     * <p>{@code TS.READ key timestamp [BLOCK milliseconds min_count] [MAX_COUNT max_count]}.
     * Complexity: O(log(N)+M) for M samples returned of N.
     */
    public static Command<Reply> tsRead(String key, Object timestamp, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"TS.READ", key, timestamp}, options);
    }

    /**
     * Returns the samples between two times, or values of buckets of them, the latest first.
     *
     * <p>{@code TS.REVRANGE key fromtimestamp totimestamp [LATEST] [FILTER_BY_TS timestamp [timestamp ...]]
     * [FILTER_BY_VALUE min max] [COUNT count] [[ALIGN align] AGGREGATION aggregator bucketduration [BUCKETTIMESTAMP
     * buckettimestamp] [EMPTY]]}.
     * Complexity: O(N) for N samples; buckets that hold whole chunks take one step for each of these.
     */
    public static Command<Reply> tsRevrange(String key, Object fromtimestamp, Object totimestamp, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"TS.REVRANGE", key, fromtimestamp, totimestamp}, options);
    }
}
