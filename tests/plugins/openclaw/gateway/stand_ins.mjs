// Stand-ins for what the plug-in touches: the gateway's API, and a daemon's socket.
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { registerHooks } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const MAIN = "agent:main:main";
export const OTHER = "agent:main:other";
export const SOURCE = new URL("../../../../plugins/taskmem_openclaw/gateway/", import.meta.url);
export const load = (name) => import(new URL(name, SOURCE));

/** What the gateway itself gives to import, for a test to say what it does. */
export const sdk = { resolveActiveEmbeddedRunSessionId: () => undefined };
export const imported = []; // of it, so far
const GIVEN = {
  "openclaw/plugin-sdk/agent-harness": [
    "abortAgentHarnessRun",
    "createOpenClawCodingTools",
    "resolveActiveEmbeddedRunSessionId",
  ],
  "openclaw/plugin-sdk/agent-harness-runtime": ["callGatewayTool"],
  "openclaw/plugin-sdk/sandbox": ["resolveSandboxRuntimeStatus"],
  "openclaw/plugin-sdk/channel-outbound": ["sendDurableMessageBatch"],
  "openclaw/plugin-sdk/agent-runtime": ["loadModelCatalog"],
};
const passed_on = (name) => `export const ${name} = (...given) => sdk.${name}(...given);`;
registerHooks({
  resolve(name, context, next) {
    if (!GIVEN[name]) return next(name, context);
    imported.push(name);
    return { url: `given:${name}`, shortCircuit: true };
  },
  load(url, context, next) {
    const names = GIVEN[url.replace("given:", "")];
    if (!names) return next(url, context);
    return {
      format: "module",
      source: [`import { sdk } from "${import.meta.url}";`, ...names.map(passed_on)].join("\n"),
      shortCircuit: true,
    };
  },
});

/** Run a command as the gateway's own runner does (OpenClaw 2026.9.6): it rejects only where the
 * command cannot be begun. */
export const runCommand = ([program, ...args], { env, timeoutMs, signal }) =>
  new Promise((resolve, reject) => {
    const given = { env: { ...process.env, ...env }, timeout: timeoutMs, signal };
    execFile(program, args, given, (failure, stdout, stderr) => {
      const { code = 0, killed } = failure ?? {};
      if (code === "ENOENT") {
        reject(new Error("Command failed during launch or output capture (ENOENT)"));
      } else {
        const termination = killed ? "timeout" : code === "ABORT_ERR" ? "signal" : "exit";
        const status = killed ? 124 : code === "ABORT_ERR" ? null : code;
        resolve({ code: status, signal: failure?.signal ?? null, termination, stdout, stderr });
      }
    });
  });

/** A gateway with sessions whose turns are run by `begin` and `end`. */
export function gateway({
  agents = { entries: { main: {} } },
  allowed = true,
  home,
  workspace = "/nowhere",
} = {}) {
  const sessions = new Map(
    [MAIN, OTHER].map((key) => [key, { pluginNextTurnInjections: { taskmem: [] } }]),
  );
  const waiting = (key) => sessions.get(key).pluginNextTurnInjections.taskmem;
  const made = {
    sessions,
    waiting,
    turns: [],
    beats: [],
    hooks: {},
    tools: {},
    commands: {},
    methods: {},
    warned: [],
  };
  made.run = async (run) => {
    made.turns.push(run);
    return { runId: run.idempotencyKey };
  };
  made.wait = async () => ({ status: "pending" });
  made.beat = async () => ({ status: "ran" });
  made.put = async (injection) => {
    if (!allowed) return { enqueued: false };
    const there = waiting(injection.sessionKey);
    if (there.some(({ idempotencyKey }) => idempotencyKey === injection.idempotencyKey))
      return { enqueued: false };
    there.push({ ...injection, createdAt: Date.now() });
    return { enqueued: true };
  };
  made.api = {
    id: "taskmem",
    registrationMode: "full",
    pluginConfig: { command: ["/bin/false"], home },
    logger: { warn: (line) => made.warned.push(line) },
    runtime: {
      config: { current: () => ({ agents }) },
      agent: {
        session: { getSessionEntry: ({ sessionKey }) => sessions.get(sessionKey) },
        resolveAgentWorkspaceDir: (_, agentId) => `${workspace}/${agentId}`,
      },
      subagent: {
        run: (run) => made.run(run),
        waitForRun: (run) => made.wait(run),
        deleteSession: async () => {},
      },
      system: {
        runCommandWithTimeout: runCommand,
        runHeartbeatOnce: (beat) => {
          made.beats.push(beat);
          return made.beat(beat);
        },
      },
    },
    session: { workflow: { enqueueNextTurnInjection: (injection) => made.put(injection) } },
    agent: {
      events: { registerAgentEventSubscription: ({ handle }) => (made.lifecycle = handle) },
    },
    on: (hook, handler) => (made.hooks[hook] = handler),
    registerTool: (offer, { name }) => (made.tools[name] = offer),
    registerService: (service) => (made.service = service),
    registerGatewayMethod: (method, handler) => (made.methods[method] = handler),
    registerCommand: (command) => (made.commands[command.name] = command),
  };
  /** A turn begins: it takes what waits before its prompt. */
  made.begin = (runId, sessionKey = MAIN) => {
    made.lifecycle({ runId, sessionKey, data: { phase: "start" } });
    return waiting(sessionKey)
      .splice(0)
      .map(({ text }) => text);
  };
  made.end = (runId, data = {}) =>
    made.lifecycle({ runId, data: { executionSettled: true, ...data } });
  return made;
}

