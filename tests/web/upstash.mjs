// What @upstash/redis does with a server: every line that is printed is a result as JSON.
import { createRequire } from "node:module";

const { Redis } = createRequire(import.meta.url)("@upstash/redis");
const [url, token] = process.argv.slice(2);
const redis = new Redis({ url, token, retry: false, enableTelemetry: false });
const plain = new Redis({ url, token, retry: false, responseEncoding: false });

async function show(name, work) {
    let result;
    try {
        result = await work();
    } catch (error) {
        result = { error: error.message };
    }
    console.log(JSON.stringify([name, result]));
}

for (const [kind, client] of [["base64", redis], ["plain", plain]]) {
    const key = (name) => `${kind}:${name}`;
    await show("set", () => client.set(key("k"), "v é"));
    await show("get", () => client.get(key("k")));
    await show("ok", async () => [await client.set(key("ok"), "OK"), await client.get(key("ok"))]);
    await show("object", async () => [await client.set(key("o"), { a: [1, "x"] }), await client.get(key("o"))]);
    await show("missing", () => client.get(key("none")));
    await show("expiry", async () => [await client.set(key("e"), 1, { ex: 100, nx: true }), await client.ttl(key("e"))]);
    await show("counter", () => client.incrby(key("n"), 5));
    await show("hash", async () => [await client.hset(key("h"), { a: 1, b: "two" }), await client.hgetall(key("h"))]);
    await show("list", async () => [await client.rpush(key("l"), "a", 1, "OK"), await client.lrange(key("l"), 0, -1)]);
    await show("zset", async () => [
        await client.zadd(key("z"), { score: 1.5, member: "m" }, { score: 2, member: "n" }),
        await client.zrange(key("z"), 0, -1, { withScores: true }),
    ]);
    await show("stream", async () => [await client.xadd(key("s"), "1-1", { f: "v" }), await client.xrange(key("s"), "-", "+")]);
    await show("json", async () => [await client.json.set(key("j"), "$", { a: 1 }), await client.json.get(key("j"), "$.a")]);
    await show("script", () => client.eval("return {KEYS[1], ARGV[1], 1}", [key("k")], ["a"]));
    await show("scan", async () => (await client.scan(0, { match: key("h"), count: 1000 })));
    await show("error", () => client.lpush(key("k"), "x"));
    await show("pipeline", () => client.pipeline().set(key("p"), 1).incr(key("p")).get(key("p")).exec());
    await show("multi", () => client.multi().set(key("m"), 1).incr(key("m")).lrange(key("l"), 0, -1).exec());
    await show("discarded", () => client.multi().set(key("m"), 9).eval("", [], []).exec());
}

const subscriber = redis.subscribe(["news"]);
const message = new Promise((resolve) => subscriber.on("message", resolve));
subscriber.on("subscribe", () => redis.publish("news", { x: 1 }));
await show("message", () => message);
await subscriber.unsubscribe();
await show("unauthorized", () => new Redis({ url, token: "nobody:x", retry: false }).get("k"));
process.exit(0);
