package mantissa.client;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;

/**
 * One connection that serves many threads. Callers append their requests to one buffer under a lock that is held for no
 * input or output. Where little is on its way, the caller writes to the socket itself, without blocking; otherwise the
 * connection's thread does, for all at once. That thread reads, decodes, completes, and makes the connection anew when it
 * breaks. Replies belong to requests by their order alone: one that nobody waits for any more is skipped when it comes.
 */
final class Connection implements ReplyDecoder.Handler {
    /** With at most so many commands on their way, a caller writes itself. */
    private static final int WRITE_SELF_MAX = 2;
    private static final long DELAY_FIRST_MS = 10;
    private static final long DELAY_MAX_MS = 1000;

    private final ClientOptions options;
    private final Selector selector;
    private final Thread thread;
    /** Runs on the connection's thread after each greeting, to send what a new connection needs. */
    private final Runnable connected;
    /** Runs on the connection's thread after each loss, before what was sent fails. */
    private final Runnable disconnected;
    private final CompletableFuture<Void> firstConnection = new CompletableFuture<>();

    private final ReentrantLock lock = new ReentrantLock();
    /** Requests that were not yet given to a writer, and those that one writes. Guarded by the lock. */
    private RequestEncoder filling = new RequestEncoder();
    private RequestEncoder sending = new RequestEncoder();
    /** Exchanges in the order of their requests, beyond those in {@code waiting}; the last {@code unsent} are in filling. */
    private ArrayDeque<Exchange> queue = new ArrayDeque<>();
    private int unsent;
    /** Whether somebody writes. Guarded by the lock; who sets it owns {@code sending} and {@code rest}. */
    private boolean writing;
    private Transport transport;
    private boolean closed;
    private String whyClosed = "the client is closed";
    /** The command that has left a state on the connection, which a new one would not have; null without. */
    private volatile String changedBy;
    private long submitted;
    /** Exchanges that are done; written by the connection's thread only. */
    private volatile long completed;

    /** What the transport has not taken of {@code sending}. */
    private ByteBuffer rest = ByteBuffer.allocate(0);
    /** The socket takes no more: the connection's thread goes on writing. */
    private volatile boolean blocked;
    /** The connection's thread sleeps, or is about to. */
    private volatile boolean sleeping;

    /** Exchanges that the connection's thread has taken from the queue. */
    private ArrayDeque<Exchange> waiting = new ArrayDeque<>();
    private Exchange current;
    private ReplyDecoder decoder;
    /** Collects replies during the greeting. */
    private List<Object> greeting;
    private volatile int protocol;

    Connection(ClientOptions options, Runnable connected) {
        this(options, connected, () -> {});
    }

    Connection(ClientOptions options, Runnable connected, Runnable disconnected) {
        this.options = options;
        this.connected = connected;
        this.disconnected = disconnected;
        try {
            selector = Selector.open();
        } catch (IOException failed) {
            throw new ClientException("no selector: " + failed.getMessage(), failed);
        }
        thread = new Thread(this::run, "mantissa-client");
        thread.setDaemon(true);
    }

