import assert from "node:assert/strict";
import { mkdirSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { beforeEach, mock, test } from "node:test";
import { folder, gateway, imported, load, MAIN, OTHER, SOURCE, sdk } from "./stand_ins.mjs";

const { describeFileEffects, isContinueWord, SessionReports } = await load("session_reports.js");
const words = JSON.parse(readFileSync(new URL("continue_words.json", SOURCE), "utf8"));
const CHILD = "agent:main:subagent:1";
const TASK = "agent:main:taskmem:1";
let house, told, asked, answer, stopped, reports;

function move_in(options) {
  house = gateway(options);
  told = [];
  asked = [];
  stopped = [];
  answer = () => ({ budget: null });
  reports = new SessionReports({
    api: house.api,
    version: "1",
    ownTools: new Set(["task_update"]),
    ask: async (...call) => {
      asked.push(call);
      return answer(...call);
    },
    tell: (event) => told.push(event),
  });
  sdk.resolveActiveEmbeddedRunSessionId = (session) => `id of ${session}`;
  sdk.abortAgentHarnessRun = (id) => {
    stopped.push(id);
    return true;
  };
  return reports;
}

beforeEach(() => move_in());

const wrote = (role, content, session = MAIN, more = {}) =>
  reports.recordRow({ message: { role, content, ...more } }, { sessionKey: session });
const received = (session = MAIN) => reports.recordMessage({ sessionKey: session });
const ctx = (sessionKey = MAIN) => ({ sessionKey, agentId: "main" });
const calling = (toolName, params = {}, sessionKey = MAIN) =>
  reports.reportCallStart({ toolName, params, toolCallId: "c1" }, ctx(sessionKey));
const called = (toolName, more = {}, sessionKey = MAIN) =>
  reports.reportCallEnd({ toolName, params: {}, toolCallId: "c1", ...more }, ctx(sessionKey));
const blocked = (toolName = "exec", sessionKey = MAIN, toolCallId = "b1") =>
  reports.findBlockReason({ toolName, toolCallId }, ctx(sessionKey));
const calls = (session = MAIN) => reports.endTurn(session).calls;

// The first test, for what is imported stays so.
test("nothing of the gateway's is imported before there is a turn to stop", async () => {
  for (const none of [undefined, []]) assert.equal(await reports.stopTurns(none), undefined);
  assert.deepEqual(imported, []);
  await reports.stopTurns([MAIN]);
  assert.deepEqual(imported, ["openclaw/plugin-sdk/agent-harness"]);
});

for (const [by, row, expected] of [
  ["its user", {}, "user"],
  ["its user, under a run's own name", { idempotencyKey: "run-1:user" }, "user"],
  ["one of our wakes", { idempotencyKey: "taskmem:1:user" }, "taskmem"],
  [
    "the gateway's recovery",
    { provenance: { sourceTool: "main_session_restart_recovery" } },
    "recovery",
  ],
  ["a heartbeat", { provenance: { sourceTool: "heartbeat" } }, "heartbeat"],
  [
    "a sub-agent's report",
    { provenance: { sourceTool: "subagent_announce" }, idempotencyKey: "taskmem:1" },
    "other",
  ],
])
  test(`a turn that ${by} began says so, at its beginning and at its end`, () => {
    wrote("user", "go on", MAIN, row);
    assert.deepEqual(
      [reports.beginTurn(MAIN).origin, reports.endTurn(MAIN).origin],
      [expected, expected],
    );
  });

test("a turn that no row began is of another origin, also after one of the user's", () => {
  wrote("user", "hello");
  reports.beginTurn(MAIN);
  reports.endTurn(MAIN);
  assert.equal(reports.beginTurn(MAIN).origin, "other");
});

test("what the agent said last is told at the end: its end, from a whole word on", () => {
  wrote("assistant", "first");
  wrote("assistant", [{ type: "text", text: `${"x".repeat(600)} done.` }]);
  wrote("assistant", []);
  wrote("user", "thanks");
  const { said } = reports.endTurn(MAIN);
  assert.equal(said, " done.");
});

for (const silent of ["NO_REPLY", "HEARTBEAT_OK"]) {
  test(`a reply ${silent} is reported as no reply`, () => {
    wrote("assistant", silent);
    assert.equal(reports.endTurn(MAIN).said, "");
  });
}

test("what the user has said in a turn goes with its calls, also of its sub-agents", () => {
  const asked = () => told.findLast(({ kind }) => kind === "tool_started").request;
  calling("exec");
  assert.equal("request" in told[0], false);
  wrote("user", "/cancel Wash up");
  wrote("user", "Bake it.");
  reports.beginTurn(MAIN);
  wrote("user", "Do not repeat it.", MAIN, { provenance: { sourceTool: "heartbeat" } });
  received();
  wrote("user", "With salt.");
  calling("exec");
  assert.equal(asked(), "Bake it.\nWith salt.");
  reports.recordSpawn({ childSessionKey: CHILD, requesterSessionKey: MAIN });
  wrote("user", "Knead.", CHILD);
  calling("exec", {}, CHILD);
  assert.equal(asked(), "Bake it.\nWith salt.");
  reports.endTurn(MAIN);
  calling("exec");
  assert.equal(asked(), undefined);
  wrote("user", "x".repeat(3_000));
  calling("exec");
  assert.equal(asked().length, 2_000);
});

test("a message without words begins a user's turn, too", () => {
  wrote("user", [{ type: "image" }]);
  calling("exec");
  assert.equal(told[0].request, "");
});

test("what is neither the user's nor the agent's is no message", () => {
  for (const role of ["toolResult", "system", undefined]) wrote(role, "secret");
  called("exec");
  assert.deepEqual(told[0].said, []);
});

test("turns of sessions that go on at once do not mix", async () => {
  wrote("user", "one");
  wrote("user", "two", OTHER, { provenance: {} });
  reports.beginTurn(MAIN);
  reports.beginTurn(OTHER);
  calling("exec");
  wrote("assistant", "of one");
  wrote("assistant", "of two", OTHER);
  calling("exec", {}, OTHER);
  calling("exec", {}, OTHER);
  const ends = [reports.endTurn(MAIN), reports.endTurn(OTHER)].map(({ origin, said, calls }) => [
    origin,
    said,
    calls,
  ]);
  assert.deepEqual(ends, [
    ["user", "of one", 1],
    ["other", "of two", 2],
  ]);
});

test("a call is told before it is made, with what it is about and where", () => {
  calling("exec", { command: "make" });
  assert.deepEqual(told, [
    {
      kind: "tool_started",
      session_key: MAIN,
      agent_id: "main",
      folder: "/nowhere/main",
      fingerprint: told[0].fingerprint,
      call_id: "c1",
      tool: "exec",
      about: "make",
      method: undefined,
      folders: ["/nowhere/main"],
      command: true,
    },
  ]);
});

for (const [params, given, about] of [
  [{ url: "https://a", method: "POST" }, "POST", "POST https://a"],
  [{ action: "send", to: "Tom" }, "send", '{"action":"send","to":"Tom"}'],
  [{ method: 7, action: "send" }, "send", '{"method":7,"action":"send"}'],
  [{ url: "https://a", method: 7 }, undefined, "https://a"],
])
  test(`a call is told with the method or action it was given: ${given} in ${about}`, () => {
    calling("web_request", params);
    called("web_request", { params });
    assert.deepEqual(
      told.map((each) => [each.method, each.about]),
      [
        [given, about],
        [given, about],
      ],
    );
  });

test("what a call did to files is told once it has answered; of our own tools nothing is", () => {
  called("write", {
    params: { path: "a.md" },
    result: { details: { changed: true, created: true } },
  });
  assert.deepEqual(told.at(-1).touched, [{ path: "/nowhere/main/a.md", change: "created" }]);
  called("task_update");
  assert.equal(told.at(-1).folders, undefined);
});

for (const [params, about] of [
  [{ path: "a.md", content: "long" }, "a.md"],
  [{ url: "https://a", query: "q" }, "https://a"],
  [{ query: "q" }, "q"],
  [{ other: 1 }, '{"other":1}'],
  [{ command: "x".repeat(1_000) }, `${"x".repeat(599)}…`],
  [{ command: `curl ${"-v ".repeat(195)} sk-half-a-secret` }, `curl ${"-v ".repeat(195).trim()}…`],
])
  test(`a call of ${Object.keys(params)} is about ${about.slice(0, 12)}, ${about.length}`, () => {
    calling("exec", params);
    assert.equal(told[0].about, about);
  });

test("the beginning of a call without an id is not told, for its end could not be: it counts", () => {
  reports.reportCallStart({ toolName: "exec" }, ctx());
  assert.deepEqual(told, []);
  assert.equal(calls(), 1);
});

test("how a call ended is told: its beginning, its exit code, its time", () => {
  const result = { content: [{ type: "text", text: "y".repeat(1_000) }], details: { exitCode: 2 } };
  called("exec", { params: { command: "make" }, result, durationMs: 7 });
  const [{ kind, call_id, tool, about, outcome, exit_code, failed, ms }] = told;
  assert.deepEqual(
    [kind, call_id, tool, about, outcome, exit_code, failed, ms],
    ["tool_called", "c1", "exec", "make", "y".repeat(600), 2, false, 7],
  );
});

test("a call that failed says why", () => {
  called("read", { error: "no such file" });
  const [{ failed, outcome, exit_code, ms }] = told;
  assert.deepEqual([failed, outcome, exit_code, ms], [true, "no such file", null, 0]);
});

test("the same call with the same outcome has the same digests, and any other has others", () => {
  const whole = (text) => ({ content: [{ text }] });
  const long = "z".repeat(700);
  called("exec", { params: { command: long }, result: whole(long) });
  called("exec", { params: { command: long }, result: whole(long) });
  called("exec", { params: { command: `${long}!` }, result: whole(`${long}!`) });
  called("read", { params: { command: long }, error: "no" });
  const [first, again, longer, other] = told.map(({ given, result }) => ({ given, result }));
  assert.deepEqual(again, first);
  for (const each of [longer, other]) {
    assert.notEqual(each.given, first.given);
    assert.notEqual(each.result, first.result);
  }
});

test("what was said before a call of one of our own tools goes along with the next of another", () => {
  wrote("user", "Please bake.");
  called("task_update");
  called("exec");
  assert.deepEqual(
    told.map(({ tool, said }) => [tool, said.map(({ text }) => text)]),
    [
      ["task_update", []],
      ["exec", ["Please bake."]],
    ],
  );
});

test("what was said since the last call goes along with the next, the last eight lines", () => {
  for (let n = 0; n < 10; n++) wrote(n % 2 ? "assistant" : "user", `${n}${"x".repeat(700)}`);
  wrote("assistant", "");
  called("exec");
  called("exec");
  assert.deepEqual(
    told[0].said.map(({ role, text }) => [role, text[0]]),
    [2, 3, 4, 5, 6, 7, 8, 9].map((n) => [n % 2 ? "assistant" : "user", `${n}`]),
  );
  assert.equal(told[0].said[0].text.length, 600);
  assert.deepEqual(told[1].said, []);
});

test("a message that is written twice is one line", () => {
  for (const text of ["go on", "go on", "stop", "go on"]) wrote("user", text);
  called("exec");
  assert.deepEqual(
    told[0].said.map(({ text }) => text),
    ["go on", "stop", "go on"],
  );
});

test("a wrapper around calls is none itself", async () => {
  answer = () => ({ budget: { left: 0, reason: "no more" } });
  for (const tool of ["tool_call", "tool_search", "tool_search_code", "tool_describe"]) {
    assert.equal(await blocked(tool), undefined);
    calling(tool);
    called(tool);
  }
  assert.deepEqual(told, []);
  assert.equal(calls(), 0);
});

test("the end of a turn says whether we stopped it, also where it comes at once", async () => {
  const ends = [];
  const turn = async () => {
    reports.beginTurn(MAIN);
    await reports.stopTurns([MAIN]);
    return ends.push(reports.endTurn(MAIN).stopped);
  };
  await turn();
  sdk.abortAgentHarnessRun = () => false;
  await turn();
  reports.beginTurn(MAIN);
  sdk.abortAgentHarnessRun = () => true;
  await reports.stopTurns([MAIN]);
  sdk.abortAgentHarnessRun = () => false; // it is being stopped already
  await turn();
  sdk.abortAgentHarnessRun = () => {
    ends.push(reports.endTurn(MAIN).stopped);
    return true;
  };
  await turn();
  reports.beginTurn(MAIN);
  ends.push(reports.endTurn(MAIN).stopped);
  assert.deepEqual(ends, [true, false, true, true, false, false]);
});

test("the work of a sub-agent counts for the session that spawned it, also of its sub-agents", () => {
  const [second, third] = ["agent:main:subagent:2", "agent:main:subagent:3"];
  reports.recordSpawn({ childSessionKey: CHILD, requesterSessionKey: MAIN });
  reports.recordSpawn({ childSessionKey: second, requesterSessionKey: CHILD });
  reports.recordSpawn({ childSessionKey: third, requesterSessionKey: second });
  assert.deepEqual(
    [CHILD, second, third, MAIN, OTHER].map((session) => reports.findRoot(session)),
    [MAIN, MAIN, MAIN, MAIN, OTHER],
  );
  told.length = 0;
  calling("exec", {}, third);
  called("exec", {}, third);
  assert.deepEqual(
    told.map(({ session_key }) => session_key),
    [MAIN, MAIN],
  );
});

test("what sub-agents call, or anybody between two turns, is no call of a turn", () => {
  reports.recordSpawn({ childSessionKey: CHILD, requesterSessionKey: MAIN });
  calling("exec");
  reports.beginTurn(MAIN);
  assert.equal(calls(), 0);
  calling("exec", {}, CHILD);
  reports.beginTurn(MAIN);
  calling("exec", {}, CHILD);
  calling("exec");
  assert.deepEqual([calls(), calls(CHILD)], [1, 2]);
});

test("the work of another agent's sub-agent is that of the agent that spawned it", () => {
  const coder = "agent:coder:subagent:1";
  reports.recordSpawn({ childSessionKey: coder, requesterSessionKey: MAIN });
  reports.reportCallStart(
    { toolName: "exec", toolCallId: "c1" },
    { sessionKey: coder, agentId: "coder" },
  );
  reports.reportCallEnd(
    { toolName: "exec", toolCallId: "c1" },
    { sessionKey: coder, agentId: "coder" },
  );
  const { agent_id, folder, fingerprint } = reports.beginTurn(MAIN);
  for (const each of told)
    assert.deepEqual(
      [each.agent_id, each.folder, each.fingerprint],
      [agent_id, folder, fingerprint],
    );
});

test("a session that a task has to itself is nobody's sub-agent", () => {
  reports.recordSpawn({ childSessionKey: TASK, requesterSessionKey: MAIN });
  reports.recordSpawn({ childSessionKey: CHILD });
  reports.recordSpawn({});
  assert.deepEqual(
    [TASK, CHILD].map((session) => reports.findRoot(session)),
    [TASK, CHILD],
  );
});

test("the end of a turn says how many sub-agents of its session still run, their own among them", () => {
  const [second, third] = ["agent:main:subagent:2", "agent:main:subagent:3"];
  const children = () => [MAIN, OTHER].map((session) => reports.endTurn(session).children);
  assert.deepEqual(children(), [0, 0]);
  reports.recordSpawn({ childSessionKey: CHILD, requesterSessionKey: MAIN });
  reports.recordSpawn({ childSessionKey: second, requesterSessionKey: CHILD });
  reports.recordSpawn({ childSessionKey: third, requesterSessionKey: OTHER });
  assert.deepEqual(children(), [2, 1]);
  reports.endTurn(CHILD);
  assert.deepEqual(children(), [1, 1]);
  reports.beginTurn(CHILD); // it hears of its own
  assert.deepEqual(children(), [2, 1]);
  reports.endTurn(CHILD);
  reports.recordSubAgentEnd({ targetSessionKey: second });
  reports.recordSubAgentEnd({ targetSessionKey: third });
  reports.recordSubAgentEnd({});
  reports.beginTurn(MAIN);
  assert.deepEqual(children(), [0, 0]);
});

test("a sub-agent that is carried on after a restart counts for the session that spawned it before", () => {
  const [second, stray] = ["agent:coder:subagent:2", "agent:main:subagent:3"];
  house.sessions.set(CHILD, { spawnedBy: MAIN });
  house.sessions.set(second, { spawnedBy: CHILD });
  house.sessions.set(stray, {});
  reports.beginTurn(second);
  assert.deepEqual(
    [CHILD, second, stray].map((session) => reports.findRoot(session)),
    [MAIN, MAIN, stray],
  );
  assert.equal(reports.endTurn(MAIN).children, 1);
  calling("exec", {}, second);
  assert.equal(told[0].session_key, MAIN);
});

test("a sub-agent of which the gateway cannot say who spawned it counts for itself, for a turn", () => {
  const { session } = house.api.runtime.agent;
  const { getSessionEntry: entry } = session;
  const asked = [];
  session.getSessionEntry = ({ sessionKey }) => {
    asked.push(sessionKey);
    assert.fail("EIO");
  };
  assert.equal(reports.beginTurn(CHILD).session_key, CHILD);
  for (let n = 0; n < 3; n++) calling("exec", {}, CHILD);
  assert.deepEqual(
    [asked, told.map(({ session_key }) => session_key)],
    [[CHILD], [CHILD, CHILD, CHILD]],
  );
  session.getSessionEntry = entry;
  house.sessions.set(CHILD, { spawnedBy: MAIN });
  reports.beginTurn(CHILD);
  assert.equal(reports.findRoot(CHILD), MAIN);
});

test("a sub-agent of whose end nobody told counts as gone after a day", (t) => {
  reports.recordSpawn({ childSessionKey: CHILD, requesterSessionKey: MAIN });
  t.after(() => mock.restoreAll());
  for (const [hours, children] of [
    [23, 1],
    [25, 0],
  ]) {
    const later = performance.now() + hours * 3_600_000;
    mock.method(performance, "now", () => later);
    assert.equal(reports.endTurn(MAIN).children, children);
    mock.restoreAll();
  }
});

test("sub-agents that spawned each other have a root all the same", () => {
  reports.recordSpawn({ childSessionKey: CHILD, requesterSessionKey: `${CHILD}1` });
  reports.recordSpawn({ childSessionKey: `${CHILD}1`, requesterSessionKey: CHILD });
  assert.ok(reports.findRoot(CHILD).startsWith(CHILD));
});

test("a step may make as many calls as its budget has left; then each reads why not", async () => {
  answer = () => ({ budget: { left: 2, reason: "Call task_step_done." } });
  const said = [];
  for (let n = 0; n < 4; n++) said.push(await blocked());
  assert.deepEqual(said, [undefined, undefined, "Call task_step_done.", "Call task_step_done."]);
  assert.deepEqual(
    asked.map(([method, params]) => [method, params]),
    [["budget", { session_key: MAIN }]],
  );
});

test("a call that was not let through has not ended; one that somebody else did not let through has", async () => {
  answer = () => ({ budget: { left: 0, reason: "no more" } });
  const denied = {
    error: "no more",
    result: { details: { deniedReason: "plugin-before-tool-call" } },
  };
  await blocked();
  called("exec", { ...denied, toolCallId: "b1" });
  assert.deepEqual(told, []);
  for (const toolCallId of ["b2", "b1"]) called("exec", { ...denied, toolCallId });
  assert.deepEqual(
    told.map(({ call_id, failed }) => [call_id, failed]),
    [
      ["b2", true],
      ["b1", true],
    ],
  );
});

test("calls that are made at once spend one budget", async () => {
  answer = () => ({ budget: { left: 1, reason: "no more" } });
  assert.deepEqual(await Promise.all([blocked(), blocked(), blocked("exec", OTHER)]), [
    undefined,
    "no more",
    undefined,
  ]);
});

test("a budget that was asked for before one of our own tools answered is not kept", async () => {
  let say;
  answer = () => new Promise((done, failed) => (say = { done, failed }));
  for (const end of ["done", "failed"]) {
    const first = blocked();
    called("task_update");
    const { [end]: over } = say;
    const second = blocked();
    over({ budget: { left: 0, reason: "old" } });
    await first;
    say.done({ budget: { left: 1, reason: "new" } });
    assert.equal(await second, undefined);
    assert.equal(await blocked(), "new");
    called("task_update");
  }
  assert.equal(asked.length, 4);
});

test("a session without a budget is asked for once a turn", async () => {
  for (let n = 0; n < 3; n++) assert.equal(await blocked(), undefined);
  assert.equal(asked.length, 1);
  reports.beginTurn(MAIN);
  await blocked();
  assert.equal(asked.length, 2);
});

for (const ours of ["task_update", "taskmem__task_update"])
  test(`${ours}, our own, needs no budget, and after it the budget is asked for anew`, async () => {
    answer = () => ({ budget: { left: 0, reason: "no more" } });
    assert.equal(await blocked(ours), undefined);
    assert.equal(asked.length, 0);
    assert.equal(await blocked(), "no more");
    called("exec");
    await blocked();
    assert.equal(asked.length, 1);
    answer = () => ({ budget: { left: 1, reason: "no more" } });
    called(ours);
    assert.equal(await blocked(), undefined);
  });

test("a sub-agent spends the budget of the session that spawned it", async () => {
  reports.recordSpawn({ childSessionKey: CHILD, requesterSessionKey: MAIN });
  answer = () => ({ budget: { left: 1, reason: "no more" } });
  assert.equal(await blocked("exec", CHILD), undefined);
  assert.equal(await blocked("exec", MAIN), "no more");
  assert.equal(asked[0][1].session_key, MAIN);
});

test("where the daemon cannot say what is left, the call is made, and it is asked again at the next", async () => {
  answer = () => Promise.reject(new Error("away"));
  assert.equal(await blocked(), undefined);
  answer = () => ({ budget: { left: 0, reason: "no more" } });
  assert.equal(await blocked(), "no more");
});

test("turns are stopped by what the gateway calls their sessions", async () => {
  assert.equal(await reports.stopTurns([MAIN, OTHER]), true);
  assert.deepEqual(stopped, [`id of ${MAIN}`, `id of ${OTHER}`]);
});

test("a turn that is stopped calls no more tools, and is stopped again if it was too young for that", async () => {
  reports.beginTurn(MAIN);
  reports.beginTurn(OTHER);
  sdk.resolveActiveEmbeddedRunSessionId = () => undefined;
  assert.equal(await reports.stopTurns([MAIN]), undefined);
  sdk.resolveActiveEmbeddedRunSessionId = (session) => `id of ${session}`;
  assert.match(await blocked(), /this turn ends/);
  called("exec", { toolCallId: "b1" });
  assert.match(await blocked("task_update", MAIN, "b2"), /this turn ends/);
  called("task_update", { toolCallId: "b2" });
  assert.equal(await blocked("tool_call"), undefined);
  assert.equal(await blocked("exec", OTHER), undefined);
  assert.deepEqual(told, []);
  await new Promise(setImmediate);
  assert.deepEqual(stopped, [`id of ${MAIN}`, `id of ${MAIN}`]);
});

test("a call that asks for its budget while its turn is stopped is not made", async () => {
  reports.beginTurn(MAIN);
  let say;
  answer = () => new Promise((done) => (say = done));
  const asking = blocked();
  await reports.stopTurns([MAIN]);
  say({ budget: { left: 1, reason: "no more" } });
  assert.match(await asking, /this turn ends/);
  await new Promise(setImmediate);
});

test("from the moment that a turn is to be stopped it calls none, and the next one does", async () => {
  reports.beginTurn(MAIN);
  const stopping = reports.stopTurns([MAIN]);
  assert.match(await blocked(), /this turn ends/);
  await stopping;
  reports.beginTurn(MAIN);
  assert.equal(await blocked(), undefined);
  reports.endTurn(MAIN);
  await reports.stopTurns([MAIN]);
  assert.equal(await blocked(), undefined);
});

test("where no turn runs none is stopped, which is not the same as one that cannot be", async () => {
  sdk.abortAgentHarnessRun = () => false;
  assert.equal(await reports.stopTurns([MAIN]), false);
  sdk.resolveActiveEmbeddedRunSessionId = () => undefined;
  assert.equal(await reports.stopTurns([MAIN]), undefined);
});

test("the last words of a round of ours are told whole, and that they were cut is said", () => {
  const ends = (text, idempotencyKey) => {
    reports.recordRow(
      { message: { role: "user", content: "go", idempotencyKey } },
      { sessionKey: MAIN },
    );
    reports.recordRow({ message: { role: "assistant", content: text } }, { sessionKey: MAIN });
    return reports.endTurn(MAIN).words;
  };
  assert.equal(ends("x".repeat(16_000), "taskmem:1"), "x".repeat(16_000));
  assert.match(
    ends("x".repeat(16_001), "taskmem:2"),
    /x{16000}\n\[… cut after 16000 characters\]$/,
  );
  assert.equal(ends("x", "chat:1"), undefined);
});

for (const [how, ...said] of [
  ["a channel", () => received(), () => wrote("user", "How far is it?")],
  ["the web chat", () => wrote("user", "How far is it?"), () => received()],
])
  test(`what a user says by ${how} into a round of ours is theirs, and the round stays ours`, () => {
    wrote("user", "go on", MAIN, { idempotencyKey: "taskmem:1:user" });
    reports.beginTurn(MAIN);
    for (const each of said) each();
    calling("exec");
    assert.equal(told[0].request, "How far is it?");
    wrote("assistant", "Half of it is done.");
    const { origin, words } = reports.endTurn(MAIN);
    assert.deepEqual({ origin, words }, { origin: "user", words: "Half of it is done." });
  });

test("a row that the gateway writes to ask a provider again is not the user's", () => {
  received(); // what is said before a round is another turn's
  wrote("user", "go on", MAIN, { idempotencyKey: "taskmem:1:user" });
  reports.beginTurn(MAIN);
  wrote("user", "go on", MAIN);
  calling("exec");
  assert.equal("request" in told[0], false);
  assert.equal(reports.endTurn(MAIN).origin, "taskmem");
});

test("a turn that ends while the gateway stops was cut", () => {
  assert.equal(reports.endTurn(MAIN).cut, false);
  reports.beginStop();
  assert.equal(reports.endTurn(MAIN).cut, true);
});

test("of the turns that go on, those that we began are cut, and no other", async () => {
  wrote("user", "go on", MAIN, { idempotencyKey: "taskmem:1:user" });
  wrote("user", "hello", OTHER);
  await reports.stopOwnTurns(async () => void stopped.push("called off"));
  assert.deepEqual(stopped, ["called off", `id of ${MAIN}`]);
  assert.deepEqual([reports.endTurn(MAIN).cut, reports.endTurn(OTHER).cut], [true, false]);
});

test("turns that cannot be called off are ended all the same", async () => {
  wrote("user", "go on", MAIN, { idempotencyKey: "taskmem:1:user" });
  await reports.stopOwnTurns(async () => assert.fail("no such run"));
  assert.deepEqual(stopped, [`id of ${MAIN}`]);
});

test("work is told also where the gateway cannot say in which folder", () => {
  house.api.runtime.agent.resolveAgentWorkspaceDir = () => assert.fail("no such agent");
  calling("exec");
  assert.deepEqual([told[0].session_key, told[0].folder], [MAIN, undefined]);
  assert.equal(reports.endTurn(MAIN).calls, 1);
});

test("whatever shape a message, a call or an outcome has, it is told", () => {
  for (const content of [undefined, null, 7, { text: "one" }, [null, "two"]])
    wrote("assistant", content);
  calling("exec", null);
  called("exec", { params: null, result: { content: { text: "three" } } });
  assert.deepEqual(
    told.map(({ about, outcome }) => [about, outcome]),
    [
      ["{}", undefined],
      ["{}", "three"],
    ],
  );
  assert.deepEqual(
    told[1].said.map(({ text }) => text),
    ["one"],
  );
});

/** An agent's workspace with prompt files. */
function workspace(
  test,
  agents = { entries: { main: { model: "m" }, coder: {} }, defaults: { model: "d" } },
) {
  const path = folder(test);
  for (const id of Object.keys(agents.entries)) mkdirSync(join(path, id));
  move_in({ agents, workspace: path });
  const file = (name, text, agent = "main") => writeFileSync(join(path, agent, name), text);
  return { path, agents, file };
}
const print = (agent = "main") => reports.computeFingerprints()[agent];

test("each agent has a fingerprint; where none is configured, there is main", (t) => {
  workspace(t);
  assert.deepEqual(Object.keys(reports.computeFingerprints()), ["main", "coder"]);
  assert.notEqual(print("main"), print("coder"));
  move_in({ agents: { entries: { main: {}, coder: {} } } });
  assert.notEqual(print("main"), print("coder"));
  move_in({ agents: {} });
  assert.deepEqual(Object.keys(reports.computeFingerprints()), ["main"]);
  assert.equal(reports.beginTurn(MAIN).fingerprint, print());
});

test("an agent is the same in its session's key, however its name is written in the configuration", () => {
  const agents = { entries: { Coder: { model: "m" } } };
  move_in({ agents });
  const { coder } = reports.computeFingerprints();
  assert.equal(reports.beginTurn("agent:coder:main").fingerprint, coder);
  agents.entries.Coder.model = "n";
  assert.notEqual(reports.beginTurn("agent:coder:main").fingerprint, coder);
});

for (const [what, change] of [
  ["a prompt file that changed", ({ file }) => file("AGENTS.md", "other words")],
  ["another model", ({ agents }) => (agents.entries.main.model = "n")],
  ["another version of ours", () => (reports.version = "2")],
])
  test(`${what} changes the fingerprint`, (t) => {
    const there = workspace(t);
    there.file("AGENTS.md", "words");
    const before = print();
    change(there);
    assert.notEqual(print(), before);
  });

for (const name of ["AGENTS.md", "SOUL.md", "TOOLS.md"])
  test(`${name} shapes a prompt`, (t) => {
    const { file } = workspace(t);
    const before = print();
    file(name, "words");
    assert.notEqual(print(), before);
  });

test("a model that all agents have shapes the prompts of those without their own", (t) => {
  const { agents } = workspace(t);
  const before = reports.computeFingerprints();
  agents.defaults.model = "e";
  assert.equal(print("main"), before.main);
  assert.notEqual(print("coder"), before.coder);
});

test("other files and another agent's do not change the fingerprint", (t) => {
  const { file } = workspace(t);
  const before = print();
  file("NOTES.md", "words");
  file("AGENTS.md", "words", "coder");
  assert.equal(print(), before);
});

test("a prompt file is read again only where it has changed", (t) => {
  const { path, file } = workspace(t);
  const name = join(path, "main", "AGENTS.md");
  file("AGENTS.md", "words");
  utimesSync(name, 1, 1);
  const before = print();
  file("AGENTS.md", "WORDS");
  utimesSync(name, 1, 1);
  assert.equal(print(), before);
  utimesSync(name, 2, 2);
  assert.notEqual(print(), before);
});

test("what runs for a session is listed: commands of its background and sub-agents, with what they do", (t) => {
  const second = "agent:main:subagent:2";
  const now = 1_000; // whole, so that differences are
  t.mock.method(performance, "now", () => now);
  reports.recordSpawn({ childSessionKey: CHILD, requesterSessionKey: MAIN });
  called("sessions_spawn", {
    params: { task: "Compare prices" },
    result: { details: { status: "accepted", childSessionKey: CHILD } },
  });
  reports.recordSpawn({ childSessionKey: second, requesterSessionKey: CHILD });
  called("sessions_spawn", {
    params: { task: "Never" },
    result: { details: { status: "error", childSessionKey: second } },
  });
  called("exec", {
    params: { command: "make all" },
    result: { details: { status: "running", sessionId: "calm-cove" } },
  });
  t.mock.method(performance, "now", () => now + 5_000);
  const expected = [
    { kind: "command", name: "calm-cove", about: "make all", age: 5_000 },
    { kind: "sub_agent", name: CHILD, about: "Compare prices", age: 5_000 },
    { kind: "sub_agent", name: second, about: "", age: 5_000 },
  ];
  assert.deepEqual(reports.listRunning(MAIN), expected);
  assert.deepEqual(reports.listAllRunning(), { [MAIN]: expected });
  assert.deepEqual([reports.listRunning(OTHER), reports.listRunning(undefined)], [[], []]);
  assert.deepEqual(reports.endTurn(MAIN).at_work, expected);
  called("process", { result: { details: { status: "completed", sessionId: "calm-cove" } } });
  for (const child of [CHILD, second]) reports.recordSubAgentEnd({ targetSessionKey: child });
  assert.deepEqual([reports.listRunning(MAIN), reports.listAllRunning()], [[], {}]);
  reports.beginStop();
});

// --- file effects ---------------------------------------------------------------

const HERE = "/work/agent";
const describe = (toolName, params, details, more = {}) =>
  describeFileEffects({ toolName, params, result: { details }, ...more }, HERE);

for (const [tool, params, details, touched] of [
  [
    "write",
    { path: "out/a.md" },
    { changed: true, created: true },
    [{ path: `${HERE}/out/a.md`, change: "created" }],
  ],
  [
    "write",
    { path: "/srv/a.md" },
    { changed: true, created: false },
    [{ path: "/srv/a.md", change: "changed" }],
  ],
  ["write", { path: "a.md" }, { changed: false }, []],
  [
    "edit",
    { file_path: "~/a.md" },
    { changed: true },
    [{ path: `${homedir()}/a.md`, change: "changed" }],
  ],
  ["edit", { path: 7 }, {}, []],
])
  test(`${tool} of ${JSON.stringify(params)} with ${JSON.stringify(details)} is told as it was`, () => {
    assert.deepEqual(describe(tool, params, details).touched, touched);
  });

test("a patch is told by what the gateway sums up of it", () => {
  const summary = { added: ["a.md"], modified: ["/srv/b.md"], deleted: ["c.md"] };
  assert.deepEqual(describe("apply_patch", { input: "…" }, { summary }).touched, [
    { path: `${HERE}/a.md`, change: "created" },
    { path: "/srv/b.md", change: "changed" },
    { path: `${HERE}/c.md`, change: "removed" },
  ]);
});

test("of a patch of more files than a report holds, the first are told", () => {
  const added = Array.from({ length: 1_001 }, (_, number) => `${number}.md`);
  assert.equal(describe("apply_patch", {}, { summary: { added } }).touched.length, 1_000);
});

test("a call that failed has changed nothing", () => {
  assert.deepEqual(describe("write", { path: "a.md" }, null, { error: "no" }).touched, []);
  assert.deepEqual(describe("write", { path: "a.md" }, undefined, { error: "no" }).touched, []);
  assert.deepEqual(describe("apply_patch", {}, undefined, { error: "no" }).touched, []);
});

test("a command may change anything in the workspace and where it ran", () => {
  assert.deepEqual(describe("exec", { command: "make", workdir: "/other" }, { cwd: "/srv/app" }), {
    command: true,
    folders: [HERE, "/srv/app"],
  });
  assert.deepEqual(describe("exec", { command: "make", workdir: "app" }), {
    command: true,
    folders: [HERE, `${HERE}/app`],
  });
});

test("so may a tool that nobody here knows", () => {
  assert.deepEqual(describe("of_another_plugin", {}), { command: true, folders: [HERE] });
});

test("what is read changes nothing, and its folder was used", () => {
  assert.deepEqual(describe("read", { path: "/srv/app/a.md" }), { folders: ["/srv/app"] });
  assert.deepEqual(describe("web_search", { query: "q" }), { folders: [] });
});

test("without a workspace only whole paths are told", () => {
  assert.deepEqual(
    describeFileEffects({ toolName: "write", params: { path: "a.md" } }, undefined),
    { folders: [], touched: [] },
  );
  assert.deepEqual(describeFileEffects({ toolName: "exec", params: {} }, undefined), {
    command: true,
    folders: [],
  });
});

// --- the word to go on ---------------------------------------------------------

test("each language has a few ways to say it, and each counts in any dress", () => {
  assert.ok(Object.keys(words).length >= 10);
  for (const each of Object.values(words).flat())
    for (const message of [
      each,
      each.toUpperCase(),
      `\n¡${each}!! 🙏🏽`,
      `${each.normalize("NFD")}。`,
    ])
      assert.ok(isContinueWord(message), message);
});

for (const message of [
  "/resume",
  "devam  et.",
  "Continue s’il te plait",
  "ｃｏｎｔｉｎｕｅ",
  "تابِع",
])
  test(`${JSON.stringify(message)} tells the agent to go on`, () => {
    assert.ok(isContinueWord(message));
  });

test("a message of more than the words is an ordinary one", () => {
  for (const each of Object.values(words).flat())
    for (const message of [`${each} 2`, `no ${each}`, `${each}, ok`, `${each} x`])
      assert.ok(!isContinueWord(message), message);
});

for (const message of ["", "…", "👍", "yes", "go ahead", "ok", "don't continue", "/resume 2"])
  test(`${JSON.stringify(message)} does not tell the agent to go on`, () => {
    assert.ok(!isContinueWord(message));
  });
