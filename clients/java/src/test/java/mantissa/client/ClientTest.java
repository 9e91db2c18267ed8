package mantissa.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The client with a server: the program that MANTISSA_BINARY names. */
@Timeout(60)
class ClientTest {
    private static TestServer server;
    private static Path folder;
    private static int tlsPort;
    private static SSLContext tls;

    @BeforeAll
    static void start() throws Exception {
        folder = Files.createTempDirectory("mantissa-java");
        makeCertificate();
        tlsPort = TestServer.freePort();
        server = TestServer.start(folder, "--unixsocket", folder.resolve("s").toString(),
                "--tls-port", Integer.toString(tlsPort), "--tls-auth-clients", "no",
                "--tls-cert-file", folder.resolve("cert.pem").toString(),
                "--tls-key-file", folder.resolve("key.pem").toString());
    }

    @AfterAll
    static void stop() throws Exception {
        if (server != null) {
            server.close();
        }
    }

    /** A key of the JDK's keytool, in the server's files and in the client's context. */
    private static void makeCertificate() throws Exception {
        Path store = folder.resolve("store");
        Process keytool = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "keytool").toString(),
                "-genkeypair", "-alias", "a", "-keyalg", "RSA", "-storetype", "PKCS12", "-keystore", store.toString(),
                "-storepass", "secret", "-dname", "CN=localhost", "-ext", "san=ip:127.0.0.1", "-validity", "2")
                .redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
        assertEquals(0, keytool.waitFor());
        KeyStore keys = KeyStore.getInstance(store.toFile(), "secret".toCharArray());
        writePem("cert.pem", "CERTIFICATE", keys.getCertificate("a").getEncoded());
        writePem("key.pem", "PRIVATE KEY", keys.getKey("a", "secret".toCharArray()).getEncoded());
        KeyStore trusted = KeyStore.getInstance("PKCS12");
        trusted.load(null, null);
        trusted.setCertificateEntry("a", keys.getCertificate("a"));
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(trusted);
        tls = SSLContext.getInstance("TLS");
        tls.init(null, trust.getTrustManagers(), null);
    }

    private static void writePem(String name, String what, byte[] bytes) throws Exception {
        Files.writeString(folder.resolve(name), "-----BEGIN " + what + "-----\n"
                + Base64.getMimeEncoder(64, new byte[] {10}).encodeToString(bytes) + "\n-----END " + what + "-----\n");
    }

    private static ClientOptions options() {
        return server.options();
    }

    private static Client client() {
        return Client.connect(options());
    }

    @Test
    void bothProtocolsAndSocketsServe() {
        ClientOptions overTls = ClientOptions.tcp("127.0.0.1", tlsPort).tls(tls, true);
        for (ClientOptions options : List.of(options(), options().protocol(2),
                ClientOptions.unix(folder.resolve("s")), overTls)) {
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
            Command<Reply> slow = Command.of("WAIT", 1, 200);
            assertThrows(CommandTimeoutException.class, () -> client.run(slow, Duration.ofMillis(20)));
            assertEquals("after", client.call("ECHO", "after").asString());
            assertEquals(id, client.call("CLIENT", "ID").asLong());
        }
    }

    @Test
    void aLostConnectionIsMadeAnew() {
        try (Client client = client()) {
            CompletableFuture<Reply> waiting = client.send(Command.of("WAIT", 1, 30_000));
            client.breakSocket();
            Throwable failure = assertThrows(java.util.concurrent.CompletionException.class, waiting::join).getCause();
            assertEquals(ConnectionLostException.class, failure.getClass());
            assertEquals("PONG", client.call("PING").asString());
        }
    }

    @Test
    void subscriptionsOutliveAConnection() throws Exception {
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        try (Client client = client(); PubSub subscriber = PubSub.connect(options(),
                (pattern, channel, message) -> seen.add(pattern + " " + channel + " " + new String(message)))) {
            subscriber.subscribe("a", "b");
            subscriber.psubscribe("p*");
            client.call("PUBLISH", "b", "one");
            client.call("PUBLISH", "px", "two");
            assertEquals("null b one", seen.poll(20, TimeUnit.SECONDS));
            assertEquals("p* px two", seen.poll(20, TimeUnit.SECONDS));
            subscriber.unsubscribe("b");
            assertEquals(0, client.call("PUBLISH", "b", "none").asLong());
            subscriber.breakSocket();
            String again = null;
            for (int round = 0; again == null && round < 1000; round++) {
                client.call("PUBLISH", "a", "three");
                again = seen.poll(20, TimeUnit.MILLISECONDS);
            }
            assertEquals("null a three", again);
        }
    }

    @Test
    void aListenerMayThrow() throws Exception {
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        BlockingQueue<Throwable> thrown = new LinkedBlockingQueue<>();
        ClientOptions options = options().listenerErrors((thread, failure) -> {
            thrown.add(failure);
            throw new IllegalStateException("the handler throws too");
        });
        try (Client client = client(); PubSub subscriber = PubSub.connect(options, (pattern, channel, message) -> {
            seen.add(new String(message));
            throw new IllegalStateException("no more");
        })) {
            subscriber.subscribe("throwing");
            for (int round = 0; round < 10; round++) {
                assertEquals(1, client.call("PUBLISH", "throwing", round).asLong());
            }
            for (int round = 0; round < 10; round++) {
                assertEquals(Integer.toString(round), seen.poll(20, TimeUnit.SECONDS));
                assertEquals("no more", thrown.poll(20, TimeUnit.SECONDS).getMessage());
            }
        }
    }

    @Test
    void aThrowingListenerIsReportedByTheThread() throws Exception {
        BlockingQueue<Throwable> thrown = new LinkedBlockingQueue<>();
        Thread.UncaughtExceptionHandler before = Thread.getDefaultUncaughtExceptionHandler();
        Thread.setDefaultUncaughtExceptionHandler((thread, failure) -> thrown.add(failure));
        try (Client client = client(); PubSub subscriber = PubSub.connect(options(), (pattern, channel, message) -> {
            throw new IllegalStateException(channel);
        })) {
            subscriber.subscribe("reported");
            client.call("PUBLISH", "reported", "x");
            assertEquals("reported", thrown.poll(20, TimeUnit.SECONDS).getMessage());
        } finally {
            Thread.setDefaultUncaughtExceptionHandler(before);
        }
    }

    @Test
    void aPasswordRefusedLaterIsTheErrorOfWhatWaits() throws Exception {
        try (Client admin = client()) {
            admin.call("ACL", "SETUSER", "passing", "on", ">old", "+@all", "~*");
            try (Client client = Client.connect(options().auth("passing", "old"))) {
                admin.call("ACL", "SETUSER", "passing", "<old", ">new");
                client.breakSocket();
                for (int round = 0; round < 3; round++) {
                    assertEquals("WRONGPASS",
                            assertThrows(ServerException.class, () -> client.call("SET", "k", 1)).code());
                }
                admin.call("ACL", "SETUSER", "passing", ">old");
                String seen = null;
                while (seen == null) {
                    try {
                        seen = client.call("PING").asString();
                    } catch (ServerException notYet) {
                        assertEquals("WRONGPASS", notYet.code());
                    }
                }
                assertEquals("PONG", seen);
            }
        }
    }

    @Test
    void anUnknownHostIsNamed() {
        String why = assertThrows(ConnectionLostException.class,
                () -> Client.connect(ClientOptions.tcp("nosuch.invalid", 1))).getMessage();
        assertEquals("can not connect: unknown host \"nosuch.invalid\"", why);
    }

    @Test
    void scriptsAreSentWhereTheyAreMissing() {
        Script script = new Script("return {KEYS[1], ARGV[1] + 1}");
        try (Client client = client()) {
            client.call("SCRIPT", "FLUSH");
            for (int round = 0; round < 2; round++) {
                List<Reply> reply = script.run(client, List.of("key"), 5).asList();
                assertEquals("key", reply.get(0).asString());
                assertEquals(6, reply.get(1).asLong());
                assertEquals(1, client.call("SCRIPT", "EXISTS", script.digest()).asList().get(0).asLong());
            }
            assertThrows(ServerException.class, () -> new Script("return nosuch.x").run(client, List.of()));
        }
    }

    @Test
    void queuesAreBounded() {
        try (Client client = Client.connect(options().maxPending(10))) {
            client.send(Command.of("WAIT", 1, 30_000));
            for (int index = 1; index < 10; index++) {
                client.send(Command.of("PING"));
            }
            assertThrows(QueueFullException.class, () -> client.send(Command.of("PING")));
        }
    }

    @Test
    void noServerIsAnException() throws Exception {
        int unused = TestServer.freePort();
        assertThrows(ConnectionLostException.class, () -> Client.connect(ClientOptions.tcp("127.0.0.1", unused)));
    }
}
