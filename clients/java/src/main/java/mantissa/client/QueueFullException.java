package mantissa.client;

/**
 * The connection has as many commands without a reply, or as many bytes not yet sent, as its options allow. The command
 * was not sent. Send less at a time, or raise {@code maxPending} or {@code maxQueuedBytes}.
 */
public final class QueueFullException extends ClientException {
    private static final long serialVersionUID = 1;

    public QueueFullException(String message) {
        super(message);
    }
}
