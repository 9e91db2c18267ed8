package mantissa.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The client with Sentinels, which are played here: they say what the test wants. */
@Timeout(60)
class SentinelTest {
    /** As much of a Sentinel as a client talks to. */
    private static final class Sentinel implements AutoCloseable {
        private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        private final List<OutputStream> subscribers = new CopyOnWriteArrayList<>();
        private final List<Socket> subscriberSockets = new CopyOnWriteArrayList<>();
        private volatile int primary;
        /** Where the primary moves before the next subscription; 0 if it stays. */
        private volatile int movesFirst;

        Sentinel(int primary) throws IOException {
            this.primary = primary;
            Thread acceptor = new Thread(() -> {
                try {
                    while (true) {
                        Socket socket = listener.accept();
                        Thread thread = new Thread(() -> serve(socket));
                        thread.setDaemon(true);
                        thread.start();
                    }
                } catch (IOException closed) {
                    // The test is over.
                }
            });
            acceptor.setDaemon(true);
            acceptor.start();
        }

        InetSocketAddress address() {
            return new InetSocketAddress("127.0.0.1", listener.getLocalPort());
        }

        private void serve(Socket socket) {
            try (socket) {
                BufferedReader in = new BufferedReader(new InputStreamReader(socket.getInputStream()));
                OutputStream out = socket.getOutputStream();
                for (String line; (line = in.readLine()) != null; ) {
                    List<String> words = new ArrayList<>();
                    for (int left = Integer.parseInt(line.substring(1)); left > 0; left--) {
                        in.readLine();
                        words.add(in.readLine());
                    }
                    if (words.get(0).equals("SUBSCRIBE")) {
                        moveFirst();
                        subscribers.add(out);
                        subscriberSockets.add(socket);
                    }
                    out.write(answer(words).getBytes());
                }
            } catch (IOException closed) {
                // The client has gone.
            }
        }

        private String answer(List<String> words) {
            return switch (words.get(0)) {
                case "HELLO" -> "%1\r\n$5\r\nproto\r\n:3\r\n";
                case "SUBSCRIBE" -> ">3\r\n+subscribe\r\n+" + words.get(1) + "\r\n:1\r\n";
                case "SENTINEL" -> words.get(2).equals("main")
                        ? "*2\r\n+127.0.0.1\r\n$" + Integer.toString(primary).length() + "\r\n" + primary + "\r\n" : "_\r\n";
                default -> "-ERR unknown command\r\n";
            };
        }

        private void moveFirst() {
            if (movesFirst != 0) {
                primary = movesFirst;
                movesFirst = 0;
            }
        }

        /** Closes the connections of subscribers. Before they subscribe again, the primary moves. */
        void lose(int to) throws IOException {
            movesFirst = to;
            for (Socket subscriber : subscriberSockets) {
                subscriber.close();
            }
        }

        /** Says that the primary has moved. */
        void move(int to) throws IOException {
            String message = "main 127.0.0.1 " + primary + " 127.0.0.1 " + to;
            primary = to;
            for (OutputStream subscriber : subscribers) {
                subscriber.write((">3\r\n+message\r\n+switch-master\r\n+" + message + "\r\n")
                        .replace("+switch-master", "$14\r\n+switch-master").getBytes());
            }
        }

        @Override
        public void close() throws IOException {
            listener.close();
        }
    }

    /** The port of the server that answers, whatever happens to the connection. */
    private static long port(Client client) {
        while (true) {
            try {
                return Long.parseLong(client.call("CONFIG", "GET", "port").asMap().get("port").asString());
            } catch (ConnectionLostException moving) {
                Thread.onSpinWait();
            }
        }
    }

    @Test
    void aClientFollowsThePrimary() throws Exception {
        int unused = TestServer.freePort();
        try (TestServer one = TestServer.start(); TestServer two = TestServer.start();
                Sentinel sentinel = new Sentinel(one.port)) {
            List<InetSocketAddress> sentinels =
                    List.of(new InetSocketAddress("127.0.0.1", unused), sentinel.address());
            try (Client client = Client.connect(ClientOptions.sentinel("main", sentinels))) {
                assertEquals(one.port, port(client));
                sentinel.move(two.port);
                while (port(client) != two.port) {
                    Thread.sleep(1);
                }
                // Nobody says it, but the server refuses to be written.
                sentinel.primary = one.port;
                try (Client direct = two.client()) {
                    direct.call("REPLICAOF", "127.0.0.1", one.port);
                }
                assertEquals("READONLY", assertThrows(ServerException.class, () -> client.call("SET", "k", 1)).code());
                while (port(client) != one.port) {
                    Thread.sleep(1);
                }
                assertEquals("OK", client.call("SET", "k", 1).asString());
            }
        }
    }

    @Test
    void aMoveBeforeASubscriptionIsSeen() throws Exception {
        try (TestServer one = TestServer.start(); TestServer two = TestServer.start();
                Sentinel sentinel = new Sentinel(one.port)) {
            sentinel.movesFirst = two.port;
            ClientOptions options = ClientOptions.sentinel("main", List.of(sentinel.address()));
            try (Client client = Client.connect(options)) {
                while (port(client) != two.port) {
                    Thread.sleep(1);
                }
                sentinel.lose(one.port);
                while (port(client) != one.port) {
                    Thread.sleep(1);
                }
            }
        }
    }

    @Test
    void aReplicaIsNoPrimary() throws Exception {
        int unused = TestServer.freePort();
        try (TestServer replica = TestServer.start("--replicaof", "127.0.0.1 " + unused);
                Sentinel sentinel = new Sentinel(replica.port)) {
            ClientOptions options = ClientOptions.sentinel("main", List.of(sentinel.address()));
            assertThrows(ConnectionLostException.class, () -> Client.connect(options));
            ClientOptions unknown = ClientOptions.sentinel("other", List.of(sentinel.address()));
            String why = assertThrows(ConnectionLostException.class, () -> Client.connect(unknown)).getMessage();
            assertEquals("can not connect: no Sentinel says where \"other\" is: it does not know it", why);
        }
    }
}
