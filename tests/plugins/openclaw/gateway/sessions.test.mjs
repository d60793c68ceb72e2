import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { beforeEach, mock, test } from "node:test";
import { gateway, load, MAIN, OTHER, sdk } from "./stand_ins.mjs";

const { Sessions } = await load("sessions.js");
const PACKET = '[task_resume] {"v":1}';
let house, told, sessions, shown, resumed, busy, withdrawn;

function move_in(options) {
  house = gateway(options);
  told = [];
  shown = [];
  resumed = false;
  busy = new Set();
  withdrawn = [];
  sdk.resolveActiveEmbeddedRunSessionId = (session) => (busy.has(session) ? "id" : undefined);
  sdk.callGatewayTool = async (method, __, { sessionKey, message, runId }) => {
    if (method === "chat.abort") return withdrawn.push(runId);
    if (!house.sessions.has(sessionKey)) throw new Error("session not found");
    shown.push(message);
  };
  const reports = {
    beginTurn: (session_key) => ({ session_key }),
    endTurn: (session_key) => ({ session_key, calls: 2 }),
    isResumed: () => resumed,
  };
  sessions = new Sessions({
    api: house.api,
    id: "taskmem",
    reports,
    tell: (event) => told.push(event),
  });
  house.api.agent.events.registerAgentEventSubscription({
    handle: (event) => sessions.handleLifecycle(event),
  });
}

beforeEach(() => move_in());

const wake = (more = {}) =>
  sessions.deliverWake({
    session_key: MAIN,
    key: "wake-1",
    delivery_id: "delivery-1",
    text: "the packet",
    message: "Carry on.",
    ...more,
  });
/** The run of the turn that was asked for last. */
const asked_run = () => house.turns.at(-1).idempotencyKey;
/** Let a model answer in a run, and the agent begin a tool call. */
function act(run) {
  sessions.handleAnswered(run);
  sessions.handleActed(MAIN);
}
const told_of = (kind) => told.filter((event) => event.kind === kind);

test("a wake waits before the next turn, and an ordinary turn is asked for", async () => {
  assert.deepEqual(await wake(), { turn: "ordinary" });
  assert.deepEqual(
    house.turns.map(({ sessionKey, message }) => [sessionKey, message]),
    [[MAIN, "[taskmem] Carry on."]],
  );
  assert.deepEqual(house.begin("r1"), ["the packet"]);
});

test("a wake's text is put there as it is", async () => {
  await wake({ text: "one\n\n  two\none" });
  assert.deepEqual(house.begin("r1"), ["one\n\n  two\none"]);
});

test("it has arrived when the agent acts in the turn that took it, and is told once", async () => {
  await wake();
  house.begin("r1");
  assert.deepEqual(told_of("answered"), []);
  act("r1");
  house.end("r1");
  assert.deepEqual(
    told_of("answered").map(({ deliveries }) => deliveries),
    [["delivery-1"]],
  );
  assert.deepEqual(
    told_of("turn_ended").map(({ deliveries, error }) => [deliveries, error]),
    [[[], null]],
  );
});

test("an answer alone is no arrival before its turn has ended", async () => {
  await wake();
  house.begin("r1");
  sessions.handleAnswered("r1");
  assert.deepEqual(told_of("answered"), []);
  house.end("r1");
  assert.deepEqual(
    told_of("turn_ended").map(({ deliveries, error }) => [deliveries, error]),
    [[["delivery-1"], null]],
  );
});

for (const [what, acted, data, expected] of [
  [
    "before its agent acted brought the wake to nobody",
    false,
    { aborted: true },
    [["delivery-1"], "it was aborted"],
  ],
  [
    "by an error before its agent acted did so, too",
    false,
    { error: "draining" },
    [["delivery-1"], "draining"],
  ],
  ["after its agent acted has brought the wake", true, { aborted: true }, [[], null]],
])
  test(`a turn that a stop of the gateway cut ${what}`, async () => {
    await wake();
    house.begin("r1");
    sessions.handleAnswered("r1");
    if (acted) sessions.handleActed(MAIN);
    sessions.beginStop();
    house.end("r1", data);
    assert.deepEqual(
      told_of("turn_ended").map(({ deliveries, error }) => [deliveries, error]),
      [expected],
    );
  });

test("what waits still has not arrived by a turn that could not take it", async () => {
  house.begin("earlier");
  await wake();
  act("earlier");
  house.end("earlier");
  assert.deepEqual(told_of("answered"), []);
  assert.deepEqual(told_of("turn_ended")[0].deliveries, []);
});

test("a turn that begins while the wake is put there has taken it", async () => {
  const put = house.put;
  house.put = async (injection) => {
    const done = await put(injection);
    assert.deepEqual(house.begin("r1"), ["the packet"]);
    return done;
  };
  await wake();
  act("r1");
  assert.deepEqual(told_of("answered")[0].deliveries, ["delivery-1"]);
});

test("a turn that failed has taken the wake, and it has not arrived", async () => {
  await wake();
  house.begin("r1");
  house.end("r1", { error: "no model" });
  const [{ error, deliveries }] = told_of("turn_ended");
  assert.deepEqual([error, deliveries], ["no model", ["delivery-1"]]);
  // Owed again, it is put there again.
  await wake({ delivery_id: "delivery-2" });
  assert.deepEqual(house.begin("r2"), ["the packet"]);
});

test("a turn that failed after a model had answered is no failure", async () => {
  await wake();
  house.begin("r1");
  sessions.handleAnswered("r1");
  house.end("r1", { error: "late" });
  house.begin("r2");
  sessions.handleAnswered("r2");
  house.end("r2", { aborted: true });
  assert.deepEqual(
    told_of("turn_ended").map(({ error }) => error),
    [null, null],
  );
});

