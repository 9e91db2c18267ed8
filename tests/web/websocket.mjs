// The npm package ws, whose interface is that of browsers: what came of some commands, as JSON. The address is
// the first argument.
import WebSocket from "ws";

const url = process.argv[2];

function opened(protocols, options) {
  const socket = new WebSocket(url, protocols, options);
  const messages = [];
  const waiting = [];
  socket.on("message", (data, isBinary) => {
    const message = isBinary ? data.toString("latin1") : JSON.parse(data.toString());
    const next = waiting.shift();
    if (next) next(message);
    else messages.push(message);
  });
  socket.next = () => (messages.length ? Promise.resolve(messages.shift()) : new Promise((done) => waiting.push(done)));
  return new Promise((done, failed) => {
    socket.on("open", () => done(socket));
    socket.on("error", failed);
  });
}

const ended = (socket) => new Promise((done) => socket.on("close", (code) => done(code)));
const results = {};

const json = await opened(["json"]);
results.protocol = json.protocol;
json.send(JSON.stringify({ id: 1, command: ["SET", "k", "v é"] }));
results.set = await json.next();
json.send(JSON.stringify(["GET", "k"]));
results.get = await json.next();
json.send(JSON.stringify(["SUBSCRIBE", "news"]));
results.subscribe = await json.next();

// permessage-deflate is offered, and declined.
const resp = await opened([], { perMessageDeflate: true });
results.extensions = resp.extensions;
resp.send(Buffer.from("*3\r\n$7\r\nPUBLISH\r\n$4\r\nnews\r\n$5\r\nhello\r\n"));
results.publish = await resp.next();
results.message = await json.next();
const large = "x".repeat(3_000_000);
resp.send(Buffer.from(`*2\r\n$4\r\nECHO\r\n$${large.length}\r\n${large}\r\n`));
results.large = (await resp.next()).length;
resp.ping("are you there");
results.pong = await new Promise((done) => resp.on("pong", (data) => done(data.toString())));
const closed = ended(resp);
resp.close(4321, "done");
results.closed = await closed;
const quit = ended(json);
json.send(JSON.stringify(["QUIT"]));
results.quit = await quit;
console.log(JSON.stringify(results));
