// The servers that bench/websockets.py compares with: an echo of each message, and at /fan a message to all who subscribe
// when one connection sends any. Runs under Bun, or under Node.js with its package ws: bun|node websocket_servers.mjs
if (globalThis.Bun) {
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: (request, server) =>
      server.upgrade(request, { data: new URL(request.url).pathname }) ? undefined : new Response("", { status: 400 }),
    websocket: {
      perMessageDeflate: false,
      message(socket, message) {
        if (socket.data !== "/fan") socket.send(message);
        else if (message.toString() === "subscribe") socket.subscribe("news"), socket.send(message);
        else server.publish("news", message);
      },
    },
  });
  console.log(server.port);
} else {
  const { WebSocketServer } = await import("ws");
  const server = new WebSocketServer({ port: 0, host: "127.0.0.1", perMessageDeflate: false });
  const subscribers = new Set();
  server.on("connection", (socket, request) => {
    socket.on("message", (message) => {
      if (request.url !== "/fan") socket.send(message);
      else if (message.toString() === "subscribe") subscribers.add(socket), socket.send(message);
      else for (const subscriber of subscribers) subscriber.send(message);
    });
    socket.on("close", () => subscribers.delete(socket));
    socket.on("error", () => {});
  });
  server.on("listening", () => console.log(server.address().port));
}
