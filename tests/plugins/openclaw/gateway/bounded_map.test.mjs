import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./stand_ins.mjs";

const { BoundedMap } = await load("bounded_map.js");

test("only the newest are map, and what is set again is new", () => {
  const map = new BoundedMap(2).set("a", 1).set("b", 2).set("a", 3).set("c", 4);
  assert.deepEqual(
    [...map],
    [
      ["a", 3],
      ["c", 4],
    ],
  );
});
