package mantissa.client;

/**
 * Takes the elements of an array, map or set one after the other. Strings lie in the buffer of the socket's read and are
 * valid during the call only. One assembly may take the elements of nested arrays as well, by returning itself from
 * {@link #aggregate}.
 */
public abstract class Assembly {
    /** A string. */
    public abstract void bulk(byte[] buffer, int offset, int length);

    /** A string too long for the buffer, in an array that the assembly may keep. */
    public void ownedBulk(byte[] bytes) {
        bulk(bytes, 0, bytes.length);
    }

    /** A status, such as OK. */
    public void status(byte[] buffer, int offset, int length) {
        bulk(buffer, offset, length);
    }

    /** An integer. */
    public abstract void integer(long value);

    /** A double of RESP3. */
    public abstract void decimal(double value);

    /** The same with the text that came, for what keeps it; the buffer is valid during the call only. */
    public void decimal(double value, byte[] buffer, int offset, int length) {
        decimal(value);
    }

    /** A boolean of RESP3. */
    public void bool(boolean value) {
        integer(value ? 1 : 0);
    }

    /** Null. */
    public abstract void nil();

    /** An error as an element, as EXEC has them. */
    public void error(ServerException error) {
        throw error;
    }

    /** A nested array, set or map begins, of {@code count} elements; a map counts keys and values. */
    public abstract Assembly aggregate(char kind, int count);

    /** What a nested assembly other than this one has made. */
    public void element(Object value) {
        throw new UnexpectedReplyException("a nested array was not expected");
    }

    /**
     * Takes nested arrays by itself, as many as lie whole in {@code buffer[at, limit)}, up to {@code most}. What it does
     * not take comes element by element.
     *
     * @return where it stopped in the lower half, how many it took in the upper half
     */
    long takeArrays(byte[] buffer, int at, int limit, int most) {
        return at;
    }

    /** All elements have been seen: what they make. */
    public abstract Object end();

    /** Takes everything and keeps nothing. */
    static final Assembly DISCARD = new Assembly() {
        @Override
        public void bulk(byte[] buffer, int offset, int length) {}

        @Override
        public void integer(long value) {}

        @Override
        public void decimal(double value) {}

        @Override
        public void nil() {}

        @Override
        public void error(ServerException error) {}

        @Override
        public Assembly aggregate(char kind, int count) {
            return this;
        }

        @Override
        public void element(Object value) {}

        @Override
        public Object end() {
            return null;
        }
    };
}
