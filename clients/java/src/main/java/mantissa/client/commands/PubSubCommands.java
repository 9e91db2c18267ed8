package mantissa.client.commands;

import java.util.List;
import mantissa.client.Command;
import mantissa.client.Reply;
import mantissa.client.ReplyTypes;

/** Commands of the group pubsub. Made by commands/generate.py. */
public final class PubSubCommands {
    private PubSubCommands() {}

    /**
     * Sends a message to a channel.
     *
     * <p>{@code PUBLISH channel message}.
     * Complexity: O(N+M): N receivers, M patterns in use.
     */
    public static Command<Long> publish(Object channel, Object message) {
        return Words.of(ReplyTypes.LONG, new Object[] {"PUBLISH", channel, message});
    }

    /**
     * Lists channels that have subscribers.
     *
     * <p>{@code PUBSUB CHANNELS [pattern]}.
     * Complexity: O(N), N being all channels.
     */
    public static Command<List<String>> pubsubChannels(Object... options) {
        return Words.of(ReplyTypes.STRINGS, new Object[] {"PUBSUB", "CHANNELS"}, options);
    }

    /**
     * Counts distinct patterns that are subscribed to.
     *
     * <p>{@code PUBSUB NUMPAT}.
     * Complexity: O(1).
     */
    public static Command<Long> pubsubNumpat() {
        return Words.of(ReplyTypes.LONG, new Object[] {"PUBSUB", "NUMPAT"});
    }

    /**
     * Counts subscribers of channels.
     *
     * <p>{@code PUBSUB NUMSUB [channel [channel ...]]}.
     * Complexity: O(N), N being the names given.
     */
    public static Command<Reply> pubsubNumsub(Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"PUBSUB", "NUMSUB"}, options);
    }

    /**
     * Lists shard channels in use.
     *
     * <p>{@code PUBSUB SHARDCHANNELS [pattern]}.
     * Complexity: O(N), N being all shard channels.
     */
    public static Command<List<String>> pubsubShardchannels(Object... options) {
        return Words.of(ReplyTypes.STRINGS, new Object[] {"PUBSUB", "SHARDCHANNELS"}, options);
    }

    /**
     * Counts subscribers of shard channels.
     *
     * <p>{@code PUBSUB SHARDNUMSUB [shardchannel [shardchannel ...]]}.
     * Complexity: O(N), N being the names given.
     */
    public static Command<Reply> pubsubShardnumsub(Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"PUBSUB", "SHARDNUMSUB"}, options);
    }

    /**
     * Sends a message to a shard channel.
     *
     * <p>{@code SPUBLISH shardchannel message}.
     * Complexity: O(N), N being the receivers.
     */
    public static Command<Long> spublish(Object shardchannel, Object message) {
        return Words.of(ReplyTypes.LONG, new Object[] {"SPUBLISH", shardchannel, message});
    }
}
