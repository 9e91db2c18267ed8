package mantissa.client;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import mantissa.number.DoubleReader;
import mantissa.number.NumberWriter;

/** The types of replies that commands have, for {@link Command#as} too. */
public final class ReplyTypes {
    private ReplyTypes() {}

    /** A string as UTF-8; numbers as their text, as it came; null for null. */
    public static final ReplyType<String> STRING = new Text();
    /** A string's bytes, or those of a number's text; null for null. */
    public static final ReplyType<byte[]> BYTES = new Bytes();
    /** An integer, or a string that spells one; null for null. */
    public static final ReplyType<Long> LONG = new Longs();
    /** A double, in RESP2 a string; null for null. */
    public static final ReplyType<Double> DOUBLE = new Doubles();
    /** 1 or 0 as a boolean; a status is true and null false, as SET with NX answers. */
    public static final ReplyType<Boolean> BOOLEAN = new Booleans();
    /** A list of strings; null where an element is null; null for null. */
    public static final ReplyType<List<String>> STRINGS = new ListOf<>(STRING);
    /** A list of byte arrays. */
    public static final ReplyType<List<byte[]>> BYTES_LIST = new ListOf<>(BYTES);
    /** A list of integers. */
    public static final ReplyType<List<Long>> LONGS = new ListOf<>(LONG);
    /** A list of booleans. */
    public static final ReplyType<List<Boolean>> BOOLEANS = new ListOf<>(BOOLEAN);
    /** The doubles of an array in one array; NaN for null. */
    public static final ReplyType<double[]> DOUBLES = new DoubleArray();
    /** A map of strings, also from an array of keys and values in turn. */
    public static final ReplyType<Map<String, String>> STRING_MAP = new StringMap();
    /** Members with their scores. */
    public static final ReplyType<ScoredMembers> SCORED = ScoredMembers.into(null);
    /** A packed reply. */
    public static final ReplyType<PackedReply> PACKED = new PackedType();

    private static final class Text extends ReplyType<String> {
        @Override
        public String bulk(byte[] buffer, int offset, int length) {
            return text(buffer, offset, length);
        }

        @Override
        public String integer(long value) {
            return Long.toString(value);
        }

        @Override
        public String decimal(double value) {
            byte[] out = new byte[NumberWriter.DOUBLE_MAX];
            return text(out, 0, NumberWriter.writeDouble(out, 0, value));
        }

        @Override
        public String decimal(double value, byte[] buffer, int offset, int length) {
            return text(buffer, offset, length);
        }
    }

    private static final class Bytes extends ReplyType<byte[]> {
        @Override
        public byte[] bulk(byte[] buffer, int offset, int length) {
            return Arrays.copyOfRange(buffer, offset, offset + length);
        }

        @Override
        public byte[] ownedBulk(byte[] bytes) {
            return bytes;
        }

        @Override
        public byte[] integer(long value) {
            byte[] out = new byte[NumberWriter.LONG_MAX];
            return Arrays.copyOf(out, NumberWriter.writeLong(out, 0, value));
        }

        @Override
        public byte[] decimal(double value) {
            byte[] out = new byte[NumberWriter.DOUBLE_MAX];
            return Arrays.copyOf(out, NumberWriter.writeDouble(out, 0, value));
        }

        @Override
        public byte[] decimal(double value, byte[] buffer, int offset, int length) {
            return bulk(buffer, offset, length);
        }
    }

    private static final class Longs extends ReplyType<Long> {
        @Override
        public Long bulk(byte[] buffer, int offset, int length) {
            try {
                return Long.parseLong(text(buffer, offset, length));
            } catch (NumberFormatException noInteger) {
                throw unexpected("the string \"" + text(buffer, offset, Math.min(length, 64)) + '"');
            }
        }

        @Override
        public Long integer(long value) {
            return value;
        }
    }

    private static final class Doubles extends ReplyType<Double> {
        @Override
        public Double bulk(byte[] buffer, int offset, int length) {
            return DoubleReader.parse(buffer, offset, offset + length);
        }

        @Override
        public Double integer(long value) {
            return (double) value;
        }

        @Override
        public Double decimal(double value) {
            return value;
        }
    }

