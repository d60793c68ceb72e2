import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { MAIN, OTHER, folder, load } from "./stand_ins.mjs";

const { findRecallOwner, registerPastTasks } = await load("past_tasks.js");

const HIT = {
  source: "tasks",
  task_id: "task_1",
  message_id: 7,
  summary: "Renew: Dovecot kept the old chain.",
  steps: ["Order"],
  confidence: 0.8,
  timestamp: "2026-02-16T06:00:00Z",
};

/** What is registered with a gateway, and what its daemon is asked. */
function register(results = [HIT]) {
  const made = { asked: [] };
  const call = async (_, params) => {
    made.asked.push(params);
    return { results };
  };
  const here = { daemon: { call }, reports: { findRoot: (session) => session } };
  const api = {
    registerMemoryCorpusSupplement: (corpus) => (made.corpus = corpus),
    registerMemoryPromptSupplement: (build) => (made.build = build),
  };
  registerPastTasks(api, () => made.here);
  made.here = here;
  return made;
}

test("past tasks are hits of a corpus, and nothing of the screen is", async () => {
  const { corpus, asked } = register([
    HIT,
    { source: "screen", summary: "secret", steps: [], confidence: 1 },
  ]);
  const found = await corpus.search({
    query: "dovecot",
    maxResults: 5,
    agentSessionKey: MAIN,
    sandboxed: true,
  });
  assert.deepEqual(
    found.map(({ path, score, snippet }) => [path, score, snippet]),
    [["task/task_1/message/7", 0.8, HIT.summary]],
  );
  assert.deepEqual(asked, [
    {
      tool: "memory_recall",
      arguments: { query: "dovecot", limit: 5 },
      session_key: MAIN,
      agent_id: "main",
      tasks_only: true,
      sandboxed: true,
    },
  ]);
});

test("a hit is read by the session that found it, and by no other", async () => {
  const { corpus } = register();
  const [{ path }] = await corpus.search({ query: "dovecot", agentSessionKey: MAIN });
  const read = await corpus.get({ lookup: path, agentSessionKey: MAIN });
  assert.equal(read.content, "Renew: Dovecot kept the old chain.\n- done: Order");
  assert.equal(
    (await corpus.get({ lookup: path, agentSessionKey: MAIN, fromLine: 2, lineCount: 1 })).content,
    "- done: Order",
  );
  assert.equal(await corpus.get({ lookup: path, agentSessionKey: OTHER }), null);
});

test("a long question is cut to what the daemon takes", async () => {
  const { corpus, asked } = register();
  await corpus.search({ query: "ä".repeat(40_000), agentSessionKey: MAIN });
  assert.ok(Buffer.byteLength(asked[0].arguments.query) <= 4_096);
});

test("nothing is found before the plug-in has started", async () => {
  const made = register();
  made.here = undefined;
  assert.deepEqual(await made.corpus.search({ query: "dovecot", agentSessionKey: MAIN }), []);
});

test("the model is told of the corpus where it can search", () => {
  const { build } = register();
  assert.match(build({ availableTools: new Set(["memory_search"]) })[0], /corpus "all"/);
  assert.deepEqual(build({ availableTools: new Set() }), []);
});

test("another plug-in has the name only while it is active", (t) => {
  const state = folder(t);
  const rival = join(state, "extensions", "rival");
  mkdirSync(rival, { recursive: true });
  writeFileSync(
    join(rival, "openclaw.plugin.json"),
    JSON.stringify({ id: "rival", contracts: { tools: ["memory_recall"] } }),
  );
  assert.equal(findRecallOwner({}, undefined), undefined);
  assert.equal(findRecallOwner({}, state), "rival");
  assert.equal(findRecallOwner({ plugins: { load: { paths: [rival] } } }, undefined), "rival");
  assert.equal(
    findRecallOwner({ plugins: { entries: { rival: { enabled: false } } } }, state),
    undefined,
  );
  assert.equal(
    findRecallOwner({ plugins: { slots: { memory: "memory-lancedb" } } }, undefined),
    "memory-lancedb",
  );
});