test("a turn that was aborted before a model had answered brought the wake to nobody", async () => {
  await wake();
  house.begin("r1");
  house.end("r1", { aborted: true });
  assert.deepEqual(
    told_of("turn_ended").map(({ error, deliveries }) => [error, deliveries]),
    [["it was aborted", ["delivery-1"]]],
  );
});

test("what has arrived is not brought again: the daemon is told of it", async () => {
  await wake();
  house.begin("r1");
  house.end("r1");
  assert.deepEqual(await wake({ delivery_id: "delivery-2" }), { turn: "taken before" });
  assert.deepEqual(
    told_of("answered").map(({ deliveries }) => deliveries),
    [["delivery-2"]],
  );
  assert.equal(house.turns.length, 1);
});

test("of what has arrived and says more now only the rest is brought", async () => {
  await wake();
  house.begin("r1");
  house.end("r1");
  assert.deepEqual(await wake({ delivery_id: "delivery-2", text: "the packet\nand more" }), {
    turn: "ordinary",
  });
  assert.deepEqual(house.begin("r2"), ["and more"]);
  act("r2");
  assert.deepEqual(told_of("answered")[0].deliveries, ["delivery-2"]);
});

test("a wake that comes again with more follows the one that runs", async () => {
  await wake({ text: "one\ntwo" });
  assert.deepEqual(await wake({ delivery_id: "delivery-2", text: "two" }), {
    turn: "started before",
  });
  house.begin("r1");
  assert.deepEqual(await wake({ delivery_id: "delivery-3", text: "one\nthree" }), {
    waits_for: "wake-1",
  });
  act("r1");
  assert.deepEqual(told_of("answered")[0].deliveries, ["delivery-2"]);
});

test("what an earlier start put before the next turn is not put there again", async () => {
  house
    .waiting(MAIN)
    .push({ idempotencyKey: "wake-1", text: "the packet", createdAt: Date.now(), ttlMs: 1e6 });
  assert.deepEqual(await wake(), { turn: "ordinary" });
  assert.deepEqual(house.begin("r1"), ["the packet"]);
  act("r1");
  assert.deepEqual(told_of("answered")[0].deliveries, ["delivery-1"]);
});

test("a wake that an earlier start put there among others arrives with these, once", async () => {
  house
    .waiting(MAIN)
    .push({ idempotencyKey: "wake-0", text: "one\nthe packet", createdAt: Date.now(), ttlMs: 1e6 });
  assert.deepEqual(await wake(), { turn: "ordinary" });
  assert.deepEqual(house.begin("r1"), ["one\nthe packet"]);
  act("r1");
  house.end("r1");
  assert.deepEqual(
    told_of("answered").map(({ deliveries }) => deliveries),
    [["delivery-1"]],
  );
  assert.deepEqual(await wake({ delivery_id: "delivery-2" }), { turn: "taken before" });
});

for (const [whose, put] of [
  ["this start", () => wake({ delivery_id: "delivery-0", text: "one" })],
  [
    "an earlier start",
    async () =>
      house
        .waiting(MAIN)
        .push({ idempotencyKey: "wake-1", text: "one", createdAt: Date.now(), ttlMs: 1e6 }),
  ],
])
  test(`of a wake whose beginning ${whose} put there only the rest is put`, async () => {
    await put();
    await wake({ text: "one\ntwo" });
    assert.deepEqual(house.begin("r1"), ["one", "two"]);
    act("r1");
    house.end("r1");
    assert.deepEqual(
      told_of("answered").map(({ deliveries }) => deliveries),
      [["delivery-1"]],
    );
    assert.deepEqual(await wake({ delivery_id: "delivery-2", text: "one\ntwo" }), {
      turn: "taken before",
    });
  });

test("what an earlier start put there and a turn has taken comes no second time", async () => {
  house
    .waiting(MAIN)
    .push({ idempotencyKey: "wake-1", text: "one", createdAt: Date.now(), ttlMs: 1e6 });
  sessions.recordInjections(MAIN);
  house.begin("r1");
  assert.deepEqual(await wake({ text: "one" }), { turn: "running" });
  act("r1");
  house.end("r1");
  assert.deepEqual(told.map(({ kind, deliveries }) => [kind, deliveries]).slice(1), [
    ["answered", ["delivery-1"]],
    ["turn_ended", []],
  ]);
  await wake({ delivery_id: "delivery-2", text: "one\ntwo" });
  assert.deepEqual(house.begin("r2"), ["two"]);
});

test("what an earlier start put there has no delivery that a turn's end could tell", () => {
  house
    .waiting(MAIN)
    .push({ idempotencyKey: "wake-1", text: "one", createdAt: Date.now(), ttlMs: 1e6 });
  sessions.recordInjections(MAIN);
  house.begin("r1");
  house.end("r1");
  assert.deepEqual(told_of("turn_ended")[0].deliveries, []);
});

test("a wake of this start that a turn takes keeps its delivery", async () => {
  await wake();
  sessions.recordInjections(MAIN);
  house.begin("r1");
  act("r1");
  assert.deepEqual(
    told_of("answered").map(({ deliveries }) => deliveries),
    [["delivery-1"]],
  );
});

test("wakes that an earlier start put there together arrive together", async () => {
  house
    .waiting(MAIN)
    .push({ idempotencyKey: "wake-1", text: "one\ntwo", createdAt: Date.now(), ttlMs: 1e6 });
  await wake({ text: "one" });
  assert.deepEqual(await wake({ key: "wake-2", delivery_id: "delivery-2", text: "two" }), {
    turn: "started before",
  });
  assert.deepEqual(house.begin("r1"), ["one\ntwo"]);
  act("r1");
  assert.deepEqual(
    told_of("answered").map(({ deliveries }) => deliveries),
    [["delivery-1", "delivery-2"]],
  );
});

