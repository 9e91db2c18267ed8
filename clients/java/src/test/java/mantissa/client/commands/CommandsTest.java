package mantissa.client.commands;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import mantissa.client.Command;
import mantissa.client.PackedReply;
import org.junit.jupiter.api.Test;

/** What the generated methods put together. */
class CommandsTest {
    private static String words(Command<?> command) {
        StringBuilder text = new StringBuilder(command.name());
        for (int index = 1; index < command.wordCount(); index++) {
            text.append(' ').append(command.word(index));
        }
        return text.toString();
    }

    @Test
    void argumentsComeInTheirOrder() {
        assertEquals("GET k", words(StringCommands.get("k")));
        assertEquals("SET k 2.5 EX 10", words(StringCommands.set("k", 2.5, "EX", 10)));
        assertEquals("ZADD z NX 1.5 a", words(SortedSetCommands.zadd("z", "NX", 1.5, "a")));
        assertEquals("ZCOUNT z (1 inf", words(SortedSetCommands.zcount("z", "(1", "inf")));
        assertEquals("ZINTER 2 a b WITHSCORES", words(SortedSetCommands.zinter(List.of("a", "b"), "WITHSCORES")));
        assertEquals("BLPOP a b 0.5", words(ListCommands.blpop(List.of("a", "b"), 0.5)));
        assertEquals("EVAL return 1 0 x", words(ScriptingCommands.eval("return 1", List.of(), "x")));
        assertEquals("CONFIG GET port", words(ServerCommands.configGet("port")));
        assertEquals("LMOVE a b LEFT RIGHT", words(ListCommands.lmove("a", "b", "LEFT", "RIGHT")));
        assertEquals("XREAD COUNT 5 STREAMS s 0", words(StreamCommands.xread("COUNT", 5, "STREAMS", "s", "0")));
        assertEquals("MGET a b", words(StringCommands.mget("a", "b")));
        assertEquals("MANTISSA.PACKED F64 GET k",
                words(StringCommands.get("k").packed(PackedReply.Type.F64)));
    }
}
