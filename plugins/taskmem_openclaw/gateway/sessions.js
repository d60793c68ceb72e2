// What goes on in the gateway's sessions: turns that run, wakes that wait for one.
import { randomUUID } from "node:crypto";
import { Kept } from "./kept.js";
import { readSession, showLine } from "./requests.js";

const KEPT_MS = 24 * 3_600_000;
const HEARTBEAT_MS = 3_000;
const RECOVERY_MS = 30_000; // after a start, within which the gateway may begin to recover a session
const TELL_MS = 1_000; // after which a turn's failure is told: the answer to its wake comes first
const START_MS = 60_000; // after which a turn that did not begin is asked for again
const MOST_DONE = 500;
const MOST_SESSIONS = 100;
const OURS = ":taskmem:"; // in the keys of sessions that a task has to itself
const PACKET = /^\[task_(stuck_)?resume\] /m;
const ANOTHER = "The agent goes on.";
const MARK = "[taskmem] "; // before what a turn of ours says first
export const STOPPING = "the gateway is stopping";

// No wall clock: it may be set while a turn runs.
const now = () => performance.now();
const lines = (text) => text.split("\n");
/** Whether the gateway has a turn of a session to go on with that a restart has cut. */
function isToRecover({ status, abortedLastRun, mainRestartRecovery: recovery, restartRecoveryRuns: runs } = {}) {
  return status === "running" && !recovery?.tombstone && Boolean(abortedLastRun || recovery || runs?.length);
}
/** Whether one text says all that another one says. */
const says = (one, other) => one !== undefined && lines(other).every((line) => lines(one).includes(line));

export class Sessions {
  stopping = false;
  #runs = new Map(); // run id → { session, began, answered }
  #owed = new Map(); // session → Map(key → { delivery, since, text, line, expires })
  #done = new Kept(MOST_DONE); // the key of a wake that a turn has taken → what it said
  #asked = new Kept(MOST_SESSIONS); // run id of a turn that we asked for → its session
  #begun = new Kept(MOST_DONE); // run ids of turns that have begun
  #since = now();
  #waking = new Map(); // session → the wake that is being put there
  #starting = new Kept(MOST_SESSIONS); // session → when a turn of ours was asked for that has not ended
  #shown = new Kept(MOST_DONE); // keys of wakes whose line the chat shows
  #hidden = new Kept(MOST_DONE); // first rows of turns of ours, whose line the chat shows instead
  #fired = new Kept(MOST_SESSIONS); // session → Map(hook → count), for taskmem doctor

  constructor({ api, id, tell, work }) {
    Object.assign(this, { api, id, tell, work });
  }

  /** The gateway is to stop, and waits for all that goes on in it: no turn is begun any more. */
  stops() {
    this.stopping = true;
  }

