package mantissa.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import mantissa.client.commands.ListCommands;
import mantissa.client.commands.StreamCommands;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Commands that block, that change their connection, or that have no reply: what takes them, and what nobody takes. */
@Timeout(60)
class DedicatedTest {
    private static TestServer server;

    @BeforeAll
    static void start() throws Exception {
        server = TestServer.start();
    }

    @AfterAll
    static void stop() throws Exception {
        if (server != null) {
            server.close();
        }
    }

    @BeforeEach
    void empty() {
        try (Client client = server.client()) {
            client.call("FLUSHALL");
        }
    }

    private static Client impatient() {
        return Client.connect(server.options().commandTimeout(Duration.ofMillis(500)));
    }

    private static void awaitBlocked(Client client, int count) throws Exception {
        while (!client.call("INFO", "clients").asString().contains("blocked_clients:" + count + "\r\n")) {
            Thread.sleep(1);
        }
    }

    private static String element(Reply pair) {
        return pair.asList().get(1).asString();
    }

    @Test
    void aBlockingCommandHasItsOwnTime() {
        try (Client patient = server.client()) {
            patient.call("XGROUP", "CREATE", "s", "BLOCK", "$", "MKSTREAM");
        }
        List<Command<Reply>> quiet = List.of(ListCommands.blpop(List.of("q"), 0.8), Command.of("brpop", "q", "0.8"),
                Command.of("BLMOVE", "q", "r", "LEFT", "LEFT", 0.8), Command.of("BRPOPLPUSH", "q", "r", 0.8),
                Command.of("BLMOVEM", "q", "r", "LEFT", "LEFT", 0.8, "EXACTLY", 2, "OBO"),
                Command.of("BLMPOP", 0.8, 1, "q", "LEFT"), Command.of("BZMPOP", 0.8, 1, "z", "MIN"),
                Command.of("BZPOPMIN", "z", 0.8), Command.of("BZPOPMAX".getBytes(), "z", "0.8".getBytes()),
                Command.of("XREAD", "COUNT", 1, "block", 800, "STREAMS", "block", "$"),
                StreamCommands.xreadgroup("GROUP", "BLOCK", "c", "BLOCK", 800, "STREAMS", "s", ">"),
                Command.of("WAIT", 1, 800));
        try (Client client = impatient()) {
            List<CompletableFuture<Void>> runs = new ArrayList<>();
            for (Command<Reply> command : quiet) {
                runs.add(CompletableFuture.runAsync(() -> {
                    try (Client dedicated = client.dedicated()) {
                        dedicated.run(command);
                    }
                }, task -> new Thread(task).start()));
            }
            runs.forEach(CompletableFuture::join);
            assertEquals(0, client.call("WAIT", 1, 800).asLong());
        }
    }

    @Test
    void zeroWaitsWithoutAnEnd() throws Exception {
        try (Client client = impatient(); Client dedicated = client.dedicated()) {
            CompletableFuture<Reply> popped =
                    CompletableFuture.supplyAsync(() -> dedicated.run(ListCommands.blpop(List.of("q"), 0)));
            Thread.sleep(800);
            client.call("RPUSH", "q", "precious");
            assertEquals("precious", element(popped.join()));
        }
    }

    @Test
    void whatIsGivenUpTakesNothing() throws Exception {
        try (Client client = server.client(); Client dedicated = client.dedicated()) {
            Command<Reply> pop = ListCommands.blpop(List.of("q"), 0);
            assertThrows(CommandTimeoutException.class, () -> dedicated.run(pop, Duration.ofMillis(20)));
            awaitBlocked(client, 0);
            client.call("RPUSH", "q", "precious");
            assertEquals(1, client.call("LLEN", "q").asLong());
            assertEquals("precious", element(dedicated.run(pop)));

            CompletableFuture<Reply> future = dedicated.send(pop);
            awaitBlocked(client, 1);
            future.orTimeout(20, TimeUnit.MILLISECONDS);
            assertThrows(CompletionException.class, future::join);
            awaitBlocked(client, 0);
            assertEquals("PONG", dedicated.call("PING").asString());

            Thread caller = new Thread(() -> assertThrows(ClientException.class, () -> dedicated.run(pop)));
            caller.start();
            awaitBlocked(client, 1);
            caller.interrupt();
            awaitBlocked(client, 0);
            caller.join();
            client.call("RPUSH", "q", "again");
            assertEquals("again", element(dedicated.sendAll(List.of(pop)).get(0).thenApply(Reply.class::cast).join()));
        }
    }

