package mantissa.client.commands;

import java.util.List;
import mantissa.client.Command;
import mantissa.client.Reply;
import mantissa.client.ReplyTypes;

/** Commands of the group json. Made by commands/generate.py. */
public final class JsonCommands {
    private JsonCommands() {}

    /**
     * Adds values at the end of arrays.
     *
     * <p>{@code JSON.ARRAPPEND key path value [value ...]}.
     * Complexity: O(N) for N bytes searched.
     */
    public static Command<Reply> jsonArrappend(String key, Object path, Object... values) {
        return Words.of(Reply.TYPE, new Object[] {"JSON.ARRAPPEND", key, path}, values);
    }

    /**
     * Finds a value in arrays.
     *
     * <p>{@code JSON.ARRINDEX key path value [start [stop]]}.
     * Complexity: O(N) for N bytes searched.
     */
    public static Command<Reply> jsonArrindex(String key, Object path, Object value, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"JSON.ARRINDEX", key, path, value}, options);
    }

    /**
     * Adds values to arrays before an index.
     *
     * <p>{@code JSON.ARRINSERT key path index value [value ...]}.
     * Complexity: O(N) for N bytes searched.
     */
    public static Command<Reply> jsonArrinsert(String key, Object path, long index, Object... values) {
        return Words.of(Reply.TYPE, new Object[] {"JSON.ARRINSERT", key, path, index}, values);
    }

    /**
     * Counts the elements of arrays.
     *
     * <p>{@code JSON.ARRLEN key [path]}.
     * Complexity: O(N) for N bytes searched.
     */
    public static Command<Reply> jsonArrlen(String key, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"JSON.ARRLEN", key}, options);
    }

    /**
     * Removes an element from arrays and prints it.
     *
     * <p>{@code JSON.ARRPOP key [path [index]]}.
     * Complexity: O(N) for N bytes searched.
     */
    public static Command<Reply> jsonArrpop(String key, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"JSON.ARRPOP", key}, options);
    }

    /**
     * Leaves a range of the elements of arrays.
     *
     * <p>{@code JSON.ARRTRIM key path start stop}.
     * Complexity: O(N) for N bytes searched.
     */
    public static Command<Reply> jsonArrtrim(String key, Object path, long start, long stop) {
        return Words.of(Reply.TYPE, new Object[] {"JSON.ARRTRIM", key, path, start, stop});
    }

    /**
     * Empties arrays and objects, and sets numbers to 0.
     *
     * <p>{@code JSON.CLEAR key [path]}.
     * Complexity: O(N) for N bytes searched.
     */
    public static Command<Long> jsonClear(String key, Object... options) {
        return Words.of(ReplyTypes.LONG, new Object[] {"JSON.CLEAR", key}, options);
    }

    /**
     * Tells how much memory values take.
     *
     * <p>{@code JSON.DEBUG <MEMORY key [path]|HELP>}.
     * Complexity: O(N) for N bytes searched.
     */
    public static Command<Reply> jsonDebug(Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"JSON.DEBUG"}, words);
    }

    /**
     * Removes values from a document, or all of it.
     *
     * <p>{@code JSON.DEL key [path]}.
     * Complexity: O(N) for N bytes.
     */
    public static Command<Long> jsonDel(String key, Object... options) {
        return Words.of(ReplyTypes.LONG, new Object[] {"JSON.DEL", key}, options);
    }

    /**
     * Does what JSON.DEL does.
     *
     * <p>{@code JSON.FORGET key [path]}.
     * Complexity: O(N) for N bytes.
     */
    public static Command<Long> jsonForget(String key, Object... options) {
        return Words.of(ReplyTypes.LONG, new Object[] {"JSON.FORGET", key}, options);
    }

    /**
     * Prints values of a document.
     *
     * <p>{@code JSON.GET key [INDENT indent] [NEWLINE newline] [SPACE space] [path [path ...]]}.
     * Complexity: O(N) for N bytes.
     */
    public static Command<String> jsonGet(String key, Object... options) {
        return Words.of(ReplyTypes.STRING, new Object[] {"JSON.GET", key}, options);
    }

    /**
     * Merges a value into a document, as RFC 7396 has it.
     *
     * <p>{@code JSON.MERGE key path value}.
     * Complexity: O(M+N) for a path of M matches and a value of N bytes.
     */
    public static Command<Boolean> jsonMerge(String key, Object path, Object value) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"JSON.MERGE", key, path, value});
    }

    /**
     * Prints the same values of several documents.
     *
     * <p>{@code JSON.MGET key [key ...] path}.
     * Complexity: O(N) for N bytes.
     */
    public static Command<Reply> jsonMget(List<?> keys, Object path) {
        return Words.flat(Reply.TYPE, new Object[] {"JSON.MGET", keys, path});
    }

    /**
     * Puts values into several documents at once.
     *
     * <p>{@code JSON.MSET key path value [key path value ...]}.
     * Complexity: O(K*(M+N)) for K keys.
     */
    public static Command<Boolean> jsonMset(Object... words) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"JSON.MSET"}, words);
    }

    /**
     * Adds to numbers.
     *
     * <p>{@code JSON.NUMINCRBY key path value}.
     * Complexity: O(N) for N bytes searched.
     */
    public static Command<Reply> jsonNumincrby(String key, Object path, double value) {
        return Words.of(Reply.TYPE, new Object[] {"JSON.NUMINCRBY", key, path, value});
    }

    /**
     * Multiplies numbers.
     *
     * <p>{@code JSON.NUMMULTBY key path value}.
     * Complexity: O(N) for N bytes searched.
     */
    public static Command<Reply> jsonNummultby(String key, Object path, double value) {
        return Words.of(Reply.TYPE, new Object[] {"JSON.NUMMULTBY", key, path, value});
    }

    /**
     * Raises numbers to a power.
     *
     * <p>{@code JSON.NUMPOWBY key path value}.
     * Complexity: O(N) for N bytes searched.
     */
    public static Command<Reply> jsonNumpowby(String key, Object path, double value) {
        return Words.of(Reply.TYPE, new Object[] {"JSON.NUMPOWBY", key, path, value});
    }

    /**
     * Lists the keys of objects.
     *
     * <p>{@code JSON.OBJKEYS key [path]}.
     * Complexity: O(N) for N bytes searched.
     */
    public static Command<Reply> jsonObjkeys(String key, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"JSON.OBJKEYS", key}, options);
    }

    /**
     * Counts the members of objects.
     *
     * <p>{@code JSON.OBJLEN key [path]}.
     * Complexity: O(N) for N bytes searched.
     */
    public static Command<Reply> jsonObjlen(String key, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"JSON.OBJLEN", key}, options);
    }

    /**
     * Replies values in the types of the protocol.
     *
     * <p>{@code JSON.RESP key [path]}.
     * Complexity: O(N) for N bytes.
     */
    public static Command<Reply> jsonResp(String key, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"JSON.RESP", key}, options);
    }

    /**
     * Puts a value into a document, which is created if the path is its root.
     *
     * <p>{@code JSON.SET key path value [NX|XX]}.
     * Complexity: O(M+N) for a path of M matches and a value of N bytes.
     */
    public static Command<Boolean> jsonSet(String key, Object path, Object value, Object... options) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"JSON.SET", key, path, value}, options);
    }

    /**
     * Appends to strings.
     *
     * <p>{@code JSON.STRAPPEND key [path] value}.
     * Complexity: O(N) for N bytes searched.
     */
    public static Command<Reply> jsonStrappend(String key, Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"JSON.STRAPPEND", key}, words);
    }

    /**
     * Counts the bytes of strings.
     *
     * <p>{@code JSON.STRLEN key [path]}.
     * Complexity: O(N) for N bytes searched.
     */
    public static Command<Reply> jsonStrlen(String key, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"JSON.STRLEN", key}, options);
    }

    /**
     * Makes true false, and false true.
     *
     * <p>{@code JSON.TOGGLE key path}.
     * Complexity: O(N) for N bytes searched.
     */
    public static Command<Reply> jsonToggle(String key, Object path) {
        return Words.of(Reply.TYPE, new Object[] {"JSON.TOGGLE", key, path});
    }

    /**
     * Tells the types of values.
     *
     * <p>{@code JSON.TYPE key [path]}.
     * Complexity: O(N) for N bytes searched.
     */
    public static Command<Reply> jsonType(String key, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"JSON.TYPE", key}, options);
    }
}
