package mantissa.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import mantissa.client.commands.SortedSetCommands;
import mantissa.client.commands.StringCommands;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Replies that are kept: told from the server's by counts, never older than what was written. */
@Timeout(60)
class CachedClientTest {
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

    /** Reads until another client's change has come through. */
    private static void await(CachedClient cached, String key, String value) throws Exception {
        for (int round = 0; round < 10_000; round++) {
            if (value.equals(cached.read(StringCommands.get(key)))) {
                return;
            }
            Thread.sleep(1);
        }
        assertEquals(value, cached.read(StringCommands.get(key)));
    }

    @Test
    void repliesAreKeptUntilTheyChange() throws Exception {
        try (CachedClient cached = CachedClient.connect(server.options(), 100); Client other = server.client()) {
            assertNull(cached.read(StringCommands.get("k")));
            assertNull(cached.read(StringCommands.get("k")));
            assertEquals(1, cached.hits());
            other.run(StringCommands.set("k", "one"));
            await(cached, "k", "one");
            long misses = cached.misses();
            for (int round = 0; round < 100; round++) {
                assertEquals("one", cached.read(StringCommands.get("k")));
            }
            assertEquals(misses, cached.misses());
            // Other commands on the key, and other types of the same.
            assertEquals(3, cached.read(StringCommands.strlen("k")));
            assertArrayEquals("one".getBytes(), cached.read(StringCommands.get("k").as(ReplyTypes.BYTES)));
            assertEquals(3, cached.size());
            other.call("FLUSHALL");
            for (int round = 0; round < 10_000 && cached.size() > 0; round++) {
                Thread.sleep(1);
            }
            assertEquals(0, cached.size());
            assertThrows(ServerException.class, () -> cached.read(Command.of("GETRANGE", "k")));
            assertEquals(0, cached.size());
        }
    }

    @Test
    void ownChangesAreSeenAtOnce() {
        try (CachedClient cached = CachedClient.connect(server.options(), 100)) {
            for (long round = 1; round < 2000; round++) {
                assertEquals(round, cached.run(StringCommands.incr("n")));
                assertEquals(Long.toString(round), cached.read(StringCommands.get("n")));
            }
        }
    }

    @Test
    void whatIsKeptIsBounded() {
        try (CachedClient cached = CachedClient.connect(server.options(), 10)) {
            for (int index = 0; index < 100; index++) {
                cached.read(StringCommands.get("key" + index));
                cached.read(StringCommands.get("key0"));
                assertTrue(cached.size() <= 10);
            }
            assertEquals(100, cached.misses());
            for (int start = 0; start < 20; start++) {
                cached.read(SortedSetCommands.zrange("z", start, -1));
                assertTrue(cached.size() <= 10);
            }
        }
    }

    @Test
    void aLostConnectionForgets() {
        try (CachedClient cached = CachedClient.connect(server.options(), 10); Client other = server.client()) {
            other.run(StringCommands.set("k", "old"));
            assertEquals("old", cached.read(StringCommands.get("k")));
            cached.breakSocket();
            for (int round = 0; round < 10_000 && cached.size() > 0; round++) {
                Thread.onSpinWait();
            }
            other.run(StringCommands.set("k", "new"));
            String seen = null;
            while (seen == null) {
                try {
                    seen = cached.read(StringCommands.get("k"));
                } catch (ConnectionLostException notYet) {
                    // It was sent on the old one.
                }
            }
            assertEquals("new", seen);
        }
    }

    /** Writers count up; a reader never sees a count go down, and in the end sees the last. */
    @Test
    void threadsNeverSeeTimeRunBack() throws Exception {
        try (CachedClient cached = CachedClient.connect(server.options(), 100); Client other = server.client()) {
            AtomicLong wrong = new AtomicLong();
            List<Thread> threads = new ArrayList<>();
            for (int number = 0; number < 4; number++) {
                threads.add(new Thread(() -> {
                    long before = 0;
                    while (before < 2000) {
                        Long now = cached.read(StringCommands.get("n").as(ReplyTypes.LONG));
                        wrong.addAndGet(now != null && now < before ? 1 : 0);
                        before = now == null ? 0 : now;
                    }
                }));
            }
            threads.forEach(Thread::start);
            for (int round = 0; round < 2000; round++) {
                other.run(StringCommands.incr("n"));
            }
            for (Thread thread : threads) {
                thread.join();
            }
            assertEquals(0, wrong.get());
        }
    }
}
