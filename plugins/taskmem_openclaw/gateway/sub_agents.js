// Report when sub-agents begin to work and how their work ends, and look up those of which an
// earlier start of the gateway, or of the daemon, has missed the end.
import { AsyncLocalStorage } from "node:async_hooks";
import { BoundedMap } from "./bounded_map.js";
import { listTasks, readSession } from "./gateway_requests.js";

const MOST_SESSIONS = 1_000;
const RECOVERY_MS = 30_000; // how long after its start the gateway may begin to recover a session
const LOOK_MS = 2_000; // interval of looks until then
const REST_MS = 60_000; // the same afterwards
// the gateway's status of a session, or of a background task, whose work is over → its outcome
const OUTCOMES = new Map([
  ["completed", "ok"],
  ["done", "ok"],
  ["failed", "error"],
  ["timed_out", "timeout"],
  ["timeout", "timeout"],
  ["cancelled", "killed"],
  ["killed", "killed"],
]);

export class SubAgents {
  #words = new BoundedMap(MOST_SESSIONS); // session → its agent's last words
  #toldRuns = new BoundedMap(MOST_SESSIONS); // ids of work whose end was told
  #unheard = new Set(); // sessions whose end is looked up
  #lookTimer;
  #stopped = false;
  #startedAt = performance.now();
  // runs looks outside of the hook that begins them, whose authority ends with it
  #runOutside = AsyncLocalStorage.snapshot();

  /** `describeOwner(session)` returns the fields that say whose work a session's is, `takeEnd` the
   * end of a text, and `isRunning(session)` whether a sub-agent works in this gateway. */
  constructor({ api, tell, describeOwner, extractText, takeEnd, isRunning }) {
    Object.assign(this, { api, tell, describeOwner, extractText, takeEnd, isRunning });
  }

  stop() {
    this.#stopped = true;
    clearTimeout(this.#lookTimer);
  }

  recordWords(session, text) {
    this.#words.set(session, text);
  }

  /** Report that a sub-agent works; `label`: its parent's name for it, or its task. */
  reportStart(child, parent, { label, run } = {}) {
    this.tell({
      kind: "sub_agent_started",
      ...this.describeOwner(child),
      child,
      parent,
      label: label ?? this.#readEntry(child)?.label ?? "",
      child_run: run,
    });
  }

  /** Report how a sub-agent's work has ended, once for each run; `words`: its last ones. */
  reportEnd(child, { run, outcome = "ok", error, words = this.#words.get(child) ?? "" }) {
    this.#unheard.delete(child);
    if (run !== undefined && this.#toldRuns.has(run)) return;
    if (run !== undefined) this.#toldRuns.set(run, true);
    const why = outcome === "ok" ? undefined : (error ?? this.#readEntry(child)?.lastRunError);
    this.tell({
      kind: "sub_agent_ended",
      ...this.describeOwner(child),
      child,
      outcome,
      error: why,
      words: this.takeEnd(words),
    });
  }

  /** Return the gateway's entry of a session; undefined: there is none, or it cannot be read. */
  #readEntry(child) {
    try {
      return readSession(this.api, child);
    } catch {
      return undefined;
    }
  }

  /** Look up what has become of sub-agents that were at work when the daemon last heard of them. */
  lookUp(children) {
    for (const child of children) this.#unheard.add(child);
    if (this.#unheard.size > 0) this.#lookLater(0);
  }

  #lookLater(ms) {
    clearTimeout(this.#lookTimer);
    if (this.#stopped) return;
    const look = () => this.#runOutside(() => this.#look());
    this.#lookTimer = setTimeout(look, ms).unref();
  }

  async #look() {
    // What fails may succeed at the next look, and hinders no other.
    const rows = await listTasks("subagent").catch(() => undefined);
    const looks = rows ? [...this.#unheard].map((child) => this.#lookAt(child, rows)) : [];
    await Promise.allSettled(looks);
    if (this.#unheard.size > 0) this.#lookLater(this.#isStarting ? LOOK_MS : REST_MS);
  }

  async #lookAt(child, rows) {
    const end = this.#findEnd(child, rows);
    if (end) this.reportEnd(child, { ...end, words: await this.#readWords(child, end.words) });
    else if (this.isRunning(child)) this.#unheard.delete(child);
  }

  get #isStarting() {
    return performance.now() - this.#startedAt < RECOVERY_MS;
  }

  /** Return how a sub-agent's work has ended by the gateway's rows; undefined: it has not, or the
   * gateway may still recover it. Its hooks tell of the end of what goes on. */
  #findEnd(child, rows) {
    if (this.isRunning(child)) return undefined;
    const row = rows.find(({ childSessionKey }) => childSessionKey === child);
    const entry = readSession(this.api, child);
    const outcome = OUTCOMES.get(row?.status ?? entry?.status);
    if (outcome)
      return { run: row?.runId, outcome, error: row?.error, words: row?.progressSummary };
    return row || this.#isStarting ? undefined : { outcome: "lost" };
  }

  /** Return a sub-agent's last words as this start has heard them, or as the gateway keeps them. */
  async #readWords(child, summary = "") {
    if (this.#words.has(child)) return this.#words.get(child);
    try {
      const asked = { sessionKey: child, limit: 8 };
      const { messages } = await this.api.runtime.subagent.getSessionMessages(asked);
      const said = messages
        .filter(({ role }) => role === "assistant")
        .map(({ content }) => this.extractText(content))
        .filter(Boolean);
      return said.at(-1) ?? summary;
    } catch {
      return summary;
    }
  }
}
