// Serve requests of the daemon and its commands on a Unix socket beside the daemon's: one JSON
// object a line, each way.
import { randomUUID } from "node:crypto";
import { chmodSync, renameSync, rmSync, statSync } from "node:fs";
import { connect, createServer } from "node:net";
import { dirname, join } from "node:path";

const LONGEST = 8_000_000; // characters of a request, such as a question with its pictures
const CHECK_MS = 5_000; // interval of the checks that our file is still there
const MOST_SOCKETS = 4; // sockets, and so gateways, of one home

/** The first socket of a home on which no other gateway listens. If its file is removed, it is
 * opened again, until `close`. */
export class RequestServer {
  #server;
  #connections = new Set(); // open connections
  #file; // device and inode of our socket's file
  #checking; // promise of the check in progress, of which there is one at a time
  #checkTimer;
  #warned = false;
  #closed = false;

  /** `findPath()` returns the first socket's path at each check. `handlers` maps a request's `ask`
   * to a function of its other fields and a signal; its result is the answer. */
  constructor(findPath, handlers, logger) {
    Object.assign(this, { findPath, handlers, logger });
    this.#checkTimer = setInterval(() => this.open(), CHECK_MS).unref();
  }

  /** Open the socket unless it is open; never take one on which another process listens. */
  open() {
    this.#checking ??= this.#openFreeSocket()
      .catch((error) => {
        if (!this.#warned)
          this.logger.warn(`taskmem: no wake gets in (${error.message}); run: taskmem doctor`);
        this.#warned = true;
      })
      .finally(() => (this.#checking = undefined));
  }

  close() {
    this.#closed = true;
    clearInterval(this.#checkTimer);
    this.#server?.close();
    // requests in progress are answered, but do not keep the process alive
    for (const socket of this.#connections) socket.unref();
    if (this.#isOurs()) rmSync(this.path, { force: true });
  }

  async #openFreeSocket() {
    const first = this.findPath();
    for (let number = 1; number <= MOST_SOCKETS; number++) {
      const path = number === 1 ? first : first.replace(/\.sock$/, `-${number}.sock`);
      if (path === this.path && this.#isOurs()) return;
      if (!(await isListening(path))) return this.#listenAt(path);
    }
    throw new Error(`${MOST_SOCKETS} other gateways use this home`);
  }

  async #listenAt(path) {
    this.#server?.close();
    const server = createServer((socket) => this.#serveConnection(socket));
    // Node removes the path at which a server listened, even if another's file is there by then. So
    // listen at a draft, and rename it.
    const draft = join(dirname(path), `.${randomUUID().slice(0, 8)}`);
    await new Promise((done, failed) => server.on("error", failed).listen(draft, done));
    try {
      if (this.#closed) return void server.close();
      chmodSync(draft, 0o600);
      // it listened at a later path until now
      if (this.#isOurs()) rmSync(this.path, { force: true });
      this.#file = identifyFile(draft);
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
      return this.path !== undefined && identifyFile(this.path) === this.#file;
    } catch {
      return false;
    }
  }

  #serveConnection(socket) {
    const hungUp = new AbortController();
    let pieces = [];
    let length = 0;
    socket.setEncoding("utf8");
    socket.on("error", () => socket.destroy());
    this.#connections.add(socket);
    if (this.#closed) socket.unref();
    socket.on("close", () => {
      this.#connections.delete(socket);
      hungUp.abort();
    });
    socket.on("data", (text) => {
      const lines = text.includes("\n") ? [...pieces, text].join("").split("\n") : [];
      const rest = lines.pop();
      if (rest === undefined) pieces.push(text);
      else pieces = [rest];
      length = rest?.length ?? length + text.length;
      if (length > LONGEST) socket.destroy();
      for (const line of lines)
        void this.#answerLine(line, hungUp.signal).then((answer) => socket.write(`${answer}\n`));
    });
  }

  /** Return the answer to a line, `{ failed }` if its handler throws. `signal` tells the handler
   * that the other end hung up. */
  async #answerLine(line, signal) {
    try {
      const { ask, ...given } = JSON.parse(line);
      if (!Object.hasOwn(this.handlers, ask)) throw new Error(`the plug-in knows no ${ask}`);
      return JSON.stringify((await this.handlers[ask](given, signal)) ?? {});
    } catch (error) {
      return JSON.stringify({ failed: String(error?.message ?? error) });
    }
  }
}

const identifyFile = (path) => {
  const { dev, ino } = statSync(path);
  return `${dev}:${ino}`;
};

/** Return a promise of whether a process listens at a path. */
function isListening(path) {
  return new Promise((done) => {
    const socket = connect(path, () => {
      socket.destroy();
      done(true);
    });
    socket.on("error", () => done(false)).unref();
  });
}
