package mantissa.client;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.LockSupport;

/** What was sent, or will be, and who waits for the replies. The connection's thread calls all but {@code await}. */
abstract class Exchange {
    /** Bytes of the requests. */
    int size;
    /** Replies that are still to come. */
    int repliesLeft = 1;

    /** The type of the next reply; null if nobody wants it any more. */
    abstract ReplyType<?> begin();

    /** A reply has come. */
    abstract void reply(Object value, RuntimeException failure);

    /** No reply will come. */
    abstract void lost(RuntimeException failure);

    /** Whether nobody wants the reply any more. */
    abstract boolean isAbandoned();

    /** Whether a push message is a reply to this. */
    boolean takes(Reply push) {
        return false;
    }

    /** A thread waits for one reply that several come to. */
    abstract static class Several extends Exchange {
        final Waiting<Reply> result = new Waiting<>(Reply.TYPE);

        @Override
        final ReplyType<?> begin() {
            return Reply.TYPE;
        }

        @Override
        final void lost(RuntimeException failure) {
            result.lost(failure);
        }

        @Override
        final boolean isAbandoned() {
            return result.isAbandoned();
        }
    }

    /** A thread waits, parked. */
    static final class Waiting<T> extends Exchange {
        private static final int OPEN = 0;
        private static final int DONE = 1;
        private static final int ABANDONED = 2;
        private static final VarHandle STATE;

        static {
            try {
                STATE = MethodHandles.lookup().findVarHandle(Waiting.class, "state", int.class);
            } catch (ReflectiveOperationException impossible) {
                throw new ExceptionInInitializerError(impossible);
            }
        }

        private final ReplyType<T> type;
        /** Who is in {@code await}; it need not be the one that has sent the command. */
        private volatile Thread thread;
        private T value;
        private RuntimeException failure;
        private volatile int state = OPEN;

        Waiting(ReplyType<T> type) {
            this.type = type;
        }

        @Override
        ReplyType<?> begin() {
            return state == ABANDONED ? null : type;
        }

        @SuppressWarnings("unchecked")
        @Override
        void reply(Object made, RuntimeException broken) {
            value = (T) made;
            lost(broken);
        }

        @Override
        void lost(RuntimeException broken) {
            failure = broken;
            if (STATE.compareAndSet(this, OPEN, DONE)) {
                LockSupport.unpark(thread);
            }
        }

        @Override
        boolean isAbandoned() {
            return state == ABANDONED;
        }

        /** Waits, parked, until the reply is there, for at most {@code nanos}. A reply that has come is never given up. */
        T await(long nanos, String name) {
            thread = Thread.currentThread();
            long deadline = System.nanoTime() + nanos;
            while (state != DONE) {
                long left = deadline - System.nanoTime();
                if (left <= 0 && STATE.compareAndSet(this, OPEN, ABANDONED)) {
                    throw new CommandTimeoutException("no reply to " + name + " within " + nanos / 1_000_000 + " ms");
                }
                LockSupport.parkNanos(this, left);
                if (Thread.currentThread().isInterrupted() && STATE.compareAndSet(this, OPEN, ABANDONED)) {
                    throw new ClientException("interrupted while waiting for the reply to " + name);
                }
            }
            if (failure instanceof ServerException) {
                throw failure;
            }
            if (failure != null) {
                failure.addSuppressed(new ClientException("waiting for the reply to " + name));
                throw failure;
            }
            return value;
        }
    }

    /** A future is completed, on the connection's thread. */
    static final class Future<T> extends Exchange {
        private final ReplyType<T> type;
        final CompletableFuture<T> future;
        private volatile boolean over;

        Future(ReplyType<T> type, CompletableFuture<T> future) {
            this.type = type;
            this.future = future;
        }

        @Override
        ReplyType<?> begin() {
            return future.isDone() ? null : type;
        }

        @SuppressWarnings("unchecked")
        @Override
        void reply(Object value, RuntimeException failure) {
            over = true;
            if (failure == null) {
                future.complete((T) value);
            } else {
                future.completeExceptionally(failure);
            }
        }

        @Override
        void lost(RuntimeException failure) {
            over = true;
            future.completeExceptionally(failure);
        }

        @Override
        boolean isAbandoned() {
            return future.isDone();
        }

        /** Runs {@code step} if the future is completed by somebody else before the reply. */
        void whenAbandoned(Runnable step) {
            future.whenComplete((value, failure) -> {
                if (!over) {
                    step.run();
                }
            });
        }
    }
}
