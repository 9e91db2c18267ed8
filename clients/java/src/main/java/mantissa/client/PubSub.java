package mantissa.client;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Subscriptions, on a connection of their own, by the push messages of RESP3. After a lost connection the subscriptions
 * are made again; messages in between are lost, as always with publish/subscribe.
 */
public final class PubSub implements AutoCloseable {
    /**
     * Takes messages, on the connection's thread: it must not block. What it throws goes to
     * {@link ClientOptions#listenerErrors}, and the next message comes.
     */
    public interface Listener {
        /** A message on a channel; {@code pattern} is null unless a pattern's subscription matched. */
        void message(String pattern, String channel, byte[] message);
    }

    private final ClientOptions options;
    private final Connection connection;
    private final Set<String> channels = ConcurrentHashMap.newKeySet();
    private final Set<String> patterns = ConcurrentHashMap.newKeySet();
    /** Runs on a thread of its own when a new connection has subscribed to the channels of the last one. */
    volatile Runnable subscribedAgain;

    private PubSub(ClientOptions options, Listener listener) {
        this.options = options;
        options.pushListener = push -> deliver(push, listener);
        connection = new Connection(options, this::again);
        connection.start();
        if (connection.protocol() != 3) {
            connection.close();
            throw new ClientException("subscriptions need RESP3");
        }
    }

    /** Connects. */
    public static PubSub connect(ClientOptions options, Listener listener) {
        return new PubSub(options.copy(), listener);
    }

    private static void deliver(Reply push, Listener listener) {
        List<Reply> parts = push.asList();
        String kind = parts.get(0).asString();
        if (kind.equals("message")) {
            listener.message(null, parts.get(1).asString(), parts.get(2).asBytes());
        } else if (kind.equals("pmessage")) {
            listener.message(parts.get(1).asString(), parts.get(2).asString(), parts.get(3).asBytes());
        }
    }

    /** Subscribes to channels and waits until the server has confirmed it. */
    public void subscribe(String... names) {
        change("SUBSCRIBE", names);
        channels.addAll(List.of(names));
    }

    /** Subscribes to patterns. */
    public void psubscribe(String... names) {
        change("PSUBSCRIBE", names);
        patterns.addAll(List.of(names));
    }

    /** Ends subscriptions to channels. */
    public void unsubscribe(String... names) {
        channels.removeAll(List.of(names));
        change("UNSUBSCRIBE", names);
    }

    /** Ends subscriptions to patterns. */
    public void punsubscribe(String... names) {
        patterns.removeAll(List.of(names));
        change("PUNSUBSCRIBE", names);
    }

    private void change(String command, String[] names) {
        if (names.length > 0) {
            send(command, names).await(options.commandTimeout.toNanos(), command);
        }
    }

    private Exchange.Waiting<Reply> send(String command, String[] names) {
        List<Object> words = new ArrayList<>(List.of(command));
        words.addAll(List.of(names));
        Confirmation exchange = new Confirmation(command.toLowerCase(java.util.Locale.ROOT), names.length);
        connection.submit(exchange, Command.of(words.toArray())::encode);
        return exchange.result;
    }

    /** A new connection subscribes to what the last one had. Nobody waits for it. */
    private void again() {
        if (!channels.isEmpty()) {
            Exchange.Waiting<Reply> confirmed = send("SUBSCRIBE", channels.toArray(new String[0]));
            Runnable then = subscribedAgain;
            if (then != null) {
                Thread thread = new Thread(() -> {
                    try {
                        confirmed.await(options.commandTimeout.toNanos(), "SUBSCRIBE");
                        then.run();
                    } catch (ClientException lost) {
                        // The next connection subscribes again.
                    }
                }, "mantissa-client-subscribed");
                thread.setDaemon(true);
                thread.start();
            }
        }
        if (!patterns.isEmpty()) {
            send("PSUBSCRIBE", patterns.toArray(new String[0]));
        }
    }

    /** Breaks the socket, for tests of what follows. */
    void breakSocket() {
        connection.breakSocket();
    }

    @Override
    public void close() {
        connection.close();
    }

    /** One push message for each channel, or one error for all. */
    private static final class Confirmation extends Exchange.Several {
        private final String kind;

        Confirmation(String kind, int names) {
            this.kind = kind;
            repliesLeft = names;
        }

        @Override
        void reply(Object value, RuntimeException failure) {
            repliesLeft = 1;
            result.reply(value, failure);
        }

        @Override
        boolean takes(Reply push) {
            boolean mine = push.asList().get(0).asString().equals(kind);
            if (mine && repliesLeft == 1) {
                result.reply(push, null);
            }
            return mine;
        }
    }
}