test("a wake of which the rest cannot be put there follows its beginning", async () => {
  house
    .waiting(MAIN)
    .push({ idempotencyKey: "wake-1", text: "one", createdAt: Date.now(), ttlMs: 1e6 });
  house.put = async () => ({ enqueued: false });
  assert.deepEqual(await wake({ text: "one\ntwo" }), { waits_for: "wake-1" });
  house.begin("r1");
  act("r1");
  assert.deepEqual(told_of("answered"), []);
});

test("a wake whose turn runs is told under its new delivery, and not put there again", async () => {
  await wake();
  house.begin("r1");
  assert.deepEqual(await wake({ delivery_id: "delivery-2" }), { turn: "running" });
  act("r1");
  assert.deepEqual(told_of("answered")[0].deliveries, ["delivery-2"]);
});

test("a wake follows the one that waits, whose turn is asked for again when it does not come", async () => {
  let now = 0;
  mock.method(performance, "now", () => now);
  await wake();
  assert.deepEqual(await wake({ key: "wake-2", text: "another", message: "of another" }), {
    waits_for: "wake-1",
  });
  assert.equal(house.turns.length, 1);
  now += 60_000;
  assert.deepEqual(await wake({ key: "wake-2", text: "another", message: "of another" }), {
    waits_for: "wake-1",
  });
  assert.deepEqual(
    house.turns.map(({ message }) => message.includes("another")),
    [false, false],
  );
  mock.restoreAll();
});

for (const left of [
  { abortedLastRun: true },
  { mainRestartRecovery: {} },
  { restartRecoveryRuns: [{}] },
])
  test(`no turn is asked for before the gateway's own recovery of a session with ${Object.keys(left)}`, async () => {
    Object.assign(house.sessions.get(MAIN), { status: "running", ...left });
    assert.deepEqual(await wake(), { recovers: MAIN });
    assert.deepEqual([house.turns, house.waiting(MAIN)], [[], []]);
    house.begin("recovery");
    assert.deepEqual(await wake(), { turn: "the next one" });
  });

for (const [what, text, isResumed, answer] of [
  ["a packet awaits what a turn that was just resumed takes over", PACKET, true, "recovers"],
  ["a wake of a wait comes after a turn that was just resumed", "the line", true, "turn"],
  ["a packet comes after any other turn that runs", PACKET, false, "turn"],
])
  test(what, async () => {
    house.begin("r1");
    resumed = isResumed;
    assert.deepEqual(Object.keys(await wake({ text })), [answer]);
  });

test("a turn that was resumed long ago holds no packet up", async () => {
  let now = 0;
  mock.method(performance, "now", () => now);
  move_in();
  house.begin("r1");
  resumed = true;
  now = 30_000;
  assert.deepEqual(await wake({ text: PACKET }), { turn: "the next one" });
  mock.restoreAll();
});

for (const [what, left] of [
  ["that somebody stopped", { status: "killed", abortedLastRun: true }],
  ["whose recovery was given up", { status: "running", mainRestartRecovery: { tombstone: {} } }],
])
  test(`a session ${what} is not waited for`, async () => {
    Object.assign(house.sessions.get(MAIN), left);
    assert.deepEqual(await wake(), { turn: "ordinary" });
  });

test("a recovery that does not come holds a wake up no longer than half a minute", async () => {
  let now = 0;
  mock.method(performance, "now", () => now);
  move_in();
  Object.assign(house.sessions.get(MAIN), { status: "running", abortedLastRun: true });
  now = 29_999;
  assert.deepEqual(await wake(), { recovers: MAIN });
  now = 30_000;
  assert.deepEqual(await wake(), { turn: "ordinary" });
  mock.restoreAll();
});

/** Let a session be left with a recovery of an earlier gateway, half a minute after this one's start. */
function abandon(status, recovery = {}) {
  let now = 0;
  mock.method(performance, "now", () => now);
  move_in();
  now = 30_000;
  Object.assign(house.sessions.get(MAIN), { status, mainRestartRecovery: recovery });
  const asked = [];
  sdk.callGatewayTool = async (method, _, params) => {
    asked.push([method, params]);
    return { ok: true, continuation: { status: "started" } };
  };
  return asked;
}

for (const status of ["running", "failed", undefined])
  test(`the gateway is asked to recover a session that is ${status} and has a dead recovery`, async () => {
    const asked = abandon(status);
    assert.deepEqual(await wake(), { recovers: MAIN });
    assert.deepEqual(
      [asked, house.turns, house.waiting(MAIN)],
      [[["sessions.recover", { key: MAIN }]], [], []],
    );
    mock.restoreAll();
  });

test("a wake yields to one recovery once, as a failed one is not tried again", async () => {
  abandon("failed");
  sdk.callGatewayTool = async () => ({ continuation: { status: "started", runId: "recovery-1" } });
  assert.deepEqual(await wake(), { recovers: MAIN });
  assert.deepEqual(await wake({ delivery_id: "delivery-2" }), { turn: "ordinary" });
  mock.restoreAll();
});

for (const [how, answer] of [
  [
    "does not recover a session",
    () => Promise.reject(new Error("requires a restart-tombstoned session")),
  ],
  [
    "recovers a session and begins no turn in it",
    async () => ({ ok: true, continuation: { status: "rejected" } }),
  ],
])
  test(`where the gateway ${how}, an ordinary turn is asked for`, async () => {
    abandon("failed");
    sdk.callGatewayTool = answer;
    assert.deepEqual(await wake(), { turn: "ordinary" });
    mock.restoreAll();
  });

test("a session is not recovered while a turn runs in it, or once its recovery was given up", async () => {
  const asked = abandon("failed", { tombstone: {} });
  await wake();
  house.sessions.get(MAIN).mainRestartRecovery = {};
  house.begin("r1");
  await wake({ delivery_id: "delivery-2" });
  assert.deepEqual(
    asked.filter(([method]) => method === "sessions.recover"),
    [],
  );
  mock.restoreAll();
});

/** Let a turn's failure be told. */
async function second() {
  await new Promise(setImmediate);
  mock.timers.tick(1_000);
  await new Promise(setImmediate);
}

