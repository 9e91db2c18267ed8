package mantissa.client.commands;

import java.util.Arrays;
import java.util.Collection;
import mantissa.client.Command;
import mantissa.client.ReplyType;

/** Puts the words of commands together. */
final class Words {
    private Words() {}

    /** A command of fixed words and what follows them. */
    static <T> Command<T> of(ReplyType<T> type, Object[] fixed, Object... more) {
        if (more.length == 0) {
            return Command.of(fixed).as(type);
        }
        Object[] words = Arrays.copyOf(fixed, fixed.length + more.length);
        System.arraycopy(more, 0, words, fixed.length, more.length);
        return Command.of(words).as(type);
    }

    /** The same where some of the fixed words are collections, each of which stands for its elements. */
    static <T> Command<T> flat(ReplyType<T> type, Object[] fixed, Object... more) {
        int count = more.length;
        for (Object word : fixed) {
            count += word instanceof Collection<?> several ? several.size() : 1;
        }
        Object[] words = new Object[count];
        int at = 0;
        for (Object word : fixed) {
            if (word instanceof Collection<?> several) {
                for (Object each : several) {
                    words[at++] = each;
                }
            } else {
                words[at++] = word;
            }
        }
        System.arraycopy(more, 0, words, at, more.length);
        return Command.of(words).as(type);
    }
}
