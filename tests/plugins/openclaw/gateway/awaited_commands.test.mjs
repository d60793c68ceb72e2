import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { gateway, load, MAIN, OTHER, sdk } from "./stand_ins.mjs";

const { Awaited } = await load("awaited.js");
const NAME = "calm-cove";
const NOTE = "[earlier output was discarded at the retention cap and cannot be recovered]\n\n";
let awaited, rows, asked, details, logged, tools;

beforeEach(() => {
  [rows, asked, logged, details] = [[], [], [], { status: "failed" }];
  const log = async (_, given) => (logged.push(given), { details: details instanceof Function ? details() : details });
  tools = [{ name: "exec" }, { name: "process", execute: log }];
  sdk.createOpenClawCodingTools = (options) => (asked.push(options.sessionKey), tools);
  sdk.callGatewayTool = async (method, _, { status }) => (asked.push(method), { tasks: rows.filter((row) => !status || row.status === status) });
  sdk.resolveSandboxRuntimeStatus = () => ({ sandboxed: false });
  awaited = new Awaited({ api: gateway().api, boot: 1_000, runner: ["/opt/task mem"] });
  awaited.api.pluginConfig = { recordCommands: true };
});

const show = (more) => (details = { status: "running", sessionId: NAME, output: "one\ntwo", totalLines: 2, totalChars: 8, ...more });
const leave = () => awaited.called(MAIN, "make", { result: { details: { status: "running", sessionId: NAME } } });
const facts = (size = 0) => awaited.facts({ name: NAME, size });

test("a command that a call has left running is shown, and no list is asked", async () => {
  show({ lastOutputAt: 1_000, idleMs: 5 });
  leave();
  const { boot, shown } = await facts();
  assert.equal(boot, 1_000);
  assert.deepEqual(JSON.parse(JSON.stringify(shown)), { status: "running", lastOutputAt: 1_000, size: 8, cut: false, text: "one\ntwo\n" });
  assert.deepEqual(asked, [MAIN]);
  assert.deepEqual(logged, [{ action: "log", sessionId: NAME, offset: 0, limit: 1_000_000 }]);
});

test("a call that ended, or ran under no name, leaves nothing behind", async () => {
  show();
  for (const result of [undefined, {}, { status: "running" }, { status: "completed", sessionId: NAME }]) awaited.called(MAIN, "make", { result: { details: result } });
  assert.deepEqual(await facts(), { boot: 1_000, running: [] });
});

test("one that is only listed is shown in the session of its row", async () => {
  show();
  rows = [{ kind: "cron", sourceId: NAME, sessionKey: MAIN }, { kind: "exec", sourceId: NAME, sessionKey: OTHER, status: "running", startedAt: 1_500, title: "make" }];
  const { row, shown } = await facts();
  assert.deepEqual(row, { status: "running", terminalSummary: undefined, error: undefined, startedAt: 1_500 });
  assert.equal(shown.text, "one\ntwo\n");
  assert.deepEqual(asked, ["tasks.list", OTHER]);
});

test("how one ended is told from its row where nothing else is shown", async () => {
  rows = [{ kind: "exec", sourceId: NAME, sessionKey: MAIN, status: "failed", terminalSummary: "Command failed", error: "Command failed (exit code 2)" }];
  leave();
  const { row, shown } = await facts();
  assert.deepEqual([row.status, row.terminalSummary, row.error, shown], ["failed", "Command failed", "Command failed (exit code 2)", undefined]);
});

test("of a name that nobody knows, it is told what runs", async () => {
  rows = [{ kind: "exec", sourceId: "warm-fox", status: "running", startedAt: 1_500 }, { kind: "exec", sourceId: "lost-lynx", status: "running", startedAt: 500 }, { kind: "exec", sourceId: "old-owl", status: "failed" }];
  assert.deepEqual(await facts(), { boot: 1_000, running: ["warm-fox"] });
});

test("its status is shown as it is", async () => {
  show({ status: "failed", exitCode: 3, exitSignal: "SIGTERM", exitReason: "overall-timeout", output: "one\ntwo\n\nThe command was terminated." });
  leave();
  const { shown } = await facts();
  assert.deepEqual([shown.status, shown.exitCode, shown.exitSignal, shown.exitReason, shown.text], ["failed", 3, "SIGTERM", "overall-timeout", "one\ntwo\n"]);
});

