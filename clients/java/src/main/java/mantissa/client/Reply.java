package mantissa.client;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import mantissa.number.DoubleReader;
import mantissa.number.NumberWriter;

/**
 * A reply of any shape. Commands whose replies differ with their arguments have this type; the accessors convert where
 * nothing is lost, so that RESP2 and RESP3 read alike.
 */
public final class Reply {
    /** Kinds of replies. A status and a string are both {@code STRING}. */
    public enum Kind { NULL, STRING, INTEGER, DOUBLE, BOOLEAN, ERROR, ARRAY, SET, MAP, PUSH }

    private static final Reply NULL = new Reply(Kind.NULL, null);

    /** The type of commands that answer any reply. */
    public static final ReplyType<Reply> TYPE = new ReplyType<>() {
        @Override
        public Reply bulk(byte[] buffer, int offset, int length) {
            return new Reply(Kind.STRING, Arrays.copyOfRange(buffer, offset, offset + length));
        }

        @Override
        public Reply ownedBulk(byte[] bytes) {
            return new Reply(Kind.STRING, bytes);
        }

        @Override
        public Reply integer(long value) {
            return new Reply(Kind.INTEGER, value);
        }

        @Override
        public Reply decimal(double value) {
            byte[] text = new byte[NumberWriter.DOUBLE_MAX];
            return new Reply(Kind.DOUBLE, Arrays.copyOf(text, NumberWriter.writeDouble(text, 0, value)));
        }

        @Override
        public Reply decimal(double value, byte[] buffer, int offset, int length) {
            return new Reply(Kind.DOUBLE, Arrays.copyOfRange(buffer, offset, offset + length));
        }

        @Override
        public Reply bool(boolean value) {
            return new Reply(Kind.BOOLEAN, value);
        }

        @Override
        public Reply nil() {
            return NULL;
        }

        @Override
        public Assembly aggregate(char kind, int count) {
            return new Tree(kind, count);
        }
    };

    private final Kind kind;
    /** Bytes of a string, and of a double as it came; a Long, Boolean, ServerException or array of elements. */
    private final Object value;

    private Reply(Kind kind, Object value) {
        this.kind = kind;
        this.value = value;
    }

    public Kind kind() {
        return kind;
    }

    public boolean isNull() {
        return kind == Kind.NULL;
    }

    /** The bytes of a string, not copied; the text of a number as bytes, as it came; null for null. */
    public byte[] asBytes() {
        if (kind == Kind.STRING || kind == Kind.DOUBLE) {
            return (byte[]) value;
        }
        String text = asString();
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    /** A string read as UTF-8, the text of a number as it came, a boolean as 1 or 0, or null. */
    public String asString() {
        return switch (kind) {
            case NULL -> null;
            case STRING, DOUBLE -> new String((byte[]) value, StandardCharsets.UTF_8);
            case INTEGER -> value.toString();
            case BOOLEAN -> (boolean) value ? "1" : "0";
            case ERROR -> ((ServerException) value).getMessage();
            default -> throw wrong("a string");
        };
    }

    /** An integer, a boolean as 1 or 0, or the integer that a string or a double's text spells. */
    public long asLong() {
        return switch (kind) {
            case INTEGER -> (long) value;
            case BOOLEAN -> (boolean) value ? 1 : 0;
            case STRING, DOUBLE -> Long.parseLong(asString());
            default -> throw wrong("an integer");
        };
    }

    /** A number, or the one that a string spells. */
    public double asDouble() {
        return switch (kind) {
            case INTEGER -> (long) value;
            case STRING, DOUBLE -> DoubleReader.parse((byte[]) value, 0, ((byte[]) value).length);
            default -> throw wrong("a number");
        };
    }

    /** The elements of an array, set or push; keys and values in turn of a map; an empty list for null. */
    public List<Reply> asList() {
        if (kind == Kind.NULL) {
            return List.of();
        }
        if (value instanceof Reply[] elements) {
            return List.of(elements);
        }
        throw wrong("an array");
    }

    /** A map, or an array of keys and values in turn, by the text of the keys, in the order of the reply. */
    public Map<String, Reply> asMap() {
        List<Reply> list = asList();
        Map<String, Reply> map = new LinkedHashMap<>();
        for (int index = 0; index + 1 < list.size(); index += 2) {
            map.put(list.get(index).asString(), list.get(index + 1));
        }
        return map;
    }

    /** The error that is an element of EXEC's reply. */
    public ServerException asError() {
        if (kind == Kind.ERROR) {
            return (ServerException) value;
        }
        throw wrong("an error");
    }

    private UnexpectedReplyException wrong(String wanted) {
        return new UnexpectedReplyException("the reply is " + kind + ", not " + wanted);
    }

    @Override
    public String toString() {
        return value instanceof Reply[] elements ? Arrays.toString(elements) : String.valueOf(asString());
    }

    /** Elements one after the other. The array grows with what comes, not with what is announced. */
    private static final class Tree extends Assembly {
        private static final int FIRST_MAX = 1024;

        private final Kind kind;
        private Reply[] elements;
        private int count;

        Tree(char kind, int announced) {
            this.kind = switch (kind) {
                case '~' -> Kind.SET;
                case '%' -> Kind.MAP;
                case '>' -> Kind.PUSH;
                default -> Kind.ARRAY;
            };
            elements = new Reply[Math.min(announced, FIRST_MAX)];
        }

        private void add(Reply reply) {
            if (count == elements.length) {
                elements = Arrays.copyOf(elements, Math.max(8, 2 * count));
            }
            elements[count++] = reply;
        }

        @Override
        public void bulk(byte[] buffer, int offset, int length) {
            add(TYPE.bulk(buffer, offset, length));
        }

        @Override
        public void ownedBulk(byte[] bytes) {
            add(TYPE.ownedBulk(bytes));
        }

        @Override
        public void integer(long value) {
            add(TYPE.integer(value));
        }

        @Override
        public void decimal(double value) {
            add(TYPE.decimal(value));
        }

        @Override
        public void decimal(double value, byte[] buffer, int offset, int length) {
            add(TYPE.decimal(value, buffer, offset, length));
        }

        @Override
        public void bool(boolean value) {
            add(TYPE.bool(value));
        }

        @Override
        public void nil() {
            add(NULL);
        }

        @Override
        public void error(ServerException error) {
            add(new Reply(Kind.ERROR, error));
        }

        @Override
        public Assembly aggregate(char kind, int count) {
            return new Tree(kind, count);
        }

        @Override
        public void element(Object value) {
            add((Reply) value);
        }

        @Override
        public Object end() {
            return new Reply(kind, count == elements.length ? elements : Arrays.copyOf(elements, count));
        }
    }
}
