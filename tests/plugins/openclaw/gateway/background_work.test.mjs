import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, mock, test } from "node:test";
import { gateway, load, MAIN, OTHER, sdk } from "./stand_ins.mjs";

const { BackgroundWork } = await load("background_work.js");
const RUNNING = { result: { details: { status: "running", sessionId: "calm-cove" } } };
const HOUR = 3_600_000;
let work, ended, rows, asked, looked;

beforeEach(() => {
  mock.timers.enable({ apis: ["setTimeout"] });
  [ended, rows, asked, looked] = [[], [], [], undefined];
  work = new BackgroundWork({ onEnded: (...end) => ended.push(end), boot: 1_000 });
  sdk.callGatewayTool = async (_, __, { sessionKey, status }) => {
    asked.push(sessionKey ?? status);
    await looked?.();
    return { tasks: rows.filter((row) => !status || row.status === status) };
  };
});

afterEach(() => {
  work.stop();
  mock.timers.reset();
});

/** The time of a look passes, and the look is over. */
async function glance() {
  mock.timers.tick(2_000);
  for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
}

test("a command in the background is awaited in its session", () => {
  work.recordResult(MAIN, "make all", RUNNING);
  assert.deepEqual(work.listAwaited(MAIN).awaited, ["calm-cove (make all)"]);
  assert.deepEqual(work.listAwaited(OTHER).awaited, []);
});

test("a call that has ended, or runs under no name, is not awaited", () => {
  for (const details of [
    undefined,
    {},
    { status: "completed" },
    { status: "running" },
    { status: "completed", sessionId: "calm-cove" },
  ])
    work.recordResult(MAIN, "ls", { result: { details } });
  assert.deepEqual(work.listAwaited(MAIN).awaited, []);
});

test("the end that the gateway's list shows is told once", async () => {
  work.recordResult(MAIN, "make all", RUNNING);
  rows = [{ kind: "exec", sourceId: "calm-cove", status: "running", startedAt: 1_500 }];
  await glance();
  assert.deepEqual([ended, asked], [[], ["running"]]);
  rows = [{ kind: "exec", sourceId: "calm-cove", status: "failed", terminalSummary: "code 2" }];
  await glance();
  await glance();
  assert.deepEqual(ended, [[MAIN, "calm-cove", "code 2"]]);
  assert.deepEqual(work.listAwaited(MAIN).awaited, []);
  assert.deepEqual(asked, ["running", "running", MAIN]);
});

test("what the gateway's list no longer has, has ended", async () => {
  work.recordResult(MAIN, "make all", RUNNING);
  rows = [{ kind: "cron", sourceId: "calm-cove", status: "running" }];
  await glance();
  assert.deepEqual(ended, [[MAIN, "calm-cove", "ended"]]);
});

test("a sub-agent's command is looked for in its session, and awaited in its parent's", async () => {
  work.findRoot = (session) => (session === OTHER ? MAIN : session);
  work.recordResult(OTHER, "make all", RUNNING);
  assert.deepEqual(
    [work.listAwaited(MAIN).awaited.length, work.listAwaited(OTHER).awaited.length],
    [1, 0],
  );
  await glance();
  assert.deepEqual([asked, ended], [["running", OTHER], [[MAIN, "calm-cove", "ended"]]]);
});

test("a command that began while a list was made has not ended", async () => {
  work.recordResult(MAIN, "make all", RUNNING);
  looked = () =>
    (rows = asked.length === 1 ? [] : [{ kind: "exec", sourceId: "calm-cove", status: "running" }]);
  await glance();
  assert.deepEqual([ended, work.listAwaited(MAIN).awaited.length], [[], 1]);
});

test("a report names a hundred commands at most, the newest", () => {
  for (let number = 0; number < 101; number += 1)
    work.recordResult(MAIN, "ls", {
      result: { details: { status: "running", sessionId: `c${number}` } },
    });
  assert.deepEqual(
    [work.listAwaited(MAIN).awaited.length, work.listAwaited(MAIN).awaited.at(-1)],
    [100, "c100 (ls)"],
  );
});

test("what an earlier start has left under the same name is another command", async () => {
  work.recordResult(MAIN, "make all", RUNNING);
  rows = [
    {
      kind: "exec",
      sourceId: "calm-cove",
      status: "failed",
      terminalSummary: "code 2",
      startedAt: 1_500,
    },
    { kind: "exec", sourceId: "calm-cove", status: "running", startedAt: 500 },
  ];
  await glance();
  assert.deepEqual(ended, [[MAIN, "calm-cove", "code 2"]]);
});

test("an end is told once, also where its command is looked at meanwhile", async () => {
  sdk.createOpenClawCodingTools = () => [];
  work.recordResult(MAIN, "make all", RUNNING);
  rows = [
    { kind: "exec", sourceId: "calm-cove", sessionKey: MAIN, status: "failed", startedAt: 1_500 },
  ];
  looked = async () => {
    if (asked.length !== 2) return;
    looked = undefined;
    await work.describeCommand({ name: "calm-cove", size: 0 });
  };
  await glance();
  await glance();
  assert.equal(ended.length, 1);
});

