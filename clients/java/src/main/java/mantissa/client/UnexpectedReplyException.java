package mantissa.client;

/** The server's reply is of another kind than the command's type takes. The connection goes on. */
public final class UnexpectedReplyException extends ClientException {
    private static final long serialVersionUID = 1;

    public UnexpectedReplyException(String message) {
        super(message);
    }
}