    /** Connects and waits for it. */
    void start() {
        thread.start();
        try {
            firstConnection.get(options.connectTimeout.toNanos() + TimeUnit.SECONDS.toNanos(1), TimeUnit.NANOSECONDS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            close();
            throw new ClientException("interrupted while connecting", interrupted);
        } catch (java.util.concurrent.ExecutionException failed) {
            close();
            Throwable cause = failed.getCause();
            throw cause instanceof ServerException refused ? refused
                    : new ConnectionLostException("can not connect: " + text(cause), cause);
        } catch (java.util.concurrent.TimeoutException late) {
            close();
            throw new ConnectionLostException("can not connect in time", late);
        }
    }

    private static String text(Throwable cause) {
        return cause.getMessage() == null ? cause.toString() : cause.getMessage();
    }

    /** 2 or 3. */
    int protocol() {
        return protocol;
    }

    /** Writes requests into the connection's buffer, under its lock. */
    interface Encoding {
        void write(RequestEncoder out);
    }

    /**
     * Queues the requests of one exchange; nobody's come in between.
     *
     * @throws QueueFullException if there is no room; nothing was queued
     */
    void submit(Exchange exchange, Encoding requests) {
        boolean writeSelf;
        lock.lock();
        try {
            append(exchange, requests);
            writeSelf = mayWriteSelf();
        } finally {
            lock.unlock();
        }
        send(writeSelf);
    }

    /** The same for many exchanges at once. */
    void submitAll(List<? extends Exchange> exchanges, List<? extends Encoding> requests) {
        boolean writeSelf;
        lock.lock();
        try {
            int index = 0;
            try {
                for (; index < exchanges.size(); index++) {
                    append(exchanges.get(index), requests.get(index));
                }
            } catch (ClientException refused) {
                for (; index < exchanges.size(); index++) {
                    exchanges.get(index).lost(refused);
                }
            }
            writeSelf = mayWriteSelf();
        } finally {
            lock.unlock();
        }
        send(writeSelf);
    }

    private void append(Exchange exchange, Encoding requests) {
        if (closed) {
            throw new ConnectionLostException(whyClosed, null);
        }
        if (submitted - completed >= options.maxPending) {
            throw new QueueFullException(options.maxPending + " commands wait for their replies already");
        }
        int before = filling.length();
        try {
            requests.write(filling);
        } catch (RuntimeException | OutOfMemoryError failed) {
            filling.truncate(before);
            throw failed;
        }
        if (before > 0 && filling.length() > options.maxQueuedBytes) {
            filling.truncate(before);
            throw new QueueFullException(before + " bytes of commands wait to be sent already");
        }
        exchange.size = filling.length() - before;
        submitted++;
        unsent++;
        queue.add(exchange);
    }

    private boolean mayWriteSelf() {
        if (transport == null || writing || submitted - completed > WRITE_SELF_MAX) {
            return false;
        }
        writing = true;
        return true;
    }

    private void send(boolean writeSelf) {
        if (writeSelf) {
            write();
        } else if (sleeping) {
            selector.wakeup();
        }
    }

    /** Writes until nothing is left or the socket takes no more. The caller has set {@code writing}. */
    private void write() {
        while (true) {
            Transport target;
            ByteBuffer source;
            lock.lock();
            try {
                target = transport;
                if (target == null) {
                    return;
                }
                if (!rest.hasRemaining() && target.isFlushed()) {
                    if (filling.length() == 0) {
                        writing = false;
                        return;
                    }
                    RequestEncoder full = filling;
                    sending.clear();
                    filling = sending;
                    sending = full;
                    unsent = 0;
                    rest = ByteBuffer.wrap(full.buffer(), 0, full.length());
                }
                source = rest;
            } finally {
                lock.unlock();
            }
            try {
                if (!target.write(source)) {
                    block(target);
                    return;
                }
            } catch (IOException failed) {
                // The connection's thread sees the end of the socket and does the rest.
                target.close();
                selector.wakeup();
                return;
            }
        }
    }

    /** Leaves the rest to the connection's thread, unless there is another connection by now. */
    private void block(Transport target) {
        lock.lock();
        try {
            blocked = transport == target;
        } finally {
            lock.unlock();
        }
        if (Thread.currentThread() != thread) {
            selector.wakeup();
        }
    }

    // ---- The connection's thread ----

    private void run() {
        long delay = DELAY_FIRST_MS;
        while (!isClosed()) {
            Transport made = null;
            Throwable cause;
            try {
                made = open();
                delay = DELAY_FIRST_MS;
                firstConnection.complete(null);
                connected.run();
                readUntilEnd(made);
                cause = new IOException("the server closed the connection");
            } catch (IOException | RuntimeException | Error failed) {
                cause = failed;
            }
            if (made != null) {
                made.close();
            }
            disconnected.run();
            lost(cause);
            if (!firstConnection.isDone()) {
                firstConnection.completeExceptionally(cause);
                break;
            }
            if (!options.reconnect || changedBy != null) {
                break;
            }
            pause(delay);
            delay = Math.min(DELAY_MAX_MS, 2 * delay);
        }
        end();
    }

    private boolean isClosed() {
        lock.lock();
        try {
            return closed;
        } finally {
            lock.unlock();
        }
    }

    private void pause(long millis) {
        try {
            selector.select(millis / 2 + ThreadLocalRandom.current().nextLong(millis));
        } catch (IOException failed) {
            // Then the next attempt follows at once.
        }
    }

    private Transport open() throws IOException {
        Transport made = Transport.connect(options);
        CompletableFuture<Void> greeted = new CompletableFuture<>();
        greeted.orTimeout(options.connectTimeout.toNanos(), TimeUnit.NANOSECONDS)
                .exceptionally(late -> {
                    made.close();
                    return null;
                });
        try {
            made.handshake();
            decoder = new ReplyDecoder(this);
            greet(made);
            made.channel.configureBlocking(false);
            made.channel.register(selector, SelectionKey.OP_READ);
        } catch (IOException | RuntimeException failed) {
            made.close();
            if (greeted.isDone()) {
                throw new IOException("no greeting in time", failed);
            }
            throw failed;
        } finally {
            greeted.complete(null);
        }
        lock.lock();
        try {
            dropAbandoned();
            rest = ByteBuffer.allocate(0);
            blocked = false;
            writing = false;
            transport = made;
        } finally {
            lock.unlock();
        }
        return made;
    }

    /** Takes requests that were never sent, and whose callers have gone, out of the buffer. */
    private void dropAbandoned() {
        RequestEncoder kept = new RequestEncoder();
        ArrayDeque<Exchange> keptQueue = new ArrayDeque<>();
        int at = 0;
        for (Exchange exchange : queue) {
            if (exchange.isAbandoned()) {
                completed = completed + 1;
            } else {
                kept.raw(filling.buffer(), at, exchange.size);
                keptQueue.add(exchange);
            }
            at += exchange.size;
        }
        filling = kept;
        queue = keptQueue;
        unsent = keptQueue.size();
    }

    private void greet(Transport made) throws IOException {
        List<Object[]> first = new ArrayList<>();
        protocol = options.protocol;
        if (protocol == 3) {
            List<Object> hello = new ArrayList<>(List.of("HELLO", "3"));
            if (options.password != null) {
                hello.addAll(List.of("AUTH", options.username == null ? "default" : options.username, options.password));
            }
            first.add(hello.toArray());
            List<Object> replies = call(made, first);
            first.clear();
            if (replies.get(0) instanceof ServerException refused) {
                if (!refused.code().equals("ERR") && !refused.code().equals("NOPROTO")) {
                    throw refused;
                }
                protocol = 2;
            }
        }
        if (protocol == 2 && options.password != null) {
            first.add(options.username == null ? new Object[] {"AUTH", options.password}
                    : new Object[] {"AUTH", options.username, options.password});
        }
        if (options.clientName != null) {
            first.add(new Object[] {"CLIENT", "SETNAME", options.clientName});
        }
        if (options.database != 0) {
            first.add(new Object[] {"SELECT", options.database});
        }
        if (options.tracking && protocol == 3) {
            first.add(new Object[] {"CLIENT", "TRACKING", "ON"});
        }
        for (Object reply : call(made, first)) {
            if (reply instanceof ServerException refused) {
                throw refused;
            }
        }
        if (options.addressMayChange) {
            requirePrimary(made);
        }
    }

    private void requirePrimary(Transport made) throws IOException {
        // A user without the right to ROLE finds out by READONLY.
        if (call(made, List.<Object[]>of(new Object[] {"ROLE"})).get(0) instanceof Reply role
                && !role.asList().get(0).asString().equals("master")) {
            throw new IOException("the server is no primary (any more)");
        }
    }

    private List<Object> call(Transport made, List<Object[]> requests) throws IOException {
        RequestEncoder out = new RequestEncoder();
        for (Object[] words : requests) {
            Command.of(words).encode(out);
        }
        greeting = new ArrayList<>();
        try {
            made.write(ByteBuffer.wrap(out.buffer(), 0, out.length()));
            while (greeting.size() < requests.size()) {
                if (made.read(decoder.readTarget()) < 0) {
                    throw new IOException("the server closed the connection during the greeting");
                }
                decoder.decode();
            }
            return greeting;
        } finally {
            greeting = null;
        }
    }

    private void readUntilEnd(Transport made) throws IOException {
        SelectionKey key = made.channel.keyFor(selector);
        while (true) {
            if (blocked) {
                blocked = false;
                write();
            } else if (hasWork()) {
                write();
            }
            sleeping = true;
            if (!made.hasMore() && !blocked && isIdle()) {
                key.interestOps(SelectionKey.OP_READ);
                selector.select();
            } else if (blocked) {
                key.interestOps(SelectionKey.OP_READ | SelectionKey.OP_WRITE);
                selector.select();
            }
            sleeping = false;
            selector.selectedKeys().clear();
            if (isClosed()) {
                return;
            }
            int count;
            do {
                ByteBuffer target = decoder.readTarget();
                count = made.read(target);
                if (count < 0) {
                    return;
                }
                if (count > 0) {
                    decoder.decode();
                }
                // A full buffer: there is more, which needs no question.
                count = target.hasRemaining() ? 0 : count;
            } while (count > 0);
        }
    }

    /** Whether requests wait and nobody writes; the caller is the writer then. */
    private boolean hasWork() {
        lock.lock();
        try {
            if (writing || filling.length() == 0) {
                return false;
            }
            writing = true;
            return true;
        } finally {
            lock.unlock();
        }
    }

    private boolean isIdle() {
        lock.lock();
        try {
            return writing || filling.length() == 0;
        } finally {
            lock.unlock();
        }
    }

    @Override
    public ReplyType<?> expected() {
        if (greeting != null) {
            return Reply.TYPE;
        }
        Exchange next = head();
        if (next == null) {
            if (protocol == 2) {
                // A message of publish/subscribe.
                return Reply.TYPE;
            }
            throw new ProtocolException("a reply that nobody asked for");
        }
        current = next;
        return next.begin();
    }

    private Exchange head() {
        if (waiting.isEmpty()) {
            lock.lock();
            try {
                ArrayDeque<Exchange> empty = waiting;
                waiting = queue;
                queue = empty;
            } finally {
                lock.unlock();
            }
        }
        return waiting.peek();
    }

    @Override
    public void reply(Object value, RuntimeException failure) {
        if (greeting != null) {
            greeting.add(failure == null ? value : failure);
            return;
        }
        Exchange exchange = current;
        current = null;
        if (exchange == null) {
            push((Reply) value);
            return;
        }
        try {
            exchange.reply(value, failure);
        } finally {
            taken(exchange);
        }
        if (options.addressMayChange && failure instanceof ServerException refused && refused.code().equals("READONLY")) {
            breakSocket();
        }
    }

    private void taken(Exchange exchange) {
        if (--exchange.repliesLeft == 0) {
            waiting.poll();
            completed = completed + 1;
        }
    }

    @Override
    public void push(Reply message) {
        Exchange next = head();
        if (next != null && next.takes(message)) {
            taken(next);
        }
        options.deliver(message);
    }

    /**
     * The connection broke: what was sent gets no reply any more, what was not waits for the next connection. Where the
     * server refused the new one, the user's password say, that fails too, with the server's error.
     */
    private void lost(Throwable cause) {
        List<Exchange> failed = new ArrayList<>();
        lock.lock();
        try {
            transport = null;
            waiting.addAll(queue);
            queue = new ArrayDeque<>();
            if (cause instanceof ServerException) {
                filling.clear();
                unsent = 0;
            }
            int sent = waiting.size() - unsent;
            for (int index = 0; index < sent; index++) {
                failed.add(waiting.poll());
            }
            queue.addAll(waiting);
            waiting.clear();
            completed = completed + failed.size();
            current = null;
        } finally {
            lock.unlock();
        }
        fail(failed, cause);
    }

    private void fail(Iterable<Exchange> exchanges, Throwable cause) {
        for (Exchange exchange : exchanges) {
            exchange.lost(cause instanceof ServerException refused ? refused : new ConnectionLostException(
                    "the connection was lost before the reply: " + text(cause), cause));
        }
    }

    private void end() {
        ArrayDeque<Exchange> left;
        lock.lock();
        try {
            if (!closed && changedBy != null) {
                whyClosed = "the connection was lost, and what " + changedBy + " had changed on it: the client is closed";
            }
            closed = true;
            left = queue;
            queue = new ArrayDeque<>();
            completed = completed + left.size();
        } finally {
            lock.unlock();
        }
        fail(left, new IOException(whyClosed));
        try {
            selector.close();
        } catch (IOException ignored) {
            // Nothing depends on it any more.
        }
    }

    /** Closes; what waits for replies gets {@link ConnectionLostException}. */
    void close() {
        Transport last;
        lock.lock();
        try {
            closed = true;
            last = transport;
        } finally {
            lock.unlock();
        }
        if (last != null) {
            last.close();
        }
        selector.wakeup();
    }

    /** From now on a lost connection is not made anew. Called before the command is submitted. */
    void changedBy(String command) {
        changedBy = command;
    }

    /** Breaks the socket. The server forgets what it was doing for it; what was sent fails. */
    void breakSocket() {
        lock.lock();
        try {
            if (transport != null) {
                transport.close();
                // What comes now waits for the next connection.
                transport = null;
            }
        } finally {
            lock.unlock();
        }
        selector.wakeup();
    }
}
