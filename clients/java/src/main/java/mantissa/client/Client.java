package mantissa.client;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/**
 * A client: one connection for any number of threads, which waits parked, holds no monitor and needs no pool. A command
 * that blocks on the server (BLPOP and its kin) or changes the connection (WATCH, SUBSCRIBE) needs a client of its own,
 * {@link #dedicated}.
 */
public final class Client implements AutoCloseable {
    private final ClientOptions options;
    private final Connection connection;
    /** Tells when the primary moves; null without Sentinels that do. */
    private final PubSub sentinels;

    Client(ClientOptions options, Runnable disconnected) {
        this.options = options;
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

    /** Another connection with the same options, for one user at a time. The caller closes it. */
    public Client dedicated() {
        return new Client(options, () -> {});
    }

    /** The protocol of the connection: 2 or 3. */
    public int protocol() {
        return connection.protocol();
    }

    /**
     * Runs a command and waits for its reply, for at most {@link ClientOptions#commandTimeout}.
     *
     * @throws ServerException the error that the server replied
     * @throws CommandTimeoutException if no reply came in time; the connection goes on
     * @throws ConnectionLostException if the connection broke; the command may have run
     * @throws QueueFullException if too much is on its way; the command was not sent
     */
    public <T> T run(Command<T> command) {
        return run(command, options.commandTimeout);
    }

    /** The same with a time of its own. */
    public <T> T run(Command<T> command, Duration timeout) {
        Exchange.Waiting<T> exchange = new Exchange.Waiting<>(command.type());
        connection.submit(exchange, command::encode);
        return exchange.await(timeout.toNanos(), command.name());
    }

    /** Runs a command of any words: {@code call("SET", "key", 5)}. */
    public Reply call(Object... words) {
        return run(Command.of(words));
    }

    /**
     * Sends a command. The future is completed on the connection's thread, so that what follows it must not block. A
     * future that is completed otherwise, by {@code orTimeout} say, only leaves its reply to be skipped.
     *
     * @throws QueueFullException if too much is on its way; the command was not sent
     */
    public <T> CompletableFuture<T> send(Command<T> command) {
        CompletableFuture<T> future = new CompletableFuture<>();
        connection.submit(new Exchange.Future<>(command.type(), future), command::encode);
        return future;
    }

    /** Sends commands together: a pipeline. Commands for which there is no room fail with {@link QueueFullException}. */
    public List<CompletableFuture<?>> sendAll(List<? extends Command<?>> commands) {
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

    private static <T> Exchange future(Command<T> command, List<CompletableFuture<?>> futures) {
        CompletableFuture<T> future = new CompletableFuture<>();
        futures.add(future);
        return new Exchange.Future<>(command.type(), future);
    }

    /**
     * Runs commands as one transaction, MULTI to EXEC, without a break; safe on a shared connection. The elements are the
     * replies, errors among them; null if a watched key has changed.
     *
     * @throws ServerException if a command was refused when it was queued; none has run
     */
    public List<Reply> transaction(List<? extends Command<?>> commands) {
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
