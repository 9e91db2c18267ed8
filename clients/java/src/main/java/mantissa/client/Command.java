package mantissa.client;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A command with its arguments and the type of its reply. It holds nothing of a connection: it may be run again, and by
 * several threads, as long as nobody changes its byte arrays.
 *
 * @param <T> the Java type of the reply
 */
public final class Command<T> {
    /** A BigDecimal with more places than this, before or after the point, is sent with an exponent. */
    private static final int PLAIN_SCALE_MAX = 100;

    private final ReplyType<T> type;
    private final Object[] words;
    private final int count;
    private final Effect effect;

    private Command(ReplyType<T> type, Object[] words, int count, Effect effect) {
        this.type = type;
        this.words = words;
        this.count = count;
        this.effect = effect;
    }

    /**
     * A command of any words: the name, then the arguments. A word is a {@code String}, sent as UTF-8, a {@code byte[]}, or
     * a number, sent as its text: a {@code Long}, {@code Integer}, {@code Short}, {@code Byte}, {@code AtomicLong} or
     * {@code AtomicInteger} with the value that it has now; a {@code Double} with the shortest digits that read back as the
     * same; a {@code Float} with the digits of {@link Float#toString(float)}, so that {@code 0.1f} is 0.1; a
     * {@code BigInteger} or {@code BigDecimal} with all its digits.
     *
     * @throws IllegalArgumentException if there is no word, or one is of another class
     */
    public static Command<Reply> of(Object... words) {
        return of(Reply.TYPE, words, words.length);
    }

    static <T> Command<T> of(ReplyType<T> type, Object[] words, int count) {
        if (count == 0) {
            throw new IllegalArgumentException("a command without a name");
        }
        Object[] sent = words;
        for (int index = 0; index < count; index++) {
            Object word = words[index];
            Object plain = plain(word);
            if (plain == null) {
                throw new IllegalArgumentException("word " + index + " of the command is "
                        + (word == null ? "null" : "a " + word.getClass().getName()));
            }
            if (plain != word) {
                // The caller's array stays as it is.
                sent = sent == words ? words.clone() : sent;
                sent[index] = plain;
            }
        }
        return new Command<>(type, sent, count, Effect.of(sent, count));
    }

    /** The word if it is encoded as it is, what takes its place, or null if nothing can. */
    private static Object plain(Object word) {
        if (word instanceof String || word instanceof byte[] || word instanceof Long || word instanceof Integer
                || word instanceof Double || word instanceof Float || word instanceof Short || word instanceof Byte) {
            return word;
        }
        if (word instanceof AtomicLong || word instanceof AtomicInteger) {
            return ((Number) word).longValue();
        }
        if (word instanceof BigDecimal decimal) {
            return Math.abs((long) decimal.scale()) <= PLAIN_SCALE_MAX ? decimal.toPlainString() : decimal.toString();
        }
        return word instanceof BigInteger ? word.toString() : null;
    }

    /** The same command with another type of reply: {@code get("key").as(ReplyTypes.BYTES)}. */
    public <U> Command<U> as(ReplyType<U> other) {
        return new Command<>(other, words, count, effect);
    }

    /** MANTISSA.PACKED before this command: its reply comes in binary. */
    public Command<PackedReply> packed(PackedReply.Type numbers) {
        Object[] longer = new Object[count + 2];
        longer[0] = "MANTISSA.PACKED";
        longer[1] = numbers.name();
        System.arraycopy(words, 0, longer, 2, count);
        return new Command<>(ReplyTypes.PACKED, longer, count + 2, effect);
    }

    ReplyType<T> type() {
        return type;
    }

    Effect effect() {
        return effect;
    }

    /** The name in capitals, with that of the subcommand for CLIENT, without MANTISSA.PACKED. */
    String effectName() {
        return Effect.name(words, count);
    }

    /** How long it waits on the server: see {@link Effect#timeoutNanos}. */
    long blockingNanos() {
        return Effect.timeoutNanos(words, count);
    }

    void encode(RequestEncoder out) {
        out.begin(count);
        for (int index = 0; index < count; index++) {
            Object word = words[index];
            if (word instanceof String text) {
                out.text(text);
            } else if (word instanceof byte[] bytes) {
                out.bytes(bytes);
            } else if (word instanceof Double number) {
                out.number(number);
            } else if (word instanceof Float number) {
                // The double next to the float has more digits; the one that these digits spell is printed like them.
                out.number(Double.parseDouble(Float.toString(number)));
            } else {
                out.number(((Number) word).longValue());
            }
        }
    }

    /** The name. */
    public String name() {
        return words[0] instanceof byte[] bytes ? new String(bytes, StandardCharsets.US_ASCII) : words[0].toString();
    }

    /** The word at {@code index}; 0 is the name. */
    public Object word(int index) {
        return words[index];
    }

    /** How many words there are, the name among them. */
    public int wordCount() {
        return count;
    }

    @Override
    public String toString() {
        return name() + " with " + (count - 1) + " arguments";
    }
}
