package mantissa.client;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import mantissa.number.DoubleReader;

/**
 * Decodes RESP2 and RESP3 as the bytes come. There is one buffer, whose place after the bytes that are left is what the
 * socket's read fills. Elements go from there to the {@link ReplyType} that makes the reply, so that a reply of any size
 * is read with the buffer that there is. A string that does not fit is read from the socket into its own array. Bytes
 * are moved only when the buffer is nearly full, and then no more than a part of one element.
 *
 * <p>Attributes are skipped. Streamed strings and aggregates, which no server sends, are refused.
 */
final class ReplyDecoder {
    /** Where replies come from and go to. */
    interface Handler {
        /** What the reply that begins now shall become; null to discard it. */
        ReplyType<?> expected();

        /** A reply is complete: its value, or its exception. */
        void reply(Object value, RuntimeException failure);

        /** A push message is complete. */
        void push(Reply message);
    }

    private static final VarHandle LONGS =
            MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final long CARRIAGE_RETURNS = 0x0d0d0d0d0d0d0d0dL;
    private static final long ONES = 0x0101010101010101L;
    private static final long TOP_BITS = 0x8080808080808080L;

    /** Bytes of the buffer. */
    static final int CAPACITY = 64 * 1024;
    /** A string of so many bytes that is not yet complete gets its own array at once. */
    private static final int OWN_ARRAY_MIN = 4096;
    /** With less room than this at its end, the buffer begins anew. */
    private static final int ROOM_MIN = 8192;
    /** The most bytes of one read into an array of its own: the system call's own buffer has this size. */
    private static final int READ_MAX = 256 * 1024;
    private static final int DEPTH_MAX = 1024;

    private final Handler handler;
    private final byte[] buffer = new byte[CAPACITY];
    private final ByteBuffer readTarget = ByteBuffer.wrap(buffer);
    private int position;
    private int limit;

    /** A string that is read into its own array, with CR LF after it, or null. */
    private byte[] own;
    private ByteBuffer ownTarget;
    private byte ownKind;
    /** How many bytes of CR LF after it are still to come. */
    private int ownTail;

    private Assembly[] assemblies = new Assembly[8];
    private int[] remaining = new int[8];
    private char[] kinds = new char[8];
    private int depth;
    /** Why the reply that is being read can not be had. */
    private RuntimeException failure;

    ReplyDecoder(Handler handler) {
        this.handler = handler;
    }

    /** Where the next bytes from the socket go. After the read, {@link #decode} takes them. */
    ByteBuffer readTarget() {
        if (own != null && ownTarget.position() < own.length) {
            ownTarget.limit(Math.min(own.length, ownTarget.position() + READ_MAX));
            return ownTarget;
        }
        if (position == limit) {
            position = limit = 0;
        } else if (CAPACITY - limit < ROOM_MIN) {
            System.arraycopy(buffer, position, buffer, 0, limit - position);
            limit -= position;
            position = 0;
        }
        return readTarget.limit(CAPACITY).position(limit);
    }

    /**
     * Takes what a read has put into {@link #readTarget}.
     *
     * @throws ProtocolException if it is no RESP
     */
    void decode() {
        // While an array of its own is read, this position stays.
        limit = readTarget.position();
        while (step()) {
            // Each step takes one element.
        }
        if (limit - position == CAPACITY) {
            throw new ProtocolException("a line of more than " + CAPACITY + " bytes");
        }
    }

