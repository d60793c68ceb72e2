import assert from "node:assert/strict";
import { test } from "node:test";
import { load, sdk } from "./stand_ins.mjs";

const { listCommands } = await load("gateway_requests.js");

test("of the gateway's tasks only commands are listed", async () => {
  sdk.callGatewayTool = async () => ({ tasks: [{ kind: "exec" }, { kind: "subagent" }] });
  assert.deepEqual(await listCommands({}), [{ kind: "exec" }]);
});

test("the commands of all pages are listed", async () => {
  const pages = {
    undefined: { tasks: [{ kind: "exec", sourceId: "one" }], nextCursor: "next" },
    next: { tasks: [{ kind: "exec", sourceId: "two" }] },
  };
  sdk.callGatewayTool = async (_, __, { status, cursor }) => {
    assert.equal(status, "running");
    return pages[cursor];
  };
  assert.deepEqual(
    (await listCommands({ status: "running" })).map(({ sourceId }) => sourceId),
    ["one", "two"],
  );
});
