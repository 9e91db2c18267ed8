package mantissa.client.commands;

import java.util.List;
import mantissa.client.Command;
import mantissa.client.Reply;
import mantissa.client.ReplyTypes;
import mantissa.client.ScoredMembers;

/** Commands of the group sorted-set. Made by commands/generate.py. */
public final class SortedSetCommands {
    private SortedSetCommands() {}

    /**
     * Takes members like ZMPOP, waiting for some if need be.
     *
     * <p>{@code BZMPOP timeout numkeys key [key ...] <MIN|MAX> [COUNT count]}.
     * Complexity: O(K)+O(log(N)+M) for K keys and M of N members taken.
     */
    public static Command<Reply> bzmpop(double timeout, List<?> keys, String where, Object... options) {
        return Words.flat(Reply.TYPE, new Object[] {"BZMPOP", timeout, keys.size(), keys, where}, options);
    }

    /**
     * Takes the highest member of the first sorted set that has one, waiting for it if need be.
     *
     * <p>{@code BZPOPMAX key [key ...] timeout}.
     * Complexity: O(log(N)) for a set of N members.
     */
    public static Command<Reply> bzpopmax(List<?> keys, double timeout) {
        return Words.flat(Reply.TYPE, new Object[] {"BZPOPMAX", keys, timeout});
    }

    /**
     * Takes the lowest member of the first sorted set that has one, waiting for it if need be.
     *
     * <p>{@code BZPOPMIN key [key ...] timeout}.
     * Complexity: O(log(N)) for a set of N members.
     */
    public static Command<Reply> bzpopmin(List<?> keys, double timeout) {
        return Words.flat(Reply.TYPE, new Object[] {"BZPOPMIN", keys, timeout});
    }

