// What is reported of sub-agents: that they work, how their work ends, and what is looked up.
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { gateway, load, MAIN, OTHER, sdk } from "./stand_ins.mjs";

const { SessionReports } = await load("session_reports.js");
const [CHILD, SECOND] = ["agent:main:subagent:1", "agent:main:subagent:2"];
let house, told, reports;

beforeEach(() => {
  house = gateway();
  told = [];
  reports = new SessionReports({
    api: house.api,
    version: "1",
    ownTools: new Set(),
    ask: async () => ({}),
    tell: (event) => told.push(event),
  });
});

const spawn = (child = CHILD, parent = MAIN, label = "cook") =>
  reports.recordSpawn(
    { childSessionKey: child, requesterSessionKey: parent, runId: `run of ${child}` },
    { label },
  );
const say = (text, child = CHILD) =>
  reports.recordRow({ message: { role: "assistant", content: text } }, { sessionKey: child });
const end = (child = CHILD, run = `run of ${child}`) => reports.endTurn(child, run);
/** Let all go on that waits for no timer. */
const settle = async () => {
  for (let turn = 0; turn < 3; turn++) await new Promise((go) => setImmediate(go));
};
const ends = () => told.filter(({ kind }) => kind === "sub_agent_ended");

test("a sub-agent that is spawned is reported with its parent and its name", () => {
  spawn();
  const [{ kind, session_key, child, parent, label, child_run }] = told;
  assert.deepEqual(
    [kind, session_key, child, parent, label, child_run],
    ["sub_agent_started", MAIN, CHILD, MAIN, "cook", `run of ${CHILD}`],
  );
});

test("the work of a sub-agent's sub-agent counts for the topmost session", () => {
  spawn();
  spawn(SECOND, CHILD);
  assert.deepEqual([told[1].session_key, told[1].parent], [MAIN, CHILD]);
});

test("one that an earlier start of the gateway spawned is reported when it works on", () => {
  house.sessions.set(CHILD, { spawnedBy: OTHER, label: "bake" });
  reports.beginTurn(CHILD, "r2");
  const [{ kind, session_key, label, child_run }] = told;
  assert.deepEqual(
    [kind, session_key, label, child_run],
    ["sub_agent_started", OTHER, "bake", "r2"],
  );
  told.length = 0;
  reports.beginTurn(MAIN, "r3");
  assert.deepEqual(told, []);
});

test("where the gateway cannot read its sessions, beginning and end are told without them", () => {
  spawn();
  house.api.runtime.agent.session.getSessionEntry = () => {
    throw new Error("the store is closed");
  };
  reports.beginTurn(CHILD, "r2");
  reports.recordSubAgentEnd({ targetSessionKey: CHILD, runId: "r2", outcome: "error" });
  assert.deepEqual(
    told.map(({ kind, label, error }) => [kind, label, error]),
    [
      ["sub_agent_started", "cook", undefined],
      ["sub_agent_started", "", undefined],
      ["sub_agent_ended", undefined, undefined],
    ],
  );
});

test("its end is told with its turn's and its last words, and not again by the hook", () => {
  spawn();
  say("It simmers.");
  say(`${"x".repeat(2_000)} The soup is cooked.`);
  end();
  reports.recordSubAgentEnd({ targetSessionKey: CHILD, runId: `run of ${CHILD}`, outcome: "ok" });
  const [{ outcome, error, words }] = ends();
  assert.equal(ends().length, 1);
  assert.deepEqual([outcome, error, words], ["ok", undefined, " The soup is cooked."]);
});

test("work that goes on later, or fails, has its end told by a hook", () => {
  spawn();
  reports.endTurn(CHILD);
  assert.deepEqual(ends(), []);
  house.sessions.set(CHILD, { lastRunError: "no model answers" });
  reports.recordSubAgentEnd({ childSessionKey: CHILD, runId: "r1", outcome: "error" });
  const [{ outcome, error, words }] = ends();
  assert.deepEqual([outcome, error, words], ["error", "no model answers", ""]);
});