test("an end that the agent has seen itself is not told", async () => {
  work.recordResult(MAIN, "make all", RUNNING);
  work.recordResult(MAIN, "calm-cove", {
    result: { details: { status: "completed", sessionId: "calm-cove" } },
  });
  await glance();
  assert.deepEqual([ended, work.listAwaited(MAIN).awaited], [[], []]);
});

test("a gateway that fails to answer is asked again", async () => {
  work.recordResult(MAIN, "make all", RUNNING);
  looked = () => {
    looked = undefined;
    throw new Error("busy");
  };
  await glance();
  assert.deepEqual([ended, work.listAwaited(MAIN).awaited.length], [[], 1]);
  await glance();
  assert.equal(ended.length, 1);
});

const NOW = Date.now();
const job = (schedule, state, more = {}) => ({
  id: "j1",
  name: "Mail",
  enabled: true,
  owner: { sessionKey: MAIN },
  schedule: { kind: schedule },
  state,
  createdAtMs: NOW - 60_000,
  ...more,
});
const cron = (...jobs) => ({ list: async () => jobs });
const OLD = { createdAtMs: NOW - HOUR - 60_000 };

for (const [what, given, is] of [
  ["due within the hour", job("at", { nextRunAtMs: NOW + HOUR - 60_000 }), true],
  ["due within the hour, however old", job("at", { nextRunAtMs: NOW + 60_000 }, OLD), true],
  ["due later", job("at", { nextRunAtMs: NOW + HOUR + 60_000 }), false],
  ["at work", job("at", { runningAtMs: NOW - 60_000 }, { enabled: false }), true],
  [
    "at work for longer than an hour",
    job("at", { runningAtMs: NOW - HOUR - 60_000 }, { enabled: false }),
    false,
  ],
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
    await work.refreshAutomations(cron(given));
    assert.deepEqual(
      [work.listAwaited(MAIN).scheduled, work.listAwaited(OTHER).scheduled],
      [is ? ["automation Mail"] : [], []],
    );
  });

test("an automation of a sub-agent is its session's", async () => {
  work = new BackgroundWork({
    onEnded: () => {},
    findRoot: (session) => (session === OTHER ? MAIN : session),
  });
  await work.refreshAutomations(
    cron(job("at", { nextRunAtMs: NOW + 60_000 }, { owner: { sessionKey: OTHER } })),
  );
  assert.deepEqual(work.listAwaited(MAIN).scheduled, ["automation Mail"]);
});

test("the end of an automation is told once", async () => {
  const due = job("at", { nextRunAtMs: NOW + 60_000 });
  await work.refreshAutomations(cron(due));
  await work.refreshAutomations(cron({ ...due, state: { runningAtMs: NOW } }));
  assert.deepEqual(ended, []);
  await work.refreshAutomations(cron({ ...due, enabled: false, state: { lastRunStatus: "ok" } }));
  await work.refreshAutomations(cron());
  assert.deepEqual(ended, [[MAIN, "automation Mail", "ok"]]);
});

test("an automation that is removed has ended", async () => {
  await work.refreshAutomations(cron(job("every", { nextRunAtMs: NOW + 60_000 })));
  await work.refreshAutomations(undefined);
  assert.deepEqual(ended, [[MAIN, "automation Mail", "it is over"]]);
});

test("a command is awaited however long it runs", (t) => {
  const now = performance.now();
  work.recordResult(MAIN, "serve", RUNNING);
  t.mock.method(performance, "now", () => now + 10 * HOUR);
  assert.equal(work.listAwaited(MAIN).awaited.length, 1);
});