    /**
     * Gives members their scores, creating the sorted set if need be.
     *
     * <p>{@code ZADD key [NX|XX] [GT|LT] [CH] [INCR] score member [score member ...]}.
     * Complexity: O(M*log(N)) for M members added to a set of N.
     */
    public static Command<Reply> zadd(String key, Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"ZADD", key}, words);
    }

    /**
     * Tells how many members a sorted set has.
     *
     * <p>{@code ZCARD key}.
     * Complexity: O(1).
     */
    public static Command<Long> zcard(String key) {
        return Words.of(ReplyTypes.LONG, new Object[] {"ZCARD", key});
    }

    /**
     * Counts the members whose scores lie in a range.
     *
     * <p>{@code ZCOUNT key min max}.
     * Complexity: O(log(N)) for a set of N members.
     */
    public static Command<Long> zcount(String key, Object min, Object max) {
        return Words.of(ReplyTypes.LONG, new Object[] {"ZCOUNT", key, min, max});
    }

    /**
     * Returns the members of one set that no other one has.
     *
     * <p>{@code ZDIFF numkeys key [key ...] [WITHSCORES]}.
     * Complexity: O(N*K)+O(M*log(M)) for K sets, the first of N members, and M out.
     */
    public static Command<Reply> zdiff(List<?> keys, Object... options) {
        return Words.flat(Reply.TYPE, new Object[] {"ZDIFF", keys.size(), keys}, options);
    }

    /**
     * Stores the members of one set that no other one has.
     *
     * <p>{@code ZDIFFSTORE destination numkeys key [key ...]}.
     * Complexity: O(N*K)+O(M*log(M)) for K sets, the first of N members, and M out.
     */
    public static Command<Long> zdiffstore(String destination, List<?> keys) {
        return Words.flat(ReplyTypes.LONG, new Object[] {"ZDIFFSTORE", destination, keys.size(), keys});
    }

    /**
     * Adds a number to the score of a member.
     *
     * <p>{@code ZINCRBY key increment member}.
     * Complexity: O(log(N)) for a set of N members.
     */
    public static Command<Double> zincrby(String key, double increment, Object member) {
        return Words.of(ReplyTypes.DOUBLE, new Object[] {"ZINCRBY", key, increment, member});
    }

    /**
     * Returns the members that all of several sets have.
     *
     * <p>{@code ZINTER numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM|MIN|MAX] [WITHSCORES]}.
     * Complexity: O(N*K)+O(M*log(M)) for K sets, the smallest of N members, and M out.
     */
    public static Command<Reply> zinter(List<?> keys, Object... options) {
        return Words.flat(Reply.TYPE, new Object[] {"ZINTER", keys.size(), keys}, options);
    }

    /**
     * Counts the members that all of several sets have.
     *
     * <p>{@code ZINTERCARD numkeys key [key ...] [LIMIT limit]}.
     * Complexity: O(N*K) for K sets, the smallest of N members.
     */
    public static Command<Long> zintercard(List<?> keys, Object... options) {
        return Words.flat(ReplyTypes.LONG, new Object[] {"ZINTERCARD", keys.size(), keys}, options);
    }

    /**
     * Stores the members that all of several sets have.
     *
     * <p>{@code ZINTERSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM|MIN|MAX]}.
     * Complexity: O(N*K)+O(M*log(M)) for K sets, the smallest of N members, and M out.
     */
    public static Command<Long> zinterstore(String destination, List<?> keys, Object... options) {
        return Words.flat(ReplyTypes.LONG, new Object[] {"ZINTERSTORE", destination, keys.size(), keys}, options);
    }

    /**
     * Counts the members between two members, where all scores are equal.
     *
     * <p>{@code ZLEXCOUNT key min max}.
     * Complexity: O(log(N)) for a set of N members.
     */
    public static Command<Long> zlexcount(String key, Object min, Object max) {
        return Words.of(ReplyTypes.LONG, new Object[] {"ZLEXCOUNT", key, min, max});
    }

    /**
     * Takes the lowest or highest members of the first sorted set that has any.
     *
     * <p>{@code ZMPOP numkeys key [key ...] <MIN|MAX> [COUNT count]}.
     * Complexity: O(K)+O(log(N)+M) for K keys and M of N members taken.
     */
    public static Command<Reply> zmpop(List<?> keys, String where, Object... options) {
        return Words.flat(Reply.TYPE, new Object[] {"ZMPOP", keys.size(), keys, where}, options);
    }

    /**
     * Tells the scores of several members.
     *
     * <p>{@code ZMSCORE key member [member ...]}.
     * Complexity: O(M) for M members.
     */
    public static Command<double[]> zmscore(String key, Object... members) {
        return Words.of(ReplyTypes.DOUBLES, new Object[] {"ZMSCORE", key}, members);
    }

    /**
     * Takes the members with the highest scores.
     *
     * <p>{@code ZPOPMAX key [count]}.
     * Complexity: O(log(N)+M) for M of N members taken.
     */
    public static Command<ScoredMembers> zpopmax(String key, Object... options) {
        return Words.of(ReplyTypes.SCORED, new Object[] {"ZPOPMAX", key}, options);
    }

    /**
     * Takes the members with the lowest scores.
     *
     * <p>{@code ZPOPMIN key [count]}.
     * Complexity: O(log(N)+M) for M of N members taken.
     */
    public static Command<ScoredMembers> zpopmin(String key, Object... options) {
        return Words.of(ReplyTypes.SCORED, new Object[] {"ZPOPMIN", key}, options);
    }

    /**
     * Returns members picked at random.
     *
     * <p>{@code ZRANDMEMBER key [count [WITHSCORES]]}.
     * Complexity: O(M*log(N)) for M of N members.
     */
    public static Command<Reply> zrandmember(String key, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"ZRANDMEMBER", key}, options);
    }

    /**
     * Returns the members in a range of ranks, of scores, or of members.
     *
     * <p>{@code ZRANGE key start stop [BYSCORE|BYLEX] [REV] [LIMIT offset count] [WITHSCORES]}.
     * Complexity: O(log(N)+M) for M of N members.
     */
    public static Command<Reply> zrange(String key, Object start, Object stop, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"ZRANGE", key, start, stop}, options);
    }

    /**
     * Returns the members between two members, where all scores are equal.
     *
     * <p>{@code ZRANGEBYLEX key min max [LIMIT offset count]}.
     * Complexity: O(log(N)+M) for M of N members.
     */
    public static Command<List<String>> zrangebylex(String key, Object min, Object max, Object... options) {
        return Words.of(ReplyTypes.STRINGS, new Object[] {"ZRANGEBYLEX", key, min, max}, options);
    }

    /**
     * Returns the members whose scores lie in a range.
     *
     * <p>{@code ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]}.
     * Complexity: O(log(N)+M) for M of N members.
     */
    public static Command<Reply> zrangebyscore(String key, Object min, Object max, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"ZRANGEBYSCORE", key, min, max}, options);
    }

    /**
     * Stores a range of one sorted set as another.
     *
     * <p>{@code ZRANGESTORE dst src min max [BYSCORE|BYLEX] [REV] [LIMIT offset count]}.
     * Complexity: O(log(N)+M) for M of N members.
     */
    public static Command<Long> zrangestore(String dst, String src, Object min, Object max, Object... options) {
        return Words.of(ReplyTypes.LONG, new Object[] {"ZRANGESTORE", dst, src, min, max}, options);
    }

    /**
     * Tells how many members have lower scores than a given one.
     *
     * <p>{@code ZRANK key member [WITHSCORE]}.
     * Complexity: O(log(N)) for a set of N members.
     */
    public static Command<Reply> zrank(String key, Object member, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"ZRANK", key, member}, options);
    }

    /**
     * Removes members.
     *
     * <p>{@code ZREM key member [member ...]}.
     * Complexity: O(M*log(N)) for M members of a set of N.
     */
    public static Command<Long> zrem(String key, Object... members) {
        return Words.of(ReplyTypes.LONG, new Object[] {"ZREM", key}, members);
    }

    /**
     * Removes the members between two members, where all scores are equal.
     *
     * <p>{@code ZREMRANGEBYLEX key min max}.
     * Complexity: O(log(N)+M) for M of N members.
     */
    public static Command<Long> zremrangebylex(String key, Object min, Object max) {
        return Words.of(ReplyTypes.LONG, new Object[] {"ZREMRANGEBYLEX", key, min, max});
    }

    /**
     * Removes the members in a range of ranks.
     *
     * <p>{@code ZREMRANGEBYRANK key start stop}.
     * Complexity: O(log(N)+M) for M of N members.
     */
    public static Command<Long> zremrangebyrank(String key, long start, long stop) {
        return Words.of(ReplyTypes.LONG, new Object[] {"ZREMRANGEBYRANK", key, start, stop});
    }

    /**
     * Removes the members whose scores lie in a range.
     *
     * <p>{@code ZREMRANGEBYSCORE key min max}.
     * Complexity: O(log(N)+M) for M of N members.
     */
    public static Command<Long> zremrangebyscore(String key, Object min, Object max) {
        return Words.of(ReplyTypes.LONG, new Object[] {"ZREMRANGEBYSCORE", key, min, max});
    }

    /**
     * Returns the members in a range of ranks, highest score first.
     *
     * <p>{@code ZREVRANGE key start stop [WITHSCORES]}.
     * Complexity: O(log(N)+M) for M of N members.
     */
    public static Command<Reply> zrevrange(String key, long start, long stop, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"ZREVRANGE", key, start, stop}, options);
    }

    /**
     * Returns the members between two members in falling order, where all scores are equal.
     *
     * <p>{@code ZREVRANGEBYLEX key max min [LIMIT offset count]}.
     * Complexity: O(log(N)+M) for M of N members.
     */
    public static Command<List<String>> zrevrangebylex(String key, Object max, Object min, Object... options) {
        return Words.of(ReplyTypes.STRINGS, new Object[] {"ZREVRANGEBYLEX", key, max, min}, options);
    }

    /**
     * Returns the members whose scores lie in a range, highest score first.
     *
     * <p>{@code ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]}.
     * Complexity: O(log(N)+M) for M of N members.
     */
    public static Command<Reply> zrevrangebyscore(String key, Object max, Object min, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"ZREVRANGEBYSCORE", key, max, min}, options);
    }

    /**
     * Tells how many members have higher scores than a given one.
     *
     * <p>{@code ZREVRANK key member [WITHSCORE]}.
     * Complexity: O(log(N)) for a set of N members.
     */
    public static Command<Reply> zrevrank(String key, Object member, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"ZREVRANK", key, member}, options);
    }

    /**
     * Iterates over members and their scores.
     *
     * <p>{@code ZSCAN key cursor [MATCH pattern] [COUNT count]}.
     * Complexity: O(1) a call, O(N) for a whole iteration over N members.
     */
    public static Command<Reply> zscan(String key, long cursor, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"ZSCAN", key, cursor}, options);
    }

    /**
     * Tells the score of a member.
     *
     * <p>{@code ZSCORE key member}.
     * Complexity: O(1).
     */
    public static Command<Double> zscore(String key, Object member) {
        return Words.of(ReplyTypes.DOUBLE, new Object[] {"ZSCORE", key, member});
    }

    /**
     * Returns the members that any of several sets has.
     *
     * <p>{@code ZUNION numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM|MIN|MAX] [WITHSCORES]}.
     * Complexity: O(N)+O(M*log(M)) for N members in and M out.
     */
    public static Command<Reply> zunion(List<?> keys, Object... options) {
        return Words.flat(Reply.TYPE, new Object[] {"ZUNION", keys.size(), keys}, options);
    }

    /**
     * Stores the members that any of several sets has.
     *
     * <p>{@code ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM|MIN|MAX]}.
     * Complexity: O(N)+O(M*log(M)) for N members in and M out.
     */
    public static Command<Long> zunionstore(String destination, List<?> keys, Object... options) {
        return Words.flat(ReplyTypes.LONG, new Object[] {"ZUNIONSTORE", destination, keys.size(), keys}, options);
    }
}
