package mantissa.client.commands;

import java.util.List;
import java.util.Map;
import mantissa.client.Command;
import mantissa.client.Reply;
import mantissa.client.ReplyTypes;

/** Commands of the group hash. Made by commands/generate.py. */
public final class HashCommands {
    private HashCommands() {}

    /**
     * Takes fields out of a hash, which goes with its last one.
     *
     * <p>{@code HDEL key field [field ...]}.
     * Complexity: O(N) for N fields.
     */
    public static Command<Long> hdel(String key, Object... fields) {
        return Words.of(ReplyTypes.LONG, new Object[] {"HDEL", key}, fields);
    }

    /**
     * Tells whether a hash has a field.
     *
     * <p>{@code HEXISTS key field}.
     * Complexity: O(1).
     */
    public static Command<Boolean> hexists(String key, Object field) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"HEXISTS", key, field});
    }

    /**
     * Lets fields of a hash expire in so many seconds.
     *
     * <p>{@code HEXPIRE key seconds [NX|XX|GT|LT] FIELDS numfields field [field ...]}.
     * Complexity: O(N) for N fields.
     */
    public static Command<List<Long>> hexpire(String key, long seconds, Object... words) {
        return Words.of(ReplyTypes.LONGS, new Object[] {"HEXPIRE", key, seconds}, words);
    }

    /**
     * Lets fields of a hash expire at a Unix time in seconds.
     *
     * <p>{@code HEXPIREAT key unix-time-seconds [NX|XX|GT|LT] FIELDS numfields field [field ...]}.
     * Complexity: O(N) for N fields.
     */
    public static Command<List<Long>> hexpireat(String key, long unixTimeSeconds, Object... words) {
        return Words.of(ReplyTypes.LONGS, new Object[] {"HEXPIREAT", key, unixTimeSeconds}, words);
    }

    /**
     * Tells at which Unix time in seconds fields of a hash expire.
     *
     * <p>{@code HEXPIRETIME key FIELDS numfields field [field ...]}.
     * Complexity: O(N) for N fields.
     */
    public static Command<List<Long>> hexpiretime(String key, Object... words) {
        return Words.of(ReplyTypes.LONGS, new Object[] {"HEXPIRETIME", key}, words);
    }

    /**
     * Reads a field of a hash.
     *
     * <p>{@code HGET key field}.
     * Complexity: O(1).
     */
    public static Command<String> hget(String key, Object field) {
        return Words.of(ReplyTypes.STRING, new Object[] {"HGET", key, field});
    }

    /**
     * Lists the fields of a hash with their values.
     *
     * <p>{@code HGETALL key}.
     * Complexity: O(N) for a hash of N fields.
     */
    public static Command<Map<String, String>> hgetall(String key) {
        return Words.of(ReplyTypes.STRING_MAP, new Object[] {"HGETALL", key});
    }

    /**
     * Reads fields of a hash and takes them out of it.
     *
     * <p>{@code HGETDEL key FIELDS numfields field [field ...]}.
     * Complexity: O(N) for N fields.
     */
    public static Command<Reply> hgetdel(String key, Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"HGETDEL", key}, words);
    }

    /**
     * Reads fields of a hash and sets or removes their expiry.
     *
     * <p>{@code HGETEX key [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|PERSIST]
     * FIELDS numfields field [field ...]}.
     * Complexity: O(N) for N fields.
     */
    public static Command<Reply> hgetex(String key, Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"HGETEX", key}, words);
    }

    /**
     * Forgets a list of fields of the connection.
     *
     * <p>{@code HIMPORT DISCARD fieldset-name}.
     * Complexity: O(N) for N fields.
     */
    public static Command<Long> himportDiscard(Object fieldsetName) {
        return Words.of(ReplyTypes.LONG, new Object[] {"HIMPORT", "DISCARD", fieldsetName});
    }

    /**
     * Forgets all lists of fields of the connection.
     *
     * <p>{@code HIMPORT DISCARDALL}.
     * Complexity: O(N) for N fields.
     */
    public static Command<Long> himportDiscardall() {
        return Words.of(ReplyTypes.LONG, new Object[] {"HIMPORT", "DISCARDALL"});
    }

    /**
     * Names a list of fields for the connection.
     *
     * <p>{@code HIMPORT PREPARE fieldset-name field [field ...]}.
     * Complexity: O(N) for N fields.
     */
    public static Command<Boolean> himportPrepare(Object fieldsetName, Object... fields) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"HIMPORT", "PREPARE", fieldsetName}, fields);
    }

    /**
     * Makes a hash of the fields of a list that the connection has named and of values.
     *
     * <p>{@code HIMPORT SET key fieldset-name value [value ...]}.
     * Complexity: O(N) for N fields.
     */
    public static Command<Boolean> himportSet(String key, Object fieldsetName, Object... values) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"HIMPORT", "SET", key, fieldsetName}, values);
    }

    /**
     * Adds an integer to a field of a hash; a missing field counts as 0.
     *
     * <p>{@code HINCRBY key field increment}.
     * Complexity: O(1).
     */
    public static Command<Long> hincrby(String key, Object field, long increment) {
        return Words.of(ReplyTypes.LONG, new Object[] {"HINCRBY", key, field, increment});
    }

    /**
     * Adds a decimal number to a field of a hash; a missing field counts as 0.
     *
     * <p>{@code HINCRBYFLOAT key field increment}.
     * Complexity: O(1).
     */
    public static Command<Double> hincrbyfloat(String key, Object field, double increment) {
        return Words.of(ReplyTypes.DOUBLE, new Object[] {"HINCRBYFLOAT", key, field, increment});
    }

    /**
     * Lists the fields of a hash.
     *
     * <p>{@code HKEYS key}.
     * Complexity: O(N) for a hash of N fields.
     */
    public static Command<List<String>> hkeys(String key) {
        return Words.of(ReplyTypes.STRINGS, new Object[] {"HKEYS", key});
    }

    /**
     * Counts the fields of a hash.
     *
     * <p>{@code HLEN key}.
     * Complexity: O(1).
     */
    public static Command<Long> hlen(String key) {
        return Words.of(ReplyTypes.LONG, new Object[] {"HLEN", key});
    }

    /**
     * Reads several fields of a hash.
     *
     * <p>{@code HMGET key field [field ...]}.
     * Complexity: O(N) for N fields asked for.
     */
    public static Command<List<String>> hmget(String key, Object... fields) {
        return Words.of(ReplyTypes.STRINGS, new Object[] {"HMGET", key}, fields);
    }

    /**
     * Gives fields of a hash their values.
     *
     * <p>{@code HMSET key field value [field value ...]}.
     * Complexity: O(N) for N fields.
     */
    public static Command<Boolean> hmset(String key, Object... words) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"HMSET", key}, words);
    }

    /**
     * Lets fields of a hash expire no more.
     *
     * <p>{@code HPERSIST key FIELDS numfields field [field ...]}.
     * Complexity: O(N) for N fields.
     */
    public static Command<List<Long>> hpersist(String key, Object... words) {
        return Words.of(ReplyTypes.LONGS, new Object[] {"HPERSIST", key}, words);
    }

    /**
     * Lets fields of a hash expire in so many milliseconds.
     *
     * <p>{@code HPEXPIRE key milliseconds [NX|XX|GT|LT] FIELDS numfields field [field ...]}.
     * Complexity: O(N) for N fields.
     */
    public static Command<List<Long>> hpexpire(String key, long milliseconds, Object... words) {
        return Words.of(ReplyTypes.LONGS, new Object[] {"HPEXPIRE", key, milliseconds}, words);
    }

    /**
     * Lets fields of a hash expire at a Unix time in milliseconds.
     *
     * <p>{@code HPEXPIREAT key unix-time-milliseconds [NX|XX|GT|LT] FIELDS numfields field [field ...]}.
     * Complexity: O(N) for N fields.
     */
    public static Command<List<Long>> hpexpireat(String key, long unixTimeMilliseconds, Object... words) {
        return Words.of(ReplyTypes.LONGS, new Object[] {"HPEXPIREAT", key, unixTimeMilliseconds}, words);
    }

    /**
     * Tells at which Unix time in milliseconds fields of a hash expire.
     *
     * <p>{@code HPEXPIRETIME key FIELDS numfields field [field ...]}.
     * Complexity: O(N) for N fields.
     */
    public static Command<List<Long>> hpexpiretime(String key, Object... words) {
        return Words.of(ReplyTypes.LONGS, new Object[] {"HPEXPIRETIME", key}, words);
    }

    /**
     * Tells in how many milliseconds fields of a hash expire.
     *
     * <p>{@code HPTTL key FIELDS numfields field [field ...]}.
     * Complexity: O(N) for N fields.
     */
    public static Command<List<Long>> hpttl(String key, Object... words) {
        return Words.of(ReplyTypes.LONGS, new Object[] {"HPTTL", key}, words);
    }

    /**
     * Picks fields of a hash at random.
     *
     * <p>{@code HRANDFIELD key [count [WITHVALUES]]}.
     * Complexity: O(N) for N fields returned.
     */
    public static Command<Reply> hrandfield(String key, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"HRANDFIELD", key}, options);
    }

    /**
     * Lists the fields of a hash step by step.
     *
     * <p>{@code HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES]}.
     * Complexity: O(1) a call, O(N) for the N fields of a whole iteration.
     */
    public static Command<Reply> hscan(String key, long cursor, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"HSCAN", key, cursor}, options);
    }

    /**
     * Gives fields of a hash their values.
     *
     * <p>{@code HSET key field value [field value ...]}.
     * Complexity: O(N) for N fields.
     */
    public static Command<Long> hset(String key, Object... words) {
        return Words.of(ReplyTypes.LONG, new Object[] {"HSET", key}, words);
    }

    /**
     * Gives fields of a hash their values and an expiry.
     *
     * <p>{@code HSETEX key [FNX|FXX] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-
     * milliseconds|KEEPTTL] FIELDS numfields field value [field value ...]}.
     * Complexity: O(N) for N fields.
     */
    public static Command<Reply> hsetex(String key, Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"HSETEX", key}, words);
    }

    /**
     * Gives a field of a hash a value unless it has one.
     *
     * <p>{@code HSETNX key field value}.
     * Complexity: O(1).
     */
    public static Command<Boolean> hsetnx(String key, Object field, Object value) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"HSETNX", key, field, value});
    }

    /**
     * Tells how long the value of a field is.
     *
     * <p>{@code HSTRLEN key field}.
     * Complexity: O(1).
     */
    public static Command<Long> hstrlen(String key, Object field) {
        return Words.of(ReplyTypes.LONG, new Object[] {"HSTRLEN", key, field});
    }

    /**
     * Tells in how many seconds fields of a hash expire.
     *
     * <p>{@code HTTL key FIELDS numfields field [field ...]}.
     * Complexity: O(N) for N fields.
     */
    public static Command<List<Long>> httl(String key, Object... words) {
        return Words.of(ReplyTypes.LONGS, new Object[] {"HTTL", key}, words);
    }

    /**
     * Lists the values of a hash.
     *
     * <p>{@code HVALS key}.
     * Complexity: O(N) for a hash of N fields.
     */
    public static Command<List<String>> hvals(String key) {
        return Words.of(ReplyTypes.STRINGS, new Object[] {"HVALS", key});
    }
}
