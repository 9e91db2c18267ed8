import com.sun.management.ThreadMXBean;
import io.lettuce.core.RedisClient;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.Random;
import mantissa.client.Client;
import mantissa.client.ClientOptions;
import mantissa.client.Command;
import mantissa.client.ReplyTypes;
import mantissa.client.ScoredMembers;
import redis.clients.jedis.Jedis;

/** Times this client, Jedis and Lettuce by turns: medians of rounds, and the bytes that all threads allocate. */
public class Compare {
    private static final int MEMBERS = 10_000;
    private static final int CALLS = 200;
    private static final int ROUNDS = 9;
    private static final int THREADS = 64;
    private static final int GETS = 500;

    private static long allocated() {
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        return Arrays.stream(threads.getThreadAllocatedBytes(threads.getAllThreadIds())).filter(each -> each > 0).sum();
    }

    private static void ranges(String[] names, Runnable[] clients) {
        double[][] micros = new double[names.length][ROUNDS];
        double[] kilobytes = new double[names.length];
        for (int round = 0; round < ROUNDS; round++) {
            for (int which = 0; which < names.length; which++) {
                long before = allocated();
                long start = System.nanoTime();
                for (int call = 0; call < CALLS; call++) {
                    clients[which].run();
                }
                micros[which][round] = (System.nanoTime() - start) / 1e3 / CALLS;
                kilobytes[which] = (allocated() - before) / 1024.0 / CALLS;
            }
        }
        for (int which = 0; which < names.length; which++) {
            Arrays.sort(micros[which]);
            System.out.printf("ZRANGE %d WITHSCORES, %s: %.0f us, %.1f KiB%n", MEMBERS, names[which],
                    micros[which][ROUNDS / 2], kilobytes[which]);
        }
    }

    private static void gets(String[] names, Runnable[] clients) throws InterruptedException {
        double[][] rates = new double[names.length][ROUNDS];
        for (int round = 0; round < ROUNDS; round++) {
            for (int which = 0; which < names.length; which++) {
                Runnable get = clients[which];
                Thread[] threads = new Thread[THREADS];
                long start = System.nanoTime();
                for (int index = 0; index < THREADS; index++) {
                    threads[index] = new Thread(() -> {
                        for (int call = 0; call < GETS; call++) {
                            get.run();
                        }
                    });
                    threads[index].start();
                }
                for (Thread thread : threads) {
                    thread.join();
                }
                rates[which][round] = THREADS * GETS * 1e9 / (System.nanoTime() - start);
            }
        }
        for (int which = 0; which < names.length; which++) {
            Arrays.sort(rates[which]);
            System.out.printf("GET, %d threads, one connection, %s: %.0f/s%n", THREADS, names[which],
                    rates[which][ROUNDS / 2]);
        }
    }

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        Client own = Client.connect(ClientOptions.tcp("127.0.0.1", port));
        Jedis jedis = new Jedis("127.0.0.1", port);
        var lettuce = RedisClient.create("redis://127.0.0.1:" + port).connect().sync();
        Random random = new Random(1);
        own.call("DEL", "bench:z");
        for (int index = 0; index < MEMBERS; index++) {
            own.call("ZADD", "bench:z", random.nextDouble() * 1000, "member:" + index);
        }
        own.call("SET", "bench:k", "v".repeat(100));
        Command<ScoredMembers> range =
                Command.of("ZRANGE", "bench:z", 0, -1, "WITHSCORES").as(ReplyTypes.SCORED);
        Command<ScoredMembers> again = range.as(ScoredMembers.into(new ScoredMembers()));
        ranges(new String[] {"own", "own, one object", "Jedis", "Lettuce"}, new Runnable[] {
            () -> own.run(range), () -> own.run(again), () -> jedis.zrangeWithScores("bench:z", 0, -1),
            () -> lettuce.zrangeWithScores("bench:z", 0, -1)});
        Command<String> get = Command.of("GET", "bench:k").as(ReplyTypes.STRING);
        gets(new String[] {"own", "Lettuce"},
                new Runnable[] {() -> own.run(get), () -> lettuce.get("bench:k")});
        System.exit(0);
    }
}
