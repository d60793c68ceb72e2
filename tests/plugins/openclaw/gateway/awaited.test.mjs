import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { load, MAIN, OTHER, sdk } from "./stand_ins.mjs";

const { Awaited } = await load("awaited.js");
const RUNNING = { result: { details: { status: "running", sessionId: "calm-cove" } } };
const HOUR = 3_600_000;
let awaited, ended, rows, asked, looked;

beforeEach(() => {
  mock.timers.enable({ apis: ["setTimeout"] });
  [ended, rows, asked] = [[], [], []];
  awaited = new Awaited({ ended: (...end) => ended.push(end) });
  sdk.callGatewayTool = async (_, __, { sessionKey, status }) => {
    asked.push(sessionKey ?? status);
    looked?.();
    return { tasks: rows.filter((row) => !status || row.status === status) };
  };
});

afterEach(() => {
  awaited.stop();
  mock.timers.reset();
});

/** The time of a look passes, and the look is over. */
async function glance() {
  mock.timers.tick(2_000);
  for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
}

test("a command in the background is awaited in its session", () => {
  awaited.called(MAIN, "make all", RUNNING);
  assert.deepEqual(awaited.of(MAIN).awaited, ["calm-cove (make all)"]);
  assert.deepEqual(awaited.of(OTHER).awaited, []);
});

test("a call that has ended, or runs under no name, is not awaited", () => {
  for (const details of [undefined, {}, { status: "completed" }, { status: "running" }, { status: "completed", sessionId: "calm-cove" }]) awaited.called(MAIN, "ls", { result: { details } });
  assert.deepEqual(awaited.of(MAIN).awaited, []);
});

test("the end that the gateway's list shows is told once", async () => {
  awaited.called(MAIN, "make all", RUNNING);
  rows = [{ kind: "exec", sourceId: "calm-cove", status: "running" }];
  await glance();
  assert.deepEqual([ended, asked], [[], ["running"]]);
  rows = [{ kind: "exec", sourceId: "calm-cove", status: "failed", terminalSummary: "code 2" }];
  await glance();
  await glance();
  assert.deepEqual(ended, [[MAIN, "calm-cove", "code 2"]]);
  assert.deepEqual(awaited.of(MAIN).awaited, []);
  assert.deepEqual(asked, ["running", "running", MAIN]);
});

test("what the gateway's list no longer has, has ended", async () => {
  awaited.called(MAIN, "make all", RUNNING);
  rows = [{ kind: "cron", sourceId: "calm-cove", status: "running" }];
  await glance();
  assert.deepEqual(ended, [[MAIN, "calm-cove", "ended"]]);
});

test("a sub-agent's command is looked for in its session, and awaited in its parent's", async () => {
  awaited.root = (session) => (session === OTHER ? MAIN : session);
  awaited.called(OTHER, "make all", RUNNING);
  assert.deepEqual([awaited.of(MAIN).awaited.length, awaited.of(OTHER).awaited.length], [1, 0]);
  await glance();
  assert.deepEqual([asked, ended], [["running", OTHER], [[MAIN, "calm-cove", "ended"]]]);
});

test("a command that began while a list was made has not ended", async () => {
  awaited.called(MAIN, "make all", RUNNING);
  looked = () => (rows = asked.length === 1 ? [] : [{ kind: "exec", sourceId: "calm-cove", status: "running" }]);
  await glance();
  assert.deepEqual([ended, awaited.of(MAIN).awaited.length], [[], 1]);
});

test("a report names a hundred commands at most, the newest", () => {
  for (let number = 0; number < 101; number += 1) awaited.called(MAIN, "ls", { result: { details: { status: "running", sessionId: `c${number}` } } });
  assert.deepEqual([awaited.of(MAIN).awaited.length, awaited.of(MAIN).awaited.at(-1)], [100, "c100 (ls)"]);
});

test("an end that the agent has seen itself is not told", async () => {
  awaited.called(MAIN, "make all", RUNNING);
  awaited.called(MAIN, "calm-cove", { result: { details: { status: "completed", sessionId: "calm-cove" } } });
  await glance();
  assert.deepEqual([ended, awaited.of(MAIN).awaited], [[], []]);
});

