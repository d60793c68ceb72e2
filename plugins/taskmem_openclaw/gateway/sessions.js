// Track the turns that run in the gateway's sessions, put wakes before turns, and start turns.
import { AsyncLocalStorage } from "node:async_hooks";
import { randomUUID } from "node:crypto";
import { BoundedMap } from "./bounded_map.js";
import { readSession, request, showLine } from "./gateway_requests.js";
import { decideStart, findArrivalEnd, findYieldEnd, QUEUED_MS, START_MS } from "./turn_starts.js";

const KEPT_MS = 24 * 3_600_000; // how long a wake waits for a turn
const HEARTBEAT_MS = 3_000; // time limit for the result of a heartbeat; one without is taken to run
const RECOVERY_MS = 30_000; // how long after its start the gateway may begin to recover a session
const TELL_MS = 1_000; // delay of reporting a failed start: the answer to its wake goes first
const MOST_DONE = 500;
const MOST_SESSIONS = 100;
const OURS = ":taskmem:"; // in the session keys of background runs
const PACKET = /^\[task_(stuck_)?resume\] /m;
const DEFAULT_LINE = "The agent goes on.";
const MARK = "[taskmem] "; // begins the message of a turn that we start
const RUN = "taskmem:"; // begins its run id
const WEB_CHAT = "webchat"; // OpenClaw's name for it, among those of channels
const FAILURES = new Map([
  // OpenClaw's name for a failure → its kind (measured with 2026.9.6)
  ...["auth", "auth_permanent", "billing"].map((name) => [name, "credentials"]),
  ...["format", "model_not_found", "context_overflow"].map((name) => [name, "refused"]),
  ...["timeout", "rate_limit", "overloaded", "server_error", "empty_response"].map((name) => [
    name,
    "passing",
  ]),
]);
export const STOPPING = "the gateway is stopping";

/** Another turn goes first: that of a message of the user, or of the gateway itself. */
class TurnYielded extends Error {}

// Not the wall clock, which may be set while a turn runs.
const readClock = () => performance.now();
const splitLines = (text) => text.split("\n");
/** Return whether the gateway is about to resume a session's turn that a restart has cut. */
function isAwaitingRecovery({
  status,
  abortedLastRun,
  mainRestartRecovery: recovery,
  restartRecoveryRuns: runs,
} = {}) {
  return (
    status === "running" &&
    !recovery?.tombstone &&
    Boolean(abortedLastRun || recovery || runs?.length)
  );
}
/** Return whether a turn that a restart cut may have lost its recovery; the gateway knows. */
function mayBeAbandoned({ status = "failed", abortedLastRun, mainRestartRecovery: recovery } = {}) {
  return (
    ["running", "failed"].includes(status) &&
    !abortedLastRun &&
    Boolean(recovery) &&
    !recovery.tombstone
  );
}
/** Return the lines of a text that others lack, as a text. */
function removeLines(text, others) {
  const there = new Set(others.flatMap(splitLines));
  return splitLines(text)
    .filter((line) => !there.has(line))
    .join("\n");
}
/** Return whether a turn has taken a wake: it waits no more, or its message brought it. */
const isTaken = ({ since, waits, injections }, began) =>
  injections.length > 0 ? !waits : since <= began;
/** Return whether one text contains all lines of another. */
const containsLines = (one, other) => one !== undefined && !removeLines(other, [one]);
// one of an earlier start has none
const listDeliveries = (wakes) => wakes.map(({ delivery }) => delivery).filter(Boolean);