test("a turn that the gateway took and did not begin is told, and asked for again", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  house.wait = async () => ({ status: "error", error: "changed while starting work" });
  await wake();
  await new Promise(setImmediate);
  assert.deepEqual(told, [], "the answer to the wake comes first");
  await second();
  mock.timers.reset();
  assert.deepEqual(told, [
    {
      kind: "turn_not_started",
      session_key: MAIN,
      deliveries: ["delivery-1"],
      error: "changed while starting work",
    },
  ]);
  assert.deepEqual(await wake({ delivery_id: "delivery-2" }), { turn: "ordinary" });
  assert.equal(house.turns.length, 2);
  assert.deepEqual(house.begin("r1"), ["the packet"]);
});

test("what only a turn that did not begin would have brought is taken by no other", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  move_in({ allowed: false });
  house.wait = async () => ({ status: "error", error: "changed while starting work" });
  await wake();
  house.begin("of the user");
  await second();
  mock.timers.reset();
  assert.deepEqual(
    told_of("turn_not_started").map(({ deliveries }) => deliveries),
    [["delivery-1"]],
  );
  act("of the user");
  assert.deepEqual(told_of("answered"), []);
});

test("a wake that a user's turn took meanwhile is not told when the turn for it does not begin", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  house.wait = () => {
    house.begin("of the user");
    return Promise.resolve({ status: "error", error: "changed while starting work" });
  };
  await wake();
  await second();
  mock.timers.reset();
  assert.deepEqual(told_of("turn_not_started"), []);
  act("of the user");
  assert.deepEqual(
    told_of("answered").map(({ deliveries }) => deliveries),
    [["delivery-1"]],
  );
});

test("what a session's reset dropped is told, and put there again", async () => {
  await wake();
  house.waiting(MAIN).splice(0);
  sessions.handleSessionEnd(MAIN);
  assert.deepEqual(told, [
    {
      kind: "turn_not_started",
      session_key: MAIN,
      deliveries: ["delivery-1"],
      error: "the session was reset",
    },
  ]);
  await wake({ delivery_id: "delivery-2" });
  assert.deepEqual(house.begin("r1"), ["the packet"]);
  act("r1");
  assert.deepEqual(
    told_of("answered").map(({ deliveries }) => deliveries),
    [["delivery-2"]],
  );
});

for (const [what, allowed, goes_on] of [
  ["still waits", true, () => {}],
  ["a running turn took", true, () => house.begin(asked_run())],
  ["a turn's message brings", false, () => {}],
])
  test(`a session's end loses no wake that ${what}`, async () => {
    move_in({ allowed });
    await wake();
    goes_on();
    sessions.handleSessionEnd(MAIN);
    assert.deepEqual(told_of("turn_not_started"), []);
    house.begin(asked_run());
    act(asked_run());
    assert.deepEqual(
      told_of("answered").map(({ deliveries }) => deliveries),
      [["delivery-1"]],
    );
  });

test("what an earlier start put there waits on when the turn for it does not begin", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  house
    .waiting(MAIN)
    .push({ idempotencyKey: "wake-0", text: "one\nthe packet", createdAt: Date.now(), ttlMs: 1e6 });
  house.wait = async () => ({ status: "error", error: "changed while starting work" });
  await wake();
  await second();
  mock.timers.reset();
  house.begin("r1");
  act("r1");
  assert.deepEqual(
    told_of("answered").map(({ deliveries }) => deliveries),
    [["delivery-1"]],
  );
});

for (const [outcome, status] of [
  ["began, and failed", "error"],
  ["has not begun yet", "pending"],
  ["is not known", undefined],
])
  test(`a turn that ${outcome} is not told as one that did not begin`, async () => {
    house.wait = async ({ runId }) => {
      if (status === "error") house.begin(runId);
      if (!status) throw new Error("no such run");
      return { status };
    };
    await wake();
    await new Promise(setImmediate);
    assert.deepEqual(told_of("turn_not_started"), []);
  });

test("a turn that does not begin because the gateway stops is not told", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  house.wait = async () => {
    sessions.beginStop();
    return { status: "error", error: "draining" };
  };
  await wake();
  await second();
  mock.timers.reset();
  assert.deepEqual(told_of("turn_not_started"), []);
});

test("while a turn of ours runs, however long, no other is asked for", async () => {
  let now = 0;
  mock.method(performance, "now", () => now);
  await wake();
  house.begin(asked_run());
  now += 60_000;
  assert.deepEqual(await wake({ key: "wake-2", delivery_id: "delivery-2", text: "another" }), {
    turn: "started before",
  });
  assert.equal(house.turns.length, 1);
  mock.restoreAll();
});

/** Let the plug-in decide again about what waits. */
async function look(rest = 100) {
  mock.timers.tick(rest);
  await new Promise(setImmediate);
}

test("a wake handed over as a turn of ours ends gets a turn of its own, once", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  await wake();
  const run = asked_run();
  house.begin(run);
  assert.deepEqual(await wake({ key: "wake-2", delivery_id: "delivery-2", text: "another" }), {
    turn: "started before",
  });
  house.end(run);
  for (let looks = 0; looks < 3; looks++) await look();
  assert.equal(house.turns.length, 2);
  assert.deepEqual(house.begin(asked_run()), ["another"]);
  house.end(asked_run());
  await look();
  mock.timers.reset();
  assert.equal(house.turns.length, 2);
  assert.deepEqual(
    told_of("turn_ended").map(({ deliveries }) => deliveries),
    [["delivery-1"], ["delivery-2"]],
  );
});

