package mantissa.client;

import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.Supplier;

/** Sentinels: where the primary is, and when it moves. They are asked one after the other, the last useful one first. */
final class Sentinels implements Supplier<SocketAddress> {
    private final String primary;
    private final List<InetSocketAddress> addresses;
    private final AtomicInteger first = new AtomicInteger();
    Consumer<ClientOptions> settings = options -> {};

    Sentinels(String primary, List<InetSocketAddress> addresses) {
        if (addresses.isEmpty()) {
            throw new IllegalArgumentException("no Sentinel");
        }
        this.primary = primary;
        this.addresses = List.copyOf(addresses);
    }

    private SocketAddress at(int index) {
        InetSocketAddress address = addresses.get(Math.floorMod(index, addresses.size()));
        // A name is looked up anew each time.
        return address.isUnresolved() ? new InetSocketAddress(address.getHostString(), address.getPort()) : address;
    }

    private ClientOptions options(Supplier<SocketAddress> address) {
        ClientOptions options = new ClientOptions(address, null);
        settings.accept(options);
        return options;
    }

    /**
     * The address of the primary.
     *
     * @throws ConnectionLostException if no Sentinel knows it
     */
    @Override
    public SocketAddress get() {
        int start = first.get();
        RuntimeException last = null;
        for (int tries = 0; tries < addresses.size(); tries++) {
            int index = start + tries;
            try (Client sentinel = Client.connect(options(() -> at(index)).reconnect(false))) {
                List<Reply> found = sentinel.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", primary).asList();
                if (found.size() == 2) {
                    first.set(index);
                    return new InetSocketAddress(found.get(0).asString(), (int) found.get(1).asLong());
                }
                last = new ClientException("it does not know it");
            } catch (ClientException failed) {
                last = failed;
            }
        }
        throw new ConnectionLostException("no Sentinel says where \"" + primary + "\" is: " + last.getMessage(), last);
    }

    /** One client's way to the primary. */
    Route route() {
        return new Route();
    }

    /** Where a client's connection goes to, and the messages that say when that changes. */
    final class Route implements Supplier<SocketAddress> {
        /** What was last said of the primary. */
        private volatile SocketAddress last;

        @Override
        public SocketAddress get() {
            SocketAddress found = Sentinels.this.get();
            last = found;
            return found;
        }

        /**
         * Runs {@code moved} whenever a Sentinel says that the primary is another one, on a thread that must not block.
         * Nobody repeats what came before a subscription, so the Sentinels are asked after each. Null if no Sentinel
         * takes subscriptions by RESP3: then a lost connection or READONLY must tell.
         */
        PubSub watch(Runnable moved) {
            AtomicInteger next = new AtomicInteger(first.get());
            PubSub.Listener listener = (pattern, channel, message) -> {
                String[] words = new String(message, StandardCharsets.UTF_8).split(" ");
                if (words[0].equals(primary)) {
                    moved.run();
                }
            };
            for (int tries = 1; ; tries++) {
                PubSub messages = null;
                try {
                    messages = PubSub.connect(options(() -> at(next.getAndIncrement())), listener);
                    messages.subscribe("+switch-master");
                    messages.subscribedAgain = () -> look(moved);
                    look(moved);
                    return messages;
                } catch (ClientException failed) {
                    if (messages != null) {
                        messages.close();
                    }
                    if (tries == addresses.size()) {
                        return null;
                    }
                }
            }
        }

        /** Runs {@code moved} if the primary is another one than the connection was told. */
        private void look(Runnable moved) {
            SocketAddress before = last;
            try {
                if (!Sentinels.this.get().equals(before)) {
                    moved.run();
                }
            } catch (ClientException nobodyKnows) {
                // A message, a lost connection or READONLY will tell.
            }
        }
    }
}