export class Sessions {
  stopping = false;
  #runs = new Map(); // id of a running gateway run → { session, began, answered, acted }
  // session → Map(key of a wake → { delivery, since, text, line, injections, expires })
  #pendingWakes = new Map();
  #takenWakes = new BoundedMap(MOST_DONE); // key of a wake that a turn took → its text
  #startedRuns = new BoundedMap(MOST_SESSIONS); // run id of a turn that we started → its session
  #begunRuns = new BoundedMap(MOST_DONE); // run ids of turns that have begun
  #startedAt = readClock(); // start of this instance
  #wakesInProgress = new Map(); // session → promise of its last wake
  // session → { run, at, begun } of a turn that we asked for and that has not ended
  #askedTurns = new BoundedMap(MOST_SESSIONS);
  #recoveryRuns = new BoundedMap(MOST_SESSIONS); // session → run by which it was recovered last
  #withdrawnRuns = new BoundedMap(MOST_SESSIONS); // run ids of turns that we asked for and withdrew
  // session → { text, end } of its last message; `end`: until when its turn may begin
  #arrivals = new BoundedMap(MOST_SESSIONS);
  #nextLooks = new Map(); // session → timer that decides about a turn for what waits
  #runOutsideTurns = AsyncLocalStorage.snapshot();
  #findActive; // the gateway's function that finds the active run of a session
  #shownLines = new BoundedMap(MOST_DONE); // keys of wakes whose line the chat shows
  // keys of our turns' first rows, for which the chat shows the line
  #hiddenRows = new BoundedMap(MOST_DONE);
  #hookCounts = new BoundedMap(MOST_SESSIONS); // session → Map(hook → count), for taskmem doctor

  constructor({ api, id, tell, reports }) {
    Object.assign(this, { api, id, tell, reports });
  }

  /** Begin no turn any more, because the gateway is stopping and waits for whatever runs. */
  beginStop() {
    this.stopping = true;
    for (const timer of this.#nextLooks.values()) clearTimeout(timer);
    this.#nextLooks.clear();
  }

  /** Handle that a message has come which may begin a turn: of the user, or of the gateway. A turn
   * of ours that does not run yet is withdrawn, since the gateway lets the message fail if ours
   * begins between its row and its turn (measured with 2026.9.6). The turn of a busy session may be
   * ours, which a message of the web chat may already be part of, but none of a channel. */
  handleArrival(session, text, channel = WEB_CHAT) {
    // The gateway tells of a message several times, also during its own turn.
    const before = this.#arrivals.get(session);
    if (before?.text === text && this.running.includes(session)) return;
    const now = readClock();
    const since = before?.end > now ? before.since : now;
    const arrival = { text, since, end: findArrivalEnd(now, text) };
    this.#arrivals.set(session, arrival);
    const asked = this.#askedTurns.get(session);
    const isInTurn = channel === WEB_CHAT && this.#isBusy(session);
    const isFirst = findYieldEnd(arrival) > now && !isInTurn;
    if (asked && !asked.begun && isFirst) this.#withdrawTurn(session);
  }

  /** Wait no longer than until `latest` for the turn of a session's last message, as a turn has
   * begun or ended. */
  #endArrival(session, latest) {
    const arrival = this.#arrivals.get(session);
    if (arrival) Object.assign(arrival, { since: readClock(), end: Math.min(arrival.end, latest) });
  }

