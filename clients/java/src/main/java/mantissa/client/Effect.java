package mantissa.client;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;

/** What a command does to the connection that carries it. {@link Client} refuses by it what would lose data or replies. */
enum Effect {
    /** It has one reply, at once. */
    NONE,
    /** It waits on the server, and what comes after it waits too. What it takes from a key is in its reply alone. */
    BLOCKS,
    /** WAIT and WAITAOF: they wait for what was written on the same connection, and take nothing. */
    WAITS,
    /** It leaves a state that a new connection does not have: a database, a user, watched keys, field sets. */
    CHANGES,
    /** It has no reply or any number of them, so that those of later commands would go to the wrong ones. */
    DISORDERS;

    private static final Map<String, Effect> BY_NAME = new HashMap<>();

    static {
        put(BLOCKS, "BLPOP", "BRPOP", "BRPOPLPUSH", "BLMOVE", "BLMOVEM", "BLMPOP", "BZPOPMIN", "BZPOPMAX", "BZMPOP",
                "XREAD", "XREADGROUP", "TS.READ");
        put(WAITS, "WAIT", "WAITAOF");
        put(CHANGES, "SELECT", "AUTH", "HELLO", "RESET", "QUIT", "READONLY", "READWRITE", "ASKING", "MULTI", "EXEC",
                "DISCARD", "WATCH", "CLIENT SETNAME", "CLIENT SETINFO", "CLIENT CAPA", "CLIENT TRACKING", "CLIENT CACHING",
                "CLIENT NO-EVICT", "CLIENT NO-TOUCH", "HIMPORT");
        put(DISORDERS, "SUBSCRIBE", "UNSUBSCRIBE", "PSUBSCRIBE", "PUNSUBSCRIBE", "SSUBSCRIBE", "SUNSUBSCRIBE", "MONITOR",
                "SYNC", "PSYNC", "REPLCONF", "CLIENT REPLY");
    }

    private static void put(Effect effect, String... names) {
        for (String name : names) {
            BY_NAME.put(name, effect);
        }
    }

    /** The effect of the first {@code count} words. */
    static Effect of(Object[] words, int count) {
        Effect effect = BY_NAME.getOrDefault(name(words, count), NONE);
        return effect == BLOCKS && timeoutNanos(words, count) < 0 ? NONE : effect;
    }

    /** The name in capitals, with that of the subcommand for CLIENT. */
    static String name(Object[] words, int count) {
        int first = first(words, count);
        String name = upper(words[first]);
        return name.equals("CLIENT") && first + 1 < count ? name + ' ' + upper(words[first + 1]) : name;
    }

    /** Where the name is: behind MANTISSA.PACKED and its type. */
    private static int first(Object[] words, int count) {
        return count > 2 && upper(words[0]).equals("MANTISSA.PACKED") ? 2 : 0;
    }

    private static String upper(Object word) {
        return text(word).toUpperCase(Locale.ROOT);
    }

    private static String text(Object word) {
        return word instanceof byte[] bytes ? new String(bytes, StandardCharsets.ISO_8859_1) : word.toString();
    }

    /**
     * How long a command waits on the server, in nanoseconds: {@link Long#MAX_VALUE} without an end, -1 if it does not wait,
     * 0 where the time can not be read, which the server refuses.
     */
    static long timeoutNanos(Object[] words, int count) {
        int first = first(words, count);
        double unit = 1e9;
        int place = count - 1;
        switch (upper(words[first])) {
            case "BLPOP", "BRPOP", "BRPOPLPUSH", "BLMOVE", "BZPOPMIN", "BZPOPMAX" -> {}
            case "BLMPOP", "BZMPOP" -> place = first + 1;
            case "BLMOVEM" -> place = first + 5;
            case "WAIT", "WAITAOF" -> unit = 1e6;
            case "XREAD", "XREADGROUP" -> {
                unit = 1e6;
                place = blockOption(words, first + 1, count);
            }
            case "TS.READ" -> {
                unit = 1e6;
                place = blockOption(words, first + 3, count);
            }
            default -> place = -1;
        }
        if (place < 0) {
            return -1;
        }
        try {
            double time = place > first && place < count ? Double.parseDouble(text(words[place])) : Double.NaN;
            return time == 0 ? Long.MAX_VALUE : (long) Math.max(0, time * unit);
        } catch (NumberFormatException noTime) {
            return 0;
        }
    }

    /** Where the time of BLOCK is, or -1 without it. */
    private static int blockOption(Object[] words, int at, int count) {
        while (at + 1 < count) {
            switch (upper(words[at])) {
                case "BLOCK" -> {
                    return at + 1;
                }
                case "STREAMS" -> at = count;
                case "GROUP" -> at += 3;
                case "COUNT", "MAX_COUNT", "CLAIM" -> at += 2;
                default -> at++;
            }
        }
        return -1;
    }
}
