// The line to the daemon: one Unix socket, a JSON object a line.
import { execFile } from "node:child_process";
import { realpathSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";

const OPENING = `${JSON.stringify({ taskmem: 1, face: "gateway" })}\n`;
const START_MS = 30_000;
const RESTS_MS = [250, 1_000, 5_000, 15_000, 60_000];
const MOST_REPORTS = 500;

export class DaemonError extends Error {
  constructor(name, message) {
    super(message);
    this.name = name;
  }
}

export class Daemon {
  #socket;
  #opening;
  #calls = new Map();
  #number = 0;
  #reports = [];
  #telling = false;
  #rest;
  #failures = 0;
  #closed = false;

  /** `hello()` gives what a daemon that was just reached must know first; `known()`
   * is called when it does. */
  constructor({ command, home, hello, known, logger }) {
    Object.assign(this, { command, home, hello, known, logger });
  }

  /** Where the daemon listens; the door lies beside it. */
  get path() {
    return realpathSync(join(this.home, "daemon.sock"));
  }

  /** Call the daemon; rejects with its refusal, or when there is no answer in time. */
  async call(method, params, ms) {
    const socket = await within(this.#reach(), ms, method);
    return within(this.#ask(socket, method, params), ms, method);
  }

  /** Report something, some time, in order; never throws, and keeps 500 at most. */
  tell(event) {
    this.#reports.push({ at: Date.now(), ...event });
    if (this.#reports.length > MOST_REPORTS) this.#reports.shift();
    if (!this.#telling) void this.#flush();
  }

  /** See to it that a daemon runs and knows of this gateway, now and later. */
  keep() {
    this.#reach().then(
      () => void (this.#failures = 0),
      (error) => {
        const ms = RESTS_MS[Math.min(this.#failures++, RESTS_MS.length - 1)];
        if (this.#failures === 1) this.logger.warn(`taskmem: ${error.message}`);
        this.#later(ms);
      },
    );
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#rest);
    this.#socket?.end();
  }

  #later(ms) {
    if (this.#closed) return;
    clearTimeout(this.#rest);
    this.#rest = setTimeout(() => this.keep(), ms);
    this.#rest.unref();
  }

  async #flush() {
    this.#telling = true;
    try {
      while (this.#reports.length > 0 && !this.#closed) {
        const events = this.#reports.slice(0, 50);
        await this.#ask(await this.#reach(), "report", { events }).catch((error) => {
          if (error.name === "daemon_unavailable") throw error;
          this.logger.warn(`taskmem: a report was refused (${error.message})`);
        });
        this.#reports.splice(0, events.length);
      }
    } catch {
      // They are kept, and told with the next one.
    }
    this.#telling = false;
  }

  #reach() {
    if (this.#closed) return Promise.reject(new DaemonError("closed", "The plug-in has stopped."));
    this.#opening ??= this.#open().catch((error) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  async #open() {
    const socket = await this.#connect().catch(async () => {
      await this.#start();
      return this.#connect();
    });
    this.#socket = socket;
    await this.#ask(socket, "report", { events: [this.hello()] }).catch((error) => {
      socket.destroy();
      throw error;
    });
    this.known();
    if (this.#reports.length > 0 && !this.#telling) setImmediate(() => this.#flush());
    return socket;
  }

  #connect() {
    return new Promise((resolve, reject) => {
      const socket = connect(this.path);
      let rest = "";
      let open = false;
      socket.setEncoding("utf8").unref();
      socket.on("connect", () => socket.write(OPENING));
      socket.on("error", reject);
      socket.on("data", (text) => {
        const lines = (rest + text).split("\n");
        rest = lines.pop();
        try {
          for (const said of lines.map((line) => JSON.parse(line))) {
            if (open) this.#heard(said);
            else if (said.taskmem === 1) resolve(((open = true), socket));
            else reject(new DaemonError(said.error, said.message));
          }
        } catch {
          socket.destroy(); // nothing of ours speaks like that
        }
      });
      socket.on("close", () => {
        reject(new DaemonError("daemon_unavailable", "The daemon has hung up."));
        if (open) this.#lost();
      });
    });
  }

  #lost() {
    this.#socket = this.#opening = undefined;
    const sentence = "The daemon ended while this call was running; it may or may not have been done. Look with task_list before repeating it.";
    for (const { reject } of this.#calls.values()) reject(new DaemonError("daemon_unavailable", sentence));
    this.#calls.clear();
    this.#later(RESTS_MS[0]);
  }

  #ask(socket, method, params) {
    const id = ++this.#number;
    return new Promise((resolve, reject) => {
      this.#calls.set(id, { resolve, reject });
      socket.write(`${JSON.stringify({ id, method, params })}\n`);
    });
  }

  #heard({ id, result, error }) {
    const call = this.#calls.get(id);
    this.#calls.delete(id);
    if (error) call?.reject(new DaemonError(error.error, error.message));
    else call?.resolve(result);
  }

  /** Start a daemon; it outlives the gateway, and loses to one that runs already. */
  #start() {
    const [program, ...args] = [...this.command, "daemon", "--detach"];
    const env = { ...process.env, TASKMEM_HOME: this.home };
    return new Promise((resolve, reject) => {
      execFile(program, args, { env, timeout: START_MS }, (error, _, stderr) => {
        const why = stderr?.trim() || error?.message;
        if (error) reject(new DaemonError("daemon_unavailable", `The daemon cannot be started (${why}); run: taskmem doctor`));
        else resolve();
      });
    });
  }
}

/** What a promise brings within a time; it rejects when that is over. */
export function within(promise, ms, what) {
  let timer;
  const late = new Promise((_, reject) => {
    const sentence = `The daemon did not answer ${what} within ${ms} ms; it may or may not have been done.`;
    timer = setTimeout(() => reject(new DaemonError("daemon_unavailable", sentence)), ms);
    timer.unref();
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
