// What goes on in the gateway's sessions: turns that run, wakes that wait for one.
import { randomUUID } from "node:crypto";

const KEPT_MS = 24 * 3_600_000;
const HEARTBEAT_MS = 3_000;
const MOST_DONE = 500;
const START_MS = 60_000; // after which a turn that did not begin is asked for again

export class Sessions {
  #runs = new Map(); // run id → { session, began, answered }
  #owed = new Map(); // session → Map(key → { delivery, since })
  #done = new Set(); // the keys of wakes that turns have taken
  #waking = new Map(); // session → the wake that is being put there
  #starting = new Map(); // session → when a turn of ours was asked for that has not ended
  #fired = new Map(); // session → Map(hook → count), for taskmem doctor

  constructor({ api, id, deliver, tell }) {
    Object.assign(this, { api, id, deliver, tell });
  }

  get running() {
    return [...new Set([...this.#runs.values()].map(({ session }) => session))];
  }

  /** The run that goes on in a session. */
  current(session) {
    return [...this.#runs].findLast(([, run]) => run.session === session)?.[0];
  }

  /** The session that a wake goes to which names none. */
  get main() {
    const { agents, session } = this.api.runtime.config.current();
    const entries = Object.entries(agents?.entries ?? {});
    const chosen = entries.find(([, agent]) => agent?.default) ?? entries.find(([id]) => id === "main") ?? entries[0];
    return `agent:${chosen?.[0] ?? "main"}:${session?.mainKey ?? "main"}`.toLowerCase();
  }

  fired(hook, session) {
    if (!session) return;
    if (!this.#fired.has(session)) this.#fired.set(session, new Map());
    if (this.#fired.size > 100) this.#fired.delete(this.#fired.keys().next().value);
    const counts = this.#fired.get(session);
    counts.set(hook, (counts.get(hook) ?? 0) + 1);
  }

  /** Which hooks have fired for a session, and how often. */
  seen(session) {
    return Object.fromEntries(this.#fired.get(session) ?? []);
  }

  isOurs(runId) {
    return runId?.startsWith("taskmem:") ?? false;
  }

  /** Our injections that no turn has taken yet, by key. */
  pending(session) {
    const kept = this.#entry(session)?.pluginNextTurnInjections?.[this.id] ?? [];
    return kept.filter(({ createdAt, ttlMs }) => !(Date.now() - createdAt > ttlMs)).map((each) => each.idempotencyKey);
  }

  /** An event of a run's life, as the gateway tells it. */
  lifecycle({ runId, sessionKey, data }) {
    if (data.phase === "start" && sessionKey) {
      this.fired("agent_event", sessionKey);
      if (this.#runs.has(runId)) return;
      this.#runs.set(runId, { session: sessionKey, began: Date.now() });
      this.tell({ kind: "turn_started", session_key: sessionKey, running: this.running });
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

  #ended(runId, { error, aborted }) {
    const run = this.#runs.get(runId);
    if (!run) return;
    this.#runs.delete(runId);
    this.#starting.delete(run.session);
    this.fired("turn_ended", run.session);
    const failed = error && !aborted && !run.answered ? String(error) : null;
    const deliveries = this.#taken(run, !failed);
    this.tell({ kind: "turn_ended", session_key: run.session, running: this.running, error: failed, deliveries });
  }

  /** The wakes that a turn took: it began after they were put there, and they are gone. */
  #taken({ session, began }, arrived) {
    const owed = this.#owed.get(session);
    if (!owed) return [];
    const waiting = this.pending(session);
    const taken = [...owed].filter(([key, { since }]) => since <= began && !waiting.includes(key));
    for (const [key] of taken) {
      owed.delete(key);
      if (arrived) this.#done.add(key);
    }
    while (this.#done.size > MOST_DONE) this.#done.delete(this.#done.values().next().value);
    if (owed.size === 0) this.#owed.delete(session);
    return taken.map(([, { delivery }]) => delivery);
  }

  /** Put a wake before the next turn of its session, and start one.
   * One at a time: the main session has two names, and the second must see the first. */
  async wake(asked) {
    const session = (asked.session_key ?? this.main).toLowerCase();
    const before = this.#waking.get(session);
    const done = (async () => (await before?.catch(() => undefined), this.#wake(session, asked)))();
    this.#waking.set(session, done);
    return done.finally(() => this.#waking.get(session) === done && this.#waking.delete(session));
  }

  async #wake(session, { key, delivery_id, text, message }) {
    if (!this.#entry(session)) return { refused: `The gateway has no session ${session}.` };
    if (this.#done.has(key)) {
      // A daemon that was killed in between asks again for what has arrived.
      this.tell({ kind: "answered", session_key: session, deliveries: [delivery_id] });
      return { turn: "taken before" };
    }
    const [first] = this.pending(session);
    const before = this.#owed.get(session)?.get(key);
    if (before && first === undefined && this.running.includes(session)) {
      before.delivery = delivery_id;
      return { turn: "running" };
    }
    if (first !== undefined && first !== key) {
      await this.#turn(session, message);
      return { waits_for: first };
    }
    const since = Date.now(); // a turn that begins while it is being put there may take it
    const injection = { sessionKey: session, text, idempotencyKey: key, placement: "prepend_context", ttlMs: KEPT_MS };
    const { enqueued } = await this.api.session.workflow.enqueueNextTurnInjection(injection);
    const there = enqueued || first === key;
    if (!this.#owed.has(session)) this.#owed.set(session, new Map());
    this.#owed.get(session).set(key, { delivery: delivery_id, since });
    // Where the operator forbids injections, the turn brings the text along.
    return { turn: await this.#turn(session, there ? message : `${text}\n\n${message}`) };
  }

  /** Start an ordinary turn; where that cannot be, one that a heartbeat starts. */
  async #turn(session, message) {
    const asked = this.#starting.get(session);
    if (Date.now() - asked < START_MS || (asked && this.running.includes(session))) return "started before";
    this.#starting.set(session, Date.now());
    try {
      await this.run(session, message);
      return "ordinary";
    } catch (error) {
      this.#starting.delete(session);
      const heart = this.api.runtime.system.runHeartbeatOnce({ reason: "taskmem", sessionKey: session });
      const skipped = await Promise.race([heart, new Promise((done) => setTimeout(done, HEARTBEAT_MS).unref())]);
      if (skipped && skipped.status !== "ran") throw new Error(`no turn could be started (${error.message}), nor by a heartbeat (${skipped.reason ?? skipped.status})`);
      return "heartbeat";
    }
  }

  /** An ordinary turn; what is said in it goes where the session's user is. */
  async run(session, message) {
    const deliver = this.deliver && this.#entry(session)?.delivery?.kind === "external";
    const run = { sessionKey: session, message, deliver, idempotencyKey: `taskmem:${randomUUID()}` };
    return this.api.runtime.subagent.run(run);
  }

  #entry(session) {
    const [, agentId] = session.split(":");
    return this.api.runtime.agent.session.getSessionEntry({ agentId, sessionKey: session });
  }
}