  get running() {
    return [...new Set([...this.#runs.values()].map(({ session }) => session))];
  }

  /** The run that goes on in a session. */
  current(session) {
    return [...this.#runs].findLast(([, run]) => run.session === session)?.[0];
  }

  /** When the run began that goes on in a session; undefined: none is known. */
  began(session) {
    return this.#runs.get(this.current(session))?.began;
  }

  /** The session that a wake goes to which names none. */
  get main() {
    const { agents, session } = this.api.runtime.config.current();
    const entries = Object.entries(agents?.entries ?? {});
    const chosen = entries.find(([, agent]) => agent?.default) ?? entries.find(([id]) => id === "main") ?? entries[0];
    return `agent:${chosen?.[0] ?? "main"}:${session?.mainKey ?? "main"}`.toLowerCase();
  }

  /** A session's whole name; an agent's own `main` is the main one. */
  #named(session) {
    const name = session.toLowerCase();
    if (name.startsWith("agent:")) return name;
    return ["main", "global"].includes(name) ? this.main : `${this.main.split(":", 2).join(":")}:${name}`;
  }

  fired(hook, session) {
    if (!session) return;
    const counts = this.#fired.get(session) ?? new Map();
    this.#fired.set(session, counts.set(hook, (counts.get(hook) ?? 0) + 1));
  }

  /** Which hooks have fired for a session, and how often. */
  seen(session) {
    return Object.fromEntries(this.#fired.get(session) ?? []);
  }

  /** Whether the next prompt of a session has a packet by a wake. */
  hasPacket(session) {
    const texts = [...(this.#owed.get(session)?.values() ?? []), ...this.#waiting(session)].map(({ text }) => text);
    return texts.some((text) => PACKET.test(text));
  }

  /** An event of a run's life, as the gateway tells it. */
  lifecycle({ runId, sessionKey, data }) {
    if (data.phase === "start" && sessionKey) {
      this.fired("agent_event", sessionKey);
      if (this.#runs.has(runId)) return;
      this.#runs.set(runId, { session: sessionKey, began: now() });
      this.#begun.set(runId, true);
      this.tell({ kind: "turn_started", run_id: runId, ...this.work.began(sessionKey), running: this.running });
    } else if (data.executionSettled) this.#ended(runId, data);
  }

  /** A model has answered in a run: whatever was put before its turn has arrived. */
  answered(runId) {
    const run = this.#runs.get(runId);
    if (!run) return;
    run.answered = true;
    const deliveries = this.#taken(run, true);
    if (deliveries.length > 0) this.tell({ kind: "answered", session_key: run.session, deliveries });
  }

  #ended(runId, { phase, error, aborted, errorObservation }) {
    const run = this.#runs.get(runId);
    if (!run) return;
    this.#runs.delete(runId);
    this.#starting.delete(run.session);
    this.fired("turn_ended", run.session);
    const fault = phase === "error" || error ? String(error ?? "the gateway gave no reason") : null;
    const failed = run.answered ? null : (fault ?? (aborted ? "it was aborted" : null));
    let deliveries = [];
    try {
      deliveries = this.#taken(run, !failed);
    } finally {
      const verdict = { aborted: Boolean(aborted), failed: phase === "error" && !aborted ? fault : null, reason: errorObservation?.failoverReason ?? null };
      this.tell({ kind: "turn_ended", ...this.work.ended(run.session), ...verdict, running: this.running, error: failed, deliveries });
    }
  }

  /** The wakes that a turn took: it began after they were put there, and they are gone. */
  #taken({ session, began }, arrived) {
    const owed = this.#owed.get(session);
    if (!owed) return [];
    const waiting = this.#waiting(session).map(({ key }) => key);
    const gone = [...owed].filter(([key, { since }]) => since <= began && !waiting.includes(key));
    for (const [key] of gone) owed.delete(key);
    if (owed.size === 0) this.#owed.delete(session);
    const taken = gone.filter(([, { expires }]) => Date.now() < expires);
    if (arrived) for (const [key, { text }] of taken) this.#done.set(key, text);
    return taken.map(([, { delivery }]) => delivery);
  }

  /** Put a wake before the next turn of its session, and start one.
   * One at a time: the main session has two names, and the second must see the first. */
  async wake(asked) {
    if (![asked.key, asked.delivery_id, asked.text, asked.message].every((each) => typeof each === "string")) throw new Error("this is no wake");
    const session = this.#named(asked.session_key ?? "main");
    const before = this.#waking.get(session);
    const done = (async () => (await before?.catch(() => undefined), this.#wake(session, asked)))();
    this.#waking.set(session, done);
    return done.finally(() => this.#waking.get(session) === done && this.#waking.delete(session));
  }

  async #wake(session, { key, delivery_id: delivery, text, message: line }) {
    const entry = readSession(this.api, session);
    const known = entry !== undefined;
    // A turn of ours that begins before the gateway's own spoils that one, and fails.
    if (now() - this.#since < RECOVERY_MS && isToRecover(entry) && !this.running.includes(session)) return { recovers: session };
    if (!known && session !== this.main && !session.includes(OURS)) return { refused: `The gateway has no session ${session}.` };
    if (says(this.#done.get(key), text)) {
      // A daemon that was killed in between asks again for what has arrived.
      this.tell({ kind: "answered", session_key: session, deliveries: [delivery] });
      return { turn: "taken before" };
    }
    // What comes again may say more than it did: that follows what waits or runs.
    const [first] = this.#waiting(session);
    if (first && !(first.key === key && says(first.text, text))) {
      await this.#turn(session, first.key, this.#owed.get(session)?.get(first.key)?.line ?? ANOTHER);
      return { waits_for: first.key };
    }
    const before = this.#owed.get(session)?.get(key);
    if (before && !first && this.running.includes(session)) {
      if (!says(before.text, text)) return { waits_for: key };
      before.delivery = delivery;
      return { turn: "running" };
    }
    const since = now(); // a turn that begins while it is being put there may take it
    // A main session that has had no turn yet is made by one.
    const there = first !== undefined || (known && (await this.#put(session, key, text)));
    if (!this.#owed.has(session)) this.#owed.set(session, new Map());
    this.#owed.get(session).set(key, { delivery, since, text, line, expires: Date.now() + KEPT_MS });
    if (there) return { turn: await this.#turn(session, key, line) };
    return { turn: await this.#bring(session, key, line, text) };
  }

  /** Put a text before the session's next turn; false: the operator forbids it. */
  async #put(session, key, text) {
    const injection = { sessionKey: session, text, idempotencyKey: key, placement: "prepend_context", ttlMs: KEPT_MS };
    const { enqueued } = await this.api.session.workflow.enqueueNextTurnInjection(injection);
    return enqueued || this.#waiting(session).some((each) => each.key === key);
  }

  /** Start an ordinary turn whose message brings a wake along: no other turn will. */
  async #bring(session, key, line, text) {
    try {
      if (this.#awaited(session)) throw new Error("a turn that was asked for earlier has not begun");
      return await this.#ordinary(session, key, line, text);
    } catch (error) {
      this.#owed.get(session)?.delete(key);
      throw error;
    }
  }

  /** Start an ordinary turn; where that cannot be, one that a heartbeat starts. */
  async #turn(session, key, line) {
    if (this.#awaited(session)) return "started before";
    try {
      return await this.#ordinary(session, key, line);
    } catch (error) {
      if (this.stopping) throw error;
      const heart = this.api.runtime.system.runHeartbeatOnce({ reason: "taskmem", sessionKey: session });
      const skipped = await Promise.race([heart, new Promise((done) => setTimeout(done, HEARTBEAT_MS).unref())]);
      if (skipped && skipped.status !== "ran") throw new Error(`no turn could be started (${error.message}), nor by a heartbeat (${skipped.reason ?? skipped.status})`);
      return "heartbeat";
    }
  }

  /** Whether a turn that we asked for has yet to begin or end. */
  #awaited(session) {
    const asked = this.#starting.get(session);
    return asked !== undefined && (now() - asked < START_MS || this.running.includes(session));
  }

  /** Start a turn that is seen in the chat as one line, in our name where that can be. */
  async #ordinary(session, key, line, text) {
    this.#starting.set(session, now());
    const shown = await this.#show(session, key, line);
    try {
      const asked = await this.run(session, [text, `${MARK}${line || ANOTHER}`].filter(Boolean).join("\n\n"), shown || Boolean(text));
      void this.#watchStart(session, asked?.runId);
      if (text) await this.#show(session, key, line); // the turn may have made the session
      return "ordinary";
    } catch (error) {
      this.#starting.delete(session);
      throw error;
    }
  }

  /** Tell that a turn of ours did not begin, though the gateway had taken it: nobody else does. */
  async #watchStart(session, runId) {
    const given = { status: "unknown" };
    const { status, error } = runId ? await this.api.runtime.subagent.waitForRun({ runId, timeoutMs: START_MS }).catch(() => given) : given;
    if (status !== "error" || this.stopping || this.#begun.has(runId)) return;
    await new Promise((done) => setTimeout(done, TELL_MS).unref());
    this.#starting.delete(session);
    const owed = this.#owed.get(session) ?? new Map();
    const deliveries = [...owed.values()].map(({ delivery }) => delivery);
    // What only that turn would have brought, no other takes.
    const waiting = this.#waiting(session).map(({ key }) => key);
    for (const key of [...owed.keys()]) if (!waiting.includes(key)) owed.delete(key);
    this.tell({ kind: "turn_not_started", session_key: session, deliveries, error: String(error || "the gateway gave no reason") });
  }

  /** Show a wake's line in the chat, once, if it has one; false: that cannot be done. */
  async #show(session, key, line) {
    if (line === "" || this.#shown.has(key)) return true;
    try {
      await showLine(session, line);
      this.#shown.set(key, true);
      return true;
    } catch {
      return false; // there is no such session yet, say
    }
  }

  /** An ordinary turn. Nothing of it is delivered: the daemon tells its last words, where they are.
   * `hidden`: its first row, which is the user's, is not shown. */
  async run(session, message, hidden = false) {
    if (this.stopping) throw new Error(STOPPING);
    const idempotencyKey = `taskmem:${randomUUID()}`;
    if (hidden) this.#hidden.set(`${idempotencyKey}:user`, true);
    this.#asked.set(idempotencyKey, session);
    return this.api.runtime.subagent.run({ sessionKey: session, message, deliver: false, idempotencyKey });
  }

  /** Call off the turns that we asked for, also those that have not begun. A sub-agent's run,
   * which each of them is to the gateway, is not settled when it ends while the gateway waits. */
  async cancel() {
    const { tasks, config } = this.api.runtime;
    const runs = tasks?.runs.bindSession({ sessionKey: this.main });
    for (const [run] of runs ? [...this.#asked] : []) {
      const task = runs.resolve(run);
      if (!["queued", "running"].includes(task?.status)) this.#asked.delete(run);
      else await runs.cancel({ taskId: task.id, cfg: config.current() });
    }
  }

  /** A row as it is to be written: one that is not to be shown is for the model alone; undefined: as it is. */
  written(message) {
    if (!this.#hidden.has(message?.idempotencyKey)) return undefined;
    return { message: { ...message, display: false } };
  }

  /** Our injections that no turn has taken yet. */
  #waiting(session) {
    const kept = readSession(this.api, session)?.pluginNextTurnInjections?.[this.id] ?? [];
    const fresh = kept.filter(({ createdAt, ttlMs }) => !(Date.now() - createdAt > ttlMs));
    return fresh.map(({ idempotencyKey, text }) => ({ key: idempotencyKey, text }));
  }
}
