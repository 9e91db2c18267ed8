package mantissa.client.commands;

import mantissa.client.Command;
import mantissa.client.Reply;
import mantissa.client.ReplyTypes;

/** Commands of the group vector-set. Made by commands/generate.py. */
public final class VectorSetCommands {
    private VectorSetCommands() {}

    /**
     * Adds an element with its vector to a vector set, or gives it another vector.
     *
     * <p>{@code VADD key [REDUCE reduce] <FP32 fp32|VALUES num number [number ...]> element [CAS] [NOQUANT|Q8|BIN]
     * [EF ef] [SETATTR attributes] [M numlinks]}.
     * Complexity: O(log(N)) for a set of N elements.
     */
    public static Command<Boolean> vadd(String key, Object... words) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"VADD", key}, words);
    }

    /**
     * Counts the elements of a vector set.
     *
     * <p>{@code VCARD key}.
     * Complexity: O(1).
     */
    public static Command<Long> vcard(String key) {
        return Words.of(ReplyTypes.LONG, new Object[] {"VCARD", key});
    }

    /**
     * Tells how many numbers the vectors of a vector set have.
     *
     * <p>{@code VDIM key}.
     * Complexity: O(1).
     */
    public static Command<Long> vdim(String key) {
        return Words.of(ReplyTypes.LONG, new Object[] {"VDIM", key});
    }

    /**
     * Gets the vector of an element of a vector set.
     *
     * <p>{@code VEMB key element [RAW]}.
     * Complexity: O(D) for vectors of D numbers.
     */
    public static Command<Reply> vemb(String key, Object element, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"VEMB", key, element}, options);
    }

    /**
     * Gets the attribute of an element of a vector set.
     *
     * <p>{@code VGETATTR key element}.
     * Complexity: O(log(N)) for a set of N elements.
     */
    public static Command<String> vgetattr(String key, Object element) {
        return Words.of(ReplyTypes.STRING, new Object[] {"VGETATTR", key, element});
    }

    /**
     * Tells what a vector set is made of.
     *
     * <p>{@code VINFO key}.
     * Complexity: O(1).
     */
    public static Command<Reply> vinfo(String key) {
        return Words.of(Reply.TYPE, new Object[] {"VINFO", key});
    }

    /**
     * Tells whether a vector set has an element.
     *
     * <p>{@code VISMEMBER key element}.
     * Complexity: O(log(N)) for a set of N elements.
     */
    public static Command<Boolean> vismember(String key, Object element) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"VISMEMBER", key, element});
    }

    /**
     * Lists the neighbours of an element of a vector set by the levels of the graph.
     *
     * <p>{@code VLINKS key element [WITHSCORES]}.
     * Complexity: O(M) for M links.
     */
    public static Command<Reply> vlinks(String key, Object element, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"VLINKS", key, element}, options);
    }

    /**
     * Picks elements of a vector set at random.
     *
     * <p>{@code VRANDMEMBER key [count]}.
     * Complexity: O(C*log(N)) for C elements of a set of N.
     */
    public static Command<Reply> vrandmember(String key, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"VRANDMEMBER", key}, options);
    }

    /**
     * Lists elements of a vector set in the order of their names' bytes.
     *
     * <p>{@code VRANGE key start end [count]}.
     * Complexity: O(log(N)+C) for C elements of a set of N.
     */
    public static Command<Reply> vrange(String key, Object start, Object end, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"VRANGE", key, start, end}, options);
    }

    /**
     * Removes an element from a vector set, which goes with its last one.
     *
     * <p>{@code VREM key element}.
     * Complexity: O(log(N)) for a set of N elements.
     */
    public static Command<Boolean> vrem(String key, Object element) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"VREM", key, element});
    }

    /**
     * Sets or removes the attribute of an element of a vector set.
     *
     * <p>{@code VSETATTR key element attributes}.
     * Complexity: O(log(N)) for a set of N elements.
     */
    public static Command<Boolean> vsetattr(String key, Object element, Object attributes) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"VSETATTR", key, element, attributes});
    }

    /**
     * Finds the elements whose vectors are most similar to a vector or to an element's.
     *
     * <p>{@code VSIM key <ELE element|FP32 fp32|VALUES num number [number ...]> [WITHSCORES] [WITHATTRIBS] [COUNT
     * count] [EPSILON epsilon] [EF ef] [FILTER filter] [FILTER-EF filter-ef] [TRUTH] [NOTHREAD]}.
     * Complexity: O(log(N)) for a set of N elements, O(N) with TRUTH.
     */
    public static Command<Reply> vsim(String key, Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"VSIM", key}, words);
    }
}
