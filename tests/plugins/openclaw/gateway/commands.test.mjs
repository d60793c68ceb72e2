import assert from "node:assert/strict";
import { test } from "node:test";
import { gateway, load, MAIN } from "./stand_ins.mjs";

const { registerCommands } = await load("commands.js");

/** A gateway with the commands, and an instance whose daemon answers so. */
function at_home(answer) {
  const house = gateway();
  const asked = [];
  const call = async (method, params) => {
    asked.push([method, params]);
    return answer();
  };
  registerCommands(house.api, () => ({
    daemon: { call },
    packetGiven: new Map(),
    reports: { listRunning: (session) => [session] },
  }));
  return {
    ...house,
    asked,
    obeys: (command, args) =>
      house.commands[command].handler({ sessionKey: MAIN, agentId: "main", args }),
  };
}

for (const [command, args, words] of [
  ["tasks", undefined, ""],
  ["cancel", "bread", "bread"],
  ["resume", " bread eu-west,  if free\nelse us-east ", " bread eu-west,  if free\nelse us-east "],
])
  test(`/${command} is for the daemon to understand, as it was written, and to answer`, async () => {
    const house = at_home(() => ({ text: "Bread: cancelled.", task_id: null, packet: null }));
    assert.deepEqual(await house.obeys(command, args), { text: "Bread: cancelled." });
    assert.deepEqual(house.asked, [
      [
        "command",
        { command, words, session_key: MAIN, agent_id: "main", at_work: [MAIN], begins: true },
      ],
    ]);
    assert.deepEqual(house.waiting(MAIN), []);
  });

test("a task that is taken up brings its packet to the turn that its command continues", async () => {
  const house = at_home(() => ({ text: "", task_id: "task_1", packet: "the packet" }));
  assert.deepEqual(await house.obeys("resume"), { continueAgent: true });
  assert.deepEqual(
    house.waiting(MAIN).map(({ text }) => text),
    ["the packet"],
  );
});

test("a person reads why the daemon could not obey", async () => {
  const house = at_home(() => Promise.reject(new Error("The daemon is away.")));
  assert.deepEqual(await house.obeys("resume"), { text: "The daemon is away." });
  assert.deepEqual(house.waiting(MAIN), []);
});
