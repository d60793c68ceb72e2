import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./stand_ins.mjs";

const { Kept } = await load("kept.js");

test("only the newest are kept, and what is set again is new", () => {
  const kept = new Kept(2).set("a", 1).set("b", 2).set("a", 3).set("c", 4);
  assert.deepEqual([...kept], [["a", 3], ["c", 4]]);
});