/** A channel, and the gateway's queue for it, which knows by its name what was sent, and
 * sends nothing again that may have been (as OpenClaw 2026.9.6 does). */
export function channel() {
  const rows = new Map(); // name → "pending", "claimed", "begun", "completed" or "failed"
  const made = { rows, sent: [], tries: 0, configured: true, fault: undefined, broken: undefined };
  const unsent = (message, retryable = true) =>
    Object.assign(new Error(message), {
      code: "OPENCLAW_PLATFORM_MESSAGE_NOT_DISPATCHED",
      retryable,
    });
  const failed = (cause, queueCustody) => {
    const error = queueCustody
      ? Object.assign(new Error(cause.message, { cause }), {
          queueCustody,
          sentBeforeError: false,
          stage: "platform_send",
        })
      : cause;
    return { status: "failed", error, stage: error.stage };
  };
  const taken = (name) => new Error(`Stable delivery intent is already queued: ${name}`);
  const deliver = async (route, text) => {
    made.tries++;
    if (made.fault === "off") throw unsent("the phone is switched off");
    if (made.fault === "rejects") throw unsent("no such number", false);
    if (made.fault === "rude") throw new Error("it says nothing of what became of it");
    if (made.fault === "hang") await made.hanging;
    if (made.fault === "killed") await new Promise(() => {});
    made.sent.push(["channel", route, text]);
    if (made.fault === "after") throw new Error("the line broke after it was sent");
  };
  made.send = async ({
    cfg,
    payloads: [{ text }],
    deliveryIntentId: name,
    reusePendingDeliveryIntent: again,
    completionRetention: kept,
    maxRetries,
    ...route
  }) => {
    if (made.broken) return failed(made.broken);
    if (!again || !name.startsWith(kept.idPrefix) || !(maxRetries > 5))
      throw new Error("it would be sent without a name");
    const before = rows.get(name);
    if (before === "completed")
      return { status: "suppressed", results: [], reason: "no_visible_result" };
    if (before === "failed") return failed(taken(name));
    if (!made.configured)
      return failed(unsent(`Outbound not configured for channel: ${route.channel}`));
    if (before === "begun" || before === "claimed") return failed(taken(name), "held");
    rows.set(name, "begun");
    try {
      await deliver(route, text);
    } catch (error) {
      const proved = error.code !== undefined;
      if (proved) rows.set(name, error.retryable ? "pending" : "failed");
      return failed(error, proved && !error.retryable ? "released" : "held");
    }
    rows.set(name, "completed");
    return { status: "sent" };
  };
  /** The gateway starts anew: what it may have sent it gives up. */
  made.restart = () => {
    for (const [name, state] of rows) if (state === "begun") rows.set(name, "failed");
  };
  return made;
}

/** A folder for sockets, short enough for them, until the test ends. */
export function folder(test) {
  const path = mkdtempSync(join(tmpdir(), "tm"));
  test.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** A daemon at `home`: it greets, keeps what it is sent, and answers as `answer` says. */
export async function daemon(test, home) {
  const made = { received: [], sockets: [], answer: () => ({ result: {} }) };
  const heard = [];
  const server = createServer((socket) => {
    made.sockets.push(socket);
    let rest = "";
    let greeted = false;
    socket.on("error", () => {});
    socket.setEncoding("utf8").on("data", (text) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop();
      for (const line of lines.map(JSON.parse)) {
        if (!greeted) {
          greeted = true;
          socket.write(made.greeting ?? '{"taskmem":1}\n');
          continue;
        }
        made.received.push(line);
        const said = made.answer(line);
        if (typeof said === "string") socket.write(said);
        else if (said) socket.write(`${JSON.stringify({ id: line.id, ...said })}\n`);
        for (const each of heard.splice(0)) each();
      }
    });
  });
  made.path = join(home, "daemon.sock");
  made.open = () => new Promise((done) => server.listen(made.path, done));
  made.close = () => {
    for (const socket of made.sockets.splice(0)) socket.destroy();
    return new Promise((done) => server.close(done));
  };
  made.events = () =>
    made.received
      .filter(({ method }) => method === "report")
      .flatMap(({ params }) => params.events);
  /** Wait until what was received fulfils a condition. */
  made.until = async (fulfilled) => {
    while (!fulfilled(made)) await new Promise((done) => heard.push(done));
  };
  test.after(() => server.listening && made.close());
  await made.open();
  return made;
}

/** The told kinds of events, without what the gateway's start says. */
export const kinds = (events) =>
  events.map(({ kind }) => kind).filter((kind) => kind !== "gateway");
