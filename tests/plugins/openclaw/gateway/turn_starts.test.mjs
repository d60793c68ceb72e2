import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { setImmediate as pause } from "node:timers/promises";
import { gateway, load, MAIN, sdk } from "./stand_ins.mjs";

const { decideStart, findArrivalEnd, findYieldEnd } = await load("turn_starts.js");
const { Sessions } = await load("sessions.js");

for (const [what, facts, expected] of [
  ["begins at once in an idle session", {}, 0],
  ["waits for the end of the turn that runs", { runs: true, busy: true }, undefined],
  ["waits while the gateway prepares another", { busy: true }, 100],
  ["waits for the one that was asked for", { askedAt: 9_000 }, 59_000],
  ["begins if the one that was asked for did not", { askedAt: -50_000 }, 0],
  ["waits for that of a message", { arrivalEnd: 10_050 }, 50],
  ["looks often whether the message's has ended", { arrivalEnd: 40_000 }, 100],
  ["begins if the message began none", { arrivalEnd: 10_000 }, 0],
])
  test(`a turn of ours ${what}`, () => {
    assert.equal(decideStart({ now: 10_000, runs: false, busy: false, ...facts }), expected);
  });

test("a turn is awaited for half a minute, and for two seconds after what may be a command", () => {
  assert.equal(findArrivalEnd(1_000, "Hello /status"), 31_000);
  assert.equal(findArrivalEnd(1_000, " /status"), 3_000);
});

test("our turns yield for two minutes to messages that begin no turn", () => {
  assert.equal(findYieldEnd({ since: 0, end: 30_000 }), 30_000);
  assert.equal(findYieldEnd({ since: 0, end: 140_000 }), 120_000);
  assert.equal(findYieldEnd(undefined), undefined);
});

/** Return a function that gives numbers from 0 to below 1, the same ones for the same seed. */
function roll(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** A gateway that is as slow as `draw` says. A message's row is written a while before its turn
 * begins; it is lost if a turn of ours begins between (as in OpenClaw 2026.9.6). */
class SlowGateway {
  lost = [];
  idle = []; // turns of ours that began with nothing to do
  taken = []; // texts
  #rows = new Set(); // messages whose row is written and whose turn has not begun
  #accepted = new Set(); // run ids of turns of ours, without those that were called off
  #lane = Promise.resolve(); // turns of a session never overlap
  #running;

  constructor(house, draw, sessions) {
    Object.assign(this, { house, draw, sessions });
    house.run = (run) => this.#accept(run);
    sdk.resolveActiveEmbeddedRunSessionId = () => (this.#running ? "id" : undefined);
    sdk.callGatewayTool = async (method, _, { runId }) => {
      await this.#rest(5, 100);
      if (method === "chat.abort") this.#accepted.delete(runId);
    };
  }

  #rest = (least, most) =>
    new Promise((done) => setTimeout(done, least + this.draw() * (most - least)));

  async #accept({ idempotencyKey: run, assertCurrent }) {
    assertCurrent();
    await this.#rest(5, 400);
    assertCurrent();
    this.#accepted.add(run);
    void this.#enqueue(run, () => {
      if (this.#accepted.has(run)) this.lost.push(...this.#rows);
      return this.#accepted.has(run);
    });
    return { runId: run };
  }

  /** Run a turn: it takes what waits, and its start is told a while later, unless it was called
   * off meanwhile. */
  async #run(run, isOurs) {
    this.#running = run;
    const texts = this.house.waiting(MAIN).splice(0);
    await this.#rest(20, 300);
    if (!isOurs || this.#accepted.has(run)) {
      this.house.lifecycle({ runId: run, sessionKey: MAIN, data: { phase: "start" } });
      this.taken.push(...texts.flatMap(({ text }) => text.split("\n")));
      if (isOurs && texts.length === 0) this.idle.push(run);
      await this.#rest(100, 1_500);
    }
    this.#running = undefined;
    this.house.end(run);
  }

  async #enqueue(run, mayBegin = () => true) {
    const before = this.#lane;
    const turn = (async () => {
      await this.#rest(50, 2_000);
      await before;
      this.#rows.delete(run);
      if (mayBegin()) await this.#run(run, run.startsWith("taskmem:"));
    })();
    this.#lane = turn;
    await turn;
  }

  /** A user's message comes in. During a turn it becomes part of that. */
  async write(name) {
    this.sessions.handleArrival(MAIN, name);
    if (this.#running) return;
    await this.#rest(100, 500);
    if (this.#running) return;
    this.#rows.add(name);
    await this.#enqueue(name);
  }
}

/** Let wakes and messages of a user meet in one session at random instants, and return what became
 * of them. */
async function meet(seed) {
  const draw = roll(seed);
  const house = gateway();
  let now = 0;
  mock.timers.enable({ apis: ["setTimeout"] });
  mock.method(performance, "now", () => now);
  const sessions = new Sessions({
    api: house.api,
    id: "taskmem",
    reports: { beginTurn: () => ({}), endTurn: () => ({}), isResumed: () => false },
    tell: () => {},
  });
  house.api.agent.events.registerAgentEventSubscription({
    handle: (event) => sessions.handleLifecycle(event),
  });
  const slow = new SlowGateway(house, draw, sessions);
  const deliver = async (key) => {
    const wake = { session_key: MAIN, key, delivery_id: key, text: key, message: "" };
    const answer = await sessions.deliverWake(wake);
    if (!answer.turn) setTimeout(() => deliver(key), 1_000);
  };
  const sent = [];
  for (let number = 0; number < 4; number++) {
    sent.push(`wake ${number}`);
    setTimeout(() => deliver(`wake ${number}`), draw() * 6_000);
    if (number < 2) setTimeout(() => slow.write(`message ${number}`), draw() * 6_000);
  }
  for (; now < 45_000; now += 20) {
    mock.timers.tick(20);
    await pause();
  }
  mock.restoreAll();
  mock.timers.reset();
  return { sent, slow };
}

test("whatever meets in a session, no message is lost and each wake is in one turn", async () => {
  for (let seed = 1; seed <= 60; seed++) {
    const { sent, slow } = await meet(seed);
    assert.deepEqual(
      { lost: slow.lost, idle: slow.idle, taken: slow.taken.toSorted() },
      { lost: [], idle: [], taken: sent },
      `seed ${seed}`,
    );
  }
});
