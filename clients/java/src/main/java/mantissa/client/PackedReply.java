package mantissa.client;

import java.nio.ByteBuffer;
import java.nio.DoubleBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * A packed reply (docs/packed.md): the numbers of a reply in binary, row after row, and what the rows and columns are
 * called. It keeps the bytes as they came; {@link #doubles} is one bulk get, {@link #doubleBuffer} not even that.
 */
public final class PackedReply {
    /** How the numbers are written. */
    public enum Type { F64, F32, VARINT, DELTA }

    private static final int HEADER = 16;
    private static final int SCALAR = 1;
    private static final int NULLS = 2;
    private static final int NAMES = 4;
    private static final int COLUMNS = 8;

    private final ByteBuffer bytes;
    private final Type type;
    private final int flags;
    private final int columns;
    private final int count;
    private final int size;
    private final int nulls;
    private final int names;
    private final int columnNames;

    /**
     * Reads the header and checks that every section has its place. The bytes are kept, not copied.
     *
     * @throws IllegalArgumentException if they are no packed reply
     */
    public PackedReply(byte[] packed) {
        bytes = ByteBuffer.wrap(packed);
        require(packed.length >= HEADER && packed[0] == 'M' && packed[1] == 'P', "it does not begin as one");
        require(packed[2] == 1, "its version is not known");
        require(packed[3] >= 1 && packed[3] <= 4, "its type is not known");
        type = Type.values()[packed[3] - 1];
        flags = packed[4] & 0xff;
        require(flags < 16 && packed[5] == 0, "its flags are not known");
        columns = bytes.getShort(6) & 0xffff;
        count = bytes.getInt(8);
        size = bytes.getInt(12);
        require(count >= 0 && size >= 0 && columns > 0 && count % columns == 0, "its counts are wrong");
        require((flags & SCALAR) == 0 || count == 1 && columns == 1, "its scalar is none");
        long at = (long) HEADER + size;
        nulls = (int) at;
        at += (flags & NULLS) != 0 ? ((long) count + 7) / 8 : 0;
        require(at <= packed.length, "it is too short");
        names = (int) at;
        at = (flags & NAMES) != 0 ? sectionEnd(at, rows()) : at;
        columnNames = (int) at;
        at = (flags & COLUMNS) != 0 ? sectionEnd(at, columns) : at;
        require(at == packed.length, "its length is wrong");
        checkNumbers();
    }

    private static void require(boolean holds, String why) {
        if (!holds) {
            throw new IllegalArgumentException("not a packed reply: " + why);
        }
    }

    private long sectionEnd(long at, int entries) {
        long end = at + 4L * entries;
        require(end <= bytes.limit(), "it is too short");
        for (int index = 0; index < entries; index++) {
            end += bytes.getInt((int) at + 4 * index) & 0xffffffffL;
        }
        require(end <= bytes.limit(), "it is too short");
        return end;
    }

    private void checkNumbers() {
        switch (type) {
            case F64 -> require(size == 8L * count, "its numbers are of another size");
            case F32 -> require(size == 4L * count, "its numbers are of another size");
            default -> {
                int numbers = 0;
                int start = HEADER;
                for (int at = HEADER; at < HEADER + size; at++) {
                    boolean last = bytes.get(at) >= 0;
                    require(at - start < 9 || last && bytes.get(at) <= 1, "a number has more than 64 bits");
                    numbers += last ? 1 : 0;
                    start = last ? at + 1 : start;
                }
                require(numbers == count && start == HEADER + size, "its numbers are of another size");
            }
        }
        if ((flags & NULLS) != 0 && count % 8 != 0) {
            require((bytes.get(nulls + count / 8) & 0xff) >>> (count % 8) == 0, "it lacks more than there is");
        }
    }

    public Type type() {
        return type;
    }

    /** Whether the reply is one number, not an array of one. */
    public boolean isScalar() {
        return (flags & SCALAR) != 0;
    }

    /** Numbers in all. */
    public int count() {
        return count;
    }

    /** Numbers in a row, at least 1. */
    public int columns() {
        return columns;
    }

    /** Rows: {@link #count} / {@link #columns}. */
    public int rows() {
        return count / columns;
    }

    /** Whether the number at {@code index} is missing. */
    public boolean isNull(int index) {
        if (index < 0 || index >= count) {
            throw new IndexOutOfBoundsException("number " + index + " of " + count);
        }
        return (flags & NULLS) != 0 && (bytes.get(nulls + index / 8) >> (index % 8) & 1) != 0;
    }

    /** A view of the numbers of type F64, copied from nowhere. */
    public DoubleBuffer doubleBuffer() {
        if (type != Type.F64) {
            throw new IllegalStateException("a view of doubles needs the type F64, not " + type);
        }
        return bytes.slice(HEADER, size).asDoubleBuffer().asReadOnlyBuffer();
    }

    /** All numbers as doubles; NaN where one is missing. */
    public double[] doubles() {
        double[] values = new double[count];
        doubles(values);
        return values;
    }

    /** Puts all numbers into {@code target}, which has at least {@link #count} places; NaN where one is missing. */
    public void doubles(double[] target) {
        if (type == Type.F64) {
            bytes.slice(HEADER, size).asDoubleBuffer().get(target, 0, count);
        } else if (type == Type.F32) {
            for (int index = 0; index < count; index++) {
                target[index] = bytes.getFloat(HEADER + 4 * index);
            }
        } else {
            long[] integers = longs();
            for (int index = 0; index < count; index++) {
                target[index] = isNull(index) ? Double.NaN : integers[index];
            }
        }
    }

    /**
     * All numbers as integers: exact for VARINT and DELTA, 0 where one is missing.
     *
     * @throws IllegalStateException for the types of fractions
     */
    public long[] longs() {
        if (type != Type.VARINT && type != Type.DELTA) {
            throw new IllegalStateException("integers need the type VARINT or DELTA, not " + type);
        }
        long[] values = new long[count];
        byte[] packed = bytes.array();
        int at = HEADER;
        long before = 0;
        for (int index = 0; index < count; index++) {
            long value = packed[at] & 0x7f;
            for (int shift = 7; packed[at++] < 0; shift += 7) {
                value |= (long) (packed[at] & 0x7f) << shift;
            }
            if (type == Type.DELTA) {
                before += value;
                // A missing number is the one before, so that differences go on.
                values[index] = isNull(index) ? 0 : before;
            } else {
                values[index] = value >>> 1 ^ -(value & 1);
            }
        }
        return values;
    }

    /** Whether rows have names. */
    public boolean hasNames() {
        return (flags & NAMES) != 0;
    }

    /** The names of the rows: members, fields, identifiers of entries. Empty if there are none. */
    public String[] names() {
        return hasNames() ? strings(names, rows()) : new String[0];
    }

    /** The names of the columns. Empty if there are none. */
    public String[] columnNames() {
        return (flags & COLUMNS) != 0 ? strings(columnNames, columns) : new String[0];
    }

    private String[] strings(int at, int entries) {
        String[] strings = new String[entries];
        int start = at + 4 * entries;
        for (int index = 0; index < entries; index++) {
            int length = bytes.getInt(at + 4 * index);
            strings[index] = new String(bytes.array(), start, length, StandardCharsets.UTF_8);
            start += length;
        }
        return strings;
    }

    /** The bytes of a name of a row. */
    public byte[] nameBytes(int row) {
        if (!hasNames() || row < 0 || row >= rows()) {
            throw new IndexOutOfBoundsException("name " + row);
        }
        int start = names + 4 * rows();
        for (int index = 0; index < row; index++) {
            start += bytes.getInt(names + 4 * index);
        }
        return Arrays.copyOfRange(bytes.array(), start, start + bytes.getInt(names + 4 * row));
    }

    /** Packs doubles without names, as the last argument of MANTISSA.UNPACK. */
    public static byte[] pack(double[] values) {
        ByteBuffer out = ByteBuffer.allocate(Math.addExact(HEADER, Math.multiplyExact(8, values.length)));
        out.put((byte) 'M').put((byte) 'P').put((byte) 1).put((byte) 1).putShort((short) 0).putShort((short) 1);
        out.putInt(values.length).putInt(8 * values.length);
        out.asDoubleBuffer().put(values);
        return out.array();
    }

    /** Packs doubles with the names of their rows, for ZADD, HSET and MSET. */
    public static byte[] pack(String[] names, double[] values) {
        if (names.length != values.length) {
            throw new IllegalArgumentException(names.length + " names for " + values.length + " numbers");
        }
        byte[][] encoded = new byte[names.length][];
        int total = HEADER + 12 * names.length;
        for (int index = 0; index < names.length; index++) {
            encoded[index] = names[index].getBytes(StandardCharsets.UTF_8);
            total = Math.addExact(total, encoded[index].length);
        }
        ByteBuffer out = ByteBuffer.allocate(total).put(pack(values));
        out.put(4, (byte) NAMES);
        for (byte[] name : encoded) {
            out.putInt(name.length);
        }
        for (byte[] name : encoded) {
            out.put(name);
        }
        return out.array();
    }
}
