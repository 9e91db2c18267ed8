package mantissa.client.commands;

import mantissa.client.Command;
import mantissa.client.Reply;
import mantissa.client.ReplyTypes;

/** Commands of the group hyperloglog. Made by commands/generate.py. */
public final class HyperLogLogCommands {
    private HyperLogLogCommands() {}

    /**
     * Shows elements to a sketch.
     *
     * <p>{@code PFADD key [element [element ...]]}.
     * Complexity: O(1) for each element.
     */
    public static Command<Long> pfadd(String key, Object... options) {
        return Words.of(ReplyTypes.LONG, new Object[] {"PFADD", key}, options);
    }

    /**
     * Estimates how many different elements sketches have seen together.
     *
     * <p>{@code PFCOUNT key [key ...]}.
     * Complexity: O(1) for one key, mostly noted; O(N) for N keys.
     */
    public static Command<Long> pfcount(Object... keys) {
        return Words.of(ReplyTypes.LONG, new Object[] {"PFCOUNT"}, keys);
    }

    /**
     * Looks into a sketch, for tests.
     *
     * <p>{@code PFDEBUG subcommand key}.
     * Complexity: Depends on the subcommand.
     */
    public static Command<Reply> pfdebug(Object subcommand, String key) {
        return Words.of(Reply.TYPE, new Object[] {"PFDEBUG", subcommand, key});
    }

    /**
     * Makes one sketch of several.
     *
     * <p>{@code PFMERGE destkey [sourcekey [sourcekey ...]]}.
     * Complexity: O(N) for N sketches.
     */
    public static Command<Boolean> pfmerge(String destkey, Object... options) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"PFMERGE", destkey}, options);
    }

    /**
     * Tests the sketches themselves.
     *
     * <p>{@code PFSELFTEST}.
     * Complexity: O(1).
     */
    public static Command<Reply> pfselftest() {
        return Words.of(Reply.TYPE, new Object[] {"PFSELFTEST"});
    }
}
