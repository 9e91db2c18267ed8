package mantissa.client;

/** An error that the server replied, with its text. It has no stack trace, since it is made on the reading thread. */
public final class ServerException extends ClientException {
    private static final long serialVersionUID = 1;

    public ServerException(String message) {
        super(message);
    }

    /** The first word: {@code ERR}, {@code WRONGTYPE}, {@code NOSCRIPT} and so on. */
    public String code() {
        String message = getMessage();
        int space = message.indexOf(' ');
        return space < 0 ? message : message.substring(0, space);
    }

    @Override
    public synchronized Throwable fillInStackTrace() {
        return this;
    }
}