    private static final class Booleans extends ReplyType<Boolean> {
        @Override
        public Boolean bulk(byte[] buffer, int offset, int length) {
            return true;
        }

        @Override
        public Boolean integer(long value) {
            return value != 0;
        }

        @Override
        public Boolean nil() {
            return false;
        }
    }

    /** A list whose elements have a type. Where it meets nested arrays, they are laid flat. */
    private static final class ListOf<T> extends ReplyType<List<T>> {
        private final ReplyType<T> element;

        ListOf(ReplyType<T> element) {
            this.element = element;
        }

        private List<T> one(T value) {
            List<T> list = new ArrayList<>(1);
            list.add(value);
            return list;
        }

        @Override
        public List<T> bulk(byte[] buffer, int offset, int length) {
            return one(element.bulk(buffer, offset, length));
        }

        @Override
        public List<T> integer(long value) {
            return one(element.integer(value));
        }

        @Override
        public Assembly aggregate(char kind, int count) {
            List<T> list = new ArrayList<>(Math.min(count, 1024));
            return new Assembly() {
                @Override
                public void bulk(byte[] buffer, int offset, int length) {
                    list.add(element.bulk(buffer, offset, length));
                }

                @Override
                public void ownedBulk(byte[] bytes) {
                    list.add(element.ownedBulk(bytes));
                }

                @Override
                public void integer(long value) {
                    list.add(element.integer(value));
                }

                @Override
                public void decimal(double value) {
                    list.add(element.decimal(value));
                }

                @Override
                public void decimal(double value, byte[] buffer, int offset, int length) {
                    list.add(element.decimal(value, buffer, offset, length));
                }

                @Override
                public void nil() {
                    list.add(element.nil());
                }

                @Override
                public Assembly aggregate(char kind, int count) {
                    return this;
                }

                @Override
                public Object end() {
                    return list;
                }
            };
        }
    }

    private static final class DoubleArray extends ReplyType<double[]> {
        @Override
        public Assembly aggregate(char kind, int announced) {
            return new Assembly() {
                private double[] values = new double[Math.min(announced, 65536)];
                private int count;

                private void add(double value) {
                    if (count == values.length) {
                        values = Arrays.copyOf(values, Math.max(16, 2 * count));
                    }
                    values[count++] = value;
                }

                @Override
                public void bulk(byte[] buffer, int offset, int length) {
                    add(DoubleReader.parse(buffer, offset, offset + length));
                }

                @Override
                public void integer(long value) {
                    add(value);
                }

                @Override
                public void decimal(double value) {
                    add(value);
                }

                @Override
                public void nil() {
                    add(Double.NaN);
                }

                @Override
                public Assembly aggregate(char kind, int count) {
                    return this;
                }

                @Override
                public Object end() {
                    return count == values.length ? values : Arrays.copyOf(values, count);
                }
            };
        }
    }

    private static final class StringMap extends ReplyType<Map<String, String>> {
        @Override
        public Assembly aggregate(char kind, int announced) {
            Map<String, String> map = new LinkedHashMap<>();
            return new Assembly() {
                private String key;
                private boolean hasKey;

                private void add(String text) {
                    if (hasKey) {
                        map.put(key, text);
                    }
                    key = text;
                    hasKey = !hasKey;
                }

                @Override
                public void bulk(byte[] buffer, int offset, int length) {
                    add(STRING.bulk(buffer, offset, length));
                }

                @Override
                public void integer(long value) {
                    add(STRING.integer(value));
                }

                @Override
                public void decimal(double value) {
                    add(STRING.decimal(value));
                }

                @Override
                public void decimal(double value, byte[] buffer, int offset, int length) {
                    add(STRING.decimal(value, buffer, offset, length));
                }

                @Override
                public void nil() {
                    add(null);
                }

                @Override
                public Assembly aggregate(char kind, int count) {
                    return this;
                }

                @Override
                public Object end() {
                    return map;
                }
            };
        }
    }

    private static final class PackedType extends ReplyType<PackedReply> {
        @Override
        public PackedReply bulk(byte[] buffer, int offset, int length) {
            return new PackedReply(Arrays.copyOfRange(buffer, offset, offset + length));
        }

        @Override
        public PackedReply ownedBulk(byte[] bytes) {
            return new PackedReply(bytes);
        }
    }
}
