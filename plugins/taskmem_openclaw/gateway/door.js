// Serve requests of the daemon and its commands on a Unix socket beside the daemon's: one JSON
// object a line, each way.
import { randomUUID } from "node:crypto";
import { chmodSync, renameSync, rmSync, statSync } from "node:fs";
import { connect, createServer } from "node:net";
import { dirname, join } from "node:path";

const LONGEST = 8_000_000; // characters of a request, such as a question with its pictures
const LOOK_MS = 5_000; // interval of the checks that our file is still there
const MOST_DOORS = 4; // sockets, and so gateways, of one home

/** The first socket of a home on which no other gateway listens. If its file is removed, it is
 * opened again, until `close`. */
export class Door {
  #server;
  #guests = new Set(); // open connections
  #file; // device and inode of our socket's file
  #looking; // promise of the check in progress, of which there is one at a time
  #watch;
  #warned = false;
  #closed = false;

  /** `where()` returns the first socket's path at each check. `handlers` maps a request's `ask` to
   * a function of its other fields and a signal; its result is the answer. */
  constructor(where, handlers, logger) {
    Object.assign(this, { where, handlers, logger });
    this.#watch = setInterval(() => this.open(), LOOK_MS).unref();
  }

  /** Open the socket unless it is open; never take one on which another process listens. */
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
    for (const socket of this.#guests) socket.unref(); // requests in progress are answered, but do not keep the process alive
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
    // Node removes the path at which a server listened, even if another's file is there by then. So
    // listen at a draft, and rename it.
    const draft = join(dirname(path), `.${randomUUID().slice(0, 8)}`);
    await new Promise((done, failed) => server.on("error", failed).listen(draft, done));
    try {
      if (this.#closed) return void server.close();
      chmodSync(draft, 0o600);
      if (this.#isOurs()) rmSync(this.path, { force: true }); // it listened at a later path until now
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

  /** Return the answer to a line, `{ failed }` if its handler throws. `signal` tells the handler
   * that the other end hung up. */
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

/** Return a promise of whether a process listens at a path. */
function answers(path) {
  return new Promise((done) => {
    const socket = connect(path, () => (socket.destroy(), done(true)));
    socket.on("error", () => done(false)).unref();
  });
}