test("a turn of ours does not begin in the context of the one that has ended", async (t) => {
  const turn = new AsyncLocalStorage();
  const { run } = house.api.runtime.subagent;
  const context = new Promise((note) => {
    house.api.runtime.subagent.run = (...given) => {
      note(turn.getStore() ?? "none");
      return run(...given);
    };
  });
  const alive = setInterval(() => {}, 60_000); // the timer of the look keeps no process alive
  t.after(() => clearInterval(alive));
  turn.run("the user's turn", () => house.begin("r1"));
  assert.deepEqual(await wake(), { turn: "the next one" });
  turn.run("the user's turn", () => house.end("r1"));
  assert.equal(await context, "none");
});

test("a wake handed over as a turn begins is told by the end of that turn", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  house.lifecycle({ runId: "r1", sessionKey: MAIN, data: { phase: "start" } });
  await wake();
  house.waiting(MAIN).splice(0); // its prompt is built only now
  house.end("r1");
  await look();
  mock.timers.reset();
  assert.deepEqual(house.turns, []);
  assert.deepEqual(told_of("turn_ended")[0].deliveries, ["delivery-1"]);
});

test("no turn is asked for while a message is on its way, whose turn takes the wake", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  await wake({ key: "wake-0", text: "earlier" });
  house.begin(asked_run());
  house.end(asked_run());
  sessions.handleArrival(MAIN, "Hello.");
  assert.deepEqual(await wake(), { turn: "the next one" });
  await look(1_000);
  assert.deepEqual(house.begin("of the user"), ["the packet"]);
  house.end("of the user");
  await look();
  mock.timers.reset();
  assert.equal(house.turns.length, 1);
  assert.deepEqual(shown, ["Carry on."]);
});

test("no turn is asked for while the gateway prepares one, and one is when it has not come", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  busy.add(MAIN);
  assert.deepEqual(await wake(), { turn: "the next one" });
  await look(60_000);
  assert.deepEqual(house.turns, []);
  busy.clear();
  await look();
  mock.timers.reset();
  assert.equal(house.turns.length, 1);
});

test("a turn that was asked for and has not begun is withdrawn for a message, and begins later", async () => {
  let now = 0;
  mock.method(performance, "now", () => now);
  mock.timers.enable({ apis: ["setTimeout"] });
  house.wait = async () => ({ status: "error", error: "aborted" });
  await wake();
  const run = asked_run();
  sessions.handleArrival(MAIN, "/status");
  await look(1_000);
  assert.deepEqual([withdrawn, house.turns.length], [[run], 1]);
  now = 2_000;
  await look(1_000);
  mock.timers.reset();
  mock.restoreAll();
  assert.equal(house.turns.length, 2);
  assert.deepEqual(told_of("turn_not_started"), []);
});

test("turns of ours yield to messages that begin none for two minutes, and to later ones anew", async () => {
  let now = 0;
  mock.method(performance, "now", () => now);
  mock.timers.enable({ apis: ["setTimeout"] });
  for (let second = 0; second <= 140; second += 10) {
    now = second * 1_000;
    sessions.handleArrival(MAIN, `Message ${second}`);
    if (second === 0) await wake();
    await look();
    assert.equal(house.turns.length, second < 120 ? 0 : 1);
  }
  house.begin(asked_run());
  sessions.handleArrival(MAIN, "And you?");
  house.end(asked_run());
  await wake({ key: "wake-2" });
  await look();
  mock.timers.reset();
  mock.restoreAll();
  assert.deepEqual([house.turns.length, withdrawn], [1, []]);
});

for (const [channel, expected] of [
  ["webchat", 0],
  ["phone", 1],
])
  test(`a turn that runs and has not begun is withdrawn for a message of ${channel}: ${expected}`, async () => {
    await wake();
    busy.add(MAIN);
    sessions.handleArrival(MAIN, "Hello.", channel);
    await new Promise(setImmediate);
    assert.equal(withdrawn.length, expected);
  });

for (const [what, repeated, rest] of [
  ["at once if the user wrote no more", "Hello.", 0],
  ["three seconds later if the user wrote during it", "And you?", 3_000],
])
  test(`after the turn of a message one of ours begins ${what}`, async () => {
    let now = 0;
    mock.method(performance, "now", () => now);
    mock.timers.enable({ apis: ["setTimeout"] });
    sessions.handleArrival(MAIN, "Hello.");
    house.begin("of the user");
    sessions.handleArrival(MAIN, repeated);
    await wake();
    house.end("of the user");
    if (rest > 0) {
      now = rest - 1;
      await look();
      assert.deepEqual(house.turns, []);
      now = rest;
    }
    await look();
    await look();
    mock.timers.reset();
    mock.restoreAll();
    assert.equal(house.turns.length, 1);
  });

test("what a turn had taken that is withdrawn is put before the next one again, once", async () => {
  await wake();
  house.waiting(MAIN).splice(0); // its prompt is built, and its start not told yet
  sessions.handleArrival(MAIN, "Hello.");
  await new Promise(setImmediate);
  assert.deepEqual(house.begin("of the user"), ["the packet"]);
  sessions.handleAnswered("of the user");
  sessions.handleActed(MAIN);
  assert.deepEqual(
    told_of("answered").map(({ deliveries }) => deliveries),
    [["delivery-1"]],
  );
});

test("a turn that begins although it was withdrawn, and is aborted, was stopped by nobody", async () => {
  await wake();
  const run = asked_run();
  sessions.handleArrival(MAIN, "Hello.");
  house.begin(run);
  sessions.handleAnswered(run);
  house.end(run, { aborted: true });
  assert.deepEqual(
    told_of("turn_ended").map(({ cut, error, deliveries }) => [cut, error, deliveries]),
    [[true, "it was aborted", ["delivery-1"]]],
  );
});

test("a turn that ends although it was withdrawn has ended", async () => {
  await wake();
  const run = asked_run();
  sessions.handleArrival(MAIN, "Hello.");
  house.begin(run);
  sessions.handleAnswered(run);
  house.end(run);
  assert.deepEqual(
    told_of("turn_ended").map(({ cut, error, deliveries }) => [cut, error, deliveries]),
    [[undefined, null, ["delivery-1"]]],
  );
});