  /** Return whether the gateway runs a turn in a session, or prepares one for a message. */
  #isBusy(session) {
    return this.#findActive?.(session) !== undefined;
  }

  /** Return what `decideStart` decides by. */
  #readFacts(session) {
    const asked = this.#askedTurns.get(session);
    return {
      now: readClock(),
      runs: this.running.includes(session),
      busy: this.#isBusy(session),
      askedAt: asked?.at,
      arrivalEnd: findYieldEnd(this.#arrivals.get(session)),
    };
  }

  /** Call off the turn that we asked for in a session and that has not begun. */
  #withdrawTurn(session) {
    const { run } = this.#askedTurns.get(session);
    this.#askedTurns.delete(session);
    this.#withdrawnRuns.set(run, true);
    const lost = this.#listPending(session).filter(({ injections }) => injections.length === 0);
    if (lost.length > 0) this.#reportUntaken(session, lost, "another message came first");
    const aborted = request("chat.abort", { sessionKey: session, runId: run }).catch(
      () => undefined,
    );
    this.#returnTaken(session, aborted);
  }

  /** Handle that a run's prompt was built, which takes what waits. One that was withdrawn may get
   * that far before it ends. */
  handlePrompt(session, run) {
    if (this.#withdrawnRuns.has(run)) this.#returnTaken(session);
  }

  /** Put what a withdrawn turn has taken, until it was `aborted`, before the next one again. */
  #returnTaken(session, aborted) {
    const settle = async () => {
      await aborted;
      // A turn that has begun has taken it itself.
      if (!this.running.includes(session))
        for (const { key, waits } of this.#listPending(session))
          if (!waits) await this.#putAgain(session, key);
      this.#lookLater(session, 0);
    };
    void this.#queueWake(session, settle).catch(() => undefined);
  }

  /** Put a wake once more before a session's next turn, as the one that took it was ended. */
  async #putAgain(session, key) {
    const wake = this.#pendingWakes.get(session)?.get(key);
    if (!wake) return; // it was settled meanwhile
    const name = `${key}:${randomUUID()}`;
    if (await this.#injectText(session, name, wake.text)) wake.injections = [name];
    else this.#reportUntaken(session, [{ key, ...wake }], "another message came first");
  }

  /** Decide after a time whether a turn must begin for what waits in a session. */
  #lookLater(session, rest) {
    if (this.stopping || !this.#pendingWakes.has(session)) return;
    clearTimeout(this.#nextLooks.get(session));
    const look = () => {
      this.#nextLooks.delete(session);
      void this.#queueWake(session, () => this.#startForWaiting(session)).catch(() => undefined);
    };
    this.#nextLooks.set(session, setTimeout(look, rest).unref());
  }

  /** Start a turn for wakes that were accepted and that no turn has taken, once one may begin. */
  async #startForWaiting(session) {
    const waiting = this.#listPending(session).filter(({ waits }) => waits);
    if (waiting.length === 0) return;
    const [{ key, line = DEFAULT_LINE }] = waiting;
    try {
      await this.#startAnyTurn(session, key, line);
    } catch (error) {
      if (!this.stopping) this.#reportUntaken(session, waiting, error.message);
    }
  }

  get running() {
    return [...new Set([...this.#runs.values()].map(({ session }) => session))];
  }

  /** Return the id of the running gateway run of a session; undefined: none is known. */
  findRun(session) {
    return [...this.#runs].findLast(([, run]) => run.session === session)?.[0];
  }

  /** Return when the running run of a session began, by `now()`; undefined: none is known. */
  findRunStart(session) {
    return this.#runs.get(this.findRun(session))?.began;
  }

  /** The session for wakes that name none: the main one of the default agent. */
  get main() {
    const { agents, session } = this.api.runtime.config.current();
    const entries = Object.entries(agents?.entries ?? {});
    const chosen =
      entries.find(([, agent]) => agent?.default) ??
      entries.find(([id]) => id === "main") ??
      entries[0];
    return `agent:${chosen?.[0] ?? "main"}:${session?.mainKey ?? "main"}`.toLowerCase();
  }

  /** Return a session's full key; `main` and `global` stand for the main session. */
  #resolveKey(session) {
    const name = session.toLowerCase();
    if (name.startsWith("agent:")) return name;
    return ["main", "global"].includes(name)
      ? this.main
      : `${this.main.split(":", 2).join(":")}:${name}`;
  }

  countHook(hook, session) {
    if (!session) return;
    const counts = this.#hookCounts.get(session) ?? new Map();
    this.#hookCounts.set(session, counts.set(hook, (counts.get(hook) ?? 0) + 1));
  }

  /** Return how often each hook has fired for a session. */
  getHookCounts(session) {
    return Object.fromEntries(this.#hookCounts.get(session) ?? []);
  }

  /** Return whether a wake puts a packet before the session's next prompt. */
  hasPacket(session) {
    const texts = [
      ...(this.#pendingWakes.get(session)?.values() ?? []),
      ...this.#listInjections(session),
    ].map(({ text }) => text);
    return texts.some((text) => PACKET.test(text));
  }

  /** Handle the gateway's event that a run has started or ended. */
  handleLifecycle({ runId, sessionKey, data }) {
    if (data.phase === "start" && sessionKey) {
      this.countHook("agent_event", sessionKey);
      if (this.#runs.has(runId)) return;
      const asked = this.#askedTurns.get(sessionKey);
      if (asked?.run === runId) asked.begun = true;
      else {
        this.#endArrival(sessionKey, -Infinity);
        // This turn has taken what waited, so ours would begin with nothing to do.
        if (asked && !asked.begun) this.#withdrawTurn(sessionKey);
      }
      this.#runs.set(runId, { session: sessionKey, began: readClock() });
      this.#begunRuns.set(runId, true);
      this.tell({
        kind: "turn_started",
        run_id: runId,
        ...this.reports.beginTurn(sessionKey, runId),
        running: this.running,
      });
    } else if (data.executionSettled) this.#handleEnded(runId, data);
  }

  /** Handle that a model has answered in a run. */
  handleAnswered(runId) {
    const run = this.#runs.get(runId);
    if (run) run.answered = true;
  }

  /** Handle that the agent of a session begins a tool call: the wakes put before its turn have
   * arrived. A turn that is cut before that leaves no trace of them, or an answer that did nothing.
   */
  handleActed(session) {
    const run = this.#runs.get(this.findRun(session));
    if (!run?.answered) return;
    run.acted = true;
    const deliveries = this.#takeDeliveries(run, true);
    if (deliveries.length > 0) this.tell({ kind: "answered", session_key: session, deliveries });
  }

  #handleEnded(runId, { phase, error, aborted, yielded, errorObservation }) {
    const run = this.#runs.get(runId);
    if (!run) return;
    this.#runs.delete(runId);
    if (this.#askedTurns.get(run.session)?.run === runId) this.#askedTurns.delete(run.session);
    // A message that came during the turn was part of it, or its own turn begins now.
    this.#endArrival(run.session, readClock() + QUEUED_MS);
    this.#lookLater(run.session, 0);
    this.countHook("turn_ended", run.session);
    const fault = phase === "error" || error ? String(error ?? "the gateway gave no reason") : null;
    const withdrawn = this.#withdrawnRuns.has(runId) && Boolean(aborted || fault);
    const cut = (withdrawn || (this.stopping && (aborted || fault))) && !run.acted;
    const failed = run.answered && !cut ? null : (fault ?? (aborted ? "it was aborted" : null));
    let deliveries = [];
    try {
      deliveries = this.#takeDeliveries(run, !failed);
    } finally {
      const verdict = {
        aborted: Boolean(aborted),
        failed: phase === "error" && !aborted ? fault : null,
        reason: FAILURES.get(errorObservation?.failoverReason) ?? null,
      };
      this.tell({
        kind: "turn_ended",
        ...this.reports.endTurn(run.session, !fault && !aborted && !yielded ? runId : undefined),
        ...(withdrawn && { cut: true }), // nobody stopped it: its task goes on
        ...verdict,
        running: this.running,
        error: failed,
        deliveries,
      });
    }
  }

  /** Note what an earlier start of the gateway put before the turn that is about to take it: the
   * daemon may send the same wakes again. */
  recordInjections(session) {
    const known = this.#listPending(session).flatMap(({ injections }) => injections);
    for (const { key, text } of this.#listInjections(session))
      if (!known.includes(key))
        this.#addPending(session, key, { since: -Infinity, text, injections: [key] });
  }

  #addPending(session, key, wake) {
    if (!this.#pendingWakes.has(session)) this.#pendingWakes.set(session, new Map());
    this.#pendingWakes.get(session).set(key, { ...wake, expires: Date.now() + KEPT_MS });
  }

  /** Return and forget the delivery ids of the wakes that a turn took: those that wait no more, and
   * those that its own message brought. Expired ones are only forgotten. */
  #takeDeliveries({ session, began }, arrived) {
    const gone = this.#listPending(session).filter((wake) => isTaken(wake, began));
    this.#forgetWakes(session, gone);
    const taken = gone.filter(({ expires }) => Date.now() < expires);
    if (arrived) for (const { key, text } of taken) this.#takenWakes.set(key, text);
    return listDeliveries(taken);
  }

  /** Handle that a session has ended. A reset drops what waited for its next turn. */
  handleSessionEnd(session) {
    const lost = this.#listUntaken(session).filter(
      ({ waits, injections }) => !waits && injections.length > 0,
    );
    if (lost.length > 0) this.#reportUntaken(session, lost, "the session was reset");
  }

  /** Return the pending wakes of a session; `waits`: no turn has taken its text yet. */
  #listPending(session) {
    const pending = this.#pendingWakes.get(session);
    if (!pending) return [];
    const waiting = this.#listInjections(session).map(({ key }) => key);
    return [...pending].map(([key, wake]) => ({
      key,
      ...wake,
      waits: wake.injections.some((each) => waiting.includes(each)),
    }));
  }

  /** Return the pending wakes of a session but those that its running turn takes. */
  #listUntaken(session) {
    const runs = this.running.includes(session);
    return this.#listPending(session).filter(
      ({ waits, injections }) => waits || injections.length === 0 || !runs,
    );
  }

  /** Report wakes that no turn has taken, so that they are sent again; forget those that do not
   * wait. */
  #reportUntaken(session, wakes, error) {
    this.#forgetWakes(
      session,
      wakes.filter(({ waits }) => !waits),
    );
    this.tell({
      kind: "turn_not_started",
      session_key: session,
      deliveries: listDeliveries(wakes),
      error,
    });
  }

  #forgetWakes(session, wakes) {
    const pending = this.#pendingWakes.get(session);
    for (const { key } of wakes) pending.delete(key);
    if (pending?.size === 0) this.#pendingWakes.delete(session);
  }

  /** Put a wake before the next turn of its session, and start one. Handles the wakes of a session
   * one at a time, since each must see the one before it. Returns `turn` (how the turn starts),
   * `refused`, `recovers` or `waits_for`. */
  async deliverWake(asked) {
    if (
      ![asked.key, asked.delivery_id, asked.text, asked.message].every(
        (each) => typeof each === "string",
      )
    )
      throw new Error("this is no wake");
    const session = this.#resolveKey(asked.session_key ?? "main");
    return this.#queueWake(session, () => this.#deliverOne(session, asked));
  }

  /** Handle a wake of a session after those before it, and in the context of our own start: what a
   * turn's hooks began, timers too, the gateway refuses once that turn is over ("Gateway is
   * draining", measured with 2026.9.6). */
  async #queueWake(session, handle) {
    const before = this.#wakesInProgress.get(session);
    const done = this.#runOutsideTurns(async () => {
      await before?.catch(() => undefined);
      return handle();
    });
    this.#wakesInProgress.set(session, done);
    return done.finally(
      () => this.#wakesInProgress.get(session) === done && this.#wakesInProgress.delete(session),
    );
  }

  async #deliverOne(session, { key, delivery_id: delivery, text, message: line }) {
    this.#findActive ??= (
      await import("openclaw/plugin-sdk/agent-harness")
    ).resolveActiveEmbeddedRunSessionId;
    const entry = readSession(this.api, session);
    const known = entry !== undefined;
    // A turn that we start before the gateway resumes its own would fail, and spoil that one.
    if (
      readClock() - this.#startedAt < RECOVERY_MS &&
      isAwaitingRecovery(entry) &&
      !this.running.includes(session)
    )
      return { recovers: session };
    // A turn that the gateway has just resumed takes the run over, and the daemon withdraws the
    // packet; a second turn with it would do everything again.
    if (PACKET.test(text) && this.#hasJustResumed(session)) return { recovers: session };
    // Until it is recovered, the gateway lets no turn begin in it but one of a person.
    if (mayBeAbandoned(entry) && !this.running.includes(session) && (await this.#recover(session)))
      return { recovers: session };
    if (!known && session !== this.main && !session.includes(OURS))
      return { refused: `The gateway has no session ${session}.` };
    const taken = this.#takenWakes.get(key);
    if (containsLines(taken, text)) {
      // It has arrived, but the daemon was killed before it heard so.
      this.tell({ kind: "answered", session_key: session, deliveries: [delivery] });
      return { turn: "taken before" };
    }
    const waiting = this.#listInjections(session);
    const [first] = waiting;
    const before = this.#pendingWakes.get(session)?.get(key);
    const runs = this.running.includes(session);
    if (before && !first && (runs || this.#isTurnAwaited(session))) {
      // The turn has the text, or its message brings it.
      if (!containsLines(before.text, text)) return { waits_for: key };
      before.delivery = delivery;
      return { turn: runs ? "running" : "started before" };
    }
    const since = readClock(); // before it is put: a turn that begins meanwhile may take it
    // A repeated wake may come among others, or say more than before. Of what has arrived or waits,
    // also since an earlier start of the gateway, nothing is put there again. A wake of which
    // nothing waits follows the one that does.
    const lacking = removeLines(text, [taken, ...waiting.map((each) => each.text)].filter(Boolean));
    const injections = waiting.map((each) => each.key);
    const name = first ? `${key}:${delivery}` : key;
    // a session without an entry is created by a turn
    const putsText = known && lacking && (!first || lacking !== text);
    if (putsText && (await this.#injectText(session, name, lacking))) injections.push(name);
    else if (first && lacking) {
      await this.#startAnyTurn(
        session,
        first.key,
        this.#pendingWakes.get(session)?.get(first.key)?.line ?? DEFAULT_LINE,
      );
      return { waits_for: first.key };
    }
    this.#addPending(session, key, { delivery, since, text, line, injections });
    if (injections.length > 0) return { turn: await this.#startAnyTurn(session, key, line) };
    return { turn: await this.#startTurnWithText(session, key, line, lacking) };
  }

  /** Ask the gateway to recover a session; returns whether that may begin a turn in it. Of one
   * recovery it names the same run each time, also after that run has failed. */
  async #recover(session) {
    const asked = await request("sessions.recover", { key: session }).catch(() => undefined);
    const { status, runId } = asked?.continuation ?? {};
    if (status !== "started" || (runId && this.#recoveryRuns.get(session) === runId)) return false;
    this.#recoveryRuns.set(session, runId);
    return true;
  }

  #hasJustResumed(session) {
    const began = this.findRunStart(session);
    return readClock() - began < RECOVERY_MS && this.reports.isResumed(session);
  }

  /** Put a text before the session's next turn; returns false if the operator forbids it. */
  async #injectText(session, key, text) {
    const injection = {
      sessionKey: session,
      text,
      idempotencyKey: key,
      placement: "prepend_context",
      ttlMs: KEPT_MS,
    };
    const { enqueued } = await this.api.session.workflow.enqueueNextTurnInjection(injection);
    return enqueued || this.#listInjections(session).some((each) => each.key === key);
  }

  /** Start an ordinary turn with the wake in its message, as it could not be put before a turn. */
  async #startTurnWithText(session, key, line, text) {
    try {
      if (this.#isTurnAwaited(session))
        throw new Error("a turn that was asked for earlier has not begun");
      if (decideStart(this.#readFacts(session)) !== 0)
        throw new Error("another message comes first");
      return await this.#startOrdinaryTurn(session, key, line, text);
    } catch (error) {
      this.#pendingWakes.get(session)?.delete(key);
      throw error;
    }
  }

  /** Start an ordinary turn, or if that fails, one by a heartbeat; returns which. If none may begin
   * now, another turn takes what waits, or one begins for it later. */
  async #startAnyTurn(session, key, line) {
    const rest = decideStart(this.#readFacts(session));
    if (rest !== 0) {
      if (rest !== undefined) this.#lookLater(session, rest);
      return this.#isTurnAwaited(session) ? "started before" : "the next one";
    }
    try {
      return await this.#startOrdinaryTurn(session, key, line);
    } catch (error) {
      if (error instanceof TurnYielded) {
        this.#lookLater(session, 0);
        return "the next one";
      }
      if (this.stopping) throw error;
      const heart = this.api.runtime.system.runHeartbeatOnce({
        reason: "taskmem",
        sessionKey: session,
      });
      const skipped = await Promise.race([
        heart,
        new Promise((done) => setTimeout(done, HEARTBEAT_MS).unref()),
      ]);
      if (skipped && skipped.status !== "ran") {
        const reason = skipped.reason ?? skipped.status;
        throw new Error(
          `no turn could be started (${error.message}), nor by a heartbeat (${reason})`,
        );
      }
      return "heartbeat";
    }
  }

  /** Return whether a turn that we started has yet to begin, in at most START_MS, or runs. */
  #isTurnAwaited(session) {
    const asked = this.#askedTurns.get(session);
    return (
      asked !== undefined && (readClock() - asked.at < START_MS || this.running.includes(session))
    );
  }

  /** Start a turn of which the chat shows one line, in our name if possible. */
  async #startOrdinaryTurn(session, key, line, text) {
    const run = `${RUN}${randomUUID()}`;
    this.#askedTurns.set(session, { run, at: readClock(), begun: false });
    const shown = await this.#showLineOnce(session, key, line);
    // The gateway calls it until it has accepted the turn, and may reword what it throws.
    const isYielding = () =>
      this.#withdrawnRuns.has(run) ||
      decideStart({ ...this.#readFacts(session), askedAt: undefined }) !== 0;
    let yielded;
    const assertCurrent = () => {
      yielded ||= isYielding();
      if (yielded) throw new TurnYielded("another message comes first");
    };
    try {
      const asked = await this.startTurn(
        session,
        [text, `${MARK}${line || DEFAULT_LINE}`].filter(Boolean).join("\n\n"),
        { run, assertCurrent, hidden: shown || Boolean(text) },
      );
      void this.#watchStart(session, asked?.runId);
      if (text) await this.#showLineOnce(session, key, line); // now the session may exist
      return "ordinary";
    } catch (error) {
      if (this.#askedTurns.get(session)?.run === run) this.#askedTurns.delete(session);
      throw yielded || this.#withdrawnRuns.has(run) ? new TurnYielded(error.message) : error;
    }
  }

  /** Report if a turn that the gateway accepted from us does not begin: no hook tells. */
  async #watchStart(session, runId) {
    const given = { status: "unknown" };
    const { status, error } = runId
      ? await this.api.runtime.subagent
          .waitForRun({ runId, timeoutMs: START_MS })
          .catch(() => given)
      : given;
    if (status !== "error" || this.stopping || this.#begunRuns.has(runId)) return;
    await new Promise((done) => setTimeout(done, TELL_MS).unref());
    if (this.#withdrawnRuns.has(runId)) return;
    if (this.#askedTurns.get(session)?.run === runId) this.#askedTurns.delete(session);
    this.#reportUntaken(
      session,
      this.#listUntaken(session),
      String(error || "the gateway gave no reason"),
    );
  }

  /** Show a wake's line in the chat, once, if it has one; returns false if that fails. */
  async #showLineOnce(session, key, line) {
    if (line === "" || this.#shownLines.has(key)) return true;
    try {
      await showLine(session, line);
      this.#shownLines.set(key, true);
      return true;
    } catch {
      return false; // for example, there is no such session yet
    }
  }

  /** Start an ordinary turn. The gateway delivers nothing of it; the daemon sends its last reply to
   * the user. `hidden`: do not show its first row, which has the role `user`. `assertCurrent`
   * throws if it may not begin any more. */
  async startTurn(session, message, { run = `${RUN}${randomUUID()}`, hidden, assertCurrent } = {}) {
    if (this.stopping) throw new Error(STOPPING);
    if (hidden) this.#hiddenRows.set(`${run}:user`, true);
    this.#startedRuns.set(run, session);
    return this.api.runtime.subagent.run({
      sessionKey: session,
      message,
      deliver: false,
      idempotencyKey: run,
      ...(assertCurrent && { assertCurrent }),
    });
  }

  /** Cancel the turns that we started, also those that have not begun, were withdrawn, or were cut
   * with an earlier start. To the gateway each is a sub-agent's run, which is not settled if it
   * merely ends, or has ended, while the gateway waits to stop. Cancelling ends whatever runs in
   * the session, so a turn of an earlier start is left alone while another one runs there. */
  async cancelTurns() {
    const { tasks, config } = this.api.runtime;
    const runs = tasks?.runs.bindSession({ sessionKey: this.main });
    const ours = (runs?.list() ?? []).filter(
      ({ runId, status, childSessionKey }) =>
        runId?.startsWith(RUN) &&
        ["queued", "running"].includes(status) &&
        (this.#startedRuns.has(runId) || !this.running.includes(childSessionKey)),
    );
    const cancel = ({ id }) => runs.cancel({ taskId: id, cfg: config.current() });
    await Promise.allSettled(ours.map(cancel));
  }

  /** Return a row of the conversation as it must be written: a hidden one is for the model alone;
   * undefined: unchanged. */
  hideRow(message) {
    if (!this.#hiddenRows.has(message?.idempotencyKey)) return undefined;
    return { message: { ...message, display: false } };
  }

  /** Return the key and text of our injections that no turn has taken yet, except expired ones. */
  #listInjections(session) {
    const injections = readSession(this.api, session)?.pluginNextTurnInjections?.[this.id] ?? [];
    const fresh = injections.filter(({ createdAt, ttlMs }) => !(Date.now() - createdAt > ttlMs));
    return fresh.map(({ idempotencyKey, text }) => ({ key: idempotencyKey, text }));
  }
}
