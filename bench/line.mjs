// The plug-in's line to the daemon, by itself: a number a line in, what became of the call out.
import { createInterface } from "node:readline";
import { DaemonClient } from "../plugins/taskmem_openclaw/gateway/daemon_client.js";

const CALL_MS = 30_000;
const [home, ...command] = process.argv.slice(2);
const say = (said) => process.stdout.write(`${JSON.stringify(said)}\n`);
const buildHello = () => ({
  kind: "gateway",
  boot: "bench",
  age: 0,
  transport: "openclaw-plugin",
  version: "1",
  main: "agent:main:main",
  running: [],
});
const daemon = new DaemonClient({
  command,
  home,
  buildHello,
  onConnected: () => undefined,
  logger: { warn: (warned) => say({ warned }) },
});
daemon.stayConnected();
for await (const line of createInterface({ input: process.stdin })) {
  const call = daemon.call("call", { tool: "task_list", arguments: {} }, CALL_MS);
  call.then(
    () => say({ number: Number(line) }),
    ({ message }) => say({ number: Number(line), error: message }),
  );
}
daemon.close();
process.exit(0);
