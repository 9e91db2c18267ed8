package mantissa.client;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;

/** A script in Lua, sent by its SHA-1, and as a whole where the server does not have it. */
public final class Script {
    private final String text;
    private final String digest;

    public Script(String text) {
        this.text = text;
        try {
            byte[] sum = MessageDigest.getInstance("SHA-1").digest(text.getBytes(StandardCharsets.UTF_8));
            digest = HexFormat.of().formatHex(sum);
        } catch (NoSuchAlgorithmException impossible) {
            throw new AssertionError("every Java platform has SHA-1", impossible);
        }
    }

    /** The SHA-1 in hexadecimal. */
    public String digest() {
        return digest;
    }

    /** Runs it: EVALSHA, and EVAL if the server answers NOSCRIPT. Arguments are words as {@link Command#of} takes them. */
    public Reply run(Client client, List<String> keys, Object... arguments) {
        Object[] words = new Object[3 + keys.size() + arguments.length];
        words[0] = "EVALSHA";
        words[1] = digest;
        words[2] = keys.size();
        for (int index = 0; index < keys.size(); index++) {
            words[3 + index] = keys.get(index);
        }
        System.arraycopy(arguments, 0, words, 3 + keys.size(), arguments.length);
        try {
            return client.run(Command.of(words));
        } catch (ServerException failed) {
            if (!failed.code().equals("NOSCRIPT")) {
                throw failed;
            }
        }
        Object[] whole = words.clone();
        whole[0] = "EVAL";
        whole[1] = text;
        return client.run(Command.of(whole));
    }
}