    /** Takes one element, or answers false if it is not complete. */
    private boolean step() {
        if (own != null) {
            return finishOwn();
        }
        int start = position;
        if (limit - start < 3) {
            return false;
        }
        byte kind = buffer[start];
        if (kind == '$') {
            // Most strings are short: one or two digits and CR LF.
            int first = buffer[start + 1] - '0';
            if (first >= 0 && first <= 9 && limit - start >= 5) {
                byte second = buffer[start + 2];
                if (second == '\r') {
                    return bulk(kind, start + 4, first);
                }
                if (second >= '0' && second <= '9' && buffer[start + 3] == '\r') {
                    return bulk(kind, start + 5, first * 10 + second - '0');
                }
            }
        } else if (kind == '*' && depth > 0 && takeArrays()) {
            return true;
        }
        int end = lineEnd(start + 1);
        if (end < 0 || end + 1 >= limit) {
            return false;
        }
        if (buffer[end + 1] != '\n') {
            throw new ProtocolException("a carriage return without a line feed");
        }
        if (kind == '$' || kind == '=' || kind == '!') {
            long length = integer(start + 1, end);
            if (length == -1) {
                position = end + 2;
                nil();
                return true;
            }
            if (length < 0 || length > Integer.MAX_VALUE - 16) {
                throw new ProtocolException("a string of " + length + " bytes");
            }
            return bulk(kind, end + 2, (int) length);
        }
        position = end + 2;
        line(kind, start + 1, end);
        return true;
    }

    /** Has the assembly take arrays by itself, and answers whether it took any. */
    private boolean takeArrays() {
        long taken = assemblies[depth - 1].takeArrays(buffer, position, limit, remaining[depth - 1]);
        int count = (int) (taken >>> 32);
        if (count == 0) {
            return false;
        }
        position = (int) taken;
        remaining[depth - 1] -= count;
        if (remaining[depth - 1] == 0) {
            close();
        }
        return true;
    }

    /** The next carriage return from {@code at} on, or -1. */
    private int lineEnd(int at) {
        for (; limit - at >= 8; at += 8) {
            long word = (long) LONGS.get(buffer, at) ^ CARRIAGE_RETURNS;
            long zeros = (word - ONES) & ~word & TOP_BITS;
            if (zeros != 0) {
                return at + (Long.numberOfTrailingZeros(zeros) >>> 3);
            }
        }
        for (; at < limit; at++) {
            if (buffer[at] == '\r') {
                return at;
            }
        }
        return -1;
    }

    private long integer(int at, int end) {
        boolean negative = at < end && buffer[at] == '-';
        int digits = at + (negative || at < end && buffer[at] == '+' ? 1 : 0);
        if (digits == end || end - digits > 19) {
            throw new ProtocolException("not an integer: " + ReplyType.text(buffer, at, end - at));
        }
        long value = 0;
        for (int index = digits; index < end; index++) {
            int digit = buffer[index] - '0';
            if (digit < 0 || digit > 9) {
                throw new ProtocolException("not an integer: " + ReplyType.text(buffer, at, end - at));
            }
            value = value * 10 + digit;
        }
        return negative ? -value : value;
    }

    /** A string of {@code length} bytes at {@code at}: whole in the buffer, or to be read into its own array. */
    private boolean bulk(byte kind, int at, int length) {
        long end = (long) at + length;
        if (end + 2 <= limit) {
            if (buffer[(int) end] != '\r' || buffer[(int) end + 1] != '\n') {
                throw new ProtocolException("a string that does not end where it should");
            }
            position = (int) end + 2;
            string(kind, at, length);
            return true;
        }
        if (length < OWN_ARRAY_MIN || at > limit) {
            return false;
        }
        own = new byte[length];
        ownTarget = ByteBuffer.wrap(own);
        ownKind = kind;
        ownTail = 2;
        int there = Math.min(length, limit - at);
        ownTarget.put(buffer, at, there);
        position = at + there;
        return finishOwn();
    }

    private boolean finishOwn() {
        if (ownTarget.position() < own.length) {
            return false;
        }
        while (ownTail > 0 && position < limit) {
            if (buffer[position++] != (ownTail == 2 ? '\r' : '\n')) {
                throw new ProtocolException("a string that does not end where it should");
            }
            ownTail--;
        }
        if (ownTail > 0) {
            return false;
        }
        byte[] bytes = own;
        own = null;
        ownTarget = null;
        if (ownKind == '!') {
            error(new ServerException(ReplyType.text(bytes, 0, bytes.length)));
        } else {
            ownedString(ownKind == '=' ? Arrays.copyOfRange(bytes, 4, bytes.length) : bytes);
        }
        return true;
    }

