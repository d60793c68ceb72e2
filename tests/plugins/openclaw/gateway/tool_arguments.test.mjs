import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { load, SOURCE } from "./stand_ins.mjs";

const { prepareArguments, readSent } = await load("tool_arguments.js");
const tools = JSON.parse(readFileSync(new URL("tools.json", SOURCE), "utf8"));
const schema = (tool) => tools.find(({ name }) => name === tool).parameters;
const KEYWORDS = new Set(["type", "description", "properties", "items", "required", "enum"]);

const nodes = (node) => [
  node,
  ...Object.values(node.properties ?? {}).flatMap(nodes),
  ...(node.items ? nodes(node.items) : []),
];

test("the catalogue has no keyword that the check of a call does not know", () => {
  const used = tools.flatMap(({ parameters }) => nodes(parameters).flatMap(Object.keys));
  assert.deepEqual(new Set(used).difference(KEYWORDS), new Set());
});

for (const [tool, given] of [
  ["task_register", { name: "Site", plan: ["Build"], segmented: false, metadata: { a: [1] } }],
  ["task_update", { task_id: "task_1", completed_steps: [1.0, 2], unknown: null }],
  ["task_step_done", { task_id: "task_1", outcome: "failed", remaining: [] }],
  ["task_list", {}],
])
  test(`a call of ${tool} that fits passes as it is`, () => {
    assert.equal(prepareArguments(given, schema(tool)), given);
    assert.equal(readSent(given), given);
  });

for (const [tool, given, blanks] of [
  ["task_register", { name: "Site", plan: [{ step: "Build" }] }, { plan: [] }],
  ["task_register", { name: "Site", plan: "1. Build", role: null }, { plan: [], role: "" }],
  ["task_register", { arguments: { name: "Site", plan: ["Build"] } }, { name: "", plan: [] }],
  ["task_register", '{"name": "Site"}', { name: "", plan: [] }],
  ["task_update", { taskId: "task_1" }, { task_id: "" }],
  ["task_update", { task_id: "t", completed_steps: ["1"], message: "a" }, { completed_steps: [] }],
  ["task_step_done", { task_id: "t", step: 1.5, outcome: "ok" }, { step: 0, outcome: "done" }],
  ["smart_wait", { target: "pty:a", timeout: "5m" }, { timeout: 0 }],
  ["smart_wait", { target: "pty:a", signals: [{ exit: 0 }] }, { signals: [] }],
  ["task_list", { limit: null, status: "all" }, { limit: 0 }],
  ["task_update", undefined, { task_id: "" }],
])
  test(`a call of ${tool} with ${JSON.stringify(given)} passes, and arrives as it was sent`, () => {
    const prepared = prepareArguments(given, schema(tool));
    const fitting = typeof given === "object" ? given : {};
    assert.deepEqual(prepared, { ...fitting, ...blanks, as_sent: given ?? {} });
    assert.deepEqual(readSent(prepared), given ?? {});
    // What passes is prepared no further.
    assert.equal(prepareArguments(prepared, schema(tool)), prepared);
  });
