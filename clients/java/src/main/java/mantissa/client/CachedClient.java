package mantissa.client;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.ReentrantLock;

/**
 * A client that keeps what it has read. The server remembers which keys it read and tells when one changes (CLIENT
 * TRACKING, RESP3); then what was kept is dropped. It holds at most so many replies, those used last. A reply is as old as
 * a message needs from the server; what this client has changed itself it never reads from before.
 */
public final class CachedClient implements AutoCloseable {
    /** A command and the type of its reply: what a kept reply answers. */
    private record Question(ReplyType<?> type, ByteBuffer request) {}

    /** A reply, or the place of one that is on its way. */
    private static final class Answer {
        private Object value;
        private boolean known;
    }

    private final Client client;
    private final int repliesMax;
    private final ReentrantLock lock = new ReentrantLock();
    /** By keys, the one used last at the end. Guarded by the lock, as the count of answers is. */
    private final LinkedHashMap<String, Map<Question, Answer>> keys = new LinkedHashMap<>(16, 0.75f, true);
    private int count;
    private final LongAdder hits = new LongAdder();
    private final LongAdder misses = new LongAdder();

    private CachedClient(ClientOptions options, int repliesMax) {
        if (repliesMax < 1) {
            throw new IllegalArgumentException("room for " + repliesMax + " replies");
        }
        this.repliesMax = repliesMax;
        var listener = options.pushListener;
        options.tracking = true;
        options.pushListener = message -> {
            try {
                invalidate(message);
            } catch (RuntimeException | Error broken) {
                // Nobody knows what has changed.
                clear();
                throw broken;
            }
            listener.accept(message);
        };
        // What happens while there is no connection is told to nobody.
        client = new Client(options, this::clear);
        if (client.protocol() != 3) {
            client.close();
            throw new ClientException("client-side caching needs RESP3");
        }
    }

    /**
     * Connects.
     *
     * @param repliesMax how many replies are kept, of any size
     */
    public static CachedClient connect(ClientOptions options, int repliesMax) {
        return new CachedClient(options.copy(), repliesMax);
    }

    /**
     * Answers a command that only reads, and reads the key that is its first argument and no other: GET, HGET, HGETALL,
     * ZRANGE and so on. The value may be that of an earlier call: nobody may change it, arrays included.
     */
    public <T> T read(Command<T> command) {
        String key = text(command.word(1));
        Question question = new Question(command.type(), request(command));
        Answer mine = null;
        lock.lock();
        try {
            Map<Question, Answer> answers = keys.get(key);
            Answer found = answers == null ? null : answers.get(question);
            if (found != null && found.known) {
                hits.increment();
                @SuppressWarnings("unchecked")
                T value = (T) found.value;
                return value;
            }
            if (found == null) {
                mine = new Answer();
                keys.computeIfAbsent(key, absent -> new HashMap<>()).put(question, mine);
                count++;
                shrink();
            }
        } finally {
            lock.unlock();
        }
        misses.increment();
        boolean done = false;
        try {
            T value = client.run(command);
            keep(mine, value);
            done = true;
            return value;
        } finally {
            if (!done && mine != null) {
                drop(key, question, mine);
            }
        }
    }

    /** An answer that was dropped in between is not in the map any more, so that nobody finds this. */
    private void keep(Answer mine, Object value) {
        if (mine == null) {
            return;
        }
        lock.lock();
        try {
            mine.value = value;
            mine.known = true;
        } finally {
            lock.unlock();
        }
    }

    private void drop(String key, Question question, Answer mine) {
        lock.lock();
        try {
            Map<Question, Answer> answers = keys.get(key);
            if (answers != null && answers.remove(question, mine)) {
                count--;
                if (answers.isEmpty()) {
                    keys.remove(key);
                }
            }
        } finally {
            lock.unlock();
        }
    }

    private void shrink() {
        Iterator<Map<Question, Answer>> oldest = keys.values().iterator();
        while (count > repliesMax && oldest.hasNext()) {
            // A key alone with more answers than there is room for loses them as well.
            count -= oldest.next().size();
            oldest.remove();
        }
    }

    /** Runs any command, past what is kept, and drops what is kept of all keys that are among its words. */
    public <T> T run(Command<T> command) {
        try {
            return client.run(command);
        } finally {
            lock.lock();
            try {
                for (int index = 1; index < command.wordCount(); index++) {
                    forget(text(command.word(index)));
                }
            } finally {
                lock.unlock();
            }
        }
    }

    private void forget(String key) {
        Map<Question, Answer> answers = keys.remove(key);
        count -= answers == null ? 0 : answers.size();
    }

    private void invalidate(Reply message) {
        var parts = message.asList();
        if (parts.size() != 2 || !"invalidate".equals(parts.get(0).asString())) {
            return;
        }
        if (parts.get(1).isNull()) {
            clear();
            return;
        }
        lock.lock();
        try {
            for (Reply key : parts.get(1).asList()) {
                forget(text(key.asBytes()));
            }
        } finally {
            lock.unlock();
        }
    }

    private void clear() {
        lock.lock();
        try {
            keys.clear();
            count = 0;
        } finally {
            lock.unlock();
        }
    }

    private static ByteBuffer request(Command<?> command) {
        RequestEncoder out = new RequestEncoder();
        command.encode(out);
        return ByteBuffer.wrap(out.buffer(), 0, out.length());
    }

    /** The bytes of a key as a string, a character each. */
    private static String text(Object word) {
        byte[] bytes = word instanceof byte[] binary ? binary : word.toString().getBytes(StandardCharsets.UTF_8);
        return new String(bytes, StandardCharsets.ISO_8859_1);
    }

    /** Replies that are kept or on their way to it. */
    public int size() {
        lock.lock();
        try {
            return count;
        } finally {
            lock.unlock();
        }
    }

    /** Reads that were answered from what was kept. */
    public long hits() {
        return hits.sum();
    }

    /** Reads that the server answered. */
    public long misses() {
        return misses.sum();
    }

    /** Breaks the socket, for tests of what follows. */
    void breakSocket() {
        client.breakSocket();
    }

    @Override
    public void close() {
        client.close();
    }
}