describe("what is shown of commands", () => {
  const NAME = "calm-cove";
  const NOTE = "[earlier output was discarded at the retention cap and cannot be recovered]\n\n";
  let work, rows, asked, details, logged, tools;

  beforeEach(() => {
    [rows, asked, logged, details] = [[], [], [], { status: "failed" }];
    const log = async (_, given) => {
      logged.push(given);
      return { details: details instanceof Function ? details() : details };
    };
    tools = [{ name: "exec" }, { name: "process", execute: log }];
    sdk.createOpenClawCodingTools = (options) => {
      asked.push(options.sessionKey);
      return tools;
    };
    sdk.callGatewayTool = async (method, _, { status }) => {
      asked.push(method);
      return { tasks: rows.filter((row) => !status || row.status === status) };
    };
    sdk.resolveSandboxRuntimeStatus = () => ({ sandboxed: false });
    work = new BackgroundWork({ api: gateway().api, boot: 1_000, runner: ["/opt/task mem"] });
    work.api.pluginConfig = { recordCommands: true };
  });

  const show = (more) =>
    (details = {
      status: "running",
      sessionId: NAME,
      output: "one\ntwo",
      totalLines: 2,
      totalChars: 8,
      ...more,
    });
  const leave = () =>
    work.recordResult(MAIN, "make", {
      result: { details: { status: "running", sessionId: NAME } },
    });
  const facts = (size = 0) => work.describeCommand({ name: NAME, size });

  test("a command that a call has left running is shown, and no list is asked", async () => {
    show({ lastOutputAt: 1_000, idleMs: 5 });
    leave();
    const { boot, shown } = await facts();
    assert.equal(boot, 1_000);
    assert.deepEqual(JSON.parse(JSON.stringify(shown)), {
      status: "running",
      lastOutputAt: 1_000,
      size: 8,
      cut: false,
      text: "one\ntwo\n",
    });
    assert.deepEqual(asked, [MAIN]);
    assert.deepEqual(logged, [{ action: "log", sessionId: NAME, offset: 0, limit: 1_000_000 }]);
  });

  test("a call that ended, or ran under no name, leaves nothing behind", async () => {
    show();
    for (const result of [
      undefined,
      {},
      { status: "running" },
      { status: "completed", sessionId: NAME },
    ])
      work.recordResult(MAIN, "make", { result: { details: result } });
    assert.deepEqual(await facts(), { boot: 1_000, running: [] });
  });

  test("one that is only listed is shown in the session of its row", async () => {
    show();
    rows = [
      { kind: "cron", sourceId: NAME, sessionKey: MAIN },
      {
        kind: "exec",
        sourceId: NAME,
        sessionKey: OTHER,
        status: "running",
        startedAt: 1_500,
        title: "make",
      },
    ];
    const { row, shown } = await facts();
    assert.deepEqual(row, {
      status: "running",
      terminalSummary: undefined,
      error: undefined,
      startedAt: 1_500,
    });
    assert.equal(shown.text, "one\ntwo\n");
    assert.deepEqual(asked, ["tasks.list", OTHER]);
  });

  test("how one ended is told from its row where nothing else is shown", async () => {
    rows = [
      {
        kind: "exec",
        sourceId: NAME,
        sessionKey: MAIN,
        status: "failed",
        terminalSummary: "Command failed",
        error: "Command failed (exit code 2)",
      },
    ];
    leave();
    const { row, shown } = await facts();
    assert.deepEqual(
      [row.status, row.terminalSummary, row.error, shown],
      ["failed", "Command failed", "Command failed (exit code 2)", undefined],
    );
  });

  test("of a name that nobody knows, it is told what runs", async () => {
    rows = [
      { kind: "exec", sourceId: "warm-fox", status: "running", startedAt: 1_500 },
      { kind: "exec", sourceId: "lost-lynx", status: "running", startedAt: 500 },
      { kind: "exec", sourceId: "old-owl", status: "failed" },
    ];
    assert.deepEqual(await facts(), { boot: 1_000, running: ["warm-fox"] });
  });

  test("its status is shown as it is", async () => {
    show({
      status: "failed",
      exitCode: 3,
      exitSignal: "SIGTERM",
      exitReason: "overall-timeout",
      output: "one\ntwo\n\nThe command was terminated.",
    });
    leave();
    const { shown } = await facts();
    assert.deepEqual(
      [shown.status, shown.exitCode, shown.exitSignal, shown.exitReason, shown.text],
      ["failed", 3, "SIGTERM", "overall-timeout", "one\ntwo\n"],
    );
  });

  test("what is said to the model of a text is no part of it", async () => {
    leave();
    show({ output: "(no output yet)", totalLines: 0, totalChars: 0 });
    assert.equal((await facts(-1)).shown.text, "");
    show({
      output: `${NOTE}one\ntwo\n\nNo new output for 15s; this session may be waiting for input.`,
      totalChars: 7,
    });
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

  // --- recording -----------------------------------------------------------------

  const CALL = {
    toolName: "exec",
    toolCallId: "c1",
    params: { command: "make -j4 'it all'", background: true, env: { A: "1" } },
  };
  const wrapped = (more = {}, event = CALL) =>
    work.wrapCommand(
      { ...event, params: { ...event.params, ...more } },
      { sessionKey: MAIN },
      "/data",
    );
  const hosted = (host) => work.recordHost({ host }, { sessionKey: MAIN });

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
    assert.equal(work.unwrapEvent(event).params.command, CALL.params.command);
    work.recordResult(MAIN, "make", event);
    const { recording } = await facts();
    assert.ok(params.command.includes(` --name ${recording} `));
  });

  test("only what is left running in the background, on this host, is recorded", async () => {
    for (const host of [undefined, "sandbox", "node"]) {
      if (host) hosted(host);
      assert.equal(await wrapped(), undefined);
    }
    hosted("gateway");
    for (const more of [
      { background: false },
      { background: undefined, yieldMs: 10 },
      { host: "node" },
      { host: "sandbox" },
      { command: "" },
    ])
      assert.equal(await wrapped(more), undefined);
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
      work.api.pluginConfig = config;
      assert.equal(await wrapped(), undefined);
    }
  });

  test("a recording is called after the program, whatever the command is", async () => {
    hosted("gateway");
    const names = [];
    for (const command of ["/usr/bin/make", "./run-all.sh x", "$(x) y", "-x", "A=1 b", "&&"])
      names.push(/ --name (\S+)-\w{4} /.exec((await wrapped({ command })).command)[1]);
    assert.deepEqual(names, ["make", "run-all-sh", "x", "x", "A-1", "command"]);
  });
});
