import assert from "node:assert/strict";
import { homedir } from "node:os";
import { test } from "node:test";
import { load } from "./stand_ins.mjs";

const { describeFileEffects } = await load("file_effects.js");
const HERE = "/work/agent";
const told = (toolName, params, details, more = {}) =>
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
    assert.deepEqual(told(tool, params, details).touched, touched);
  });

test("a patch is told by what the gateway sums up of it", () => {
  const summary = { added: ["a.md"], modified: ["/srv/b.md"], deleted: ["c.md"] };
  assert.deepEqual(told("apply_patch", { input: "…" }, { summary }).touched, [
    { path: `${HERE}/a.md`, change: "created" },
    { path: "/srv/b.md", change: "changed" },
    { path: `${HERE}/c.md`, change: "removed" },
  ]);
});

test("of a patch of more files than a report holds, the first are told", () => {
  const added = Array.from({ length: 1_001 }, (_, number) => `${number}.md`);
  assert.equal(told("apply_patch", {}, { summary: { added } }).touched.length, 1_000);
});

test("a call that failed has changed nothing", () => {
  assert.deepEqual(told("write", { path: "a.md" }, null, { error: "no" }).touched, []);
  assert.deepEqual(told("write", { path: "a.md" }, undefined, { error: "no" }).touched, []);
  assert.deepEqual(told("apply_patch", {}, undefined, { error: "no" }).touched, []);
});

test("a command may change anything in the workspace and where it ran", () => {
  assert.deepEqual(told("exec", { command: "make", workdir: "/other" }, { cwd: "/srv/app" }), {
    command: true,
    folders: [HERE, "/srv/app"],
  });
  assert.deepEqual(told("exec", { command: "make", workdir: "app" }), {
    command: true,
    folders: [HERE, `${HERE}/app`],
  });
});

test("so may a tool that nobody here knows", () => {
  assert.deepEqual(told("of_another_plugin", {}), { command: true, folders: [HERE] });
});

test("what is read changes nothing, and its folder was used", () => {
  assert.deepEqual(told("read", { path: "/srv/app/a.md" }), { folders: ["/srv/app"] });
  assert.deepEqual(told("web_search", { query: "q" }), { folders: [] });
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