test("a gateway that fails to answer is asked again", async () => {
  awaited.called(MAIN, "make all", RUNNING);
  looked = () => {
    looked = undefined;
    throw new Error("busy");
  };
  await glance();
  assert.deepEqual([ended, awaited.of(MAIN).awaited.length], [[], 1]);
  await glance();
  assert.equal(ended.length, 1);
});

const NOW = Date.now();
const job = (schedule, state, more = {}) => ({ id: "j1", name: "Mail", enabled: true, owner: { sessionKey: MAIN }, schedule: { kind: schedule }, state, createdAtMs: NOW - 60_000, ...more });
const cron = (...jobs) => ({ list: async () => jobs });
const OLD = { createdAtMs: NOW - HOUR - 60_000 };

for (const [what, given, is] of [
  ["due within the hour", job("at", { nextRunAtMs: NOW + HOUR - 60_000 }), true],
  ["due within the hour, however old", job("at", { nextRunAtMs: NOW + 60_000 }, OLD), true],
  ["due later", job("at", { nextRunAtMs: NOW + HOUR + 60_000 }), false],
  ["at work", job("at", { runningAtMs: NOW - 60_000 }, { enabled: false }), true],
  ["at work for longer than an hour", job("at", { runningAtMs: NOW - HOUR - 60_000 }, { enabled: false }), false],
  ["switched off", job("at", { nextRunAtMs: NOW + 60_000 }, { enabled: false }), false],
  ["recurring, due within the hour", job("every", { nextRunAtMs: NOW + 60_000 }), true],
  ["recurring, due later", job("cron", { nextRunAtMs: NOW + HOUR + 60_000 }), false],
  ["recurring for an hour", job("every", { nextRunAtMs: NOW + 60_000 }, OLD), false],
  ["beginning with a command's end", job("on-exit", {}), true],
  ["beginning with a command's end for an hour", job("on-exit", {}, OLD), false],
  ["fed by a command", job("stream", {}), true],
  ["nobody's in a session", job("at", { nextRunAtMs: NOW + 60_000 }, { owner: undefined }), false],
])
  test(`an automation that is ${what} is ${is ? "" : "not "}awaited`, async () => {
    await awaited.scheduled(cron(given));
    assert.deepEqual([awaited.of(MAIN).scheduled, awaited.of(OTHER).scheduled], [is ? ["automation Mail"] : [], []]);
  });

test("an automation of a sub-agent is its session's", async () => {
  awaited = new Awaited({ ended: () => {}, root: (session) => (session === OTHER ? MAIN : session) });
  await awaited.scheduled(cron(job("at", { nextRunAtMs: NOW + 60_000 }, { owner: { sessionKey: OTHER } })));
  assert.deepEqual(awaited.of(MAIN).scheduled, ["automation Mail"]);
});

test("the end of an automation is told once", async () => {
  const due = job("at", { nextRunAtMs: NOW + 60_000 });
  await awaited.scheduled(cron(due));
  await awaited.scheduled(cron({ ...due, state: { runningAtMs: NOW } }));
  assert.deepEqual(ended, []);
  await awaited.scheduled(cron({ ...due, enabled: false, state: { lastRunStatus: "ok" } }));
  await awaited.scheduled(cron());
  assert.deepEqual(ended, [[MAIN, "automation Mail", "ok"]]);
});

test("an automation that is removed has ended", async () => {
  await awaited.scheduled(cron(job("every", { nextRunAtMs: NOW + 60_000 })));
  await awaited.scheduled(undefined);
  assert.deepEqual(ended, [[MAIN, "automation Mail", "it is over"]]);
});

test("what has run for an hour is awaited no more", (t) => {
  const now = performance.now();
  awaited.called(MAIN, "serve", RUNNING);
  t.mock.method(performance, "now", () => now + HOUR - 1_000);
  assert.equal(awaited.of(MAIN).awaited.length, 1);
  t.mock.method(performance, "now", () => now + HOUR + 1_000);
  assert.deepEqual(awaited.of(MAIN).awaited, []);
});
