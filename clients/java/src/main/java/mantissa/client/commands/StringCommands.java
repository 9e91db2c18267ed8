package mantissa.client.commands;

import java.util.List;
import mantissa.client.Command;
import mantissa.client.Reply;
import mantissa.client.ReplyTypes;

/** Commands of the group string. Made by commands/generate.py. */
public final class StringCommands {
    private StringCommands() {}

    /**
     * Adds bytes to the end of a string.
     *
     * <p>{@code APPEND key value}.
     * Complexity: O(M) for M appended bytes, amortized.
     */
    public static Command<Long> append(String key, Object value) {
        return Words.of(ReplyTypes.LONG, new Object[] {"APPEND", key, value});
    }

    /**
     * Takes one from a counter; a missing key counts as 0.
     *
     * <p>{@code DECR key}.
     * Complexity: O(1).
     */
    public static Command<Long> decr(String key) {
        return Words.of(ReplyTypes.LONG, new Object[] {"DECR", key});
    }

    /**
     * Takes an integer from a counter; a missing key counts as 0.
     *
     * <p>{@code DECRBY key decrement}.
     * Complexity: O(1).
     */
    public static Command<Long> decrby(String key, long decrement) {
        return Words.of(ReplyTypes.LONG, new Object[] {"DECRBY", key, decrement});
    }

