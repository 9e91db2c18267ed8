// Writes to the primary that Sentinels name, through ioredis, and prints the number of each write that WAIT confirmed.
//
//   NODE_PATH=.../node_modules node sentinel_client.js NAME PORT...      the ports of the Sentinels
//
// Ends with its standard input.
"use strict";

const Redis = require("ioredis");

const [name, ...ports] = process.argv.slice(2);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
let next = 0;
let stopped = false;

function connect() {
  const client = new Redis({
    name,
    sentinels: ports.map((port) => ({ host: "127.0.0.1", port: Number(port) })),
    sentinelRetryStrategy: () => 100,
    retryStrategy: () => 100,
    connectTimeout: 1000,
    sentinelCommandTimeout: 1000,
    commandTimeout: 2000,
    maxRetriesPerRequest: 0,
    // Connections to a former primary that does not answer are given up when Sentinels name another one.
    failoverDetector: true,
    reconnectOnError: (error) => error.message.startsWith("READONLY"),
  });
  client.on("error", () => {});
  return client;
}

async function write() {
  let client = connect();
  while (!stopped) {
    const number = next++;
    try {
      const [stored, waited] = await client.pipeline().set(`node:${number}`, number).call("WAIT", 1, 500).exec();
      if (stored[1] === "OK" && waited[1] >= 1) {
        process.stdout.write(`${number}\n`);
        continue;
      }
    } catch {
      // It is tried again.
    }
    if (client.status === "end") {
      // Where several Sentinels tell of a failover while it connects, ioredis gives up for good.
      client = connect();
    }
    await pause(50);
  }
  client.disconnect();
}

process.stdin.resume();
process.stdin.on("end", () => {
  stopped = true;
  setTimeout(() => process.exit(0), 3000).unref();
});
Promise.all([write(), write()]).then(() => process.exit(0));
