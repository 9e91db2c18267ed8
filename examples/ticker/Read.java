import java.nio.DoubleBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import mantissa.client.Client;
import mantissa.client.ClientOptions;
import mantissa.client.Command;
import mantissa.client.PackedReply;
import mantissa.client.PubSub;

/**
 * The consumer: told by a message that there is more, it reads what is new of each symbol's prices and times, packed.
 * No number is ever text here.
 */
public final class Read {
    private static final String[] SYMBOLS =
        {"ACME", "GLOBEX", "HOOLI", "INITECH", "STARK", "UMBRELLA", "WAYNE", "WONKA"};

    private final Client client;
    private final long[] seen = new long[SYMBOLS.length];
    private final double[] sums = new double[SYMBOLS.length];
    private final List<Long> delays = new ArrayList<>();

    private Read(Client client) {
        this.client = client;
    }

    /** Reads what came since the last call, of all symbols in one pipeline. */
    private void readNew() {
        List<Command<PackedReply>> commands = new ArrayList<>();
        for (int index = 0; index < SYMBOLS.length; index++) {
            commands.add(Command.of("LRANGE", "prices:" + SYMBOLS[index], seen[index], -1).packed(PackedReply.Type.F64));
            commands.add(Command.of("LRANGE", "times:" + SYMBOLS[index], seen[index], -1).packed(PackedReply.Type.DELTA));
        }
        List<CompletableFuture<?>> replies = client.sendAll(commands);
        for (int index = 0; index < SYMBOLS.length; index++) {
            DoubleBuffer prices = ((PackedReply) replies.get(2 * index).join()).doubleBuffer();
            long[] times = ((PackedReply) replies.get(2 * index + 1).join()).longs();
            // The times were asked for after the prices: there may be more of them.
            int count = prices.remaining();
            double sum = sums[index];
            for (int tick = 0; tick < count; tick++) {
                sum += prices.get(tick);
            }
            sums[index] = sum;
            seen[index] += count;
            if (count > 0) {
                delays.add(System.currentTimeMillis() * 1000 - times[count - 1]);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        ClientOptions options = ClientOptions.unix(Path.of(arguments[0]));
        Semaphore more = new Semaphore(0);
        AtomicBoolean ended = new AtomicBoolean();
        try (Client client = Client.connect(options); PubSub messages = PubSub.connect(options,
                (pattern, channel, message) -> {
                    ended.compareAndSet(false, new String(message).equals("end"));
                    more.release();
                })) {
            Read reader = new Read(client);
            messages.subscribe("ticks");
            long start = 0;
            boolean last = false;
            while (!last) {
                if (!more.tryAcquire(60, TimeUnit.SECONDS)) {
                    throw new IllegalStateException("no message for a minute");
                }
                more.drainPermits();
                start = start == 0 ? System.nanoTime() : start;
                last = ended.get();
                reader.readNew();
            }
            reader.report((System.nanoTime() - start) / 1e9);
        }
    }

    private void report(double seconds) {
        long ticks = Arrays.stream(seen).sum();
        double sum = 0;
        for (double each : sums) {
            sum += each;
        }
        delays.sort(null);
        System.out.printf("read:      %d ticks, %.0f/s, %.1f ms behind (median; 99%%: %.1f), checksum %016x%n", ticks,
                ticks / seconds, delays.get(delays.size() / 2) / 1e3, delays.get(delays.size() * 99 / 100) / 1e3,
                Double.doubleToRawLongBits(sum));
    }
}
