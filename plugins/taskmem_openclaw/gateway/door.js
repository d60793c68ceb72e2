// Where the daemon comes in: a Unix socket beside its own, a JSON object a line.
import { randomUUID } from "node:crypto";
import { chmodSync, renameSync, rmSync, statSync } from "node:fs";
import { connect, createServer } from "node:net";
import { dirname, join } from "node:path";

const LONGEST = 8_000_000; // a question with its pictures
const LOOK_MS = 5_000;
const MOST_DOORS = 4; // gateways of one home that are let in by

/** A door that stays open until it is closed, whatever becomes of its file: the first of a home
 * that nobody else keeps open. */
export class Door {
  #server;
  #guests = new Set(); // sockets of those who are inside
  #file; // what tells our file from another's
  #looking; // the look that goes on: one at a time
  #watch;
  #warned = false;
  #closed = false;

  /** `where()` gives its path; it is asked whenever the door has to be opened. */
  constructor(where, handlers, logger) {
    Object.assign(this, { where, handlers, logger });
    this.#watch = setInterval(() => this.open(), LOOK_MS).unref();
  }

  /** Open it where it is not; whoever else is at home there stays. */
  open() {
    this.#looking ??= this.#look()
      .catch((error) => {
        if (!this.#warned) this.logger.warn(`taskmem: no wake gets in (${error.message}); run: taskmem doctor`);
        this.#warned = true;
      })
      .finally(() => (this.#looking = undefined));
  }

  close() {
    this.#closed = true;
    clearInterval(this.#watch);
    this.#server?.close();
    for (const socket of this.#guests) socket.unref(); // who is answered still is, and keeps nobody
    if (this.#isOurs()) rmSync(this.path, { force: true });
  }

  async #look() {
    const first = this.where();
    for (let number = 1; number <= MOST_DOORS; number++) {
      const path = number === 1 ? first : first.replace(/\.sock$/, `-${number}.sock`);
      if (path === this.path && this.#isOurs()) return;
      if (!(await answers(path))) return this.#openAt(path);
    }
  }

  async #openAt(path) {
    this.#server?.close();
    const server = createServer((socket) => this.#serve(socket));
    // Node removes the file that it has made, also where it is another's by then.
    const draft = join(dirname(path), `.${randomUUID().slice(0, 8)}`);
    await new Promise((done, failed) => server.on("error", failed).listen(draft, done));
    try {
      if (this.#closed) return void server.close();
      chmodSync(draft, 0o600);
      if (this.#isOurs()) rmSync(this.path, { force: true }); // it kept a further one until now
      this.#file = mark(draft);
      renameSync(draft, path);
      Object.assign(this, { path });
      this.#server = server.unref();
      this.#warned = false;
    } catch (error) {
      server.close();
      throw error;
    }
  }

  #isOurs() {
    try {
      return this.path !== undefined && mark(this.path) === this.#file;
    } catch {
      return false;
    }
  }

  #serve(socket) {
    const hungUp = new AbortController();
    let pieces = [];
    let length = 0;
    socket.setEncoding("utf8");
    socket.on("error", () => socket.destroy());
    this.#guests.add(socket);
    if (this.#closed) socket.unref();
    socket.on("close", () => {
      this.#guests.delete(socket);
      hungUp.abort();
    });
    socket.on("data", (text) => {
      const lines = text.includes("\n") ? [...pieces, text].join("").split("\n") : [];
      const rest = lines.pop();
      if (rest === undefined) pieces.push(text);
      else pieces = [rest];
      length = rest?.length ?? length + text.length;
      if (length > LONGEST) socket.destroy();
      for (const line of lines) void this.#answer(line, hungUp.signal).then((said) => socket.write(`${said}\n`));
    });
  }

  /** Answer a line; `signal` tells a handler that nobody waits for it any more. */
  async #answer(line, signal) {
    try {
      const { ask, ...given } = JSON.parse(line);
      if (!Object.hasOwn(this.handlers, ask)) throw new Error(`the plug-in knows no ${ask}`);
      return JSON.stringify((await this.handlers[ask](given, signal)) ?? {});
    } catch (error) {
      return JSON.stringify({ failed: String(error?.message ?? error) });
    }
  }
}

const mark = (path) => {
  const { dev, ino } = statSync(path);
  return `${dev}:${ino}`;
};

/** Whether somebody is at home at a path. */
function answers(path) {
  return new Promise((done) => {
    const socket = connect(path, () => (socket.destroy(), done(true)));
    socket.on("error", () => done(false)).unref();
  });
}