    /** An element that is one line. */
    private void line(byte kind, int at, int end) {
        switch (kind) {
            case ':' -> integer(integer(at, end));
            case ',' -> decimal(at, end);
            case '*', '~', '%', '>', '|' -> begin((char) kind, integer(at, end));
            case '+' -> status(at, end - at);
            case '-' -> error(new ServerException(ReplyType.text(buffer, at, end - at)));
            case '_' -> nil();
            case '#' -> bool(buffer[at] == 't');
            case '(' -> bigNumber(at, end);
            default -> throw new ProtocolException("no element of RESP begins with byte " + (kind & 0xff));
        }
    }

    private void string(byte kind, int at, int length) {
        if (kind == '!') {
            error(new ServerException(ReplyType.text(buffer, at, length)));
            return;
        }
        // A verbatim string has three letters of its format and a colon in front.
        int skipped = kind == '=' ? Math.min(4, length) : 0;
        if (depth == 0) {
            ReplyType<?> type = handler.expected();
            complete(type == null ? null : guard(() -> type.bulk(buffer, at + skipped, length - skipped)));
            return;
        }
        try {
            assemblies[depth - 1].bulk(buffer, at + skipped, length - skipped);
        } catch (RuntimeException broken) {
            fail(broken);
        }
        taken();
    }

    private void ownedString(byte[] bytes) {
        if (depth == 0) {
            ReplyType<?> type = handler.expected();
            complete(type == null ? null : guard(() -> type.ownedBulk(bytes)));
            return;
        }
        try {
            assemblies[depth - 1].ownedBulk(bytes);
        } catch (RuntimeException broken) {
            fail(broken);
        }
        taken();
    }

    private void status(int at, int length) {
        if (depth == 0) {
            ReplyType<?> type = handler.expected();
            complete(type == null ? null : guard(() -> type.status(buffer, at, length)));
            return;
        }
        try {
            assemblies[depth - 1].status(buffer, at, length);
        } catch (RuntimeException broken) {
            fail(broken);
        }
        taken();
    }

    private void integer(long value) {
        if (depth == 0) {
            ReplyType<?> type = handler.expected();
            complete(type == null ? null : guard(() -> type.integer(value)));
            return;
        }
        try {
            assemblies[depth - 1].integer(value);
        } catch (RuntimeException broken) {
            fail(broken);
        }
        taken();
    }

    private void decimal(int at, int end) {
        double value;
        try {
            value = DoubleReader.parse(buffer, at, end);
        } catch (NumberFormatException malformed) {
            throw new ProtocolException(malformed.getMessage());
        }
        if (depth == 0) {
            ReplyType<?> type = handler.expected();
            complete(type == null ? null : guard(() -> type.decimal(value, buffer, at, end - at)));
            return;
        }
        try {
            assemblies[depth - 1].decimal(value, buffer, at, end - at);
        } catch (RuntimeException broken) {
            fail(broken);
        }
        taken();
    }

    private void bool(boolean value) {
        if (depth == 0) {
            ReplyType<?> type = handler.expected();
            complete(type == null ? null : guard(() -> type.bool(value)));
            return;
        }
        try {
            assemblies[depth - 1].bool(value);
        } catch (RuntimeException broken) {
            fail(broken);
        }
        taken();
    }

    private void nil() {
        if (depth == 0) {
            ReplyType<?> type = handler.expected();
            complete(type == null ? null : guard(type::nil));
            return;
        }
        try {
            assemblies[depth - 1].nil();
        } catch (RuntimeException broken) {
            fail(broken);
        }
        taken();
    }

