package mantissa.client;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/**
 * A client: one connection for any number of threads, which waits parked, holds no monitor and needs no pool.
 *
 * <p>What does not fit a shared connection is refused with {@link IllegalArgumentException}, and nothing is sent: commands
 * that block on the server (BLPOP, XREAD with BLOCK), and those that change the connection (SELECT, AUTH, WATCH, MULTI,
 * CLIENT SETNAME) where all others would be affected, and where a connection made anew would not have the change. Both are
 * for {@link #dedicated}. Commands without exactly one reply (SUBSCRIBE, MONITOR, CLIENT REPLY, SYNC) are refused there
 * as well: {@link PubSub} subscribes.
 */
public final class Client implements AutoCloseable {
    private final ClientOptions options;
    private final Connection connection;
    /** Tells when the primary moves; null without Sentinels that do. */
    private final PubSub sentinels;
    private final boolean shared;

    Client(ClientOptions options, Runnable disconnected) {
        this(options, disconnected, true);
    }

    private Client(ClientOptions options, Runnable disconnected, boolean shared) {
        this.options = options;
        this.shared = shared;
        Sentinels.Route route = options.sentinels == null ? null : options.sentinels.route();
        ClientOptions own = options;
        if (route != null) {
            own = options.copy();
            own.address = route;
        }
        connection = new Connection(own, () -> {}, disconnected);
        connection.start();
        sentinels = route == null ? null : route.watch(connection::breakSocket);
    }

    /**
     * Connects.
     *
     * @throws ConnectionLostException if the server can not be reached
     * @throws ServerException if it refuses the user, the database or the name
     */
    public static Client connect(ClientOptions options) {
        return new Client(options.copy(), () -> {});
    }

    /**
     * Another connection with the same options, for one user at a time. The caller closes it.
     *
     * <p>It takes commands that block. One that is given up, by its timeout, an interrupt or a future completed by
     * somebody else, breaks the connection, so that the server takes nothing from a key for nobody; the next command goes
     * to a new one.
     *
     * <p>It also takes commands that change the connection. After the first of these a lost connection is not made anew:
     * commands fail with {@link ConnectionLostException}, and the caller makes another dedicated client.
     */
    public Client dedicated() {
        return new Client(options, () -> {}, false);
    }

    /** The protocol of the connection: 2 or 3. */
    public int protocol() {
        return connection.protocol();
    }

    /**
     * Runs a command and waits for its reply, for at most {@link ClientOptions#commandTimeout}; where the command itself
     * waits on the server (BLPOP, WAIT), for its own time in addition, and without an end if that is 0.
     *
     * @throws ServerException the error that the server replied
     * @throws CommandTimeoutException if no reply came in time; the connection goes on, but see {@link #dedicated}
     * @throws ConnectionLostException if the connection broke; the command may have run
     * @throws QueueFullException if too much is on its way; the command was not sent
     * @throws IllegalArgumentException if the connection can not take the command; it was not sent
     */
    public <T> T run(Command<T> command) {
        long nanos = options.commandTimeout.toNanos();
        if (command.effect() == Effect.BLOCKS || command.effect() == Effect.WAITS) {
            long sum = nanos + command.blockingNanos();
            nanos = sum < 0 ? Long.MAX_VALUE : sum;
        }
        return run(command, nanos);
    }

    /** The same with a time of its own, whatever the command says. */
    public <T> T run(Command<T> command, Duration timeout) {
        return run(command, timeout.toNanos());
    }

    private <T> T run(Command<T> command, long nanos) {
        permit(List.of(command), false);
        Exchange.Waiting<T> exchange = new Exchange.Waiting<>(command.type());
        connection.submit(exchange, command::encode);
        try {
            return exchange.await(nanos, command.name());
        } finally {
            if (exchange.isAbandoned() && breaksWhenAbandoned(command)) {
                connection.breakSocket();
            }
        }
    }

    /** On a shared connection only WAIT and WAITAOF wait, which lose nothing: others go on with it. */
    private boolean breaksWhenAbandoned(Command<?> command) {
        return !shared && (command.effect() == Effect.BLOCKS || command.effect() == Effect.WAITS);
    }

    /**
     * Refuses what this connection can not take, before anything is sent.
     *
     * @param queued whether they are between MULTI and EXEC, where nothing blocks
     */
    private void permit(List<? extends Command<?>> commands, boolean queued) {
        for (Command<?> command : commands) {
            switch (command.effect()) {
                case DISORDERS -> throw new IllegalArgumentException(command.effectName()
                        + " does not have one reply, so that later replies would go to the wrong commands: use PubSub");
                case BLOCKS -> {
                    if (shared && !queued) {
                        throw new IllegalArgumentException(command.effectName()
                                + " blocks the connection, which is shared: use Client.dedicated()");
                    }
                }
                case CHANGES -> {
                    if (shared) {
                        throw new IllegalArgumentException(command.effectName() + " changes a connection that is shared,"
                                + " and made anew without the change: use " + instead(command.effectName()));
                    }
                    connection.changedBy(command.effectName());
                }
                default -> {}
            }
        }
    }

