package mantissa.client.commands;

import java.util.List;
import mantissa.client.Command;
import mantissa.client.Reply;
import mantissa.client.ReplyTypes;

/** Commands of the group stream. Made by commands/generate.py. */
public final class StreamCommands {
    private StreamCommands() {}

    /**
     * Takes entries off the list of those that a group has yet to acknowledge.
     *
     * <p>{@code XACK key group id [id ...]}.
     * Complexity: O(N*log(M)) for N IDs and M pending entries.
     */
    public static Command<Long> xack(String key, Object group, Object... ids) {
        return Words.of(ReplyTypes.LONG, new Object[] {"XACK", key, group}, ids);
    }

    /**
     * Acknowledges entries for a group and deletes them.
     *
     * <p>{@code XACKDEL key group [KEEPREF|DELREF|ACKED] IDS numids id [id ...]}.
     * Complexity: O(N*log(M)) for N IDs and M pending entries.
     */
    public static Command<Reply> xackdel(String key, Object group, Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"XACKDEL", key, group}, words);
    }

    /**
     * Appends an entry to a stream, creating the stream if need be.
     *
     * <p>{@code XADD key [NOMKSTREAM] [KEEPREF|DELREF|ACKED] [<MAXLEN|MINID> [=|~] threshold [LIMIT count]] <*|id>
     * field value [field value ...]}.
     * Complexity: O(1), and O(N) for N entries that trimming removes.
     */
    public static Command<String> xadd(String key, Object... words) {
        return Words.of(ReplyTypes.STRING, new Object[] {"XADD", key}, words);
    }

    /**
     * Makes a consumer the holder of entries that have been pending for some time.
     *
     * <p>{@code XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]}.
     * Complexity: O(N*log(M)) for N of M pending entries looked at.
     */
    public static Command<Reply> xautoclaim(
            String key, Object group, Object consumer, Object minIdleTime, Object start, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"XAUTOCLAIM", key, group, consumer, minIdleTime, start}, options);
    }

    /**
     * Sets for how long a stream knows what producers have sent, and for how many entries of each.
     *
     * <p>{@code XCFGSET key [IDMP-DURATION duration] [IDMP-MAXSIZE maxsize]}.
     * Complexity: O(1), and O(N) in the background for N entries of producers that are forgotten.
     */
    public static Command<Boolean> xcfgset(String key, Object... options) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"XCFGSET", key}, options);
    }

    /**
     * Makes a consumer the holder of pending entries.
     *
     * <p>{@code XCLAIM key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds]
     * [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID lastid]}.
     * Complexity: O(N*log(M)) for N IDs and M pending entries.
     */
    public static Command<Reply> xclaim(
            String key, Object group, Object consumer, Object minIdleTime, List<?> ids, Object... options) {
        return Words.flat(Reply.TYPE, new Object[] {"XCLAIM", key, group, consumer, minIdleTime, ids}, options);
    }

    /**
     * Deletes entries.
     *
     * <p>{@code XDEL key id [id ...]}.
     * Complexity: O(N*log(M)) for N IDs in a stream of M entries.
     */
    public static Command<Long> xdel(String key, Object... ids) {
        return Words.of(ReplyTypes.LONG, new Object[] {"XDEL", key}, ids);
    }

    /**
     * Deletes entries, with a choice of what becomes of them where they are pending.
     *
     * <p>{@code XDELEX key [KEEPREF|DELREF|ACKED] IDS numids id [id ...]}.
     * Complexity: O(N*log(M)) for N IDs in a stream of M entries.
     */
    public static Command<Reply> xdelex(String key, Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"XDELEX", key}, words);
    }

    /**
     * Makes a consumer group.
     *
     * <p>{@code XGROUP CREATE key group <id|$> [MKSTREAM] [ENTRIESREAD entries-read]}.
     * Complexity: O(log(N)) for N groups.
     */
    public static Command<Boolean> xgroupCreate(String key, Object group, Object... words) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"XGROUP", "CREATE", key, group}, words);
    }

    /**
     * Makes a consumer in a group.
     *
     * <p>{@code XGROUP CREATECONSUMER key group consumer}.
     * Complexity: O(log(N)) for N consumers.
     */
    public static Command<Long> xgroupCreateconsumer(String key, Object group, Object consumer) {
        return Words.of(ReplyTypes.LONG, new Object[] {"XGROUP", "CREATECONSUMER", key, group, consumer});
    }

    /**
     * Removes a consumer, with what is pending for it.
     *
     * <p>{@code XGROUP DELCONSUMER key group consumer}.
     * Complexity: O(N*log(M)) for N entries of the consumer, of M pending ones.
     */
    public static Command<Long> xgroupDelconsumer(String key, Object group, Object consumer) {
        return Words.of(ReplyTypes.LONG, new Object[] {"XGROUP", "DELCONSUMER", key, group, consumer});
    }

    /**
     * Removes a consumer group.
     *
     * <p>{@code XGROUP DESTROY key group}.
     * Complexity: O(N) for N pending entries.
     */
    public static Command<Boolean> xgroupDestroy(String key, Object group) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"XGROUP", "DESTROY", key, group});
    }

    /**
     * Moves a consumer group to another place in its stream.
     *
     * <p>{@code XGROUP SETID key group <id|$> [ENTRIESREAD entries-read]}.
     * Complexity: O(log(N)) for N groups.
     */
    public static Command<Boolean> xgroupSetid(String key, Object group, Object... words) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"XGROUP", "SETID", key, group}, words);
    }

    /**
     * Notes that an entry is what a producer has sent under a name; for files.
     *
     * <p>{@code XIDMPRECORD key pid iid stream-id}.
     * Complexity: O(log(N)) for N entries.
     */
    public static Command<Boolean> xidmprecord(String key, Object pid, Object iid, Object streamId) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"XIDMPRECORD", key, pid, iid, streamId});
    }

    /**
     * Lists the consumers of a group.
     *
     * <p>{@code XINFO CONSUMERS key group}.
     * Complexity: O(N) for N consumers.
     */
    public static Command<Reply> xinfoConsumers(String key, Object group) {
        return Words.of(Reply.TYPE, new Object[] {"XINFO", "CONSUMERS", key, group});
    }

    /**
     * Lists the consumer groups of a stream.
     *
     * <p>{@code XINFO GROUPS key}.
     * Complexity: O(N) for N groups.
     */
    public static Command<Reply> xinfoGroups(String key) {
        return Words.of(Reply.TYPE, new Object[] {"XINFO", "GROUPS", key});
    }

    /**
     * Describes a stream.
     *
     * <p>{@code XINFO STREAM key [FULL [COUNT count]]}.
     * Complexity: O(N) for N nodes of the stream; FULL adds what is shown.
     */
    public static Command<Reply> xinfoStream(String key, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"XINFO", "STREAM", key}, options);
    }

    /**
     * Tells how many entries a stream has.
     *
     * <p>{@code XLEN key}.
     * Complexity: O(1).
     */
    public static Command<Long> xlen(String key) {
        return Words.of(ReplyTypes.LONG, new Object[] {"XLEN", key});
    }

    /**
     * Gives pending entries of a group back, for any consumer to take at once.
     *
     * <p>{@code XNACK key group <SILENT|FAIL|FATAL> IDS numids id [id ...] [RETRYCOUNT count] [FORCE]}.
     * Complexity: O(N*log(M)) for N IDs and M pending entries.
     */
    public static Command<Long> xnack(String key, Object group, String mode, Object... words) {
        return Words.of(ReplyTypes.LONG, new Object[] {"XNACK", key, group, mode}, words);
    }

    /**
     * Shows what a group has delivered and nobody has acknowledged.
     *
     * <p>{@code XPENDING key group [[IDLE min-idle-time] start end count [consumer]]}.
     * Complexity: O(log(M)+N) for N of M pending entries; the summary O(N) for N consumers.
     */
    public static Command<Reply> xpending(String key, Object group, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"XPENDING", key, group}, options);
    }

    /**
     * Returns the entries between two IDs.
     *
     * <p>{@code XRANGE key start end [COUNT count]}.
     * Complexity: O(log(M)+N) for N returned entries of a stream of M.
     */
    public static Command<Reply> xrange(String key, Object start, Object end, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"XRANGE", key, start, end}, options);
    }

    /**
     * Returns what streams hold after given IDs, and can wait for it.
     *
     * <p>{@code XREAD [COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]}.
     * Complexity: O(log(M)+N) for each stream of M entries, N of which are returned.
     */
    public static Command<Reply> xread(Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"XREAD"}, words);
    }

    /**
     * Delivers entries to a consumer of a group, or shows it those it has; can wait.
     *
     * <p>{@code XREADGROUP GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key [key ...] id
     * [id ...]}.
     * Complexity: O(N*log(M)) for N entries delivered to a group with M pending ones.
     */
    public static Command<Reply> xreadgroup(Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"XREADGROUP"}, words);
    }

    /**
     * Returns the entries between two IDs, the newest first.
     *
     * <p>{@code XREVRANGE key end start [COUNT count]}.
     * Complexity: O(log(M)+N) for N returned entries of a stream of M.
     */
    public static Command<Reply> xrevrange(String key, Object end, Object start, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"XREVRANGE", key, end, start}, options);
    }

    /**
     * Sets the numbers that a stream keeps of itself; for replication.
     *
     * <p>{@code XSETID key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]}.
     * Complexity: O(log(N)) for a stream of N entries.
     */
    public static Command<Boolean> xsetid(String key, Object lastId, Object... options) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"XSETID", key, lastId}, options);
    }

    /**
     * Removes the oldest entries of a stream.
     *
     * <p>{@code XTRIM key <MAXLEN|MINID> [=|~] threshold [LIMIT count] [KEEPREF|DELREF|ACKED]}.
     * Complexity: O(N) for N removed entries, whole nodes of them at a time.
     */
    public static Command<Long> xtrim(String key, Object... words) {
        return Words.of(ReplyTypes.LONG, new Object[] {"XTRIM", key}, words);
    }
}
