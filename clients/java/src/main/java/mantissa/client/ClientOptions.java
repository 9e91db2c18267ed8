package mantissa.client;

import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.UnixDomainSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.function.Supplier;
import javax.net.ssl.SSLContext;

/** Where the server is and how the connection behaves. Not changed once a client has it: clients take a copy. */
public final class ClientOptions implements Cloneable {
    Supplier<SocketAddress> address;
    boolean addressMayChange;
    String host;
    String username;
    String password;
    String clientName;
    int database;
    int protocol = 3;
    SSLContext tls;
    boolean verifyHost = true;
    Duration connectTimeout = Duration.ofSeconds(5);
    Duration commandTimeout = Duration.ofSeconds(10);
    int maxPending = 100_000;
    int maxQueuedBytes = 64 * 1024 * 1024;
    boolean reconnect = true;
    Consumer<Reply> pushListener = message -> {};
    /** Null: that of the connection's thread. */
    Thread.UncaughtExceptionHandler listenerErrors;
    /** CLIENT TRACKING on each connection. */
    boolean tracking;
    /** Not null: the primary is where they say. */
    Sentinels sentinels;

    ClientOptions(Supplier<SocketAddress> address, String host) {
        this.address = address;
        this.host = host;
    }

    /** A server reached by TCP. The name is looked up at each connection. */
    public static ClientOptions tcp(String host, int port) {
        Objects.requireNonNull(host);
        return new ClientOptions(() -> new InetSocketAddress(host, port), host);
    }

    /** A server reached by a Unix socket. */
    public static ClientOptions unix(Path path) {
        return new ClientOptions(() -> UnixDomainSocketAddress.of(path), null);
    }

    /** A server whose address is asked for at each connection, and again when it turns out to be a replica. */
    public static ClientOptions resolving(Supplier<SocketAddress> address) {
        ClientOptions options = new ClientOptions(Objects.requireNonNull(address), null);
        options.addressMayChange = true;
        return options;
    }

    /**
     * The primary of that name, which Sentinels know: they are asked at each connection, and a connection is made anew when
     * one of them says that the primary has moved, or when it turns out to be a replica.
     */
    public static ClientOptions sentinel(String name, List<InetSocketAddress> sentinels) {
        Sentinels known = new Sentinels(Objects.requireNonNull(name), sentinels);
        ClientOptions options = resolving(known);
        options.sentinels = known;
        return options;
    }

    /** How the Sentinels themselves are reached: their user, TLS, timeouts. */
    public ClientOptions sentinelSettings(Consumer<ClientOptions> settings) {
        if (sentinels == null) {
            throw new IllegalStateException("there are no Sentinels");
        }
        sentinels.settings = Objects.requireNonNull(settings);
        return this;
    }

    /** The user and password of AUTH; a null user is the default user. */
    public ClientOptions auth(String user, String secret) {
        username = user;
        password = Objects.requireNonNull(secret);
        return this;
    }

    /** The name that CLIENT LIST shows. */
    public ClientOptions clientName(String name) {
        clientName = name;
        return this;
    }

    /** The database that SELECT chooses, from 0. */
    public ClientOptions database(int number) {
        database = number;
        return this;
    }

    /** 3, the default, with a fallback to 2 where the server knows no HELLO; or 2. */
    public ClientOptions protocol(int version) {
        if (version != 2 && version != 3) {
            throw new IllegalArgumentException("protocol " + version + " is neither 2 nor 3");
        }
        protocol = version;
        return this;
    }

    /** TLS with this context. {@code checkName}: the certificate must be the host's. */
    public ClientOptions tls(SSLContext context, boolean checkName) {
        tls = context;
        verifyHost = checkName;
        return this;
    }

    /** How long connecting, with TLS and greeting, may take. */
    public ClientOptions connectTimeout(Duration time) {
        connectTimeout = positive(time);
        return this;
    }

    /** How long a command may take: {@link CommandTimeoutException} after it. */
    public ClientOptions commandTimeout(Duration time) {
        commandTimeout = positive(time);
        return this;
    }

    private static Duration positive(Duration time) {
        if (time.isZero() || time.isNegative()) {
            throw new IllegalArgumentException("a timeout must be above zero");
        }
        return time;
    }

    /** How many commands may wait for replies: {@link QueueFullException} beyond. */
    public ClientOptions maxPending(int commands) {
        maxPending = commands;
        return this;
    }

    /** How many bytes of commands may wait to be sent: {@link QueueFullException} beyond. One command always may. */
    public ClientOptions maxQueuedBytes(int bytes) {
        maxQueuedBytes = bytes;
        return this;
    }

    /** Whether a lost connection is made anew, after 10 ms, then twice as long each time up to a second. */
    public ClientOptions reconnect(boolean wanted) {
        reconnect = wanted;
        return this;
    }

    /**
     * Takes push messages of RESP3, on the connection's thread: it must not block. What it throws goes to
     * {@link #listenerErrors}.
     */
    public ClientOptions pushListener(Consumer<Reply> listener) {
        pushListener = Objects.requireNonNull(listener);
        return this;
    }

    /**
     * Takes what listeners throw, that of {@link PubSub} too, on the connection's thread; the connection goes on. Without
     * it the uncaught exception handler of that thread does, which prints it unless the program has set another one.
     */
    public ClientOptions listenerErrors(Thread.UncaughtExceptionHandler handler) {
        listenerErrors = Objects.requireNonNull(handler);
        return this;
    }

    /** Gives a push message to the listener. */
    void deliver(Reply message) {
        try {
            pushListener.accept(message);
        } catch (Throwable thrown) {
            Thread thread = Thread.currentThread();
            Thread.UncaughtExceptionHandler handler =
                    listenerErrors == null ? thread.getUncaughtExceptionHandler() : listenerErrors;
            try {
                handler.uncaughtException(thread, thrown);
            } catch (Throwable ignored) {
                // As the Java machine does where a handler throws.
            }
        }
    }

    ClientOptions copy() {
        try {
            return (ClientOptions) clone();
        } catch (CloneNotSupportedException impossible) {
            throw new AssertionError(impossible);
        }
    }
}