    /**
     * Removes a key if its string, or the digest of that, is or is not a given one.
     *
     * <p>{@code DELEX key [IFEQ ifeq-value|IFNE ifne-value|IFDEQ ifdeq-digest|IFDNE ifdne-digest]}.
     * Complexity: O(1) for IFEQ and IFNE, O(N) for IFDEQ and IFDNE with N bytes.
     */
    public static Command<Boolean> delex(String key, Object... options) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"DELEX", key}, options);
    }

    /**
     * Removes a key if its string is a given one.
     *
     * <p>{@code DELIFEQ key value}.
     * Complexity: O(1).
     */
    public static Command<Boolean> delifeq(String key, Object value) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"DELIFEQ", key, value});
    }

    /**
     * Returns the XXH3 digest of a string.
     *
     * <p>{@code DIGEST key}.
     * Complexity: O(N) for N bytes.
     */
    public static Command<String> digest(String key) {
        return Words.of(ReplyTypes.STRING, new Object[] {"DIGEST", key});
    }

    /**
     * Reads the string at a key.
     *
     * <p>{@code GET key}.
     * Complexity: O(1).
     */
    public static Command<String> get(String key) {
        return Words.of(ReplyTypes.STRING, new Object[] {"GET", key});
    }

    /**
     * Reads the string at a key and removes the key.
     *
     * <p>{@code GETDEL key}.
     * Complexity: O(1).
     */
    public static Command<String> getdel(String key) {
        return Words.of(ReplyTypes.STRING, new Object[] {"GETDEL", key});
    }

    /**
     * Reads the string at a key and changes when it expires.
     *
     * <p>{@code GETEX key [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|PERSIST]}.
     * Complexity: O(1).
     */
    public static Command<String> getex(String key, Object... options) {
        return Words.of(ReplyTypes.STRING, new Object[] {"GETEX", key}, options);
    }

    /**
     * Reads a part of a string.
     *
     * <p>{@code GETRANGE key start end}.
     * Complexity: O(N) for N returned bytes.
     */
    public static Command<String> getrange(String key, long start, long end) {
        return Words.of(ReplyTypes.STRING, new Object[] {"GETRANGE", key, start, end});
    }

    /**
     * Stores a string and replies with the one it replaces.
     *
     * <p>{@code GETSET key value}.
     * Complexity: O(1).
     */
    public static Command<String> getset(String key, Object value) {
        return Words.of(ReplyTypes.STRING, new Object[] {"GETSET", key, value});
    }

    /**
     * Adds one to a counter; a missing key counts as 0.
     *
     * <p>{@code INCR key}.
     * Complexity: O(1).
     */
    public static Command<Long> incr(String key) {
        return Words.of(ReplyTypes.LONG, new Object[] {"INCR", key});
    }

    /**
     * Adds an integer to a counter; a missing key counts as 0.
     *
     * <p>{@code INCRBY key increment}.
     * Complexity: O(1).
     */
    public static Command<Long> incrby(String key, long increment) {
        return Words.of(ReplyTypes.LONG, new Object[] {"INCRBY", key, increment});
    }

    /**
     * Adds a decimal number to a counter; a missing key counts as 0.
     *
     * <p>{@code INCRBYFLOAT key increment}.
     * Complexity: O(1).
     */
    public static Command<Double> incrbyfloat(String key, double increment) {
        return Words.of(ReplyTypes.DOUBLE, new Object[] {"INCRBYFLOAT", key, increment});
    }

    /**
     * Adds a number to a counter within bounds, and sets its expiry; a missing key counts as 0.
     *
     * <p>{@code INCREX key [BYFLOAT float|BYINT integer] [SATURATE] [LBOUND lowerbound] [UBOUND upperbound] [EX
     * seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|PERSIST] [ENX]}.
     * Complexity: O(1).
     */
    public static Command<Reply> increx(String key, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"INCREX", key}, options);
    }

    /**
     * Finds the longest common subsequence of two strings.
     *
     * <p>{@code LCS key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]}.
     * Complexity: O(N*M) for strings of N and M bytes.
     */
    public static Command<Reply> lcs(String key1, String key2, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"LCS", key1, key2}, options);
    }

    /**
     * Reads several strings at once.
     *
     * <p>{@code MGET key [key ...]}.
     * Complexity: O(N) for N keys.
     */
    public static Command<List<String>> mget(Object... keys) {
        return Words.of(ReplyTypes.STRINGS, new Object[] {"MGET"}, keys);
    }

    /**
     * Stores several strings at once.
     *
     * <p>{@code MSET key value [key value ...]}.
     * Complexity: O(N) for N keys.
     */
    public static Command<Boolean> mset(Object... words) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"MSET"}, words);
    }

    /**
     * Stores several strings with one expiry, if all or none of the keys are there.
     *
     * <p>{@code MSETEX numkeys key value [key value ...] [NX|XX] [EX seconds|PX milliseconds|EXAT unix-time-
     * seconds|PXAT unix-time-milliseconds|KEEPTTL]}.
     * Complexity: O(N) for N keys.
     */
    public static Command<Boolean> msetex(long numkeys, Object... words) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"MSETEX", numkeys}, words);
    }

    /**
     * Stores several strings at once, provided that none of the keys is there.
     *
     * <p>{@code MSETNX key value [key value ...]}.
     * Complexity: O(N) for N keys.
     */
    public static Command<Boolean> msetnx(Object... words) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"MSETNX"}, words);
    }

    /**
     * Stores a string that expires after some milliseconds.
     *
     * <p>{@code PSETEX key milliseconds value}.
     * Complexity: O(1).
     */
    public static Command<Boolean> psetex(String key, long milliseconds, Object value) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"PSETEX", key, milliseconds, value});
    }

    /**
     * Stores a string at a key, whatever was there before.
     *
     * <p>{@code SET key value [NX|XX] [GET] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-
     * milliseconds|KEEPTTL]}.
     * Complexity: O(1).
     */
    public static Command<Reply> set(String key, Object value, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"SET", key, value}, options);
    }

    /**
     * Stores a string that expires after some seconds.
     *
     * <p>{@code SETEX key seconds value}.
     * Complexity: O(1).
     */
    public static Command<Boolean> setex(String key, long seconds, Object value) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"SETEX", key, seconds, value});
    }

    /**
     * Stores a string at a key that is not there yet.
     *
     * <p>{@code SETNX key value}.
     * Complexity: O(1).
     */
    public static Command<Boolean> setnx(String key, Object value) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"SETNX", key, value});
    }

    /**
     * Overwrites a part of a string, padding it with zero bytes where needed.
     *
     * <p>{@code SETRANGE key offset value}.
     * Complexity: O(M) for M written bytes.
     */
    public static Command<Long> setrange(String key, long offset, Object value) {
        return Words.of(ReplyTypes.LONG, new Object[] {"SETRANGE", key, offset, value});
    }

    /**
     * Counts the bytes of a string.
     *
     * <p>{@code STRLEN key}.
     * Complexity: O(1).
     */
    public static Command<Long> strlen(String key) {
        return Words.of(ReplyTypes.LONG, new Object[] {"STRLEN", key});
    }

    /**
     * Reads a part of a string.
     *
     * <p>{@code SUBSTR key start end}.
     * Complexity: O(N) for N returned bytes.
     */
    public static Command<String> substr(String key, long start, long end) {
        return Words.of(ReplyTypes.STRING, new Object[] {"SUBSTR", key, start, end});
    }
}
