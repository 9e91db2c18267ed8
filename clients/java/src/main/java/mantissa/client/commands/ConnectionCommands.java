package mantissa.client.commands;

import mantissa.client.Command;
import mantissa.client.Reply;
import mantissa.client.ReplyTypes;

/** Commands of the group connection. Made by commands/generate.py. */
public final class ConnectionCommands {
    private ConnectionCommands() {}

    /**
     * Logs the connection in.
     *
     * <p>{@code AUTH [username] password}.
     * Complexity: O(N), N being the user's passwords.
     */
    public static Command<Reply> auth(Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"AUTH"}, words);
    }

    /**
     * Says whether the next command's keys are tracked.
     *
     * <p>{@code CLIENT CACHING <YES|NO>}.
     * Complexity: O(1).
     */
    public static Command<Reply> clientCaching(String mode) {
        return Words.of(Reply.TYPE, new Object[] {"CLIENT", "CACHING", mode});
    }

    /**
     * Tells the server what the client can do.
     *
     * <p>{@code CLIENT CAPA capability [capability ...]}.
     * Complexity: O(1).
     */
    public static Command<Boolean> clientCapa(Object... capabilities) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"CLIENT", "CAPA"}, capabilities);
    }

    /**
     * Tells the connection's name.
     *
     * <p>{@code CLIENT GETNAME}.
     * Complexity: O(1).
     */
    public static Command<String> clientGetname() {
        return Words.of(ReplyTypes.STRING, new Object[] {"CLIENT", "GETNAME"});
    }

    /**
     * Tells which client gets the connection's invalidations.
     *
     * <p>{@code CLIENT GETREDIR}.
     * Complexity: O(1).
     */
    public static Command<Reply> clientGetredir() {
        return Words.of(Reply.TYPE, new Object[] {"CLIENT", "GETREDIR"});
    }

    /**
     * Tells the connection's number.
     *
     * <p>{@code CLIENT ID}.
     * Complexity: O(1).
     */
    public static Command<Long> clientId() {
        return Words.of(ReplyTypes.LONG, new Object[] {"CLIENT", "ID"});
    }

    /**
     * Shows what the server knows of the connection.
     *
     * <p>{@code CLIENT INFO}.
     * Complexity: O(1).
     */
    public static Command<String> clientInfo() {
        return Words.of(ReplyTypes.STRING, new Object[] {"CLIENT", "INFO"});
    }

    /**
     * Closes connections.
     *
     * <p>{@code CLIENT KILL <ip:port|<[ID client-id]|[TYPE NORMAL|MASTER|SLAVE|REPLICA|PUBSUB]|[USER username]|[ADDR
     * ip:port]|[LADDR ip:port]|[SKIPME YES|NO]|[MAXAGE maxage] [[ID client-id]|[TYPE
     * NORMAL|MASTER|SLAVE|REPLICA|PUBSUB]|[USER username]|[ADDR ip:port]|[LADDR ip:port]|[SKIPME YES|NO]|[MAXAGE
     * maxage] ...]>>}.
     * Complexity: O(N), N being the clients.
     */
    public static Command<Reply> clientKill(Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"CLIENT", "KILL"}, words);
    }

    /**
     * Shows what is known of clients.
     *
     * <p>{@code CLIENT LIST [TYPE NORMAL|MASTER|REPLICA|PUBSUB] [ID client-id [client-id ...]]}.
     * Complexity: O(N), N being the clients.
     */
    public static Command<String> clientList(Object... options) {
        return Words.of(ReplyTypes.STRING, new Object[] {"CLIENT", "LIST"}, options);
    }

    /**
     * Exempts the connection from closing for memory.
     *
     * <p>{@code CLIENT NO-EVICT <ON|OFF>}.
     * Complexity: O(1).
     */
    public static Command<Reply> clientNoEvict(String enabled) {
        return Words.of(Reply.TYPE, new Object[] {"CLIENT", "NO-EVICT", enabled});
    }

    /**
     * Says whether the connection's commands count as use of their keys.
     *
     * <p>{@code CLIENT NO-TOUCH <ON|OFF>}.
     * Complexity: O(1).
     */
    public static Command<Reply> clientNoTouch(String enabled) {
        return Words.of(Reply.TYPE, new Object[] {"CLIENT", "NO-TOUCH", enabled});
    }

    /**
     * Holds back writes, or all commands, for some time.
     *
     * <p>{@code CLIENT PAUSE timeout [WRITE|ALL]}.
     * Complexity: O(1).
     */
    public static Command<Reply> clientPause(long timeout, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"CLIENT", "PAUSE", timeout}, options);
    }

    /**
     * Tells the server which client library is in use.
     *
     * <p>{@code CLIENT SETINFO <LIB-NAME libname|LIB-VER libver>}.
     * Complexity: O(1).
     */
    public static Command<Reply> clientSetinfo(Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"CLIENT", "SETINFO"}, words);
    }

    /**
     * Names the connection.
     *
     * <p>{@code CLIENT SETNAME connection-name}.
     * Complexity: O(1).
     */
    public static Command<Boolean> clientSetname(Object connectionName) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"CLIENT", "SETNAME", connectionName});
    }

    /**
     * Shows how the connection tracks keys for its cache.
     *
     * <p>{@code CLIENT TRACKINGINFO}.
     * Complexity: O(1).
     */
    public static Command<Reply> clientTrackinginfo() {
        return Words.of(Reply.TYPE, new Object[] {"CLIENT", "TRACKINGINFO"});
    }

    /**
     * Ends the waiting of a client in a blocking command.
     *
     * <p>{@code CLIENT UNBLOCK client-id [TIMEOUT|ERROR]}.
     * Complexity: O(log N), N being the clients.
     */
    public static Command<Reply> clientUnblock(long clientId, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"CLIENT", "UNBLOCK", clientId}, options);
    }

    /**
     * Ends a pause before its time.
     *
     * <p>{@code CLIENT UNPAUSE}.
     * Complexity: O(N), N being the clients held back.
     */
    public static Command<Reply> clientUnpause() {
        return Words.of(Reply.TYPE, new Object[] {"CLIENT", "UNPAUSE"});
    }

    /**
     * Sends the message back.
     *
     * <p>{@code ECHO message}.
     * Complexity: O(1).
     */
    public static Command<String> echo(Object message) {
        return Words.of(ReplyTypes.STRING, new Object[] {"ECHO", message});
    }

    /**
     * Answers PONG, or the given message: the server is alive.
     *
     * <p>{@code PING [message]}.
     * Complexity: O(1).
     */
    public static Command<String> ping(Object... options) {
        return Words.of(ReplyTypes.STRING, new Object[] {"PING"}, options);
    }

    /**
     * Makes another database the connection's current one.
     *
     * <p>{@code SELECT index}.
     * Complexity: O(1).
     */
    public static Command<Boolean> select(long index) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"SELECT", index});
    }
}
