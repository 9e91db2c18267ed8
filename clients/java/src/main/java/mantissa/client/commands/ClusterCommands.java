package mantissa.client.commands;

import mantissa.client.Command;
import mantissa.client.Reply;

/** Commands of the group cluster. Made by commands/generate.py. */
public final class ClusterCommands {
    private ClusterCommands() {}

    /**
     * Gives a node slots.
     *
     * <p>{@code CLUSTER ADDSLOTS slot [slot ...]}.
     * Complexity: O(N) for N slots.
     */
    public static Command<Reply> clusterAddslots(Object... slots) {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "ADDSLOTS"}, slots);
    }

    /**
     * Gives a node ranges of slots.
     *
     * <p>{@code CLUSTER ADDSLOTSRANGE start-slot end-slot [start-slot end-slot ...]}.
     * Complexity: O(N) for N slots.
     */
    public static Command<Reply> clusterAddslotsrange(Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "ADDSLOTSRANGE"}, words);
    }

    /**
     * Raises the epoch of the node.
     *
     * <p>{@code CLUSTER BUMPEPOCH}.
     * Complexity: O(1).
     */
    public static Command<Reply> clusterBumpepoch() {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "BUMPEPOCH"});
    }

    /**
     * Counts who holds a node for failed.
     *
     * <p>{@code CLUSTER COUNT-FAILURE-REPORTS node-id}.
     * Complexity: O(N) for N reports.
     */
    public static Command<Reply> clusterCountFailureReports(Object nodeId) {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "COUNT-FAILURE-REPORTS", nodeId});
    }

    /**
     * Counts the keys of a slot.
     *
     * <p>{@code CLUSTER COUNTKEYSINSLOT slot}.
     * Complexity: O(1).
     */
    public static Command<Reply> clusterCountkeysinslot(long slot) {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "COUNTKEYSINSLOT", slot});
    }

    /**
     * Takes slots from a node.
     *
     * <p>{@code CLUSTER DELSLOTS slot [slot ...]}.
     * Complexity: O(N) for N slots.
     */
    public static Command<Reply> clusterDelslots(Object... slots) {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "DELSLOTS"}, slots);
    }

    /**
     * Takes ranges of slots from a node.
     *
     * <p>{@code CLUSTER DELSLOTSRANGE start-slot end-slot [start-slot end-slot ...]}.
     * Complexity: O(N) for N slots.
     */
    public static Command<Reply> clusterDelslotsrange(Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "DELSLOTSRANGE"}, words);
    }

    /**
     * Has a replica take the place of its master.
     *
     * <p>{@code CLUSTER FAILOVER [FORCE|TAKEOVER]}.
     * Complexity: O(1).
     */
    public static Command<Reply> clusterFailover(Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "FAILOVER"}, options);
    }

    /**
     * Takes all slots from the node.
     *
     * <p>{@code CLUSTER FLUSHSLOTS}.
     * Complexity: O(1).
     */
    public static Command<Reply> clusterFlushslots() {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "FLUSHSLOTS"});
    }

    /**
     * Strikes a node off the list.
     *
     * <p>{@code CLUSTER FORGET node-id}.
     * Complexity: O(1).
     */
    public static Command<Reply> clusterForget(Object nodeId) {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "FORGET", nodeId});
    }

    /**
     * Lists keys of a slot.
     *
     * <p>{@code CLUSTER GETKEYSINSLOT slot count}.
     * Complexity: O(N) for N keys asked for.
     */
    public static Command<Reply> clusterGetkeysinslot(long slot, long count) {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "GETKEYSINSLOT", slot, count});
    }

    /**
     * Tells the state of the cluster.
     *
     * <p>{@code CLUSTER INFO}.
     * Complexity: O(1).
     */
    public static Command<Reply> clusterInfo() {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "INFO"});
    }

    /**
     * Tells the slot of a key.
     *
     * <p>{@code CLUSTER KEYSLOT key}.
     * Complexity: O(N) for N bytes of the key.
     */
    public static Command<Reply> clusterKeyslot(Object key) {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "KEYSLOT", key});
    }

    /**
     * Lists the connections between nodes.
     *
     * <p>{@code CLUSTER LINKS}.
     * Complexity: O(N) for N nodes.
     */
    public static Command<Reply> clusterLinks() {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "LINKS"});
    }

    /**
     * Makes another node known.
     *
     * <p>{@code CLUSTER MEET ip port [cluster-bus-port]}.
     * Complexity: O(1).
     */
    public static Command<Reply> clusterMeet(Object ip, long port, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "MEET", ip, port}, options);
    }

    /**
     * Names the node.
     *
     * <p>{@code CLUSTER MYID}.
     * Complexity: O(1).
     */
    public static Command<Reply> clusterMyid() {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "MYID"});
    }

    /**
     * Names the shard of the node.
     *
     * <p>{@code CLUSTER MYSHARDID}.
     * Complexity: O(1).
     */
    public static Command<Reply> clusterMyshardid() {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "MYSHARDID"});
    }

    /**
     * Lists the nodes as their file does.
     *
     * <p>{@code CLUSTER NODES}.
     * Complexity: O(N) for N nodes.
     */
    public static Command<Reply> clusterNodes() {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "NODES"});
    }

    /**
     * Lists the replicas of a master.
     *
     * <p>{@code CLUSTER REPLICAS node-id}.
     * Complexity: O(N) for N nodes.
     */
    public static Command<Reply> clusterReplicas(Object nodeId) {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "REPLICAS", nodeId});
    }

    /**
     * Makes the node a replica of a master.
     *
     * <p>{@code CLUSTER REPLICATE node-id}.
     * Complexity: O(1).
     */
    public static Command<Reply> clusterReplicate(Object nodeId) {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "REPLICATE", nodeId});
    }

    /**
     * Makes the node forget its cluster.
     *
     * <p>{@code CLUSTER RESET [HARD|SOFT]}.
     * Complexity: O(N) for N nodes.
     */
    public static Command<Reply> clusterReset(Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "RESET"}, options);
    }

    /**
     * Writes the list of nodes to its file.
     *
     * <p>{@code CLUSTER SAVECONFIG}.
     * Complexity: O(1).
     */
    public static Command<Reply> clusterSaveconfig() {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "SAVECONFIG"});
    }

    /**
     * Sets the epoch of a new node.
     *
     * <p>{@code CLUSTER SET-CONFIG-EPOCH config-epoch}.
     * Complexity: O(1).
     */
    public static Command<Reply> clusterSetConfigEpoch(long configEpoch) {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "SET-CONFIG-EPOCH", configEpoch});
    }

    /**
     * Says whose a slot is, or where it moves.
     *
     * <p>{@code CLUSTER SETSLOT slot <IMPORTING node-id|MIGRATING node-id|NODE node-id|STABLE>}.
     * Complexity: O(1).
     */
    public static Command<Reply> clusterSetslot(long slot, Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "SETSLOT", slot}, words);
    }

    /**
     * Lists the shards with their slots and nodes.
     *
     * <p>{@code CLUSTER SHARDS}.
     * Complexity: O(N) for N nodes.
     */
    public static Command<Reply> clusterShards() {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "SHARDS"});
    }

    /**
     * Lists the replicas of a master.
     *
     * <p>{@code CLUSTER SLAVES node-id}.
     * Complexity: O(N) for N nodes.
     */
    public static Command<Reply> clusterSlaves(Object nodeId) {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "SLAVES", nodeId});
    }

    /**
     * Tells how slots are used.
     *
     * <p>{@code CLUSTER SLOT-STATS <SLOTSRANGE start-slot end-slot|ORDERBY metric [LIMIT limit] [ASC|DESC]>}.
     * Complexity: O(N) for N slots, O(N*log(N)) with ORDERBY.
     */
    public static Command<Reply> clusterSlotStats(Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "SLOT-STATS"}, words);
    }

    /**
     * Lists the slots with their nodes.
     *
     * <p>{@code CLUSTER SLOTS}.
     * Complexity: O(N) for N nodes.
     */
    public static Command<Reply> clusterSlots() {
        return Words.of(Reply.TYPE, new Object[] {"CLUSTER", "SLOTS"});
    }

    /**
     * Allows reads from a replica.
     *
     * <p>{@code READONLY}.
     * Complexity: O(1).
     */
    public static Command<Reply> readonly() {
        return Words.of(Reply.TYPE, new Object[] {"READONLY"});
    }

    /**
     * Ends what READONLY began.
     *
     * <p>{@code READWRITE}.
     * Complexity: O(1).
     */
    public static Command<Reply> readwrite() {
        return Words.of(Reply.TYPE, new Object[] {"READWRITE"});
    }
}
