package mantissa.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Requests of more bytes than the socket takes, with a server that begins to read once the caller has written. */
@Timeout(60)
class BlockedWriteTest {
    /** Below the transport's buffer, so that the socket gets full at each place of it. */
    private static final int STEP = 20_000;
    /** Sockets of Linux take some 200 KB unless the system's settings say otherwise. */
    private static final int BYTES_MAX = 800_000;

    @Test
    void allBytesArriveWhereverTheSocketIsFull() throws Exception {
        Path folder = Files.createTempDirectory("mantissa-java");
        UnixDomainSocketAddress address = UnixDomainSocketAddress.of(folder.resolve("s"));
        try (ServerSocketChannel listener = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            listener.bind(address);
            for (int size = STEP; size <= BYTES_MAX; size += STEP) {
                // Protocol 2 without a name or a database has no greeting.
                try (Client client = Client.connect(ClientOptions.unix(address.getPath()).protocol(2));
                        SocketChannel peer = listener.accept()) {
                    CompletableFuture<Reply> reply = client.send(Command.of("SET", "k", new byte[size]));
                    String header = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$" + size + "\r\n";
                    readBytes(peer, header.length() + size + 2);
                    peer.write(ByteBuffer.wrap("+OK\r\n".getBytes(StandardCharsets.US_ASCII)));
                    assertEquals("OK", reply.get(10, TimeUnit.SECONDS).asString());
                }
            }
        } finally {
            Files.deleteIfExists(address.getPath());
            Files.delete(folder);
        }
    }

    private static void readBytes(SocketChannel peer, int count) throws Exception {
        ByteBuffer read = ByteBuffer.allocate(count);
        while (read.hasRemaining() && peer.read(read) >= 0) {
            // Until all is there.
        }
        assertEquals(0, read.remaining());
    }
}
