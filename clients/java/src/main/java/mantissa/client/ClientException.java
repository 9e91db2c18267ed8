package mantissa.client;

/** What went wrong in the client or on the way; errors that the server replies are {@link ServerException}. */
public class ClientException extends RuntimeException {
    private static final long serialVersionUID = 1;

    public ClientException(String message) {
        super(message);
    }

    public ClientException(String message, Throwable cause) {
        super(message, cause);
    }
}