test("what is said to the model of a text is no part of it", async () => {
  leave();
  show({ output: "(no output yet)", totalLines: 0, totalChars: 0 });
  assert.equal((await facts(-1)).shown.text, "");
  show({ output: `${NOTE}one\ntwo\n\nNo new output for 15s; this session may be waiting for input.`, totalChars: 7 });
  const { shown } = await facts();
  assert.deepEqual([shown.text, shown.cut], ["one\ntwo", true]);
});

test("a text that is known is not told again, unless its beginning was dropped", async () => {
  leave();
  show();
  assert.equal((await facts(8)).shown.text, undefined);
  show({ output: `${NOTE}one\ntwo` });
  assert.equal((await facts(8)).shown.text, "one\ntwo\n");
});

test("a gateway that shows no text shows what it lists", async () => {
  rows = [{ kind: "exec", sourceId: NAME, sessionKey: MAIN, status: "running" }];
  leave();
  tools = [{ name: "exec" }];
  assert.equal((await facts()).row.status, "running");
  tools = [{ name: "process", execute: async () => assert.fail("denied") }];
  assert.equal((await facts()).row.status, "running");
  sdk.createOpenClawCodingTools = undefined;
  const found = await facts();
  assert.deepEqual([found.row.status, found.shown], ["running", undefined]);
});

test("an OpenClaw that gives no tool to look with is named", async () => {
  assert.deepEqual(await awaited.lacks(), []);
  const older = await load("awaited.js?older");
  assert.deepEqual(await new older.Awaited({}).lacks(), ["createOpenClawCodingTools"]);
});

// --- recording -----------------------------------------------------------------

const CALL = { toolName: "exec", toolCallId: "c1", params: { command: "make -j4 'it all'", background: true, env: { A: "1" } } };
const wrapped = (more = {}, event = CALL) => awaited.wrapped({ ...event, params: { ...event.params, ...more } }, { sessionKey: MAIN }, "/data");
const hosted = (host) => awaited.hosted({ host }, { sessionKey: MAIN });

test("a background command is run by the recorder, in the same shell, for the same home", async () => {
  hosted("gateway");
  const { command, ...rest } = await wrapped();
  const [before, name, after] = command.split(/(make-[0-9a-f]{4})/);
  assert.deepEqual([before, name.length], ["'/opt/task mem' run --name ", 9]);
  assert.equal(after, ` -- "$0" -c 'make -j4 '\\''it all'\\'''`);
  assert.deepEqual(rest, { background: true, env: { A: "1", TASKMEM_HOME: "/data" } });
});

test("what ran is told as the agent gave it, and is found by its recording", async () => {
  hosted("gateway");
  const params = await wrapped();
  const event = { ...CALL, params, result: { details: { status: "running", sessionId: NAME } } };
  assert.equal(awaited.unwrapped(event).params.command, CALL.params.command);
  awaited.called(MAIN, "make", event);
  const { recording } = await facts();
  assert.ok(params.command.includes(` --name ${recording} `));
});

test("only what is left running in the background, on this host, is recorded", async () => {
  for (const host of [undefined, "sandbox", "node"]) {
    if (host) hosted(host);
    assert.equal(await wrapped(), undefined);
  }
  hosted("gateway");
  for (const more of [{ background: false }, { background: undefined, yieldMs: 10 }, { host: "node" }, { host: "sandbox" }, { command: "" }]) assert.equal(await wrapped(more), undefined);
  assert.equal(await wrapped({}, { ...CALL, toolName: "process" }), undefined);
  for (const host of ["auto", "gateway"]) assert.ok(await wrapped({ host }));
});

test("sandboxed sessions are left alone, and those of which nobody can tell", async () => {
  hosted("gateway");
  for (const status of [() => ({ sandboxed: true }), () => ({}), () => assert.fail("unknown")]) {
    sdk.resolveSandboxRuntimeStatus = status;
    assert.equal(await wrapped(), undefined);
  }
});

test("without the operator's leave nothing is recorded", async () => {
  hosted("gateway");
  for (const config of [undefined, {}, { recordCommands: false }, { recordCommands: "yes" }]) {
    awaited.api.pluginConfig = config;
    assert.equal(await wrapped(), undefined);
  }
});

test("a recording is called after the program, whatever the command is", async () => {
  hosted("gateway");
  const names = [];
  for (const command of ["/usr/bin/make", "./run-all.sh x", "$(x) y", "-x", "A=1 b", "&&"]) names.push(/ --name (\S+)-\w{4} /.exec((await wrapped({ command })).command)[1]);
  assert.deepEqual(names, ["make", "run-all-sh", "x", "x", "A-1", "command"]);
});
