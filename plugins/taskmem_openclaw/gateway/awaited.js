// What the gateway itself is at work on for a session: an agent that waits for it is not idle.
import { AsyncLocalStorage } from "node:async_hooks";
import { Kept } from "./kept.js";
import { listCommands } from "./requests.js";

const MOST_SESSIONS = 1_000;
const GLANCE_MS = 2_000; // between two looks, while anything runs
const LONGEST_MS = 3_600_000; // after which what has no end is no longer awaited, such as a server
const EVENT_DRIVEN = ["on-exit", "stream"]; // kinds of schedules of which nobody knows when they are due

/** What an automation does, in words. */
const named = ({ id, name }) => `automation ${name || id}`.slice(0, 200);

/** Whether an automation is at work, or will be within the hour; one without an end is awaited for an hour. */
function isAwaited({ enabled, schedule, state = {}, createdAtMs = 0 }) {
  const now = Date.now();
  if (state.runningAtMs > now - LONGEST_MS) return true;
  const young = createdAtMs > now - LONGEST_MS;
  const due = state.nextRunAtMs < now + LONGEST_MS;
  if (!enabled) return false;
  if (EVENT_DRIVEN.includes(schedule?.kind)) return young;
  return due && (young || schedule?.kind === "at");
}

export class Awaited {
  #running = new Kept(MOST_SESSIONS); // session → Map(name of a background command → { about, since })
  #jobs = new Map(); // id → an automation that an agent made, as the scheduler showed it last
  #looking; // the timer of the next look
  #stopped = false;
  #outside = AsyncLocalStorage.snapshot(); // of the calls in which a look is begun: their authority ends with them

  /** `ended` is told of each command and automation that ends; `root` names the session whose work another's is. */
  constructor({ ended, root = (session) => session }) {
    Object.assign(this, { ended, root });
  }

  /** A tool has answered: a command may run on in the background, or be known to have ended. */
  called(session, about, details) {
    const { status, sessionId: name } = details ?? {};
    if (!name) return;
    if (status === "running") this.#runs(session, name, about);
    else if (status) this.#over(session, name);
  }

  /** The scheduler may show others than before; without one, nothing is scheduled. */
  async scheduled(cron) {
    const all = (await cron?.list({ includeDisabled: true })) ?? [];
    const before = this.#jobs;
    this.#jobs = new Map(all.flatMap((job) => (job.owner?.sessionKey ? [[job.id, job]] : [])));
    for (const [id, job] of before) {
      const now = this.#jobs.get(id);
      if (job.enabled === false || now?.enabled) continue;
      const { lastRunStatus, lastError } = now?.state ?? {};
      this.ended(this.#of(job), named(job), lastError ?? lastRunStatus ?? "it is over");
    }
  }

  /** What a session may wait for, in words: commands that run, and what will be done by the scheduler. */
  of(session) {
    const late = performance.now() - LONGEST_MS;
    const young = [...(this.#running.get(session) ?? [])].filter(([, { since }]) => since > late);
    const jobs = [...this.#jobs.values()].filter((job) => this.#of(job) === session && isAwaited(job));
    return { awaited: young.map(([name, { about }]) => `${name} (${about})`), scheduled: jobs.map(named) };
  }

  /** The commands that run in the background of a session, however long, with their ages in milliseconds. */
  commands(session) {
    const now = performance.now();
    return [...(this.#running.get(session) ?? [])].map(([name, { about, since }]) => ({ kind: "command", name, about, age: now - since }));
  }

  /** The sessions in whose background anything runs. */
  get sessions() {
    return [...this.#running].map(([session]) => session);
  }

  stop() {
    this.#stopped = true;
    clearTimeout(this.#looking);
  }

  /** The session that an automation was made in. */
  #of({ owner }) {
    return this.root(owner.sessionKey.toLowerCase());
  }

  #runs(session, name, about) {
    const known = this.#running.get(session) ?? new Map();
    this.#running.set(session, known);
    if (!known.has(name)) known.set(name, { about, since: performance.now() });
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
      for (const [session, known] of [...this.#running]) {
        const rows = new Map((await listCommands({ sessionKey: session })).map((row) => [row.sourceId, row]));
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