test("what a withdrawn turn takes as late as that is put before the next one again", async () => {
  await wake();
  sessions.handleArrival(MAIN, "Hello.");
  await new Promise(setImmediate);
  house.waiting(MAIN).splice(0);
  sessions.handlePrompt(MAIN, "of the user");
  await new Promise(setImmediate);
  assert.deepEqual(house.waiting(MAIN), []);
  sessions.handlePrompt(MAIN, asked_run());
  await new Promise(setImmediate);
  assert.deepEqual(house.begin("of the user"), ["the packet"]);
});

test("what a withdrawn turn had taken and cannot be put there again is sent again", async () => {
  await wake();
  house.waiting(MAIN).splice(0);
  house.put = async () => ({ enqueued: false });
  sessions.handleArrival(MAIN, "Hello.");
  await new Promise(setImmediate);
  assert.deepEqual(told_of("turn_not_started")[0].deliveries, ["delivery-1"]);
});

test("the gateway accepts no turn of ours once a message has come", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  house.run = async (run) => {
    house.turns.push(run);
    run.assertCurrent();
    sessions.handleArrival(MAIN, "Hello.");
    run.assertCurrent();
    assert.fail("it was accepted");
  };
  assert.deepEqual(await wake(), { turn: "the next one" });
  mock.timers.reset();
  assert.deepEqual([house.turns.length, house.beats], [1, []]);
  assert.deepEqual(house.begin("of the user"), ["the packet"]);
});

test("the gateway accepts no withdrawn turn, however late", async () => {
  let now = 0;
  let accepted = false;
  mock.method(performance, "now", () => now);
  mock.timers.enable({ apis: ["setTimeout"] });
  house.run = async (run) => {
    house.turns.push(run);
    sessions.handleArrival(MAIN, "/status");
    now = 10_000;
    run.assertCurrent();
    accepted = true;
  };
  assert.deepEqual(await wake(), { turn: "the next one" });
  assert.equal(accepted, false);
  mock.timers.reset();
  mock.restoreAll();
  assert.deepEqual(house.beats, []);
});

test("a wake that only a withdrawn turn would have brought is sent again", async () => {
  move_in({ allowed: false });
  await wake();
  sessions.handleArrival(MAIN, "Hello.");
  assert.deepEqual(
    told_of("turn_not_started").map(({ deliveries, error }) => [deliveries, error]),
    [[["delivery-1"], "another message came first"]],
  );
});

test("the main session takes one wake at a time, by either of its names", async () => {
  const both = await Promise.all([
    wake(),
    wake({ key: "wake-2", text: "another", session_key: null }),
  ]);
  assert.deepEqual(both, [{ turn: "ordinary" }, { waits_for: "wake-1" }]);
  assert.deepEqual(house.begin("r1"), ["the packet"]);
});

test("a wake that could not be put there does not hold up the next", async () => {
  const put = house.put;
  house.put = async () => Promise.reject(new Error("disk full"));
  const first = wake();
  const second = wake({ key: "wake-2", session_key: null });
  await assert.rejects(first, /disk full/);
  house.put = put;
  await second.catch(() => {});
  assert.deepEqual(await wake({ key: "wake-3" }), { turn: "ordinary" });
});

test("sessions do not wait for each other", async () => {
  await wake();
  assert.deepEqual(await wake({ key: "wake-2", session_key: OTHER }), { turn: "ordinary" });
});

test("a session that is not there is not made", async () => {
  const said = await wake({ session_key: "agent:main:ghost" });
  assert.match(said.refused, /no session agent:main:ghost/);
  assert.deepEqual([house.turns, house.beats], [[], []]);
});

test("a main session that has had no turn yet is made by one that brings the wake", async () => {
  house.sessions.delete(MAIN);
  assert.deepEqual(await wake({ session_key: null }), { turn: "ordinary" });
  assert.deepEqual(
    house.turns.map(({ sessionKey, message }) => [sessionKey, message]),
    [[MAIN, "the packet\n\n[taskmem] Carry on."]],
  );
});

for (const [name, expected] of [
  ["main", MAIN],
  ["MAIN", MAIN],
  ["global", MAIN],
  ["other", OTHER],
  [OTHER.toUpperCase(), OTHER],
])
  test(`a session named ${name} is ${expected}`, async () => {
    await wake({ session_key: name });
    assert.equal(house.turns[0].sessionKey, expected);
  });

for (const missing of ["key", "delivery_id", "text", "message"])
  test(`a wake without ${missing} is none`, async () => {
    await assert.rejects(wake({ [missing]: undefined }), /no wake/);
    assert.deepEqual(house.turns, []);
  });

test("the main session is the default agent's", () => {
  for (const [agents, expected] of [
    [{ entries: { main: {} } }, MAIN],
    [{ entries: { Zoe: {}, ann: { default: true } } }, "agent:ann:main"],
    [{ entries: { Zoe: {} } }, "agent:zoe:main"],
    [undefined, MAIN],
  ]) {
    move_in({ agents });
    if (agents === undefined) house.api.runtime.config.current = () => ({});
    assert.equal(sessions.main, expected);
  }
});

test("where no ordinary turn can be started, a heartbeat starts one", async () => {
  house.run = async () => Promise.reject(new Error("not allowed"));
  assert.deepEqual(await wake(), { turn: "heartbeat" });
  assert.equal(house.beats[0].sessionKey, MAIN);
});

test("where a heartbeat is skipped, too, the wake says both reasons", async () => {
  house.run = async () => Promise.reject(new Error("not allowed"));
  house.beat = async () => ({ status: "skipped", reason: "disabled" });
  await assert.rejects(wake(), /not allowed.*disabled/);
});

test("a turn that cannot be started because the gateway stops is started by no heartbeat", async () => {
  house.run = async () => {
    sessions.beginStop();
    assert.fail("draining");
  };
  await assert.rejects(wake(), /draining/);
  await assert.rejects(sessions.startTurn(OTHER, "Go on."), /the gateway is stopping/);
  assert.deepEqual(house.beats, []);
});

