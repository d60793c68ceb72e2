// The real plug-in in a played gateway: sub-agents, and rows of them that outlive a kill. Takes a
// request a line, as JSON, and answers each once it is done.
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { gateway, load, MAIN, sdk } from "../tests/plugins/openclaw/gateway/stand_ins.mjs";

const [home, command] = process.argv.slice(2);
const file = join(home, "rows.json");
const RECOVERY_MS = 300; // after which it goes on with what an earlier start has left, or ends it
const rows = new Map(existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : []);
const { default: plugin } = await load("index.js");
const house = gateway({ home });
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

function keepRow(child, row) {
  rows.set(child, { ...rows.get(child), ...row });
  writeFileSync(`${file}.new`, JSON.stringify([...rows]));
  renameSync(`${file}.new`, file);
  const { label, status } = rows.get(child);
  const shown = { spawnedBy: MAIN, label, status, pluginNextTurnInjections: { taskmem: [] } };
  house.sessions.set(child, shown);
}

async function endWell(child, run, words) {
  keepRow(child, { status: "completed", words });
  const message = { role: "assistant", content: words };
  house.hooks.before_message_write({ message }, { sessionKey: child });
  house.end(run);
  await pause(20);
  house.hooks.subagent_ended({ targetSessionKey: child, runId: run, outcome: "ok" }, {});
}

async function recover(child, { status, recovers, label }) {
  if (status !== "running") return;
  await pause(RECOVERY_MS);
  if (recovers) {
    house.begin(`again ${child}`, child);
    await pause(RECOVERY_MS);
    await endWell(child, `again ${child}`, `It went on: ${label}.`);
  } else {
    keepRow(child, { status: "failed" });
    const end = { phase: "ended", childSessionKey: child, runId: `run ${child}` };
    house.hooks.subagent_progress({ ...end, outcome: "error" }, {});
  }
}

const answers = {
  async spawn({ child, label, recovers }) {
    keepRow(child, { status: "running", label, recovers });
    const ctx = { childSessionKey: child, requesterSessionKey: MAIN, runId: `run ${child}` };
    house.hooks.subagent_spawned({ label }, ctx);
    house.begin(`run ${child}`, child);
    const tool = house.tools.smart_wait({ sessionKey: MAIN, agentId: "main" });
    const wait = { target: `session:${label}`, wake_when: "it ends", timeout: 36_000 };
    return JSON.parse((await tool.execute(child, wait)).content[0].text);
  },
  end: ({ child, label }) => endWell(child, `run ${child}`, `It was read: ${label}.`),
};

sdk.callGatewayTool = async () => ({
  tasks: [...rows].map(([childSessionKey, { status }]) => ({
    kind: "subagent",
    childSessionKey,
    status,
  })),
});
house.api.runtime.subagent.getSessionMessages = async ({ sessionKey }) => ({
  messages: [{ role: "assistant", content: rows.get(sessionKey)?.words ?? "" }],
});
house.api.pluginConfig.command = [command];
plugin.register(house.api);
for (const [child, row] of rows) {
  keepRow(child, row);
  recover(child, row);
}
house.service.start({ stateDir: home });
for await (const line of createInterface({ input: process.stdin })) {
  const { method, ...asked } = JSON.parse(line);
  Promise.resolve(answers[method](asked)).then((answer = {}) =>
    process.stdout.write(`${JSON.stringify({ child: asked.child, ...answer })}\n`),
  );
}
