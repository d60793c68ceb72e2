import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { load, MAIN, OTHER, sdk } from "./stand_ins.mjs";

const { Awaited } = await load("awaited.js");
const RUNNING = { status: "running", sessionId: "calm-cove" };
const HOUR = 3_600_000;
let awaited, ended, rows, asked, looked;

beforeEach(() => {
  mock.timers.enable({ apis: ["setTimeout"] });
  [ended, rows, asked] = [[], [], []];
  awaited = new Awaited({ ended: (...end) => ended.push(end) });
  sdk.callGatewayTool = async (method, _, params) => (asked.push([method, params.sessionKey]), looked?.(), { tasks: rows });
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
  assert.deepEqual(awaited.of(MAIN), ["calm-cove (make all)"]);
  assert.deepEqual(awaited.of(OTHER), []);
});

test("a call that has ended, or runs under no name, is not awaited", () => {
  for (const details of [undefined, {}, { status: "completed" }, { status: "running" }, { status: "completed", sessionId: "calm-cove" }]) awaited.called(MAIN, "ls", details);
  assert.deepEqual(awaited.of(MAIN), []);
});

test("the end that the gateway's list shows is told once", async () => {
  awaited.called(MAIN, "make all", RUNNING);
  rows = [{ kind: "exec", sourceId: "calm-cove", status: "running" }];
  await glance();
  assert.deepEqual([ended, asked], [[], [["tasks.list", MAIN]]]);
  rows = [{ kind: "exec", sourceId: "calm-cove", status: "failed", terminalSummary: "code 2" }];
  await glance();
  await glance();
  assert.deepEqual(ended, [[MAIN, "calm-cove", "code 2"]]);
  assert.deepEqual(awaited.of(MAIN), []);
  assert.equal(asked.length, 2);
});

test("what the gateway's list no longer has, has ended", async () => {
  awaited.called(MAIN, "make all", RUNNING);
  rows = [{ kind: "cron", sourceId: "calm-cove", status: "running" }];
  await glance();
  assert.deepEqual(ended, [[MAIN, "calm-cove", "ended"]]);
});

test("an end that the agent has seen itself is not told", async () => {
  awaited.called(MAIN, "make all", RUNNING);
  awaited.called(MAIN, "calm-cove", { status: "completed", sessionId: "calm-cove" });
  await glance();
  assert.deepEqual([ended, awaited.of(MAIN)], [[], []]);
});

test("a gateway that fails to answer is asked again", async () => {
  awaited.called(MAIN, "make all", RUNNING);
  looked = () => {
    looked = undefined;
    throw new Error("busy");
  };
  await glance();
  assert.deepEqual([ended, awaited.of(MAIN).length], [[], 1]);
  await glance();
  assert.equal(ended.length, 1);
});

test("what has run for an hour is awaited no more", (t) => {
  const now = performance.now();
  awaited.called(MAIN, "serve", RUNNING);
  t.mock.method(performance, "now", () => now + HOUR - 1_000);
  assert.equal(awaited.of(MAIN).length, 1);
  t.mock.method(performance, "now", () => now + HOUR + 1_000);
  assert.deepEqual(awaited.of(MAIN), []);
});
