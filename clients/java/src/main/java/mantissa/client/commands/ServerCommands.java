package mantissa.client.commands;

import java.util.List;
import java.util.Map;
import mantissa.client.Command;
import mantissa.client.Reply;
import mantissa.client.ReplyTypes;

/** Commands of the group server. Made by commands/generate.py. */
public final class ServerCommands {
    private ServerCommands() {}

    /**
     * Lists categories, or the commands of one.
     *
     * <p>{@code ACL CAT [category]}.
     * Complexity: O(N), N being the commands of the server.
     */
    public static Command<List<String>> aclCat(Object... options) {
        return Words.of(ReplyTypes.STRINGS, new Object[] {"ACL", "CAT"}, options);
    }

    /**
     * Deletes users and disconnects their clients.
     *
     * <p>{@code ACL DELUSER username [username ...]}.
     * Complexity: O(N), N being the connected clients.
     */
    public static Command<Long> aclDeluser(Object... usernames) {
        return Words.of(ReplyTypes.LONG, new Object[] {"ACL", "DELUSER"}, usernames);
    }

    /**
     * Tells whether a user might run a command.
     *
     * <p>{@code ACL DRYRUN username command [arg [arg ...]]}.
     * Complexity: O(1).
     */
    public static Command<Reply> aclDryrun(Object username, Object command, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"ACL", "DRYRUN", username, command}, options);
    }

    /**
     * Makes up a random password.
     *
     * <p>{@code ACL GENPASS [bits]}.
     * Complexity: O(1).
     */
    public static Command<String> aclGenpass(Object... options) {
        return Words.of(ReplyTypes.STRING, new Object[] {"ACL", "GENPASS"}, options);
    }

    /**
     * Shows what a user may do.
     *
     * <p>{@code ACL GETUSER username}.
     * Complexity: O(N), N being the rules of the user.
     */
    public static Command<Reply> aclGetuser(Object username) {
        return Words.of(Reply.TYPE, new Object[] {"ACL", "GETUSER", username});
    }

    /**
     * Shows all users in the form of the ACL file.
     *
     * <p>{@code ACL LIST}.
     * Complexity: O(N), N being the users.
     */
    public static Command<Reply> aclList() {
        return Words.of(Reply.TYPE, new Object[] {"ACL", "LIST"});
    }

    /**
     * Reads all users anew from the ACL file.
     *
     * <p>{@code ACL LOAD}.
     * Complexity: O(N), N being the users.
     */
    public static Command<Boolean> aclLoad() {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"ACL", "LOAD"});
    }

    /**
     * Shows who was refused what.
     *
     * <p>{@code ACL LOG [count|RESET]}.
     * Complexity: O(N), N being the entries returned.
     */
    public static Command<Reply> aclLog(Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"ACL", "LOG"}, options);
    }

    /**
     * Writes all users into the ACL file.
     *
     * <p>{@code ACL SAVE}.
     * Complexity: O(N), N being the users.
     */
    public static Command<Boolean> aclSave() {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"ACL", "SAVE"});
    }

    /**
     * Makes a user or changes what it may do.
     *
     * <p>{@code ACL SETUSER username [rule [rule ...]]}.
     * Complexity: O(N), N being the rules.
     */
    public static Command<Boolean> aclSetuser(Object username, Object... options) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"ACL", "SETUSER", username}, options);
    }

    /**
     * Lists the names of users.
     *
     * <p>{@code ACL USERS}.
     * Complexity: O(N), N being the users.
     */
    public static Command<List<String>> aclUsers() {
        return Words.of(ReplyTypes.STRINGS, new Object[] {"ACL", "USERS"});
    }

    /**
     * Tells who this connection has logged in as.
     *
     * <p>{@code ACL WHOAMI}.
     * Complexity: O(1).
     */
    public static Command<String> aclWhoami() {
        return Words.of(ReplyTypes.STRING, new Object[] {"ACL", "WHOAMI"});
    }

    /**
     * Ends a backup that is not sealed, and removes its files.
     *
     * <p>{@code BACKUP ABORT}.
     * Complexity: O(1).
     */
    public static Command<Boolean> backupAbort() {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"BACKUP", "ABORT"});
    }

    /**
     * Removes the files of a backup that is sealed or has failed.
     *
     * <p>{@code BACKUP CLEANUP}.
     * Complexity: O(1).
     */
    public static Command<Boolean> backupCleanup() {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"BACKUP", "CLEANUP"});
    }

    /**
     * Lists the files of the backup that do not change any more.
     *
     * <p>{@code BACKUP LIST}.
     * Complexity: O(1).
     */
    public static Command<List<String>> backupList() {
        return Words.of(ReplyTypes.STRINGS, new Object[] {"BACKUP", "LIST"});
    }

    /**
     * Completes the backup with the data of this moment.
     *
     * <p>{@code BACKUP SEAL}.
     * Complexity: O(1).
     */
    public static Command<Boolean> backupSeal() {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"BACKUP", "SEAL"});
    }

    /**
     * Begins a backup of the running server.
     *
     * <p>{@code BACKUP START}.
     * Complexity: O(1), the work is done in the background.
     */
    public static Command<Boolean> backupStart() {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"BACKUP", "START"});
    }

    /**
     * Tells how far the backup is.
     *
     * <p>{@code BACKUP STATUS}.
     * Complexity: O(1).
     */
    public static Command<Map<String, String>> backupStatus() {
        return Words.of(ReplyTypes.STRING_MAP, new Object[] {"BACKUP", "STATUS"});
    }

    /**
     * Replaces the append-only file by a short one with the same outcome, in the background.
     *
     * <p>{@code BGREWRITEAOF}.
     * Complexity: O(1), the work is done in the background.
     */
    public static Command<Reply> bgrewriteaof() {
        return Words.of(Reply.TYPE, new Object[] {"BGREWRITEAOF"});
    }

    /**
     * Writes a dump in the background.
     *
     * <p>{@code BGSAVE [SCHEDULE]}.
     * Complexity: O(1), the work is done in the background.
     */
    public static Command<Reply> bgsave(Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"BGSAVE"}, options);
    }

    /**
     * Shows commands that took long or had a large request or reply.
     *
     * <p>{@code COMMANDLOG GET count <SLOW|LARGE-REQUEST|LARGE-REPLY>}.
     * Complexity: O(N), N being the entries returned.
     */
    public static Command<Reply> commandlogGet(long count, String type) {
        return Words.of(Reply.TYPE, new Object[] {"COMMANDLOG", "GET", count, type});
    }

    /**
     * Counts the commands of a type that are kept.
     *
     * <p>{@code COMMANDLOG LEN <SLOW|LARGE-REQUEST|LARGE-REPLY>}.
     * Complexity: O(1).
     */
    public static Command<Long> commandlogLen(String type) {
        return Words.of(ReplyTypes.LONG, new Object[] {"COMMANDLOG", "LEN", type});
    }

    /**
     * Forgets the commands of a type.
     *
     * <p>{@code COMMANDLOG RESET <SLOW|LARGE-REQUEST|LARGE-REPLY>}.
     * Complexity: O(N), N being the entries.
     */
    public static Command<Boolean> commandlogReset(String type) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"COMMANDLOG", "RESET", type});
    }

    /**
     * Counts the commands.
     *
     * <p>{@code COMMAND COUNT}.
     * Complexity: O(1).
     */
    public static Command<Long> commandCount() {
        return Words.of(ReplyTypes.LONG, new Object[] {"COMMAND", "COUNT"});
    }

    /**
     * Shows what commands do.
     *
     * <p>{@code COMMAND DOCS [command-name [command-name ...]]}.
     * Complexity: O(N), N being the commands.
     */
    public static Command<Reply> commandDocs(Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"COMMAND", "DOCS"}, options);
    }

    /**
     * Finds the keys of a call.
     *
     * <p>{@code COMMAND GETKEYS command [arg [arg ...]]}.
     * Complexity: O(N), N being the arguments.
     */
    public static Command<Reply> commandGetkeys(Object command, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"COMMAND", "GETKEYS", command}, options);
    }

    /**
     * Finds the keys of a call and what it does with them.
     *
     * <p>{@code COMMAND GETKEYSANDFLAGS command [arg [arg ...]]}.
     * Complexity: O(N), N being the arguments.
     */
    public static Command<Reply> commandGetkeysandflags(Object command, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"COMMAND", "GETKEYSANDFLAGS", command}, options);
    }

    /**
     * Shows how commands are called.
     *
     * <p>{@code COMMAND INFO [command-name [command-name ...]]}.
     * Complexity: O(N), N being the commands.
     */
    public static Command<Reply> commandInfo(Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"COMMAND", "INFO"}, options);
    }

    /**
     * Lists the names of commands.
     *
     * <p>{@code COMMAND LIST [FILTERBY MODULE module-name|ACLCAT category|PATTERN pattern]}.
     * Complexity: O(N), N being the commands.
     */
    public static Command<List<String>> commandList(Object... options) {
        return Words.of(ReplyTypes.STRINGS, new Object[] {"COMMAND", "LIST"}, options);
    }

    /**
     * Shows settings.
     *
     * <p>{@code CONFIG GET parameter [parameter ...]}.
     * Complexity: O(N), N being the directives.
     */
    public static Command<Map<String, String>> configGet(Object... parameters) {
        return Words.of(ReplyTypes.STRING_MAP, new Object[] {"CONFIG", "GET"}, parameters);
    }

    /**
     * Sets the statistics back to zero.
     *
     * <p>{@code CONFIG RESETSTAT}.
     * Complexity: O(1).
     */
    public static Command<Long> configResetstat() {
        return Words.of(ReplyTypes.LONG, new Object[] {"CONFIG", "RESETSTAT"});
    }

    /**
     * Writes the settings in force into the configuration file.
     *
     * <p>{@code CONFIG REWRITE}.
     * Complexity: O(1).
     */
    public static Command<Boolean> configRewrite() {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"CONFIG", "REWRITE"});
    }

    /**
     * Changes settings while the server runs.
     *
     * <p>{@code CONFIG SET parameter value [parameter value ...]}.
     * Complexity: O(N), N being the directives.
     */
    public static Command<Boolean> configSet(Object... words) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"CONFIG", "SET"}, words);
    }

    /**
     * Counts the keys of the database.
     *
     * <p>{@code DBSIZE}.
     * Complexity: O(1).
     */
    public static Command<Long> dbsize() {
        return Words.of(ReplyTypes.LONG, new Object[] {"DBSIZE"});
    }

    /**
     * Looks inside, for tests and tools.
     *
     * <p>{@code DEBUG}.
     * Complexity: Depends on the subcommand.
     */
    public static Command<Reply> debug() {
        return Words.of(Reply.TYPE, new Object[] {"DEBUG"});
    }

    /**
     * Hands the role of master to a replica.
     *
     * <p>{@code FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]}.
     * Complexity: O(1).
     */
    public static Command<Reply> failover(Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"FAILOVER"}, options);
    }

    /**
     * Removes all keys of all databases.
     *
     * <p>{@code FLUSHALL [ASYNC|SYNC]}.
     * Complexity: O(1); the memory is freed in the background.
     */
    public static Command<Boolean> flushall(Object... options) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"FLUSHALL"}, options);
    }

    /**
     * Removes all keys of the database.
     *
     * <p>{@code FLUSHDB [ASYNC|SYNC]}.
     * Complexity: O(1); the memory is freed in the background.
     */
    public static Command<Boolean> flushdb(Object... options) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"FLUSHDB"}, options);
    }

    /**
     * Shows the state and the statistics of the server.
     *
     * <p>{@code INFO [section [section ...]]}.
     * Complexity: O(1).
     */
    public static Command<String> info(Object... options) {
        return Words.of(ReplyTypes.STRING, new Object[] {"INFO"}, options);
    }

    /**
     * Tells when the last dump was completed.
     *
     * <p>{@code LASTSAVE}.
     * Complexity: O(1).
     */
    public static Command<Long> lastsave() {
        return Words.of(ReplyTypes.LONG, new Object[] {"LASTSAVE"});
    }

    /**
     * Explains latency events in words.
     *
     * <p>{@code LATENCY DOCTOR}.
     * Complexity: O(1).
     */
    public static Command<Reply> latencyDoctor() {
        return Words.of(Reply.TYPE, new Object[] {"LATENCY", "DOCTOR"});
    }

    /**
     * Draws the samples of one latency event.
     *
     * <p>{@code LATENCY GRAPH event}.
     * Complexity: O(1).
     */
    public static Command<Reply> latencyGraph(Object event) {
        return Words.of(Reply.TYPE, new Object[] {"LATENCY", "GRAPH", event});
    }

    /**
     * Shows how the times of commands are spread.
     *
     * <p>{@code LATENCY HISTOGRAM [command [command ...]]}.
     * Complexity: O(N), N being the commands.
     */
    public static Command<Reply> latencyHistogram(Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"LATENCY", "HISTOGRAM"}, options);
    }

    /**
     * Shows the samples of one latency event.
     *
     * <p>{@code LATENCY HISTORY event}.
     * Complexity: O(1).
     */
    public static Command<Reply> latencyHistory(Object event) {
        return Words.of(Reply.TYPE, new Object[] {"LATENCY", "HISTORY", event});
    }

    /**
     * Shows the last sample of every latency event.
     *
     * <p>{@code LATENCY LATEST}.
     * Complexity: O(1).
     */
    public static Command<Reply> latencyLatest() {
        return Words.of(Reply.TYPE, new Object[] {"LATENCY", "LATEST"});
    }

    /**
     * Forgets latency events.
     *
     * <p>{@code LATENCY RESET [event [event ...]]}.
     * Complexity: O(1).
     */
    public static Command<Reply> latencyReset(Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"LATENCY", "RESET"}, options);
    }

    /**
     * Draws something, and tells the version.
     *
     * <p>{@code LOLWUT [VERSION version]}.
     * Complexity: O(1).
     */
    public static Command<String> lolwut(Object... options) {
        return Words.of(ReplyTypes.STRING, new Object[] {"LOLWUT"}, options);
    }

    /**
     * Explains the use of memory in words.
     *
     * <p>{@code MEMORY DOCTOR}.
     * Complexity: O(N), N being the clients.
     */
    public static Command<Reply> memoryDoctor() {
        return Words.of(Reply.TYPE, new Object[] {"MEMORY", "DOCTOR"});
    }

    /**
     * Shows what is known of the allocator.
     *
     * <p>{@code MEMORY MALLOC-STATS}.
     * Complexity: O(N), N being the clients.
     */
    public static Command<Reply> memoryMallocStats() {
        return Words.of(Reply.TYPE, new Object[] {"MEMORY", "MALLOC-STATS"});
    }

    /**
     * Gives unused memory back to the system at once.
     *
     * <p>{@code MEMORY PURGE}.
     * Complexity: O(1).
     */
    public static Command<Reply> memoryPurge() {
        return Words.of(Reply.TYPE, new Object[] {"MEMORY", "PURGE"});
    }

    /**
     * Shows where the memory goes.
     *
     * <p>{@code MEMORY STATS}.
     * Complexity: O(N), N being the clients.
     */
    public static Command<Reply> memoryStats() {
        return Words.of(Reply.TYPE, new Object[] {"MEMORY", "STATS"});
    }

    /**
     * Tells the bytes that a key takes with its value.
     *
     * <p>{@code MEMORY USAGE key [SAMPLES count]}.
     * Complexity: O(N), N being the elements of the value.
     */
    public static Command<Long> memoryUsage(String key, Object... options) {
        return Words.of(ReplyTypes.LONG, new Object[] {"MEMORY", "USAGE", key}, options);
    }

    /**
     * Lists modules.
     *
     * <p>{@code MODULE LIST}.
     * Complexity: O(N), N being the modules.
     */
    public static Command<Reply> moduleList() {
        return Words.of(Reply.TYPE, new Object[] {"MODULE", "LIST"});
    }

    /**
     * Loads a module.
     *
     * <p>{@code MODULE LOAD path [arg [arg ...]]}.
     * Complexity: O(1).
     */
    public static Command<Reply> moduleLoad(Object path, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"MODULE", "LOAD", path}, options);
    }

    /**
     * Loads a module with settings.
     *
     * <p>{@code MODULE LOADEX path [CONFIG name value [CONFIG name value ...]] [ARGS args [args ...]]}.
     * Complexity: O(1).
     */
    public static Command<Reply> moduleLoadex(Object path, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"MODULE", "LOADEX", path}, options);
    }

    /**
     * Removes a module.
     *
     * <p>{@code MODULE UNLOAD name}.
     * Complexity: O(1).
     */
    public static Command<Reply> moduleUnload(Object name) {
        return Words.of(Reply.TYPE, new Object[] {"MODULE", "UNLOAD", name});
    }

    /**
     * Makes the server a replica, or a master again.
     *
     * <p>{@code REPLICAOF <host port|NO ONE>}.
     * Complexity: O(1).
     */
    public static Command<Reply> replicaof(Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"REPLICAOF"}, words);
    }

    /**
     * Makes a key of the payload that DUMP gave.
     *
     * <p>{@code RESTORE-ASKING key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]}.
     * Complexity: O(N*M) for N elements of M bytes, with a factor of log(N) for sorted sets.
     */
    public static Command<Reply> restoreAsking(String key, long ttl, Object serializedValue, Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"RESTORE-ASKING", key, ttl, serializedValue}, options);
    }

    /**
     * Tells the role in replication.
     *
     * <p>{@code ROLE}.
     * Complexity: O(1).
     */
    public static Command<Reply> role() {
        return Words.of(Reply.TYPE, new Object[] {"ROLE"});
    }

    /**
     * Writes a dump while everybody waits.
     *
     * <p>{@code SAVE}.
     * Complexity: O(N), N being all keys.
     */
    public static Command<Reply> save() {
        return Words.of(Reply.TYPE, new Object[] {"SAVE"});
    }

    /**
     * Ends the server.
     *
     * <p>{@code SHUTDOWN [NOSAVE|SAVE] [NOW] [FORCE] [ABORT]}.
     * Complexity: O(N) if a dump is written, N being all keys.
     */
    public static Command<Reply> shutdown(Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"SHUTDOWN"}, options);
    }

    /**
     * Makes the server a replica, or a master again.
     *
     * <p>{@code SLAVEOF <host port|NO ONE>}.
     * Complexity: O(1).
     */
    public static Command<Reply> slaveof(Object... words) {
        return Words.of(Reply.TYPE, new Object[] {"SLAVEOF"}, words);
    }

    /**
     * Shows commands that took long.
     *
     * <p>{@code SLOWLOG GET [count]}.
     * Complexity: O(N), N being the entries returned.
     */
    public static Command<Reply> slowlogGet(Object... options) {
        return Words.of(Reply.TYPE, new Object[] {"SLOWLOG", "GET"}, options);
    }

    /**
     * Counts the entries of the slow log.
     *
     * <p>{@code SLOWLOG LEN}.
     * Complexity: O(1).
     */
    public static Command<Long> slowlogLen() {
        return Words.of(ReplyTypes.LONG, new Object[] {"SLOWLOG", "LEN"});
    }

    /**
     * Empties the slow log.
     *
     * <p>{@code SLOWLOG RESET}.
     * Complexity: O(N), N being the entries.
     */
    public static Command<Boolean> slowlogReset() {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"SLOWLOG", "RESET"});
    }

    /**
     * Exchanges two databases.
     *
     * <p>{@code SWAPDB index1 index2}.
     * Complexity: O(N) for N watched or awaited keys of both databases.
     */
    public static Command<Boolean> swapdb(long index1, long index2) {
        return Words.of(ReplyTypes.BOOLEAN, new Object[] {"SWAPDB", index1, index2});
    }

    /**
     * Tells the server's clock.
     *
     * <p>{@code TIME}.
     * Complexity: O(1).
     */
    public static Command<Reply> time() {
        return Words.of(Reply.TYPE, new Object[] {"TIME"});
    }
}
