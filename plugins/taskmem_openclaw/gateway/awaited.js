// What the gateway itself is at work on for a session: an agent that waits for it is not idle.
import { AsyncLocalStorage } from "node:async_hooks";
import { Kept } from "./kept.js";

const MOST_SESSIONS = 1_000;
const GLANCE_MS = 2_000; // between two looks, while anything runs
const LONGEST_MS = 3_600_000; // after which what runs is no longer awaited: a server never ends
const MOST_LISTED = 200;

export class Awaited {
  #running = new Kept(MOST_SESSIONS); // session → Map(name of a background command → { about, since })
  #looking; // the timer of the next look
  #stopped = false;
  #outside = AsyncLocalStorage.snapshot(); // of the calls in which a look is begun: their authority ends with them

  /** `ended` is told of each command that ends. */
  constructor({ ended }) {
    this.ended = ended;
  }

  /** A tool has answered: a command may run on in the background, or be known to have ended. */
  called(session, about, details) {
    const { status, sessionId: name } = details ?? {};
    if (!name) return;
    if (status === "running") this.#runs(session, name, about);
    else if (status) this.#over(session, name);
  }

  /** What a session may wait for, in words. */
  of(session) {
    const late = performance.now() - LONGEST_MS;
    const young = [...(this.#running.get(session) ?? [])].filter(([, { since }]) => since > late);
    return young.map(([name, { about }]) => `${name} (${about})`);
  }

  stop() {
    this.#stopped = true;
    clearTimeout(this.#looking);
  }

  #runs(session, name, about) {
    const known = this.#running.get(session) ?? new Map();
    this.#running.set(session, known);
    if (!known.has(name)) known.set(name, { about: about.slice(0, 200), since: performance.now() });
    if (!this.#stopped) this.#looking ??= this.#outside(setTimeout, () => this.#look(), GLANCE_MS).unref();
  }

  #over(session, name) {
    const known = this.#running.get(session);
    const found = known?.delete(name);
    if (known?.size === 0) this.#running.delete(session);
    return found;
  }

  /** Ask the gateway which of the commands still run. */
  async #look() {
    try {
      const { callGatewayTool } = await import("openclaw/plugin-sdk/agent-harness-runtime");
      for (const [session, known] of [...this.#running]) {
        const { tasks } = await callGatewayTool("tasks.list", {}, { sessionKey: session, limit: MOST_LISTED });
        const rows = new Map(tasks.filter(({ kind }) => kind === "exec").map((row) => [row.sourceId, row]));
        for (const name of [...known.keys()]) {
          const row = rows.get(name);
          if (row?.status !== "running" && this.#over(session, name)) this.ended(session, name, row?.terminalSummary ?? row?.status ?? "ended");
        }
      }
    } catch {
      // The next look may succeed.
    } finally {
      this.#looking = this.#running.size && !this.#stopped ? setTimeout(() => this.#look(), GLANCE_MS).unref() : undefined;
    }
  }
}
