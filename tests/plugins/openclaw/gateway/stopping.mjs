// A process with the plug-in in it: it starts, says so, and stops when it is told. Nothing of
// the plug-in may keep it alive after that.
import { gateway, load, MAIN, sdk } from "./stand_ins.mjs";

const [home, ...command] = process.argv.slice(2);
const { default: plugin } = await load("index.js");
const house = gateway({ home });
house.api.pluginConfig.command = command;
house.sessions.get(MAIN).delivery = { kind: "external", context: { channel: "phone", to: "1" } };
sdk.sendDurableMessageBatch = () => new Promise(() => {}); // a channel that hangs
plugin.register(house.api);
house.service.start({ stateDir: home });
house.begin("r1");
house.hooks.after_tool_call(
  {
    toolName: "exec",
    toolCallId: "c1",
    params: {},
    result: { details: { status: "running", sessionId: "slug" } },
  },
  { sessionKey: MAIN },
);
house.tools.task_list({ sessionKey: MAIN }).execute("call_1", {}); // nobody answers it
process.once("message", async () => {
  await house.service.stop();
  process.disconnect();
});
process.send("started");
