import com.sun.management.OperatingSystemMXBean;
import io.lettuce.core.RedisClient;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import mantissa.client.Client;
import mantissa.client.ClientOptions;
import mantissa.client.Command;
import mantissa.client.PackedReply;
import mantissa.client.ReplyTypes;
import mantissa.client.ScoredMembers;
import redis.clients.jedis.Jedis;

/**
 * The processor time of this process for ZRANGE of 10,000 WITHSCORES, clients by turns, which other work on the machine
 * disturbs less than Compare: bench/run PORT first, which makes the key, then
 * {@code java -cp ../target/classes:$(cat ../target/bench.classpath) Processor.java PORT}.
 */
public class Processor {
    private static final int CALLS = 150;
    private static final int ROUNDS = 11;

    public static void main(String[] arguments) {
        int port = Integer.parseInt(arguments[0]);
        var system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        Client own = Client.connect(ClientOptions.tcp("127.0.0.1", port));
        Jedis jedis = new Jedis("127.0.0.1", port);
        var lettuce = RedisClient.create("redis://127.0.0.1:" + port).connect().sync();
        Command<ScoredMembers> range = Command.of("ZRANGE", "bench:z", 0, -1, "WITHSCORES").as(ReplyTypes.SCORED);
        Command<ScoredMembers> again = range.as(ScoredMembers.into(new ScoredMembers()));
        Command<PackedReply> packed = range.packed(PackedReply.Type.F64);
        double[] scores = new double[10_000];
        String[] names = {"own", "own, one object", "own, packed", "Jedis", "Lettuce"};
        Runnable[] clients = {
            () -> own.run(range), () -> own.run(again), () -> own.run(packed).doubles(scores),
            () -> jedis.zrangeWithScores("bench:z", 0, -1), () -> lettuce.zrangeWithScores("bench:z", 0, -1)};
        double[][] micros = new double[names.length][ROUNDS];
        for (int round = 0; round < ROUNDS; round++) {
            for (int which = 0; which < names.length; which++) {
                long before = system.getProcessCpuTime();
                for (int call = 0; call < CALLS; call++) {
                    clients[which].run();
                }
                micros[which][round] = (system.getProcessCpuTime() - before) / 1e3 / CALLS;
            }
        }
        for (int which = 0; which < names.length; which++) {
            Arrays.sort(micros[which]);
            System.out.printf("%s: %.0f us of processor time%n", names[which], micros[which][ROUNDS / 2]);
        }
        System.exit(0);
    }
}
