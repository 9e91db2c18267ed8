package mantissa.client;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/** A server for tests: the program that MANTISSA_BINARY names; without it the test is skipped. */
final class TestServer implements AutoCloseable {
    final int port;
    private final Process process;
    private final Path folder;

    private TestServer(int port, Process process, Path folder) {
        this.port = port;
        this.process = process;
        this.folder = folder;
    }

    /** A free port below the kernel's ephemeral ports: no outgoing connection takes it before the server does. */
    static int freePort() throws Exception {
        int end;
        // The kernel answers one read: Files.readString, which begins with one byte, gets no more than that.
        try (var range = Files.newBufferedReader(Path.of("/proc/sys/net/ipv4/ip_local_port_range"))) {
            end = Integer.parseInt(range.readLine().split("\\s+")[0]);
        }
        while (true) {
            int port = ThreadLocalRandom.current().nextInt(Math.min(10_000, end / 2), end);
            try (ServerSocket free = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
                return free.getLocalPort();
            } catch (BindException taken) {
                // Another one.
            }
        }
    }

    static TestServer start(String... options) throws Exception {
        return start(Files.createTempDirectory("mantissa-java"), options);
    }

    /** The folder is deleted in the end. */
    static TestServer start(Path folder, String... options) throws Exception {
        String binary = System.getenv("MANTISSA_BINARY");
        assumeTrue(binary != null, "MANTISSA_BINARY names no server: tests with one are skipped");
        int port = freePort();
        List<String> words = new ArrayList<>(List.of(binary, "server", "--port", Integer.toString(port), "--save", "",
                "--dir", folder.toString()));
        words.addAll(List.of(options));
        Process process = new ProcessBuilder(words).redirectErrorStream(true)
                .redirectOutput(Path.of("target", "server-" + port + ".log").toFile()).start();
        TestServer server = new TestServer(port, process, folder);
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (true) {
            try (Client client = server.client()) {
                client.call("PING");
                return server;
            } catch (ConnectionLostException | ServerException notYet) {
                // While data are loaded, an empty folder too, commands are answered with an error.
                if (System.nanoTime() > deadline || !process.isAlive()) {
                    server.close();
                    throw notYet;
                }
                TimeUnit.MILLISECONDS.sleep(20);
            }
        }
    }

    ClientOptions options() {
        return ClientOptions.tcp("127.0.0.1", port);
    }

    Client client() {
        return Client.connect(options());
    }

    @Override
    public void close() throws IOException {
        process.destroy();
        process.onExit().join();
        try (var files = Files.list(folder)) {
            for (Path file : files.toList()) {
                Files.deleteIfExists(file);
            }
        }
        Files.delete(folder);
    }
}