    private static String instead(String name) {
        return switch (name) {
            case "SELECT" -> "ClientOptions.database, or Client.dedicated()";
            case "AUTH" -> "ClientOptions.auth, or Client.dedicated()";
            case "HELLO" -> "ClientOptions.protocol and auth, or Client.dedicated()";
            case "CLIENT SETNAME" -> "ClientOptions.clientName, or Client.dedicated()";
            case "CLIENT TRACKING" -> "CachedClient, or Client.dedicated()";
            case "MULTI", "EXEC", "DISCARD" -> "Client.transaction, or Client.dedicated()";
            default -> "Client.dedicated()";
        };
    }

    /** Runs a command of any words: {@code call("SET", "key", 5)}. */
    public Reply call(Object... words) {
        return run(Command.of(words));
    }

    /**
     * Sends a command. The future is completed on the connection's thread, so that what follows it must not block. A
     * future that is completed otherwise, by {@code orTimeout} say, only leaves its reply to be skipped; but see
     * {@link #dedicated} for commands that block. A future has no timeout of its own.
     *
     * @throws QueueFullException if too much is on its way; the command was not sent
     * @throws IllegalArgumentException if the connection can not take the command; it was not sent
     */
    public <T> CompletableFuture<T> send(Command<T> command) {
        permit(List.of(command), false);
        CompletableFuture<T> future = new CompletableFuture<>();
        connection.submit(exchange(command, future), command::encode);
        return future;
    }

    private <T> Exchange exchange(Command<T> command, CompletableFuture<T> future) {
        Exchange.Future<T> exchange = new Exchange.Future<>(command.type(), future);
        if (breaksWhenAbandoned(command)) {
            exchange.whenAbandoned(connection::breakSocket);
        }
        return exchange;
    }

    /**
     * Sends commands together: a pipeline. Commands for which there is no room fail with {@link QueueFullException}.
     *
     * @throws IllegalArgumentException if the connection can not take one of them; none was sent
     */
    public List<CompletableFuture<?>> sendAll(List<? extends Command<?>> commands) {
        permit(commands, false);
        List<CompletableFuture<?>> futures = new ArrayList<>(commands.size());
        List<Exchange> exchanges = new ArrayList<>(commands.size());
        List<Connection.Encoding> requests = new ArrayList<>(commands.size());
        for (Command<?> command : commands) {
            exchanges.add(future(command, futures));
            requests.add(command::encode);
        }
        connection.submitAll(exchanges, requests);
        return futures;
    }

    private <T> Exchange future(Command<T> command, List<CompletableFuture<?>> futures) {
        CompletableFuture<T> future = new CompletableFuture<>();
        futures.add(future);
        return exchange(command, future);
    }

    /**
     * Runs commands as one transaction, MULTI to EXEC, without a break; safe on a shared connection. The elements are the
     * replies, errors among them; null if a watched key has changed.
     *
     * @throws ServerException if a command was refused when it was queued; none has run
     * @throws IllegalArgumentException if the connection can not take one of them; none was sent
     */
    public List<Reply> transaction(List<? extends Command<?>> commands) {
        permit(commands, true);
        Transaction exchange = new Transaction(commands.size());
        connection.submit(exchange, out -> {
            Command.of("MULTI").encode(out);
            commands.forEach(command -> command.encode(out));
            Command.of("EXEC").encode(out);
        });
        Reply reply = exchange.result.await(options.commandTimeout.toNanos(), "EXEC");
        return reply.isNull() ? null : reply.asList();
    }

    /** The replies to MULTI and to what is queued, of which only errors matter, then the one to EXEC. */
    private static final class Transaction extends Exchange.Several {
        private RuntimeException refused;

        Transaction(int commands) {
            repliesLeft = commands + 2;
        }

        @Override
        void reply(Object value, RuntimeException failure) {
            if (repliesLeft == 1) {
                result.reply(value, refused == null ? failure : refused);
            } else if (refused == null) {
                refused = failure;
            }
        }
    }

    /** Closes the connection; what waits for replies gets {@link ConnectionLostException}. */
    @Override
    public void close() {
        if (sentinels != null) {
            sentinels.close();
        }
        connection.close();
    }

    /** Breaks the socket, for tests of what follows. */
    void breakSocket() {
        connection.breakSocket();
    }
}
