package mantissa.client;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import mantissa.number.DoubleReader;

/**
 * Members with their scores, as ZRANGE with WITHSCORES and its family reply: all bytes of the members in one array, their
 * ends in a second, the scores in a third. A member becomes a string only when it is asked for. One object may take reply
 * after reply, {@link #into}; then nothing is allocated.
 *
 * <p>Not safe for use by several threads at once.
 */
public final class ScoredMembers {
    private byte[] bytes = new byte[0];
    private int[] ends = new int[0];
    private double[] scores = new double[0];
    private int size;

    /** How many members there are. */
    public int size() {
        return size;
    }

    /** The score of the member at {@code index}, from 0. */
    public double score(int index) {
        return scores[check(index)];
    }

    /** The member at {@code index} as UTF-8. */
    public String member(int index) {
        int start = start(check(index));
        return new String(bytes, start, ends[index] - start, StandardCharsets.UTF_8);
    }

    /** The bytes of the member at {@code index}, copied. */
    public byte[] memberBytes(int index) {
        return Arrays.copyOfRange(bytes, start(check(index)), ends[index]);
    }

    /** How many bytes the member at {@code index} has. */
    public int memberLength(int index) {
        return ends[check(index)] - start(index);
    }

    /** All scores, copied. */
    public double[] scores() {
        return Arrays.copyOf(scores, size);
    }

    private int start(int index) {
        return index == 0 ? 0 : ends[index - 1];
    }

    private int check(int index) {
        if (index < 0 || index >= size) {
            throw new IndexOutOfBoundsException("member " + index + " of " + size);
        }
        return index;
    }

    /**
     * The type of a reply that goes into {@code target}, whose members and scores are replaced; null makes a new object
     * for each reply. After a timeout the target must not be used again: the late reply may still be written to it.
     */
    public static ReplyType<ScoredMembers> into(ScoredMembers target) {
        return new ReplyType<>() {
            @Override
            public Assembly aggregate(char kind, int count) {
                return new Filler(target == null ? new ScoredMembers() : target, count);
            }

            @Override
            public ScoredMembers nil() {
                return target == null ? new ScoredMembers() : new Filler(target, 0).target;
            }
        };
    }

    /** Takes pairs as RESP3 nests them and as RESP2 lays them flat. */
    private static final class Filler extends Assembly {
        private static final VarHandle INTS =
                MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
        private static final VarHandle LONGS =
                MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
        /** The heads of a pair and of a member whose length has one digit, or two, without the digits. */
        private static final long SHORT_HEAD = word("*2\r\n$\0\r\n");
        private static final long SHORT_HEAD_MASK = 0xffff00ffffffffffL;
        private static final long LONG_HEAD = word("*2\r\n$\0\0\r");
        private static final long LONG_HEAD_MASK = 0xff0000ffffffffffL;
        /** The end of a member and the head of a score. */
        private static final int MIDDLE = '\r' | '\n' << 8 | ',' << 16;
        private static final int MIDDLE_MASK = 0xffffff;
        /** The heads, the end of an empty member and a score of one digit. */
        private static final int PAIR_BYTES_MIN = 14;
        /** Without a first member to judge by, no more is allocated than for so many. */
        private static final int FIRST_MAX = 65536;

        private final ScoredMembers target;
        private final int announced;
        private int used;
        private int count;
        private boolean hasMember;

        Filler(ScoredMembers target, int announced) {
            this.target = target;
            this.announced = announced;
            target.size = 0;
        }

        @Override
        public void bulk(byte[] buffer, int offset, int length) {
            if (hasMember) {
                score(DoubleReader.parse(buffer, offset, offset + length));
                return;
            }
            append(buffer, offset, length);
            if (count == target.ends.length) {
                growCount();
            }
            target.ends[count] = used;
            hasMember = true;
        }

        /** Pairs of RESP3 in one go: a member of up to 99 bytes and a plain number each. */
        @Override
        long takeArrays(byte[] buffer, int from, int limit, int most) {
            int at = from;
            int first = count;
            while (count - first < most && limit - at >= PAIR_BYTES_MIN && !hasMember) {
                long head = (long) LONGS.get(buffer, at);
                int length = (int) (head >>> 40 & 0xff) - '0';
                int member = at + 8;
                if (length < 0 || length > 9) {
                    break;
                }
                if ((head & SHORT_HEAD_MASK) != SHORT_HEAD) {
                    int digit = (int) (head >>> 48 & 0xff) - '0';
                    if ((head & LONG_HEAD_MASK) != LONG_HEAD || digit < 0 || digit > 9 || buffer[member] != '\n') {
                        break;
                    }
                    length = length * 10 + digit;
                    member++;
                }
                int end = member + length;
                if (limit - end < 6 || ((int) INTS.get(buffer, end) & MIDDLE_MASK) != MIDDLE) {
                    break;
                }
                if (count == target.ends.length) {
                    growCount();
                }
                int next = DoubleReader.parseLine(buffer, end + 3, limit, target.scores, count);
                if (next < 0) {
                    break;
                }
                append(buffer, member, length);
                target.ends[count++] = used;
                at = next;
            }
            return (long) (count - first) << 32 | at;
        }

        /** Eight characters as a word, the first in the lowest byte. */
        private static long word(String text) {
            return (long) LONGS.get(text.getBytes(StandardCharsets.ISO_8859_1), 0);
        }

        private void append(byte[] buffer, int offset, int length) {
            // Moving 16 bytes takes less time than moving as many as there are; what is too much is written over.
            if (length <= 16 && target.bytes.length - used >= 16 && buffer.length - offset >= 16) {
                LONGS.set(target.bytes, used, (long) LONGS.get(buffer, offset));
                LONGS.set(target.bytes, used + 8, (long) LONGS.get(buffer, offset + 8));
            } else {
                if (target.bytes.length - used < length) {
                    growBytes(length);
                }
                System.arraycopy(buffer, offset, target.bytes, used, length);
            }
            used += length;
        }

        private void growBytes(int length) {
            int guess = count == 0 ? (length + 2) * Math.min(announced, FIRST_MAX) : used + used / 2;
            target.bytes = Arrays.copyOf(target.bytes, Math.max(guess, used + length));
        }

        private void growCount() {
            int larger = count == 0 ? Math.max(1, Math.min(announced, FIRST_MAX)) : 2 * count;
            target.ends = Arrays.copyOf(target.ends, larger);
            target.scores = Arrays.copyOf(target.scores, larger);
        }

        private void score(double score) {
            if (!hasMember) {
                throw new UnexpectedReplyException("a score without a member");
            }
            target.scores[count++] = score;
            hasMember = false;
        }

        @Override
        public void integer(long value) {
            score(value);
        }

        @Override
        public void decimal(double value) {
            score(value);
        }

        @Override
        public void nil() {
            throw new UnexpectedReplyException("null among members and scores");
        }

        @Override
        public Assembly aggregate(char kind, int count) {
            return this;
        }

        @Override
        public Object end() {
            target.size = count;
            return target;
        }
    }
}
