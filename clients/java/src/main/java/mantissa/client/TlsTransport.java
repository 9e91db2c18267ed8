package mantissa.client;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLEngineResult;
import javax.net.ssl.SSLEngineResult.HandshakeStatus;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLParameters;

/** TLS by an engine on a channel, so that reading and writing need no thread each. */
final class TlsTransport extends Transport {
    private static final ByteBuffer NOTHING = ByteBuffer.allocate(0);

    private final SSLEngine engine;
    /** What the socket gave, from its position to its limit. */
    private final ByteBuffer received;
    /** What was decrypted and did not fit the reader's buffer. */
    private final ByteBuffer plain;

    TlsTransport(SocketChannel channel, ClientOptions options, String host, int port) {
        super(channel);
        engine = options.tls.createSSLEngine(host, port);
        engine.setUseClientMode(true);
        SSLParameters parameters = engine.getSSLParameters();
        if (options.verifyHost) {
            parameters.setEndpointIdentificationAlgorithm("HTTPS");
        }
        engine.setSSLParameters(parameters);
        int packet = engine.getSession().getPacketBufferSize();
        received = ByteBuffer.allocate(2 * packet).limit(0);
        plain = ByteBuffer.allocate(engine.getSession().getApplicationBufferSize()).limit(0);
        out = ByteBuffer.allocateDirect(packet).limit(0);
    }

    @Override
    boolean hasMore() {
        return plain.hasRemaining() || received.hasRemaining() && engineCouldUnwrap;
    }

    /** False once the engine has said that what was received is a part of a record. */
    private boolean engineCouldUnwrap;

    @Override
    void handshake() throws IOException {
        engine.beginHandshake();
        while (true) {
            HandshakeStatus status = engine.getHandshakeStatus();
            if (status == HandshakeStatus.NEED_TASK) {
                runTasks();
            } else if (status == HandshakeStatus.NEED_WRAP) {
                wrap(NOTHING);
                while (out.hasRemaining()) {
                    channel.write(out);
                }
            } else if (status == HandshakeStatus.NEED_UNWRAP) {
                plain.clear();
                int count = unwrap(plain, true);
                plain.flip();
                if (count < 0) {
                    throw new EOFException("the server closed the connection during the handshake of TLS");
                }
            } else {
                return;
            }
        }
    }

    private void runTasks() {
        for (Runnable task = engine.getDelegatedTask(); task != null; task = engine.getDelegatedTask()) {
            task.run();
        }
    }

    private void wrap(ByteBuffer source) throws SSLException {
        out.clear();
        SSLEngineResult result = engine.wrap(source, out);
        out.flip();
        if (result.getStatus() == SSLEngineResult.Status.CLOSED && source.hasRemaining()) {
            throw new SSLException("the connection is closed");
        }
    }

    @Override
    protected void fill(ByteBuffer source) throws IOException {
        do {
            wrap(source);
            if (!out.hasRemaining() && engine.getHandshakeStatus() == HandshakeStatus.NEED_TASK) {
                runTasks();
            }
        } while (!out.hasRemaining() && source.hasRemaining());
    }

    @Override
    int read(ByteBuffer target) throws IOException {
        if (plain.hasRemaining()) {
            return drain(target);
        }
        if (target.remaining() >= plain.capacity()) {
            return unwrap(target, false);
        }
        plain.clear();
        int count = unwrap(plain, false);
        plain.flip();
        return count <= 0 ? count : drain(target);
    }

    private int drain(ByteBuffer target) {
        int count = Math.min(target.remaining(), plain.remaining());
        target.put(target.position(), plain.array(), plain.position(), count);
        target.position(target.position() + count);
        plain.position(plain.position() + count);
        return count;
    }

    /** Decrypts records until there are bytes, or the handshake has made a step. */
    private int unwrap(ByteBuffer target, boolean handshaking) throws IOException {
        int before = target.position();
        while (true) {
            if (received.hasRemaining()) {
                SSLEngineResult result = engine.unwrap(received, target);
                if (result.getHandshakeStatus() == HandshakeStatus.NEED_TASK) {
                    runTasks();
                }
                engineCouldUnwrap = result.getStatus() == SSLEngineResult.Status.OK;
                int count = target.position() - before;
                if (result.getStatus() == SSLEngineResult.Status.CLOSED) {
                    return count > 0 ? count : -1;
                }
                if (result.getStatus() == SSLEngineResult.Status.OK) {
                    if (count > 0 || handshaking) {
                        return count;
                    }
                    continue;
                }
            }
            received.compact();
            int count;
            try {
                count = channel.read(received);
            } finally {
                received.flip();
            }
            if (count <= 0) {
                return count;
            }
        }
    }
}