test("one whose own sub-agents still work has not ended with its turn", () => {
  spawn();
  spawn(SECOND, CHILD);
  spawn("agent:main:subagent:3", MAIN);
  end();
  assert.deepEqual(ends(), []);
  end(SECOND);
  reports.beginTurn(CHILD, "announced");
  end(CHILD, "announced");
  assert.deepEqual(
    ends().map(({ child }) => child),
    [SECOND, CHILD],
  );
});

test("a gateway that stops tells of no end: the turns that it cuts may go on after its start", () => {
  spawn();
  reports.beginStop();
  end();
  assert.deepEqual(ends(), []);
});

for (const [what, row, entry, expected] of [
  ["a row that is over", { status: "completed" }, { status: "done" }, ["ok", undefined]],
  ["a row that failed", { status: "failed", error: "cut" }, {}, ["error", "cut"]],
  ["a row that was cancelled", { status: "cancelled" }, {}, ["killed", undefined]],
  ["its session alone", undefined, { status: "done" }, ["ok", undefined]],
  ["a session that runs, when all was recovered", undefined, { status: "running" }, ["lost"]],
  ["nothing, when all was recovered", undefined, undefined, ["lost"]],
])
  test(`an end that was missed is looked up: ${what}`, async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    let now = 0;
    t.mock.method(performance, "now", () => now);
    move(row);
    if (entry) house.sessions.set(CHILD, entry);
    house.api.runtime.subagent.getSessionMessages = async () => ({
      messages: [
        { role: "assistant", content: [{ type: "text", text: "It simmers." }] },
        { role: "assistant", content: [{ type: "toolCall" }] },
      ],
    });
    reports.subAgents.lookUp([CHILD]);
    const look = async () => {
      t.mock.timers.tick(60_000);
      await settle();
    };
    await look();
    if (expected[0] === "lost") {
      assert.deepEqual(ends(), []);
      now = 1e9;
      await look();
    }
    const [{ outcome, error, words }] = ends();
    assert.deepEqual([outcome, error], [expected[0], expected[1]]);
    assert.equal(words, "It simmers.");
    await look();
    assert.equal(ends().length, 1);
  });

/** Let the gateway list one row of the sub-agent, and of others. */
function move(row) {
  const others = { kind: "subagent", childSessionKey: SECOND, status: "failed" };
  const rows = row ? [{ kind: "subagent", childSessionKey: CHILD, ...row }] : [];
  sdk.callGatewayTool = async () => ({ tasks: [others, ...rows] });
}

test("what was looked up is not told again by the hook of the same work", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  move({ status: "completed", runId: "r1", progressSummary: "It simmers." });
  house.sessions.set(CHILD, { spawnedBy: MAIN });
  reports.subAgents.lookUp([CHILD]);
  t.mock.timers.tick(1);
  await settle();
  reports.recordSubAgentEnd({ targetSessionKey: CHILD, runId: "r1", outcome: "ok" });
  assert.deepEqual(
    ends().map(({ words }) => words),
    ["It simmers."],
  );
});

test("what runs here, or may still be recovered, is not told as over", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  move({ status: "running" });
  const look = async () => {
    t.mock.timers.tick(60_000);
    await settle();
  };
  reports.subAgents.lookUp([CHILD]);
  await look();
  assert.deepEqual(ends(), []);
  house.sessions.set(CHILD, { spawnedBy: MAIN });
  reports.beginTurn(CHILD, "recovered");
  move({ status: "failed" });
  await look();
  assert.deepEqual(ends(), []);
  reports.subAgents.stop();
  reports.subAgents.lookUp([SECOND]);
  await look();
  assert.deepEqual(ends(), []);
});

test("one whose session cannot be read hinders no other from being looked up", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  move({ status: "completed" });
  house.api.runtime.agent.session.getSessionEntry = ({ sessionKey }) => {
    if (sessionKey === CHILD) throw new Error("the store is closed");
  };
  reports.subAgents.lookUp([CHILD, SECOND]);
  t.mock.timers.tick(1);
  await settle();
  assert.deepEqual(
    ends().map(({ child }) => child),
    [SECOND],
  );
});
