// Connect to the daemon, start one if none runs, and send calls and reports over its Unix socket:
// one JSON object a line.
import { lstatSync, readlinkSync } from "node:fs";
import { connect } from "node:net";
import { join, resolve } from "node:path";

const OPENING = `${JSON.stringify({ taskmem: 1, face: "gateway" })}\n`;
const HELLO_MS = 15_000; // time limit for the daemon's answer to a report
const START_MS = 30_000; // time limit of the command that starts a daemon
const RETRY_MS = [250, 1_000, 5_000, 15_000, 60_000]; // delays before each further attempt
const MOST_REPORTS = 500;
const BATCH = 50; // events in one report
const MOST_BYTES = 1024 * 1024; // size of a line that the daemon accepts
const MOST_COMMAS = 100_000; // the same in commas
const REFUSALS = 10; // refusals after which a single event is dropped
const CALLS = ["tool_started", "tool_called"];
// no daemon runs, or it ended while we connected
const ABSENT = ["ENOENT", "ECONNREFUSED", "ECONNRESET", "EPIPE"];

export class DaemonError extends Error {
  constructor(name, message, answer) {
    super(message);
    this.name = name;
    this.answer = answer; // the daemon's own answer, with details such as forms and sides
  }
}

let lastNumber = 0; // number of the last event; by their numbers the daemon handles none twice

const buildUnavailable = (sentence) => new DaemonError("daemon_unavailable", sentence);
const buildStopped = () => new DaemonError("closed", "The plug-in has stopped.");
const UNSURE = "it may or may not have been done";
const LOOK_FIRST = "Look with task_list before repeating it.";
const GONE =
  "The daemon ended as it was being reached; nothing was done. Call again, and one is started.";
const CUT_OFF = `The daemon ended while this call was running; ${UNSURE}. ${LOOK_FIRST}`;
const TOO_LONG = "The call is more than 1 MiB or 100,000 values; shorten it.";
const STRANGER =
  "Something that is not a taskmem daemon answers on its socket. See: taskmem doctor";

export class DaemonClient {
  #socket;
  #opening; // promise of the connection: being opened, or open
  #calls = new Map(); // id → { resolve, reject, socket, lost }: requests without an answer
  #pendingRejects = new Set(); // functions that reject the calls in progress
  #longestCall = Infinity; // milliseconds that a call may take
  #lastId = 0; // id of the last request
  #reports = []; // events that are not reported yet
  #reporting; // promise of the end of reporting, while it is in progress
  #refusals = 0;
  #retryTimer; // timer of the next attempt
  #failures = 0;
  #isStarting = false; // whether a daemon is being started or waited for
  #startFailure; // { why no daemon started, since when, until when none is started }
  #closing = new AbortController();

  /** `command` runs `taskmem`; `home` is its home. `runCommand` is the gateway's own runner,
   * `api.runtime.system.runCommandWithTimeout`. `buildHello()` returns the first event for a
   * daemon that was reached; `onConnected(answer)` is called once that event was accepted, and
   * `onAnswer(answer, events)` after each report. */
  constructor({
    command,
    home,
    runCommand,
    buildHello,
    onConnected,
    onAnswer = () => undefined,
    logger,
  }) {
    Object.assign(this, { command, home, runCommand, buildHello, onConnected, onAnswer, logger });
  }

  /** Path of the daemon's socket; our own is beside it. Throws if there is none. */
  get path() {
    const socket = join(this.home, "daemon.sock");
    // Follow only the daemon's own link: the path through a linked home may be shorter.
    return lstatSync(socket).isSymbolicLink() ? resolve(this.home, readlinkSync(socket)) : socket;
  }

