package mantissa.client.commands;

import java.util.List;
import mantissa.client.Command;
import mantissa.client.Reply;
import mantissa.client.ReplyTypes;

/** Commands of the group generic. Made by commands/generate.py. */
public final class KeyCommands {
    private KeyCommands() {}

    /**
     * Copies a key to another name or database.
     *
     * <p>{@code COPY source destination [DB destination-db] [REPLACE]}.
     * Complexity: O(N) for N elements; O(1) for a string.
     */
    public static Command<Boolean> copy(String source, String destination, Object... options) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"COPY", source, destination}, options);
    }

    /**
     * Removes keys.
     *
     * <p>{@code DEL key [key ...]}.
     * Complexity: O(N) for N keys; what is large is freed in the background.
     */
    public static Command<Long> del(Object... keys) {
        return Words.of(ReplyTypes.LONG, new Object[] {"DEL"}, keys);
    }

    /**
     * Packs a value for RESTORE.
     *
     * <p>{@code DUMP key}.
     * Complexity: O(N*M) for N elements of M bytes.
     */
    public static Command<byte[]> dump(String key) {
        return Words.of(ReplyTypes.BYTES, new Object[] {"DUMP", key});
    }

    /**
     * Counts how many of the keys are there.
     *
     * <p>{@code EXISTS key [key ...]}.
     * Complexity: O(N) for N keys.
     */
    public static Command<Long> exists(Object... keys) {
        return Words.of(ReplyTypes.LONG, new Object[] {"EXISTS"}, keys);
    }

    /**
     * Lets a key expire after some seconds.
     *
     * <p>{@code EXPIRE key seconds [NX|XX|GT|LT]}.
     * Complexity: O(1).
     */
    public static Command<Boolean> expire(String key, long seconds, Object... options) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"EXPIRE", key, seconds}, options);
    }

    /**
     * Lets a key expire at a Unix time in seconds.
     *
     * <p>{@code EXPIREAT key unix-time-seconds [NX|XX|GT|LT]}.
     * Complexity: O(1).
     */
    public static Command<Boolean> expireat(String key, long unixTimeSeconds, Object... options) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"EXPIREAT", key, unixTimeSeconds}, options);
    }

    /**
     * Tells when a key expires, as a Unix time in seconds.
     *
     * <p>{@code EXPIRETIME key}.
     * Complexity: O(1).
     */
    public static Command<Long> expiretime(String key) {
        return Words.of(ReplyTypes.LONG, new Object[] {"EXPIRETIME", key});
    }

    /**
     * Lists all keys that match a pattern.
     *
     * <p>{@code KEYS pattern}.
     * Complexity: O(N) for N keys of the database.
     */
    public static Command<List<String>> keys(String pattern) {
        return Words.of(ReplyTypes.STRINGS, new Object[] {"KEYS", pattern});
    }

    /**
     * Moves keys to another server.
     *
     * <p>{@code MIGRATE host port <key|""> destination-db timeout [COPY] [REPLACE] [AUTH password|AUTH2 username
     * password] [KEYS key [key ...]]}.
     * Complexity: O(N*M) for N elements of M bytes here and there, and the network between.
     */
    public static Command<Reply> migrate(Object host, long port, Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"MIGRATE", host, port}, words);
    }

    /**
     * Moves a key to another database.
     *
     * <p>{@code MOVE key db}.
     * Complexity: O(1).
     */
    public static Command<Boolean> move(String key, long db) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"MOVE", key, db});
    }

    /**
     * Tells how a value is encoded.
     *
     * <p>{@code OBJECT ENCODING key}.
     * Complexity: O(1).
     */
    public static Command<String> objectEncoding(String key) {
        return Words.of(ReplyTypes.STRING, new Object[] {"OBJECT", "ENCODING", key});
    }

    /**
     * Tells how often a key is used, as a logarithmic count.
     *
     * <p>{@code OBJECT FREQ key}.
     * Complexity: O(1).
     */
    public static Command<Long> objectFreq(String key) {
        return Words.of(ReplyTypes.LONG, new Object[] {"OBJECT", "FREQ", key});
    }

    /**
     * Tells for how many seconds a key has not been used.
     *
     * <p>{@code OBJECT IDLETIME key}.
     * Complexity: O(1).
     */
    public static Command<Long> objectIdletime(String key) {
        return Words.of(ReplyTypes.LONG, new Object[] {"OBJECT", "IDLETIME", key});
    }

    /**
     * Tells how many references a value has.
     *
     * <p>{@code OBJECT REFCOUNT key}.
     * Complexity: O(1).
     */
    public static Command<Long> objectRefcount(String key) {
        return Words.of(ReplyTypes.LONG, new Object[] {"OBJECT", "REFCOUNT", key});
    }

    /**
     * Lets a key live for ever again.
     *
     * <p>{@code PERSIST key}.
     * Complexity: O(1).
     */
    public static Command<Boolean> persist(String key) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"PERSIST", key});
    }

    /**
     * Lets a key expire after some milliseconds.
     *
     * <p>{@code PEXPIRE key milliseconds [NX|XX|GT|LT]}.
     * Complexity: O(1).
     */
    public static Command<Boolean> pexpire(String key, long milliseconds, Object... options) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"PEXPIRE", key, milliseconds}, options);
    }

    /**
     * Lets a key expire at a Unix time in milliseconds.
     *
     * <p>{@code PEXPIREAT key unix-time-milliseconds [NX|XX|GT|LT]}.
     * Complexity: O(1).
     */
    public static Command<Boolean> pexpireat(String key, long unixTimeMilliseconds, Object... options) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"PEXPIREAT", key, unixTimeMilliseconds}, options);
    }

    /**
     * Tells when a key expires, as a Unix time in milliseconds.
     *
     * <p>{@code PEXPIRETIME key}.
     * Complexity: O(1).
     */
    public static Command<Long> pexpiretime(String key) {
        return Words.of(ReplyTypes.LONG, new Object[] {"PEXPIRETIME", key});
    }

    /**
     * Tells in how many milliseconds a key expires.
     *
     * <p>{@code PTTL key}.
     * Complexity: O(1).
     */
    public static Command<Long> pttl(String key) {
        return Words.of(ReplyTypes.LONG, new Object[] {"PTTL", key});
    }

    /**
     * Picks a key of the database at random.
     *
     * <p>{@code RANDOMKEY}.
     * Complexity: O(1).
     */
    public static Command<String> randomkey() {
        return Words.of(ReplyTypes.STRING, new Object[] {"RANDOMKEY"});
    }

    /**
     * Gives a key another name, replacing what had that name.
     *
     * <p>{@code RENAME key newkey}.
     * Complexity: O(1).
     */
    public static Command<Boolean> rename(String key, String newkey) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"RENAME", key, newkey});
    }

    /**
     * Gives a key another name that is not taken.
     *
     * <p>{@code RENAMENX key newkey}.
     * Complexity: O(1).
     */
    public static Command<Boolean> renamenx(String key, String newkey) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"RENAMENX", key, newkey});
    }

    /**
     * Makes a key of the payload that DUMP gave.
     *
     * <p>{@code RESTORE key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]}.
     * Complexity: O(N*M) for N elements of M bytes, with a factor of log(N) for sorted sets.
     */
    public static Command<Boolean> restore(String key, long ttl, Object serializedValue, Object... options) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"RESTORE", key, ttl, serializedValue}, options);
    }

    /**
     * Lists the keys of the database step by step.
     *
     * <p>{@code SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]}.
     * Complexity: O(1) a call, O(N) for the N keys of a whole iteration.
     */
    public static Command<Reply> scan(long cursor, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"SCAN", cursor}, options);
    }

    /**
     * Sorts a list, a set or a sorted set, and may store the result.
     *
     * <p>{@code SORT key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC|DESC] [ALPHA] [STORE
     * destination]}.
     * Complexity: O(N+M*log(M)) for N elements of which M are returned.
     */
    public static Command<Reply> sort(String key, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"SORT", key}, options);
    }

    /**
     * Sorts a list, a set or a sorted set.
     *
     * <p>{@code SORT_RO key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC|DESC] [ALPHA]}.
     * Complexity: O(N+M*log(M)) for N elements of which M are returned.
     */
    public static Command<Reply> sortRo(String key, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"SORT_RO", key}, options);
    }

    /**
     * Marks keys as used now and counts how many are there.
     *
     * <p>{@code TOUCH key [key ...]}.
     * Complexity: O(N) for N keys.
     */
    public static Command<Long> touch(Object... keys) {
        return Words.of(ReplyTypes.LONG, new Object[] {"TOUCH"}, keys);
    }

    /**
     * Tells in how many seconds a key expires.
     *
     * <p>{@code TTL key}.
     * Complexity: O(1).
     */
    public static Command<Long> ttl(String key) {
        return Words.of(ReplyTypes.LONG, new Object[] {"TTL", key});
    }

    /**
     * Tells the type of the value at a key.
     *
     * <p>{@code TYPE key}.
     * Complexity: O(1).
     */
    public static Command<String> type(String key) {
        return Words.of(ReplyTypes.STRING, new Object[] {"TYPE", key});
    }

    /**
     * Removes keys without waiting until their memory is free.
     *
     * <p>{@code UNLINK key [key ...]}.
     * Complexity: O(N) for N keys; what is large is freed in the background.
     */
    public static Command<Long> unlink(Object... keys) {
        return Words.of(ReplyTypes.LONG, new Object[] {"UNLINK"}, keys);
    }

    /**
     * Waits until replicas have confirmed this client's writes.
     *
     * <p>{@code WAIT numreplicas timeout}.
     * Complexity: O(1).
     */
    public static Command<Long> wait(long numreplicas, long timeout) {
        return Words.of(ReplyTypes.LONG, new Object[] {"WAIT", numreplicas, timeout});
    }

    /**
     * Waits until this client's writes are in append-only files.
     *
     * <p>{@code WAITAOF numlocal numreplicas timeout}.
     * Complexity: O(1).
     */
    public static Command<Reply> waitaof(long numlocal, long numreplicas, long timeout) {
        return Words.of(Reply.TYPE, new Object[] {"WAITAOF", numlocal, numreplicas, timeout});
    }
}
