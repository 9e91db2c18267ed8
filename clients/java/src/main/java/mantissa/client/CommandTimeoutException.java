package mantissa.client;

/**
 * No reply came in time. The command may still run, or have run; its reply will be skipped when it comes, and the
 * connection goes on.
 */
public final class CommandTimeoutException extends ClientException {
    private static final long serialVersionUID = 1;

    public CommandTimeoutException(String message) {
        super(message);
    }
}
