package mantissa.client;

/** The connection broke, or was closed, before the reply came. The command may have run, or not. */
public final class ConnectionLostException extends ClientException {
    private static final long serialVersionUID = 1;

    public ConnectionLostException(String message, Throwable cause) {
        super(message, cause);
    }
}