  /** Call the daemon, in at most `ms` milliseconds; rejects with a `DaemonError` if it refuses or
   * does not answer in time. */
  call(method, params, ms) {
    return new Promise((resolve, reject) => {
      this.#pendingRejects.add(reject);
      const done = this.#sendCall(method, params, Math.min(ms, this.#longestCall));
      done.then(resolve, reject).finally(() => this.#pendingRejects.delete(reject));
    });
  }

  async #sendCall(method, params, ms) {
    const ends = performance.now() + ms;
    const unreached = () => {
      const starting = this.#isStarting ? " and is being started; call again in a few seconds" : "";
      return `The daemon was not reached within ${ms} ms${starting}; nothing was done.`;
    };
    const socket = await withTimeout(this.#ensureConnected(), ms, unreached);
    const late = `The daemon did not answer ${method} within ${ms} ms; ${UNSURE}.`;
    return this.#sendRequest(socket, method, params, ends - performance.now(), {
      late,
      lost: CUT_OFF,
    });
  }

  /** Queue an event to report, in order; never throws. The queue holds at most `MOST_REPORTS`. */
  queueEvent(event) {
    this.#reports.push({ ...event, number: ++lastNumber });
    if (this.#reports.length > MOST_REPORTS) {
      // Drop tool calls first: they are many, and least is lost with one.
      const least = this.#reports.findIndex(({ kind }) => CALLS.includes(kind));
      this.#reports.splice(Math.max(0, least), 1);
    }
    this.#startReporting();
  }

  /** Wait until the daemon has saved all queued events, at most that many milliseconds. */
  async awaitReports(ms) {
    if (this.#reporting)
      await withTimeout(this.#reporting, ms, "The daemon is late.").catch(() => undefined);
  }

  /** Connect to a daemon, started if needed, and try again until that succeeds. */
  stayConnected() {
    this.#ensureConnected().then(
      () => {
        this.#failures = 0;
        this.#startReporting();
      },
      (error) => {
        if (this.#closed) return;
        const ms = RETRY_MS[Math.min(this.#failures++, RETRY_MS.length - 1)];
        if (this.#failures === 1) this.logger.warn(`taskmem: ${error.message}`);
        this.#retryLater(ms);
      },
    );
  }

  /** From now on let no call take longer than that many milliseconds, nor those in progress. */
  limitCalls(ms) {
    this.#longestCall = ms;
    const late = buildUnavailable(
      `The gateway stops, and the daemon did not answer; ${UNSURE}. ${LOOK_FIRST}`,
    );
    const waiting = [...this.#pendingRejects];
    const rejectAll = () => {
      for (const reject of waiting) reject(late);
    };
    setTimeout(rejectAll, ms).unref();
  }

  /** Close the connection; reject calls in progress, and abort the start of a daemon. */
  close() {
    this.#closing.abort();
    clearTimeout(this.#retryTimer);
    this.#socket?.end();
    for (const reject of this.#pendingRejects) reject(buildStopped());
  }

  get #closed() {
    return this.#closing.signal.aborted;
  }

  #retryLater(ms) {
    if (this.#closed) return;
    clearTimeout(this.#retryTimer);
    this.#retryTimer = setTimeout(() => this.stayConnected(), ms);
    this.#retryTimer.unref();
  }

  #startReporting() {
    this.#reporting ??= this.#reportQueued().finally(() => (this.#reporting = undefined));
  }

  async #reportQueued() {
    let size = BATCH;
    try {
      while (this.#reports.length > 0) {
        const socket = await this.#ensureConnected();
        const events = this.#reports.splice(0, size);
        const error = await this.#sendRequest(socket, "report", { events }, HELLO_MS).then(
          (answer) => void this.onAnswer(answer, events),
          (refusal) => refusal,
        );
        if (!error) this.#refusals = 0;
        else if (
          events.length === 1 &&
          error.name !== "daemon_unavailable" &&
          (error.name === "invalid_arguments" || ++this.#refusals >= REFUSALS)
        ) {
          this.#refusals = 0;
          this.logger.warn(`taskmem: a report was refused, and is lost (${error.message})`);
        } else {
          // If an event may be invalid, report them one by one. If the daemon fails even then, stop
          // here; they stay queued.
          this.#reports.unshift(...events);
          if (error.name !== "invalid_arguments" && size === 1) throw error;
          size = 1;
        }
      }
    } catch {
      // A lost connection is opened again by `#lost`; otherwise try again here.
      if (this.#socket) this.#retryLater(RETRY_MS[1]);
    }
  }

  #ensureConnected() {
    if (this.#closed) return Promise.reject(buildStopped());
    this.#opening ??= this.#openConnection().catch((error) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  async #openConnection() {
    const startOne = async (error) => {
      if (!ABSENT.includes(error.code)) throw error;
      await this.#startDaemon();
      return this.#connect();
    };
    const socket = await this.#connect()
      .catch(startOne)
      .catch((error) => {
        if (error instanceof DaemonError) throw error;
        const unusable = `The daemon's socket cannot be used (${error.code}). See: taskmem doctor`;
        throw buildUnavailable(ABSENT.includes(error.code) ? GONE : unusable);
      });
    try {
      const hello = { events: [this.buildHello()] };
      const answer = await this.#sendRequest(socket, "report", hello, HELLO_MS);
      if (this.#closed) throw buildStopped();
      this.onConnected(answer);
    } catch (error) {
      socket.destroy();
      throw error;
    }
    this.#socket = socket;
    setImmediate(() => this.#startReporting());
    return socket;
  }

  #connect() {
    return new Promise((resolved, reject) => {
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
          for (const message of lines.map((line) => JSON.parse(line))) {
            if (open) this.#handleAnswer(message);
            else if (message.taskmem === 1) {
              open = true;
              resolved(socket);
            } else {
              reject(
                message.error
                  ? new DaemonError(message.error, message.message)
                  : buildUnavailable(STRANGER),
              );
              socket.destroy();
            }
          }
        } catch {
          reject(buildUnavailable(STRANGER));
          socket.destroy();
        }
      });
      socket.on("close", () => {
        reject(Object.assign(new Error("It has hung up."), { code: "EPIPE" }));
        this.#handleLost(socket);
      });
    });
  }

  #handleLost(socket) {
    for (const [id, call] of this.#calls) {
      if (call.socket !== socket) continue;
      this.#calls.delete(id);
      call.reject(buildUnavailable(call.lost));
    }
    if (socket !== this.#socket) return;
    this.#socket = this.#opening = undefined;
    this.#retryLater(RETRY_MS[0]);
  }

  #sendRequest(
    socket,
    method,
    params,
    ms,
    { late = "The daemon does not answer. See: taskmem doctor", lost = GONE } = {},
  ) {
    const id = ++this.#lastId;
    const line = `${JSON.stringify({ id, method, params })}\n`;
    if (Buffer.byteLength(line) > MOST_BYTES || line.split(",").length > MOST_COMMAS + 1)
      return Promise.reject(new DaemonError("invalid_arguments", TOO_LONG));
    const answer = new Promise((resolve, reject) => {
      this.#calls.set(id, { resolve, reject, socket, lost });
      socket.write(line);
    });
    return withTimeout(answer, ms, late).finally(() => this.#calls.delete(id));
  }

  #handleAnswer({ id, result, error }) {
    const call = this.#calls.get(id);
    if (error) call?.reject(new DaemonError(error.error, error.message, error));
    else call?.resolve(result);
  }

  /** Start a daemon, which outlives the gateway. The command waits for one that is starting or
   * ending. After a failure none is started for a while: rejects with the earlier reason. */
  async #startDaemon() {
    const { why, since, until } = this.#startFailure ?? {};
    const now = performance.now();
    if (now < until) throw buildUnavailable(`${Math.round((now - since) / 1000)} s ago: ${why}`);
    this.#isStarting = true;
    const reason = await this.#runStart().catch((error) => this.#describeFailure(error.message));
    this.#isStarting = false;
    if (this.#closed) throw buildStopped();
    if (!reason) return;
    const failed = performance.now();
    this.#startFailure = {
      why: `${reason} See: taskmem doctor`,
      since: failed,
      until: failed + RETRY_MS[Math.min(this.#failures, RETRY_MS.length - 1)],
    };
    throw buildUnavailable(this.#startFailure.why);
  }

  /** Run the command that starts a daemon; return why it failed, undefined if it succeeded. */
  async #runStart() {
    const { code, signal, termination, stderr } = await this.runCommand(
      [...this.command, "daemon", "--detach"],
      {
        env: { TASKMEM_HOME: this.home },
        input: "", // else it gets the gateway's own
        timeoutMs: START_MS,
        signal: this.#closing.signal,
      },
    );
    if (code === 0) return undefined;
    const late = termination === "timeout" && `no answer in ${START_MS / 1000} s`;
    return stderr.trim() || this.#describeFailure(late || `exit status ${code ?? signal}`);
  }

  #describeFailure(reason) {
    return `The daemon could not be started by ${this.command[0]} (${reason}).`;
  }
}

/** Return a promise's result; reject with a `DaemonError` after `ms` milliseconds. `sentence` is
 * its message, or a function that returns it. */
export function withTimeout(promise, ms, sentence) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(
      () => reject(buildUnavailable(typeof sentence === "function" ? sentence() : sentence)),
      ms,
    );
    timer.unref();
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
