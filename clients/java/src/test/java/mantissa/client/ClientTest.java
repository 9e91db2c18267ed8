package mantissa.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The client with a server: the program that MANTISSA_BINARY names. */
@Timeout(60)
class ClientTest {
    private static Process server;
    private static Path folder;
    private static int port;

    @BeforeAll
    static void start() throws Exception {
        String binary = System.getenv("MANTISSA_BINARY");
        assumeTrue(binary != null, "MANTISSA_BINARY names no server: tests with one are skipped");
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = free.getLocalPort();
        }
        folder = Files.createTempDirectory("mantissa-java");
        server = new ProcessBuilder(binary, "server", "--port", Integer.toString(port), "--save", "", "--dir",
                folder.toString(), "--unixsocket", folder.resolve("s").toString())
                .redirectErrorStream(true).redirectOutput(folder.resolve("log").toFile()).start();
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        while (true) {
            try (Client client = client()) {
                client.call("PING");
                return;
            } catch (ConnectionLostException notYet) {
                if (System.nanoTime() > deadline || !server.isAlive()) {
                    throw notYet;
                }
                TimeUnit.MILLISECONDS.sleep(20);
            }
        }
    }

    @AfterAll
    static void stop() throws Exception {
        if (server != null) {
            server.destroy();
            server.waitFor();
            try (var files = Files.list(folder)) {
                for (Path file : files.toList()) {
                    Files.deleteIfExists(file);
                }
            }
            Files.delete(folder);
        }
    }

    private static ClientOptions options() {
        return ClientOptions.tcp("127.0.0.1", port);
    }

    private static Client client() {
        return Client.connect(options());
    }

    @Test
    void bothProtocolsAndSocketsServe() {
        for (ClientOptions options : List.of(options(), options().protocol(2), ClientOptions.unix(folder.resolve("s")))) {
            try (Client client = Client.connect(options.clientName("test").database(3))) {
                client.call("DEL", "z", "text");
                client.call("ZADD", "z", 2.5, "b", -0.1, "a");
                ScoredMembers members =
                        client.run(Command.of("ZRANGE", "z", 0, -1, "WITHSCORES").as(ReplyTypes.SCORED));
                assertArrayEquals(new double[] {-0.1, 2.5}, members.scores());
                assertEquals("b", members.member(1));
                assertEquals("test", client.call("CLIENT", "GETNAME").asString());
                byte[] large = new byte[3_000_000];
                client.call("SET", "text", large);
                assertArrayEquals(large, client.run(Command.of("GET", "text").as(ReplyTypes.BYTES)));
                assertEquals("ERR", assertThrows(ServerException.class, () -> client.call("NONESUCH")).code());
            }
        }
    }

    @Test
    void manyThreadsShareAConnection() throws Exception {
        try (Client client = client()) {
            List<Thread> threads = new ArrayList<>();
            List<Throwable> broken = java.util.Collections.synchronizedList(new ArrayList<>());
            for (int number = 0; number < 64; number++) {
                String name = "echo" + number;
                threads.add(new Thread(() -> {
                    for (int round = 0; round < 300; round++) {
                        assertEquals(name + round, client.call("ECHO", name + round).asString());
                    }
                }));
            }
            for (Thread thread : threads) {
                thread.setUncaughtExceptionHandler((which, failure) -> broken.add(failure));
                thread.start();
            }
            for (Thread thread : threads) {
                thread.join();
            }
            assertEquals(List.of(), broken);
        }
    }

    @Test
    void pipelinesAndTransactions() {
        try (Client client = client()) {
            List<Command<Long>> commands = new ArrayList<>();
            client.call("DEL", "n");
            for (int round = 0; round < 20_000; round++) {
                commands.add(Command.of("INCR", "n").as(ReplyTypes.LONG));
            }
            List<CompletableFuture<?>> futures = client.sendAll(commands);
            assertEquals(20_000L, futures.get(19_999).join());
            List<Reply> replies = client.transaction(List.of(Command.of("INCR", "n"), Command.of("LPUSH", "n", "x")));
            assertEquals(20_001, replies.get(0).asLong());
            assertEquals("WRONGTYPE", replies.get(1).asError().code());
            assertThrows(ServerException.class, () -> client.transaction(List.of(Command.of("NONESUCH"))));
            assertEquals("PONG", client.call("PING").asString());
        }
    }

    @Test
    void aTimeoutLeavesTheConnection() {
        try (Client client = client()) {
            long id = client.call("CLIENT", "ID").asLong();
            Command<Reply> slow = Command.of("BLPOP", "none", 0.2);
            assertThrows(CommandTimeoutException.class, () -> client.run(slow, Duration.ofMillis(20)));
            assertEquals("after", client.call("ECHO", "after").asString());
            assertEquals(id, client.call("CLIENT", "ID").asLong());
        }
    }

    @Test
    void aLostConnectionIsMadeAnew() {
        try (Client client = client()) {
            CompletableFuture<Reply> waiting = client.send(Command.of("BLPOP", "none", 30));
            client.breakSocket();
            Throwable failure = assertThrows(java.util.concurrent.CompletionException.class, waiting::join).getCause();
            assertEquals(ConnectionLostException.class, failure.getClass());
            assertEquals("PONG", client.call("PING").asString());
        }
    }

    @Test
    void queuesAreBounded() {
        try (Client client = Client.connect(options().maxPending(10))) {
            client.send(Command.of("BLPOP", "none", 30));
            for (int index = 1; index < 10; index++) {
                client.send(Command.of("PING"));
            }
            assertThrows(QueueFullException.class, () -> client.send(Command.of("PING")));
        }
    }

    @Test
    void noServerIsAnException() throws Exception {
        int unused;
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            unused = free.getLocalPort();
        }
        assertThrows(ConnectionLostException.class, () -> Client.connect(ClientOptions.tcp("127.0.0.1", unused)));
    }
}