/** Give the gateway rows of turns, of which one cannot be called off; those that are. */
function list_rows(rows, stubborn) {
  const called_off = [];
  house.api.runtime.tasks = {
    runs: {
      bindSession: ({ sessionKey }) => ({
        list: () => rows.map((row) => ({ id: `row of ${row.runId}`, status: "running", ...row })),
        cancel: async ({ taskId }) =>
          taskId === `row of ${stubborn}`
            ? assert.fail("no such run")
            : called_off.push([sessionKey, taskId]),
      }),
    },
  };
  return called_off;
}

test("turns that we asked for are called off at the gateway, and those that are over are left alone", async () => {
  await sessions.startTurn(OTHER, "Go on.");
  await sessions.startTurn(MAIN, "Go on.");
  const [one, two] = house.turns.map(({ idempotencyKey: runId }) => ({ runId }));
  const called_off = list_rows([one, { ...two, status: "succeeded" }, { runId: "of the user" }]);
  await sessions.cancelTurns();
  assert.deepEqual(called_off, [[MAIN, `row of ${one.runId}`]]);
});

test("a turn of an earlier start is called off once no other runs in its session", async () => {
  const called_off = list_rows([{ runId: "taskmem:earlier", childSessionKey: OTHER }]);
  house.begin("of the user", OTHER);
  await sessions.cancelTurns();
  assert.deepEqual(called_off, []);
  house.end("of the user");
  await sessions.cancelTurns();
  assert.deepEqual(called_off, [[MAIN, "row of taskmem:earlier"]]);
});

test("a turn that cannot be called off keeps no other from it", async () => {
  const called_off = list_rows([{ runId: "taskmem:a" }, { runId: "taskmem:b" }], "taskmem:a");
  await sessions.cancelTurns();
  assert.deepEqual(called_off, [[MAIN, "row of taskmem:b"]]);
});

test("a gateway that cannot call off a turn is asked nothing", async () => {
  await sessions.startTurn(MAIN, "Go on.");
  assert.equal(await sessions.cancelTurns(), undefined);
});

test("a heartbeat that takes long is under way", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  house.run = async () => Promise.reject(new Error("not allowed"));
  const asked = new Promise((done) => {
    house.beat = () => {
      setImmediate(done);
      return new Promise(() => {});
    };
  });
  const said = wake();
  await asked;
  mock.timers.tick(3_000);
  assert.deepEqual(await said, { turn: "heartbeat" });
  mock.timers.reset();
});

test("where nothing may be put before prompts, the turn's message brings the text", async () => {
  move_in({ allowed: false });
  await wake();
  assert.deepEqual(
    house.turns.map(({ message }) => message),
    ["the packet\n\n[taskmem] Carry on."],
  );
  house.begin(asked_run());
  act(asked_run());
  assert.deepEqual(told_of("answered")[0].deliveries, ["delivery-1"]);
});

test("where nothing may be put before prompts, a wake is refused while a turn runs", async () => {
  move_in({ allowed: false });
  house.begin("earlier");
  await assert.rejects(wake(), /another message comes first/);
  assert.deepEqual(house.turns, []);
  act("earlier");
  house.end("earlier");
  assert.deepEqual(told_of("answered"), []);
});

test("after a turn has ended the next wake gets its own", async () => {
  await wake();
  house.begin("r1");
  house.end("r1");
  assert.deepEqual(await wake({ key: "wake-2" }), { turn: "ordinary" });
  assert.equal(house.turns.length, 2);
});

test("an injection that has expired waits no more, and no turn has taken it", async () => {
  mock.timers.enable({ apis: ["Date"] });
  await wake();
  mock.timers.tick(24 * 3_600_000 + 1);
  assert.deepEqual(await wake({ key: "wake-2", delivery_id: "delivery-2" }), {
    turn: "started before",
  });
  house.begin("r1");
  act("r1");
  assert.deepEqual(
    told_of("answered").map(({ deliveries }) => deliveries),
    [["delivery-2"]],
  );
  mock.timers.reset();
});

test("what a turn's message brings is not put before the same turn as well", async () => {
  const before = house.sessions.get(MAIN);
  house.sessions.delete(MAIN);
  await wake();
  house.sessions.set(MAIN, before);
  assert.deepEqual(await wake({ delivery_id: "delivery-2" }), { turn: "started before" });
  assert.deepEqual(house.begin(asked_run()), []);
  act(asked_run());
  assert.deepEqual(
    told_of("answered").map(({ deliveries }) => deliveries),
    [["delivery-2"]],
  );
});

test("where nothing may be put before prompts, a wake waits until a turn of its own can bring it", async () => {
  move_in({ allowed: false });
  await wake();
  await assert.rejects(
    wake({ key: "wake-2", delivery_id: "delivery-2" }),
    /asked for earlier has not begun/,
  );
  house.begin(asked_run());
  house.end(asked_run());
  house.run = async () => Promise.reject(new Error("not allowed"));
  await assert.rejects(wake({ key: "wake-2", delivery_id: "delivery-2" }), /not allowed/);
  assert.deepEqual(house.beats, []);
  house.begin("r2");
  house.end("r2");
  assert.deepEqual(
    told.flatMap(({ deliveries }) => deliveries ?? []),
    ["delivery-1"],
  );
});

test("the end of a turn is told, also where the session cannot be read", async () => {
  await wake();
  house.begin("r1");
  house.api.runtime.agent.session.getSessionEntry = () => assert.fail("EIO");
  assert.throws(() => house.end("r1"), /EIO/);
  assert.deepEqual(
    told_of("turn_ended").map(({ running, deliveries }) => [running, deliveries]),
    [[[], []]],
  );
});

