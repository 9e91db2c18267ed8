package mantissa.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import mantissa.client.commands.BitmapCommands;
import mantissa.client.commands.BloomFilterCommands;
import mantissa.client.commands.CuckooFilterCommands;
import mantissa.client.commands.HashCommands;
import mantissa.client.commands.JsonCommands;
import mantissa.client.commands.KeyCommands;
import mantissa.client.commands.ListCommands;
import mantissa.client.commands.MantissaCommands;
import mantissa.client.commands.ScriptingCommands;
import mantissa.client.commands.ServerCommands;
import mantissa.client.commands.SetCommands;
import mantissa.client.commands.SortedSetCommands;
import mantissa.client.commands.StreamCommands;
import mantissa.client.commands.StringCommands;
import mantissa.client.commands.TDigestCommands;
import mantissa.client.commands.TimeSeriesCommands;
import mantissa.client.commands.VectorSetCommands;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Generated methods with a server: replies have the types that they say, in both protocols. */
@Timeout(60)
class TypedCommandsTest {
    @Test
    void repliesHaveTheirTypes() throws Exception {
        try (TestServer server = TestServer.start()) {
            for (int protocol : new int[] {2, 3}) {
                try (Client client = Client.connect(server.options().protocol(protocol))) {
                    client.run(ServerCommands.flushall());
                    strings(client);
                    collections(client);
                    others(client);
                }
            }
        }
    }

    private static void strings(Client client) {
        assertEquals("OK", client.run(StringCommands.set("k", 5)).asString());
        assertTrue(client.run(StringCommands.set("k", 6, "NX")).isNull());
        assertFalse(client.run(StringCommands.set("k", 6, "NX").as(ReplyTypes.BOOLEAN)));
        assertNull(client.run(StringCommands.set("new", 1, "GET")).asString());
        assertEquals("1", client.run(StringCommands.set("new", 2, "GET")).asString());
        assertEquals("5", client.run(StringCommands.get("k")));
        assertEquals(7L, client.run(StringCommands.incrby("k", 2)));
        assertEquals(7.5, client.run(StringCommands.incrbyfloat("k", 0.5)));
        assertTrue(client.run(StringCommands.mset("a", 1, "b", 2)));
        assertEquals(java.util.Arrays.asList("1", null, "2"), client.run(StringCommands.mget("a", "none", "b")));
        assertEquals(2L, client.run(KeyCommands.del("a", "b", "none")));
        assertTrue(client.run(KeyCommands.expire("k", 100)));
        assertTrue(client.run(KeyCommands.ttl("k")) > 90);
        assertEquals("string", client.run(KeyCommands.type("k")));
        assertEquals(13L, client.run(BitmapCommands.bitcount("k")));
    }

    private static void collections(Client client) {
        assertEquals(2L, client.run(HashCommands.hset("h", "f", 1.5, "g", "x")));
        assertEquals(Map.of("f", "1.5", "g", "x"), client.run(HashCommands.hgetall("h")));
        assertEquals(2.0, client.run(HashCommands.hincrbyfloat("h", "f", 0.5)));
        assertEquals(3L, client.run(ListCommands.rpush("l", "a", "b", "c")));
        assertEquals(List.of("a", "b", "c"), client.run(ListCommands.lrange("l", 0, -1)));
        assertEquals(2L, client.run(SetCommands.sadd("s", "x", "y")));
        assertTrue(client.run(SetCommands.sismember("s", "x")));
        assertEquals(2, client.run(SortedSetCommands.zadd("z", 1.5, "a", 2, "b")).asLong());
        assertEquals(2.5, client.run(SortedSetCommands.zadd("z", "INCR", 1, "a")).asDouble());
        assertEquals("2.5", client.run(SortedSetCommands.zadd("z", "INCR", 0, "a")).asString());
        assertTrue(client.run(SortedSetCommands.zadd("z", "NX", "INCR", 1, "a")).isNull());
        assertEquals(0, client.run(SortedSetCommands.zrevrank("z", "a")).asLong());
        assertEquals(2.5,
                client.run(SortedSetCommands.zrevrank("z", "a", "WITHSCORE")).asList().get(1).asDouble());
        assertEquals(1.25, client.run(SortedSetCommands.zincrby("z", -1.25, "a")));
        assertEquals(1.5, client.run(SortedSetCommands.zincrby("z", 0.25, "a")));
        assertEquals(1.5, client.run(SortedSetCommands.zscore("z", "a")));
        assertArrayEquals(new double[] {1.5, Double.NaN, 2}, client.run(SortedSetCommands.zmscore("z", "a", "no", "b")));
        ScoredMembers popped = client.run(SortedSetCommands.zpopmin("z"));
        assertEquals("a", popped.member(0));
        assertEquals(1L, client.run(SortedSetCommands.zinterstore("to", List.of("z", "s", "z").subList(0, 1))));
        assertEquals("1-1", client.run(StreamCommands.xadd("x", "1-1", "f", 1)));
        assertTrue(client.run(StreamCommands.xgroupCreate("x", "g", "0")));
    }

    private static void others(Client client) {
        assertEquals(List.of(true), client.run(ScriptingCommands.scriptExists(
                client.run(ScriptingCommands.scriptLoad("return 1")))));
        assertEquals(3L, client.run(ScriptingCommands.eval("return #ARGV", List.of("k"), 1, 2, 3).as(ReplyTypes.LONG)));
        assertEquals(Map.of("databases", "16"), client.run(ServerCommands.configGet("databases")));
        assertTrue(client.run(JsonCommands.jsonSet("j", "$", "{\"a\":1}")));
        assertEquals("{\"a\":1}", client.run(JsonCommands.jsonGet("j")));
        assertTrue(client.run(JsonCommands.jsonSet("j", "$.s", "\"four\"")));
        assertEquals(4, client.run(JsonCommands.jsonStrlen("j", ".s")).asLong());
        assertEquals(4, client.run(JsonCommands.jsonStrlen("j", "$.s")).asList().get(0).asLong());
        assertEquals(List.of(1L, 0L), client.run(CuckooFilterCommands.cfInsertnx("cf", "ITEMS", "x", "x")));
        assertTrue(client.run(BloomFilterCommands.bfAdd("bf", "x")));
        assertEquals(List.of(true, false), client.run(BloomFilterCommands.bfMexists("bf", "x", "y")));
        assertTrue(client.run(TDigestCommands.tdigestCreate("td")));
        assertTrue(client.run(TDigestCommands.tdigestAdd("td", 1.0, 2.0)));
        assertEquals(2.0, client.run(TDigestCommands.tdigestMax("td")));
        assertEquals(1000L, client.run(TimeSeriesCommands.tsAdd("ts", 1000, 2.5)));
        assertTrue(client.run(VectorSetCommands.vadd("v", "VALUES", 2, 1, 0.5, "e")));
        byte[] packed = PackedReply.pack(new String[] {"p"}, new double[] {7.25});
        assertEquals(1L, client.run(MantissaCommands.mantissaUnpackZadd("up", packed).as(ReplyTypes.LONG)));
        assertArrayEquals(new double[] {7.25}, client.run(
                SortedSetCommands.zrange("up", 0, -1, "WITHSCORES").packed(PackedReply.Type.F64)).doubles());
    }
}