    private static void assertRefused(Client client, String hint, Object... words) {
        Command<Reply> command = Command.of(words);
        List<Command<Reply>> batch = List.of(Command.of("PING"), command);
        for (Runnable way : List.<Runnable>of(() -> client.run(command), () -> client.send(command),
                () -> client.sendAll(batch), () -> client.run(command, Duration.ofSeconds(1)))) {
            String why = assertThrows(IllegalArgumentException.class, way::run).getMessage();
            assertTrue(why.contains(hint), why);
        }
        for (int round = 0; round < 3; round++) {
            assertEquals("echo" + round, client.call("ECHO", "echo" + round).asString());
        }
    }

    @Test
    void commandsWithoutAReplyAreRefused() {
        try (Client client = server.client(); Client dedicated = client.dedicated();
                CachedClient cached = CachedClient.connect(server.options(), 10)) {
            for (Client each : List.of(client, dedicated)) {
                for (String name : List.of("SUBSCRIBE", "subscribe", "PSUBSCRIBE", "SSUBSCRIBE", "Unsubscribe",
                        "PUNSUBSCRIBE", "SUNSUBSCRIBE", "MONITOR", "SYNC", "psync")) {
                    assertRefused(each, "PubSub", name, "x");
                    assertThrows(IllegalArgumentException.class, () -> each.transaction(List.of(Command.of(name, "x"))));
                }
                assertRefused(each, "PubSub", "client", "reply", "SKIP");
                assertRefused(each, "PubSub", "CLIENT".getBytes(), "REPLY".getBytes(), "OFF");
                assertRefused(each, "PubSub", "MANTISSA.PACKED", "F64", "SUBSCRIBE", "x");
            }
            assertThrows(IllegalArgumentException.class, () -> cached.run(Command.of("SUBSCRIBE", "x")));
            assertThrows(IllegalArgumentException.class, () -> cached.run(Command.of("SELECT", 1)));
        }
    }

    @Test
    void aSharedConnectionStaysAsItIs() {
        try (Client client = server.client()) {
            assertRefused(client, "ClientOptions.database", "SELECT", 1);
            assertRefused(client, "ClientOptions.auth", "auth", "secret");
            assertRefused(client, "ClientOptions.clientName", "CLIENT", "setname", "x");
            assertRefused(client, "CachedClient", "CLIENT", "TRACKING", "ON");
            assertRefused(client, "Client.transaction", "MULTI");
            assertRefused(client, "dedicated", "WATCH", "k");
            assertRefused(client, "dedicated", "HELLO", 2);
            assertRefused(client, "dedicated", "READONLY");
            assertRefused(client, "dedicated", "BLPOP", "q", 1);
            assertRefused(client, "dedicated", "MANTISSA.PACKED", "F64", "blmove", "q", "r", "LEFT", "LEFT", 1);
            assertRefused(client, "dedicated", "XREAD", "BLOCK", 10, "STREAMS", "s", "$");
            assertThrows(IllegalArgumentException.class, () -> client.transaction(List.of(Command.of("SELECT", 1))));
            // Nothing blocks in a transaction, nor without BLOCK.
            assertTrue(client.transaction(List.of(Command.of("BLPOP", "q", 1))).get(0).isNull());
            assertTrue(client.call("XREAD", "STREAMS", "s", "0").isNull());
        }
    }

    @Test
    void aChangedConnectionIsNotMadeAnew() {
        try (Client client = server.client()) {
            for (List<Object> change : List.<List<Object>>of(List.of("SELECT", 1), List.of("watch", "k"),
                    List.of("CLIENT", "SETNAME", "x"))) {
                try (Client dedicated = client.dedicated()) {
                    dedicated.breakSocket();
                    assertEquals("PONG", dedicated.call("PING").asString());
                    assertEquals("OK", dedicated.call(change.toArray()).asString());
                    dedicated.call("SET", "before", 1);
                    dedicated.breakSocket();
                    for (int round = 0; round < 3; round++) {
                        String why = assertThrows(ConnectionLostException.class, () -> dedicated.call("SET", "after", 1))
                                .getMessage();
                        assertTrue(why.contains(Effect.name(change.toArray(), change.size())), why);
                    }
                }
            }
            assertNull(client.call("GET", "after").asString());
        }
    }

    @Test
    void aWatchedTransactionEndsWhenTheKeyChanges() {
        try (Client client = server.client(); Client dedicated = client.dedicated()) {
            dedicated.call("WATCH", "k");
            client.call("SET", "k", 1);
            assertNull(dedicated.transaction(new ArrayList<>(List.of(Command.of("SET", "k", 2)))));
        }
    }
}