for (const [text, expected] of [
  ["[task_stuck_resume] {}", true],
  ['[task_resume] {}\nThe user answers: "yes"', true],
  ["[system] smart_wait resolved\n[task_resume] {}", true],
  ["the packet", false],
])
  test(`a prompt ${expected ? "has" : "has not"} a packet by ${JSON.stringify(text)}, waiting or taken`, async () => {
    await wake({ text });
    assert.equal(sessions.hasPacket(MAIN), expected);
    house.begin("r1");
    assert.equal(sessions.hasPacket(MAIN), expected);
    house.end("r1");
    assert.equal(sessions.hasPacket(MAIN), false);
  });

const row = ({ idempotencyKey }) => ({
  role: "user",
  content: "[taskmem] Carry on.",
  idempotencyKey: `${idempotencyKey}:user`,
});

test("the chat shows a wake's line in our name, and its turn's first row to the model alone", async () => {
  await wake();
  assert.deepEqual(shown, ["Carry on."]);
  const written = row(house.turns[0]);
  assert.deepEqual(sessions.hideRow(written), { message: { ...written, display: false } });
  for (const other of [undefined, { role: "user" }, row({ idempotencyKey: "taskmem:another" })])
    assert.equal(sessions.hideRow(other), undefined);
});

test("a wake that is sent again shows its line once", async () => {
  await wake();
  house.begin("r1");
  house.end("r1", { error: "no model" });
  await wake();
  assert.deepEqual([shown, house.turns.length], [["Carry on."], 2]);
  assert.ok(sessions.hideRow(row(house.turns[1])));
});

test("where the line cannot be shown, the first row is", async () => {
  sdk.callGatewayTool = async () => Promise.reject(new Error("not allowed"));
  await wake();
  assert.equal(sessions.hideRow(row(house.turns[0])), undefined);
});

test("a wake without a line is not seen, and its turn's first row neither", async () => {
  await wake({ message: "" });
  assert.deepEqual(shown, []);
  assert.ok(sessions.hideRow(row(house.turns[0])));
  assert.equal(house.turns[0].message, "[taskmem] The agent goes on.");
});

test("what a turn brings for its model is never shown, and its line once it has made the session", async () => {
  house.sessions.delete(MAIN);
  house.run = async (run) => {
    house.turns.push(run);
    house.sessions.set(MAIN, {});
  };
  await wake({ session_key: null });
  assert.ok(sessions.hideRow(row(house.turns[0])));
  assert.deepEqual(shown, ["Carry on."]);
});

test("a turn for an earlier wake that nobody remembers says that it goes on", async () => {
  house
    .waiting(MAIN)
    .push({ idempotencyKey: "wake-0", text: "earlier", createdAt: Date.now(), ttlMs: 1e6 });
  assert.deepEqual(await wake(), { waits_for: "wake-0" });
  assert.deepEqual(shown, ["The agent goes on."]);
});

test("nothing of a round of ours is delivered, whatever its session's channel", async () => {
  house.sessions.get(MAIN).delivery = { kind: "external" };
  await wake();
  assert.equal(house.turns[0].deliver, false);
});

test("a turn's beginning and end are told with what was seen of its work", () => {
  house.begin("r1");
  house.end("r1");
  assert.deepEqual(
    told.map(({ session_key, run_id, calls }) => [session_key, run_id, calls]),
    [
      [MAIN, "r1", undefined],
      [MAIN, undefined, 2],
    ],
  );
});

test("a turn that failed without a reason has failed all the same", () => {
  house.begin("r1");
  house.end("r1", { phase: "error" });
  const [{ error, failed }] = told_of("turn_ended");
  assert.deepEqual([error, failed], Array(2).fill("the gateway gave no reason"));
});

for (const [failoverReason, kind] of [
  ["auth", "credentials"],
  ["billing", "credentials"],
  ["context_overflow", "refused"],
  ["rate_limit", "passing"],
  ["server_error", "passing"],
  ["something new", null],
])
  test(`a turn that failed by ${failoverReason} is reported with its kind`, () => {
    house.begin("r1");
    house.end("r1", { phase: "error", error: "500", errorObservation: { failoverReason } });
    assert.equal(told_of("turn_ended")[0].reason, kind);
  });

for (const [how, data, aborted, failed] of [
  ["well", { phase: "end" }, false, null],
  ["by somebody who stopped it", { phase: "end", aborted: true }, true, null],
  ["by an error", { phase: "error", error: "500" }, false, "500"],
  [
    "by an error of the stop itself",
    { phase: "error", error: "aborted", aborted: true },
    true,
    null,
  ],
])
  test(`a turn that ended ${how} is told so, also where a model had answered`, () => {
    house.begin("r1");
    sessions.handleAnswered("r1");
    house.end("r1", data);
    const [ended] = told_of("turn_ended");
    assert.deepEqual([ended.aborted, ended.failed, ended.error], [aborted, failed, null]);
  });

test("the sessions whose turns run are told with every beginning and end", () => {
  house.begin("r1");
  house.begin("r2", OTHER);
  house.end("r1");
  house.end("unknown");
  assert.deepEqual(
    told.map(({ kind, running }) => [kind, running]),
    [
      ["turn_started", [MAIN]],
      ["turn_started", [MAIN, OTHER]],
      ["turn_ended", [OTHER]],
    ],
  );
});

test("a start that is told twice is one", () => {
  house.begin("r1");
  house.begin("r1");
  assert.equal(told.length, 1);
});

test("hooks are counted for a hundred sessions at most", () => {
  for (let n = 0; n < 150; n++) sessions.countHook("before_prompt_build", `agent:main:${n}`);
  sessions.countHook("before_prompt_build", undefined);
  sessions.countHook("before_prompt_build", "agent:main:149");
  assert.deepEqual(sessions.getHookCounts("agent:main:0"), {});
  assert.deepEqual(sessions.getHookCounts("agent:main:149"), { before_prompt_build: 2 });
});
