package mantissa.client;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.StandardProtocolFamily;
import java.net.StandardSocketOptions;
import java.net.UnixDomainSocketAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;

/** A socket: bytes in, bytes out. One thread reads and one at a time writes. */
class Transport {
    private static final int OUT = 64 * 1024;

    final SocketChannel channel;
    /** Bytes on their way to the socket, outside the heap so that the system call takes them from where they are. */
    protected ByteBuffer out = ByteBuffer.allocateDirect(OUT).limit(0);

    Transport(SocketChannel channel) {
        this.channel = channel;
    }

    /** Connects within {@code millis}; the channel is in blocking mode. */
    static Transport connect(ClientOptions options) throws IOException {
        SocketAddress address = options.address.get();
        if (address instanceof UnixDomainSocketAddress) {
            SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
            try {
                channel.connect(address);
            } catch (IOException failed) {
                channel.close();
                throw failed;
            }
            return new Transport(channel);
        }
        InetSocketAddress target = (InetSocketAddress) address;
        if (target.isUnresolved()) {
            target = new InetSocketAddress(target.getHostString(), target.getPort());
        }
        if (target.isUnresolved()) {
            throw new UnknownHostException("unknown host \"" + target.getHostString() + '"');
        }
        SocketChannel channel = SocketChannel.open();
        try {
            channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
            channel.setOption(StandardSocketOptions.SO_KEEPALIVE, true);
            channel.socket().connect(target, (int) Math.min(Integer.MAX_VALUE, options.connectTimeout.toMillis()));
            if (options.tls == null) {
                return new Transport(channel);
            }
            String host = options.host == null ? target.getHostString() : options.host;
            return new TlsTransport(channel, options, host, target.getPort());
        } catch (IOException | RuntimeException failed) {
            channel.close();
            throw failed;
        }
    }

    /** Whether bytes that were read from the socket are still in here. */
    boolean hasMore() {
        return false;
    }

    /** The handshake of TLS. */
    void handshake() throws IOException {}

    /** Reads what there is, 0 if nothing and the channel does not block, -1 at the end. */
    int read(ByteBuffer target) throws IOException {
        return channel.read(target);
    }

    /** Writes; false if the socket takes no more now, and then this is to be called again with the same buffer. */
    final boolean write(ByteBuffer source) throws IOException {
        while (true) {
            while (out.hasRemaining()) {
                if (channel.write(out) == 0) {
                    return false;
                }
            }
            if (!source.hasRemaining()) {
                return true;
            }
            fill(source);
        }
    }

    /** Whether the socket has taken all that was written. */
    final boolean isFlushed() {
        return !out.hasRemaining();
    }

    /** Moves some of {@code source} to {@code out}, which is empty. */
    protected void fill(ByteBuffer source) throws IOException {
        out.clear();
        int count = Math.min(source.remaining(), out.capacity());
        int limit = source.limit();
        out.put(source.limit(source.position() + count));
        source.limit(limit);
        out.flip();
    }

    final void close() {
        try {
            channel.close();
        } catch (IOException ignored) {
            // It is gone either way.
        }
    }
}
