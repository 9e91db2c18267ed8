package mantissa.client.commands;

import java.util.List;
import mantissa.client.Command;
import mantissa.client.Reply;
import mantissa.client.ReplyTypes;

/** Commands of the group set. Made by commands/generate.py. */
public final class SetCommands {
    private SetCommands() {}

    /**
     * Adds members to a set, which is created if need be.
     *
     * <p>{@code SADD key member [member ...]}.
     * Complexity: O(N) for N members.
     */
    public static Command<Long> sadd(String key, Object... members) {
        return Words.of(ReplyTypes.LONG, new Object[] {"SADD", key}, members);
    }

    /**
     * Counts the members of a set.
     *
     * <p>{@code SCARD key}.
     * Complexity: O(1).
     */
    public static Command<Long> scard(String key) {
        return Words.of(ReplyTypes.LONG, new Object[] {"SCARD", key});
    }

    /**
     * Lists the members that the first set has and none of the others.
     *
     * <p>{@code SDIFF key [key ...]}.
     * Complexity: O(N) for N members in all the sets.
     */
    public static Command<List<String>> sdiff(Object... keys) {
        return Words.of(ReplyTypes.STRINGS, new Object[] {"SDIFF"}, keys);
    }

    /**
     * Counts the members of the first set that none of the others has.
     *
     * <p>{@code SDIFFCARD numkeys key [key ...] [LIMIT limit]}.
     * Complexity: O(N) for N members in all the sets.
     */
    public static Command<Long> sdiffcard(List<?> keys, Object... options) {
        return Words.flat(ReplyTypes.LONG, new Object[] {"SDIFFCARD", keys.size(), keys}, options);
    }

    /**
     * Makes a key the set of the members that the first set has and none of the others.
     *
     * <p>{@code SDIFFSTORE destination key [key ...]}.
     * Complexity: O(N) for N members in all the sets.
     */
    public static Command<Long> sdiffstore(String destination, Object... keys) {
        return Words.of(ReplyTypes.LONG, new Object[] {"SDIFFSTORE", destination}, keys);
    }

    /**
     * Lists the members that all of the sets have.
     *
     * <p>{@code SINTER key [key ...]}.
     * Complexity: O(N*M) for M sets, the smallest having N members.
     */
    public static Command<List<String>> sinter(Object... keys) {
        return Words.of(ReplyTypes.STRINGS, new Object[] {"SINTER"}, keys);
    }

    /**
     * Counts the members that all of the sets have.
     *
     * <p>{@code SINTERCARD numkeys key [key ...] [LIMIT limit]}.
     * Complexity: O(N*M) for M sets, the smallest having N members.
     */
    public static Command<Long> sintercard(List<?> keys, Object... options) {
        return Words.flat(ReplyTypes.LONG, new Object[] {"SINTERCARD", keys.size(), keys}, options);
    }

    /**
     * Makes a key the set of the members that all of the sets have.
     *
     * <p>{@code SINTERSTORE destination key [key ...]}.
     * Complexity: O(N*M) for M sets, the smallest having N members.
     */
    public static Command<Long> sinterstore(String destination, Object... keys) {
        return Words.of(ReplyTypes.LONG, new Object[] {"SINTERSTORE", destination}, keys);
    }

    /**
     * Tells whether a set has a member.
     *
     * <p>{@code SISMEMBER key member}.
     * Complexity: O(1).
     */
    public static Command<Boolean> sismember(String key, Object member) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"SISMEMBER", key, member});
    }

    /**
     * Lists the members of a set.
     *
     * <p>{@code SMEMBERS key}.
     * Complexity: O(N) for a set of N members.
     */
    public static Command<List<String>> smembers(String key) {
        return Words.of(ReplyTypes.STRINGS, new Object[] {"SMEMBERS", key});
    }

    /**
     * Tells of several values whether a set has them as members.
     *
     * <p>{@code SMISMEMBER key member [member ...]}.
     * Complexity: O(N) for N members asked for.
     */
    public static Command<List<Long>> smismember(String key, Object... members) {
        return Words.of(ReplyTypes.LONGS, new Object[] {"SMISMEMBER", key}, members);
    }

    /**
     * Takes a member out of one set and adds it to another.
     *
     * <p>{@code SMOVE source destination member}.
     * Complexity: O(1).
     */
    public static Command<Boolean> smove(String source, String destination, Object member) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"SMOVE", source, destination, member});
    }

    /**
     * Takes members out of a set at random.
     *
     * <p>{@code SPOP key [count]}.
     * Complexity: O(1), or O(N) with a count of N.
     */
    public static Command<Reply> spop(String key, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"SPOP", key}, options);
    }

    /**
     * Picks members of a set at random and leaves them there.
     *
     * <p>{@code SRANDMEMBER key [count]}.
     * Complexity: O(1), or O(N) with a count of N or -N.
     */
    public static Command<Reply> srandmember(String key, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"SRANDMEMBER", key}, options);
    }

    /**
     * Takes members out of a set, which goes with its last one.
     *
     * <p>{@code SREM key member [member ...]}.
     * Complexity: O(N) for N members.
     */
    public static Command<Long> srem(String key, Object... members) {
        return Words.of(ReplyTypes.LONG, new Object[] {"SREM", key}, members);
    }

    /**
     * Lists the members of a set step by step.
     *
     * <p>{@code SSCAN key cursor [MATCH pattern] [COUNT count]}.
     * Complexity: O(1) a call, O(N) for the N members of a whole iteration.
     */
    public static Command<Reply> sscan(String key, long cursor, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"SSCAN", key, cursor}, options);
    }

    /**
     * Lists the members that any of the sets has.
     *
     * <p>{@code SUNION key [key ...]}.
     * Complexity: O(N) for N members in all the sets.
     */
    public static Command<List<String>> sunion(Object... keys) {
        return Words.of(ReplyTypes.STRINGS, new Object[] {"SUNION"}, keys);
    }

    /**
     * Counts the members that any of the sets has.
     *
     * <p>{@code SUNIONCARD numkeys key [key ...] [APPROX] [LIMIT limit]}.
     * Complexity: O(N) for N members in all the sets.
     */
    public static Command<Long> sunioncard(List<?> keys, Object... options) {
        return Words.flat(ReplyTypes.LONG, new Object[] {"SUNIONCARD", keys.size(), keys}, options);
    }

    /**
     * Makes a key the set of the members that any of the sets has.
     *
     * <p>{@code SUNIONSTORE destination key [key ...]}.
     * Complexity: O(N) for N members in all the sets.
     */
    public static Command<Long> sunionstore(String destination, Object... keys) {
        return Words.of(ReplyTypes.LONG, new Object[] {"SUNIONSTORE", destination}, keys);
    }
}
