package mantissa.bench;

import io.lettuce.core.RedisClient;
import io.lettuce.core.ScoredValue;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import mantissa.client.Client;
import mantissa.client.ClientOptions;
import mantissa.client.Command;
import mantissa.client.PackedReply;
import mantissa.client.ReplyTypes;
import mantissa.client.ScoredMembers;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Threads;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.resps.Tuple;

/** This client, Jedis and Lettuce with the server at -Dport: 10,000 scores by one thread, GET by 64 on one connection. */
@State(Scope.Benchmark)
public class Compare {
    private static final int MEMBERS = 10_000;

    private Client own;
    private Jedis jedis;
    private RedisClient lettuceClient;
    private RedisCommands<String, String> lettuce;
    private final Command<ScoredMembers> range =
            Command.of("ZRANGE", "bench:z", 0, -1, "WITHSCORES").as(ReplyTypes.SCORED);
    private final Command<ScoredMembers> again = range.as(ScoredMembers.into(new ScoredMembers()));
    private final Command<PackedReply> packed = range.packed(PackedReply.Type.F64);
    private final Command<String> get = Command.of("GET", "bench:k").as(ReplyTypes.STRING);
    private final double[] scores = new double[MEMBERS];

    @Setup(Level.Trial)
    public void connect() {
        int port = Integer.getInteger("port");
        own = Client.connect(ClientOptions.tcp("127.0.0.1", port));
        jedis = new Jedis("127.0.0.1", port);
        lettuceClient = RedisClient.create("redis://127.0.0.1:" + port);
        StatefulRedisConnection<String, String> connection = lettuceClient.connect();
        lettuce = connection.sync();
        Random random = new Random(1);
        own.call("DEL", "bench:z");
        for (int index = 0; index < MEMBERS; index++) {
            own.call("ZADD", "bench:z", random.nextDouble() * 1000, "member:" + index);
        }
        own.call("SET", "bench:k", "v".repeat(100));
    }

    @TearDown(Level.Trial)
    public void disconnect() {
        own.close();
        jedis.close();
        lettuceClient.shutdown(0, 0, TimeUnit.SECONDS);
    }

    @Benchmark
    @BenchmarkMode(Mode.AverageTime)
    @OutputTimeUnit(TimeUnit.MICROSECONDS)
    public ScoredMembers rangeOwn() {
        return own.run(range);
    }

    @Benchmark
    @BenchmarkMode(Mode.AverageTime)
    @OutputTimeUnit(TimeUnit.MICROSECONDS)
    public ScoredMembers rangeOwnOneObject() {
        return own.run(again);
    }

    @Benchmark
    @BenchmarkMode(Mode.AverageTime)
    @OutputTimeUnit(TimeUnit.MICROSECONDS)
    public double[] rangeOwnPacked() {
        own.run(packed).doubles(scores);
        return scores;
    }

    @Benchmark
    @BenchmarkMode(Mode.AverageTime)
    @OutputTimeUnit(TimeUnit.MICROSECONDS)
    public List<Tuple> rangeJedis() {
        return jedis.zrangeWithScores("bench:z", 0, -1);
    }

    @Benchmark
    @BenchmarkMode(Mode.AverageTime)
    @OutputTimeUnit(TimeUnit.MICROSECONDS)
    public List<ScoredValue<String>> rangeLettuce() {
        return lettuce.zrangeWithScores("bench:z", 0, -1);
    }

    @Benchmark
    @Threads(64)
    public String getOwn() {
        return own.run(get);
    }

    @Benchmark
    @Threads(64)
    public String getLettuce() {
        return lettuce.get("bench:k");
    }
}
