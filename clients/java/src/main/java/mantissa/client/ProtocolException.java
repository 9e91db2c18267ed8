package mantissa.client;

/** The bytes from the server are no RESP. The connection is closed and made anew. */
public final class ProtocolException extends ClientException {
    private static final long serialVersionUID = 1;

    public ProtocolException(String message) {
        super(message);
    }
}