    /** A number of any length: an integer where it fits, else its digits as a string. */
    private void bigNumber(int at, int end) {
        BigInteger number;
        try {
            number = new BigInteger(ReplyType.text(buffer, at, end - at));
        } catch (NumberFormatException malformed) {
            throw new ProtocolException(malformed.getMessage());
        }
        if (number.bitLength() < 64) {
            integer(number.longValue());
        } else {
            string((byte) '$', at, end - at);
        }
    }

    private void error(ServerException error) {
        if (depth == 0) {
            handler.expected();
            handler.reply(null, error);
            return;
        }
        try {
            assemblies[depth - 1].error(error);
        } catch (RuntimeException broken) {
            fail(broken);
        }
        taken();
    }

    private interface Step {
        Object run();
    }

    private Object guard(Step step) {
        try {
            return step.run();
        } catch (RuntimeException broken) {
            failure = broken;
            return null;
        }
    }

    private void complete(Object value) {
        RuntimeException broken = failure;
        failure = null;
        handler.reply(value, broken);
    }

    /** The elements of the reply that are still to come are skipped, and the reply is an exception. */
    private void fail(RuntimeException broken) {
        if (failure == null) {
            failure = broken;
        }
        for (int index = 0; index < depth; index++) {
            assemblies[index] = Assembly.DISCARD;
        }
    }

    private void begin(char kind, long announced) {
        if (announced == -1 && kind == '*') {
            nil();
            return;
        }
        long count = kind == '%' || kind == '|' ? 2 * announced : announced;
        if (announced < 0 || count > Integer.MAX_VALUE - 16) {
            throw new ProtocolException("an array of " + announced + " elements");
        }
        if (depth == DEPTH_MAX) {
            throw new ProtocolException("arrays nested more than " + DEPTH_MAX + " deep");
        }
        Assembly assembly = Assembly.DISCARD;
        if (kind == '>' && depth == 0) {
            assembly = Reply.TYPE.aggregate(kind, (int) count);
        } else if (kind != '|' && failure == null) {
            assembly = assemblyFor(kind, (int) count);
        }
        push(assembly, kind, (int) count);
        if (count == 0) {
            close();
        }
    }

    private Assembly assemblyFor(char kind, int count) {
        try {
            if (depth > 0) {
                return assemblies[depth - 1].aggregate(kind, count);
            }
            ReplyType<?> type = handler.expected();
            return type == null ? Assembly.DISCARD : type.aggregate(kind, count);
        } catch (RuntimeException broken) {
            fail(broken);
            return Assembly.DISCARD;
        }
    }

    private void push(Assembly assembly, char kind, int count) {
        if (depth == assemblies.length) {
            assemblies = Arrays.copyOf(assemblies, 2 * depth);
            remaining = Arrays.copyOf(remaining, 2 * depth);
            kinds = Arrays.copyOf(kinds, 2 * depth);
        }
        assemblies[depth] = assembly;
        remaining[depth] = count;
        kinds[depth++] = kind;
    }

    private void taken() {
        if (--remaining[depth - 1] == 0) {
            close();
        }
    }

    /** Ends the aggregates that have all their elements. */
    private void close() {
        while (depth > 0 && remaining[depth - 1] == 0) {
            Assembly assembly = assemblies[--depth];
            assemblies[depth] = null;
            if (kinds[depth] == '|') {
                continue;
            }
            if (depth == 0) {
                Object value = guard(assembly::end);
                if (kinds[0] == '>') {
                    failure = null;
                    handler.push((Reply) value);
                } else {
                    complete(value);
                }
                return;
            }
            Assembly parent = assemblies[depth - 1];
            if (parent != assembly) {
                try {
                    parent.element(assembly.end());
                } catch (RuntimeException broken) {
                    fail(broken);
                }
            }
            remaining[depth - 1]--;
        }
    }
}
