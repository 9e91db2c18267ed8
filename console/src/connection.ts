// A connection to the server: WebSocket with JSON (docs/websocket.md). It comes back by itself when it was
// lost; commands that were under way then have failed, and the caller decides.
import { parseJson, type Reply, type Text } from "./text";

/** An argument of a command. */
export type Word = Text | number;
/** Who logs in. No user: the default user without a password. */
export interface Login {
  user: string;
  password: string;
}

export type State = "connecting" | "ready" | "lost" | "refused" | "closed";

/** An error that the server replied. */
export class CommandError extends Error {
  get isDenied(): boolean {
    return this.message.startsWith("NOPERM");
  }
}

/** The connection ended before the reply came, or was not there. */
export class LostError extends Error {
  constructor(message = "There is no connection to the server.") {
    super(message);
  }
}

interface Waiting {
  resolve: (reply: Reply) => void;
  reject: (error: Error) => void;
}

/** Characters of a message at most: the server's default for its bytes. */
const MESSAGE_MAX = 16 << 20;
const RETRY_MS = [250, 500, 1000, 2000, 4000];

export class Connection {
  state: State = "connecting";
  /** Why the login was refused. */
  refusal = "";
  database = 0;
  onState: () => void = () => {};
  onPush: (push: Reply[]) => void = () => {};
  /** What is sent whenever the connection stands anew. */
  onReady: () => void = () => {};
  private socket: WebSocket | null = null;
  private waiting = new Map<number, Waiting>();
  private awaiting: Waiting[] = [];
  private nextId = 1;
  private retries = 0;
  private timer = 0;

  constructor(private login: Login) {}

  open(): void {
    clearTimeout(this.timer);
    this.enter(this.retries === 0 ? "connecting" : "lost");
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/ws`, "json");
    this.socket = socket;
    socket.onopen = () => void this.begin(socket);
    socket.onmessage = (event) => this.receive(String(event.data));
    socket.onclose = (event) => {
      if (this.socket === socket) this.lose(event.reason);
    };
  }

  close(): void {
    clearTimeout(this.timer);
    const socket = this.socket;
    this.socket = null;
    socket?.close();
    this.fail();
    this.enter("closed");
  }

  /** Try again now. */
  retry(): void {
    if (this.state === "lost") this.open();
  }

  /** Waits until commands can be sent. */
  whenReady(): Promise<void> {
    if (this.state === "ready") return Promise.resolve();
    return new Promise((resolve, reject) => this.awaiting.push({ resolve: () => resolve(), reject }));
  }

  call(...words: Word[]): Promise<Reply> {
    if (this.state !== "ready") return Promise.reject(new LostError());
    return this.send(words);
  }

  private async begin(socket: WebSocket): Promise<void> {
    const { user, password } = this.login;
    const hello = user === "" ? ["HELLO", 3] : ["HELLO", 3, "AUTH", user, password];
    try {
      await this.send(hello);
      if (this.database !== 0) await this.send(["SELECT", this.database]);
      // A user may lack these; the connection is as good without a name.
      this.send(["CLIENT", "SETNAME", "console"]).catch(() => {});
      this.retries = 0;
      this.enter("ready");
      this.onReady();
    } catch (error) {
      if (error instanceof LostError || this.socket !== socket) return;
      this.refusal = (error as Error).message;
      this.socket = null;
      socket.close();
      this.enter("refused");
    }
  }

  private send(words: Word[]): Promise<Reply> {
    const id = this.nextId++;
    const message = JSON.stringify({ id, command: words });
    // In UTF-8 it may be longer; the server ends the connection then, and says why.
    if (message.length > MESSAGE_MAX) {
      return Promise.reject(
        new Error("This is more than a WebSocket message may hold (websocket-max-message)."),
      );
    }
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.socket?.send(message);
    });
  }

  private receive(data: string): void {
    const message = parseJson(data) as { id?: number; reply?: Reply; error?: string; push?: Reply[] };
    const waiting = message.id === undefined ? undefined : this.waiting.get(message.id);
    if (message.id !== undefined) this.waiting.delete(message.id);
    if (message.push !== undefined) {
      waiting?.resolve(message.push);
      this.onPush(message.push);
    } else if (message.error !== undefined) {
      waiting?.reject(new CommandError(message.error));
    } else {
      waiting?.resolve(message.reply ?? null);
    }
  }

  private lose(reason: string): void {
    this.socket = null;
    this.fail(reason);
    const delay = RETRY_MS[Math.min(this.retries, RETRY_MS.length - 1)]!;
    this.retries += 1;
    this.enter("lost");
    this.timer = window.setTimeout(() => this.open(), delay);
  }

  private fail(reason = ""): void {
    const waiting = [...this.waiting.values()];
    this.waiting.clear();
    for (const { reject } of waiting) {
      reject(new LostError(`The connection to the server was lost.${reason === "" ? "" : ` (${reason})`}`));
    }
  }

  private enter(state: State): void {
    this.state = state;
    const isOver = state === "refused" || state === "closed";
    const awaiting = state === "ready" || isOver ? this.awaiting.splice(0) : [];
    for (const { resolve, reject } of awaiting) {
      if (isOver) reject(new LostError(this.refusal || "The connection is closed."));
      else resolve(null);
    }
    this.onState();
  }
}
