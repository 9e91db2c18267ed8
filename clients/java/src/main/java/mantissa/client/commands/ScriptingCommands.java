package mantissa.client.commands;

import java.util.List;
import mantissa.client.Command;
import mantissa.client.Reply;
import mantissa.client.ReplyTypes;

/** Commands of the group scripting. Made by commands/generate.py. */
public final class ScriptingCommands {
    private ScriptingCommands() {}

    /**
     * Runs a Lua script.
     *
     * <p>{@code EVAL script numkeys [key [key ...]] [arg [arg ...]]}.
     * Complexity: That of the script.
     */
    public static Command<Reply> eval(Object script, List<?> keys, Object... options) {
        return Words.flat(Reply.TYPE, new Object[] {"EVAL", script, keys.size(), keys}, options);
    }

    /**
     * Runs a Lua script that must not write.
     *
     * <p>{@code EVAL_RO script numkeys [key [key ...]] [arg [arg ...]]}.
     * Complexity: That of the script.
     */
    public static Command<Reply> evalRo(Object script, List<?> keys, Object... options) {
        return Words.flat(Reply.TYPE, new Object[] {"EVAL_RO", script, keys.size(), keys}, options);
    }

    /**
     * Runs a cached Lua script, named by its digest.
     *
     * <p>{@code EVALSHA sha1 numkeys [key [key ...]] [arg [arg ...]]}.
     * Complexity: That of the script.
     */
    public static Command<Reply> evalsha(Object sha1, List<?> keys, Object... options) {
        return Words.flat(Reply.TYPE, new Object[] {"EVALSHA", sha1, keys.size(), keys}, options);
    }

    /**
     * Runs a cached Lua script that must not write.
     *
     * <p>{@code EVALSHA_RO sha1 numkeys [key [key ...]] [arg [arg ...]]}.
     * Complexity: That of the script.
     */
    public static Command<Reply> evalshaRo(Object sha1, List<?> keys, Object... options) {
        return Words.flat(Reply.TYPE, new Object[] {"EVALSHA_RO", sha1, keys.size(), keys}, options);
    }

    /**
     * Calls a function.
     *
     * <p>{@code FCALL function numkeys [key [key ...]] [arg [arg ...]]}.
     * Complexity: That of the function.
     */
    public static Command<Reply> fcall(Object function, List<?> keys, Object... options) {
        return Words.flat(Reply.TYPE, new Object[] {"FCALL", function, keys.size(), keys}, options);
    }

    /**
     * Calls a function that must not write.
     *
     * <p>{@code FCALL_RO function numkeys [key [key ...]] [arg [arg ...]]}.
     * Complexity: That of the function.
     */
    public static Command<Reply> fcallRo(Object function, List<?> keys, Object... options) {
        return Words.flat(Reply.TYPE, new Object[] {"FCALL_RO", function, keys.size(), keys}, options);
    }

    /**
     * Removes a library.
     *
     * <p>{@code FUNCTION DELETE library-name}.
     * Complexity: O(1).
     */
    public static Command<Boolean> functionDelete(Object libraryName) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"FUNCTION", "DELETE", libraryName});
    }

    /**
     * Packs all libraries.
     *
     * <p>{@code FUNCTION DUMP}.
     * Complexity: O(N), N being the functions.
     */
    public static Command<byte[]> functionDump() {
        return Words.of(ReplyTypes.BYTES, new Object[] {"FUNCTION", "DUMP"});
    }

    /**
     * Removes all libraries.
     *
     * <p>{@code FUNCTION FLUSH [ASYNC|SYNC]}.
     * Complexity: O(N), N being the functions.
     */
    public static Command<Boolean> functionFlush(Object... options) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"FUNCTION", "FLUSH"}, options);
    }

    /**
     * Ends a running function that has not written.
     *
     * <p>{@code FUNCTION KILL}.
     * Complexity: O(1).
     */
    public static Command<Boolean> functionKill() {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"FUNCTION", "KILL"});
    }

    /**
     * Describes the libraries.
     *
     * <p>{@code FUNCTION LIST [LIBRARYNAME library-name-pattern] [WITHCODE]}.
     * Complexity: O(N), N being the functions.
     */
    public static Command<Reply> functionList(Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"FUNCTION", "LIST"}, options);
    }

    /**
     * Adds a library.
     *
     * <p>{@code FUNCTION LOAD [REPLACE] function-code}.
     * Complexity: That of the library's code.
     */
    public static Command<String> functionLoad(Object... words) {
        return Words.of(ReplyTypes.STRING, new Object[] {"FUNCTION", "LOAD"}, words);
    }

    /**
     * Adds libraries from a payload.
     *
     * <p>{@code FUNCTION RESTORE serialized-value [FLUSH|APPEND|REPLACE]}.
     * Complexity: That of the libraries' code.
     */
    public static Command<Boolean> functionRestore(Object serializedValue, Object... options) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"FUNCTION", "RESTORE", serializedValue}, options);
    }

    /**
     * Tells what function runs.
     *
     * <p>{@code FUNCTION STATS}.
     * Complexity: O(1).
     */
    public static Command<Reply> functionStats() {
        return Words.of(Reply.TYPE, new Object[] {"FUNCTION", "STATS"});
    }

    /**
     * Refused: there is no debugger.
     *
     * <p>{@code SCRIPT DEBUG <YES|SYNC|NO>}.
     * Complexity: O(1).
     */
    public static Command<Reply> scriptDebug(String mode) {
        return Words.of(Reply.TYPE, new Object[] {"SCRIPT", "DEBUG", mode});
    }

    /**
     * Tells which scripts are cached.
     *
     * <p>{@code SCRIPT EXISTS sha1 [sha1 ...]}.
     * Complexity: O(N), N being the digests.
     */
    public static Command<List<Boolean>> scriptExists(Object... sha1s) {
        return Words.of(ReplyTypes.BOOLEANS, new Object[] {"SCRIPT", "EXISTS"}, sha1s);
    }

    /**
     * Forgets all cached scripts.
     *
     * <p>{@code SCRIPT FLUSH [ASYNC|SYNC]}.
     * Complexity: O(N), N being the scripts.
     */
    public static Command<Boolean> scriptFlush(Object... options) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"SCRIPT", "FLUSH"}, options);
    }

    /**
     * Ends a running script that has not written.
     *
     * <p>{@code SCRIPT KILL}.
     * Complexity: O(1).
     */
    public static Command<Boolean> scriptKill() {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"SCRIPT", "KILL"});
    }

    /**
     * Caches a script.
     *
     * <p>{@code SCRIPT LOAD script}.
     * Complexity: O(N), N being the script's bytes.
     */
    public static Command<String> scriptLoad(Object script) {
        return Words.of(ReplyTypes.STRING, new Object[] {"SCRIPT", "LOAD", script});
    }

    /**
     * Returns a cached script.
     *
     * <p>{@code SCRIPT SHOW sha1}.
     * Complexity: O(N), N being the script's bytes.
     */
    public static Command<String> scriptShow(Object sha1) {
        return Words.of(ReplyTypes.STRING, new Object[] {"SCRIPT", "SHOW", sha1});
    }
}
