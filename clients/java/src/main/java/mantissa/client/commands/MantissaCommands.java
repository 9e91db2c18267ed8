package mantissa.client.commands;

import java.util.List;
import mantissa.client.Command;
import mantissa.client.Reply;

/** Commands of the group mantissa. Made by commands/generate.py. */
public final class MantissaCommands {
    private MantissaCommands() {}

    /**
     * Has a snapshot be made for the archive, lists those in it, or tells about the last one.
     *
     * <p>{@code MANTISSA.ARCHIVE <LIST [count]|NOW|STATUS|HELP>}.
     * Complexity: O(1), the work is done in the background.
     */
    public static Command<Reply> mantissaArchive(Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"MANTISSA.ARCHIVE"}, words);
    }

    /**
     * Stores the union of Bloom filters of one shape; a destination that is there is one of them.
     *
     * <p>{@code MANTISSA.BF.MERGE destination numkeys source [source ...]}.
     * Complexity: O(N) for N bytes of all filters.
     */
    public static Command<Reply> mantissaBfMerge(String destination, List<?> sources) {
        return Words.flat(Reply.TYPE, new Object[] {"MANTISSA.BF.MERGE", destination, sources.size(), sources});
    }

    /**
     * Deletes the keys below a prefix.
     *
     * <p>{@code MANTISSA.DELETE prefix [MATCH pattern] [TYPE type] [DRYRUN]}.
     * Complexity: O(N), N being the keys of the database, in the background.
     */
    public static Command<Reply> mantissaDelete(Object prefix, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"MANTISSA.DELETE", prefix}, options);
    }

    /**
     * Shows the walks over all keys that are under way.
     *
     * <p>{@code MANTISSA.JOBS LIST}.
     * Complexity: O(1).
     */
    public static Command<Reply> mantissaJobsList() {
        return Words.of(Reply.TYPE, new Object[] {"MANTISSA.JOBS", "LIST"});
    }

    /**
     * Ends a walk over all keys.
     *
     * <p>{@code MANTISSA.JOBS STOP id}.
     * Complexity: O(1).
     */
    public static Command<Reply> mantissaJobsStop(long id) {
        return Words.of(Reply.TYPE, new Object[] {"MANTISSA.JOBS", "STOP", id});
    }

    /**
     * Finds values in many documents, page by page.
     *
     * <p>{@code MANTISSA.JSON.QUERY cursor PATH path [PREFIX prefix] [COUNT count]}.
     * Complexity: O(N) for N keys and bytes of documents of a page.
     */
    public static Command<Reply> mantissaJsonQuery(long cursor, Object path, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"MANTISSA.JSON.QUERY", cursor, "PATH", path}, options);
    }

    /**
     * Shows the keys that take the most memory.
     *
     * <p>{@code MANTISSA.KEYS BIG [COUNT count]}.
     * Complexity: O(N), N being the nodes of the values shown.
     */
    public static Command<Reply> mantissaKeysBig(Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"MANTISSA.KEYS", "BIG"}, options);
    }

    /**
     * Shows the keys that are used most.
     *
     * <p>{@code MANTISSA.KEYS HOT [COUNT count]}.
     * Complexity: O(N), N being the workers.
     */
    public static Command<Reply> mantissaKeysHot(Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"MANTISSA.KEYS", "HOT"}, options);
    }

    /**
     * Forgets which keys have been used.
     *
     * <p>{@code MANTISSA.KEYS RESET}.
     * Complexity: O(1).
     */
    public static Command<Reply> mantissaKeysReset() {
        return Words.of(Reply.TYPE, new Object[] {"MANTISSA.KEYS", "RESET"});
    }

    /**
     * Tells whether a value is in memory, on disk, or both.
     *
     * <p>{@code MANTISSA.LOCATION key}.
     * Complexity: O(1).
     */
    public static Command<Reply> mantissaLocation(String key) {
        return Words.of(Reply.TYPE, new Object[] {"MANTISSA.LOCATION", key});
    }

    /**
     * Returns a ticket by which a WebSocket client logs in once as the user of this connection.
     *
     * <p>{@code MANTISSA.TICKET [SECONDS seconds]}.
     * Complexity: O(1).
     */
    public static Command<Reply> mantissaTicket(Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"MANTISSA.TICKET"}, options);
    }

    /**
     * Counts the keys below a prefix, by the next part of their names.
     *
     * <p>{@code MANTISSA.TREE prefix [DELIMITER delimiter] [DEPTH levels] [MATCH pattern] [TYPE type] [SORT
     * KEYS|BYTES|NAME] [OFFSET offset] [LIMIT limit] [BELOW below]}.
     * Complexity: O(N), N being the keys of the database, in the background.
     */
    public static Command<Reply> mantissaTree(Object prefix, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"MANTISSA.TREE", prefix}, options);
    }

    /**
     * Returns samples, or values of buckets, of several series as a table in Arrow's IPC format.
     *
     * <p>{@code MANTISSA.TS.ARROW numkeys key [key ...] fromtimestamp totimestamp [LATEST] [FILTER_BY_TS timestamp
     * [timestamp ...]] [FILTER_BY_VALUE min max] [COUNT count] [[ALIGN align] AGGREGATION aggregator bucketduration
     * [BUCKETTIMESTAMP buckettimestamp] [EMPTY]]}.
     * Complexity: O(N*M) for N times of M series.
     */
    public static Command<Reply> mantissaTsArrow(
            List<?> keys, Object fromtimestamp, Object totimestamp, Object... options) {
        return Words.flat(Reply.TYPE,
                new Object[] {"MANTISSA.TS.ARROW", keys.size(), keys, fromtimestamp, totimestamp}, options);
    }

    /**
     * Returns a table in Arrow's IPC format of the series that have certain labels.
     *
     * <p>{@code MANTISSA.TS.MARROW fromtimestamp totimestamp [LATEST] [FILTER_BY_TS timestamp [timestamp ...]]
     * [FILTER_BY_VALUE min max] [COUNT count] [[ALIGN align] AGGREGATION aggregator bucketduration [BUCKETTIMESTAMP
     * buckettimestamp] [EMPTY]] FILTER filterexpr [filterexpr ...]}.
     * Complexity: O(N*M) for N times of M series with the labels.
     */
    public static Command<Reply> mantissaTsMarrow(Object fromtimestamp, Object totimestamp, Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"MANTISSA.TS.MARROW", fromtimestamp, totimestamp}, words);
    }

    /**
     * Gives fields numbers, which come as bytes.
     *
     * <p>{@code MANTISSA.UNPACK HSET key packed}.
     * Complexity: That of the command, and O(N) for N numbers.
     */
    public static Command<Reply> mantissaUnpackHset(String key, Object packed) {
        return Words.of(Reply.TYPE, new Object[] {"MANTISSA.UNPACK", "HSET", key, packed});
    }

    /**
     * Stores numbers, which come as bytes, at keys.
     *
     * <p>{@code MANTISSA.UNPACK MSET packed key [key ...]}.
     * Complexity: That of the command, and O(N) for N numbers.
     */
    public static Command<Reply> mantissaUnpackMset(Object packed, Object... keys) {
        return Words.of(Reply.TYPE, new Object[] {"MANTISSA.UNPACK", "MSET", packed}, keys);
    }

    /**
     * Appends numbers, which come as bytes, to a list.
     *
     * <p>{@code MANTISSA.UNPACK RPUSH key packed}.
     * Complexity: That of the command, and O(N) for N numbers.
     */
    public static Command<Reply> mantissaUnpackRpush(String key, Object packed) {
        return Words.of(Reply.TYPE, new Object[] {"MANTISSA.UNPACK", "RPUSH", key, packed});
    }

    /**
     * Gives members their scores, which come as bytes.
     *
     * <p>{@code MANTISSA.UNPACK ZADD key packed}.
     * Complexity: That of the command, and O(N) for N numbers.
     */
    public static Command<Reply> mantissaUnpackZadd(String key, Object packed) {
        return Words.of(Reply.TYPE, new Object[] {"MANTISSA.UNPACK", "ZADD", key, packed});
    }

    /**
     * Has another process, of another version perhaps, go on.
     *
     * <p>{@code MANTISSA.UPGRADE [BINARY path] [OPTION word [word ...]]}.
     * Complexity: O(N), N being all keys.
     */
    public static Command<Reply> mantissaUpgrade(Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"MANTISSA.UPGRADE"}, options);
    }
}
