import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { gateway, load, MAIN, OTHER, sdk } from "./stand_ins.mjs";

const { Execs } = await load("execs.js");
const NAME = "calm-cove";
const NOTE = "[earlier output was discarded at the retention cap and cannot be recovered]\n\n";
let execs, rows, asked, details, logged, tools;

beforeEach(() => {
  [rows, asked, logged, details] = [[], [], [], { status: "failed" }];
  const log = async (_, given) => (logged.push(given), { details: details instanceof Function ? details() : details });
  tools = [{ name: "exec" }, { name: "process", execute: log }];
  sdk.createOpenClawCodingTools = (options) => (asked.push(options.sessionKey), tools);
  sdk.callGatewayTool = async (method, _, { status }) => (asked.push(method), { tasks: rows.filter((row) => !status || row.status === status) });
  execs = new Execs({ api: gateway().api, boot: "boot-1" });
});

const show = (more) => (details = { status: "running", sessionId: NAME, output: "one\ntwo", totalLines: 2, totalChars: 8, ...more });
const facts = (size = 0) => execs.facts({ name: NAME, size });

test("a command that a call has left running is shown, and no list is asked", async () => {
  show({ lastOutputAt: 1_000, idleMs: 5 });
  execs.called(MAIN, { status: "running", sessionId: NAME });
  const { boot, shown } = await facts();
  assert.equal(boot, "boot-1");
  assert.deepEqual(JSON.parse(JSON.stringify(shown)), { status: "running", lastOutputAt: 1_000, size: 8, cut: false, text: "one\ntwo\n" });
  assert.deepEqual(asked, [MAIN]);
  assert.deepEqual(logged, [{ action: "log", sessionId: NAME, offset: 0, limit: 1_000_000 }]);
});

test("a call that ended, or ran under no name, leaves nothing behind", async () => {
  show();
  for (const result of [undefined, {}, { status: "running" }, { status: "completed", sessionId: NAME }]) execs.called(MAIN, result);
  assert.deepEqual(await facts(), { boot: "boot-1", running: [] });
});

test("one that is only listed is shown in the session of its row", async () => {
  show();
  rows = [{ kind: "cron", sourceId: NAME, sessionKey: MAIN }, { kind: "exec", sourceId: NAME, sessionKey: OTHER, status: "running", title: "make" }];
  const { row, shown } = await facts();
  assert.deepEqual(row, { status: "running", terminalSummary: undefined, error: undefined });
  assert.equal(shown.text, "one\ntwo\n");
  assert.deepEqual(asked, ["tasks.list", OTHER]);
});

test("how one ended is told from its row where nothing else is shown", async () => {
  rows = [{ kind: "exec", sourceId: NAME, sessionKey: MAIN, status: "failed", terminalSummary: "Command failed", error: "Command failed (exit code 2)" }];
  execs.called(MAIN, { status: "running", sessionId: NAME });
  const { row, shown } = await facts();
  assert.deepEqual([row.status, row.terminalSummary, row.error, shown], ["failed", "Command failed", "Command failed (exit code 2)", undefined]);
});

test("of a name that nobody knows, it is told what runs", async () => {
  rows = [{ kind: "exec", sourceId: "warm-fox", status: "running" }, { kind: "exec", sourceId: "old-owl", status: "failed" }];
  assert.deepEqual(await facts(), { boot: "boot-1", running: ["warm-fox"] });
});

test("its status is shown as it is", async () => {
  show({ status: "failed", exitCode: 3, exitSignal: "SIGTERM", exitReason: "overall-timeout", output: "one\ntwo\n\nThe command was terminated." });
  execs.called(MAIN, { status: "running", sessionId: NAME });
  const { shown } = await facts();
  assert.deepEqual([shown.status, shown.exitCode, shown.exitSignal, shown.exitReason, shown.text], ["failed", 3, "SIGTERM", "overall-timeout", "one\ntwo\n"]);
});

test("what is said to the model of a text is no part of it", async () => {
  execs.called(MAIN, { status: "running", sessionId: NAME });
  show({ output: "(no output yet)", totalLines: 0, totalChars: 0 });
  assert.equal((await facts(-1)).shown.text, "");
  show({ output: `${NOTE}one\ntwo\n\nNo new output for 15s; this session may be waiting for input.`, totalChars: 7 });
  const { shown } = await facts();
  assert.deepEqual([shown.text, shown.cut], ["one\ntwo", true]);
});

test("a text that is known is not told again, unless its beginning was dropped", async () => {
  execs.called(MAIN, { status: "running", sessionId: NAME });
  show();
  assert.equal((await facts(8)).shown.text, undefined);
  show({ output: `${NOTE}one\ntwo` });
  assert.equal((await facts(8)).shown.text, "one\ntwo\n");
});

test("a gateway that shows no text shows what it lists", async () => {
  rows = [{ kind: "exec", sourceId: NAME, sessionKey: MAIN, status: "running" }];
  execs.called(MAIN, { status: "running", sessionId: NAME });
  tools = [{ name: "exec" }];
  assert.equal((await facts()).row.status, "running");
  tools = [{ name: "process", execute: async () => assert.fail("denied") }];
  assert.equal((await facts()).row.status, "running");
  sdk.createOpenClawCodingTools = undefined;
  const found = await facts();
  assert.deepEqual([found.row.status, found.shown], ["running", undefined]);
});
