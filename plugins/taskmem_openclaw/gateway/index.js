// The plug-in inside the gateway: forward tool calls, report events, and deliver wakes. The daemon
// decides what they mean.
import { randomUUID } from "node:crypto";
import { linkSync, mkdirSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { Awaited } from "./awaited.js";
import { Cards } from "./cards.js";
import { registerCommands } from "./commands.js";
import { Daemon, DaemonError, within } from "./daemon.js";
import { Door } from "./door.js";
import { Kept } from "./kept.js";
import { Notices } from "./notices.js";
import { Reader } from "./reader.js";
import { Sessions, STOPPING } from "./sessions.js";
import { ending, origin, texts, Work } from "./work.js";

const read = (name) => JSON.parse(readFileSync(new URL(name, import.meta.url), "utf8"));
const { id, name, description, version } = read("./openclaw.plugin.json");
const tools = read("./tools.json");

const TOOL_MS = 60_000;
const PROMPT_MS = 13; // time limit for a packet; we may delay a turn by 15 ms in all
const COMMAND_MS = 2_000;
const KEPT_MS = 150; // time limit for saving earlier reports before a tool call or an answer
const RECOVERY_MS = 5_000; // the same before the first call of a resumed turn: it may have to stop
const MOST_SESSIONS = 1_000;
const FINALIZE_MS = 2_000;
const CUT_MS = 250;
const STOP_MS = 500; // time limit of calls to the daemon once the gateway is stopping
const CARRY_ON = /^\s*(continue|\/resume)\s*$/i;

// Turns load this module anew, so the one started instance is kept in a global.
const STARTED = Symbol.for("openclaw-taskmem");
const started = () => globalThis[STARTED];

export default {
  id,
  name,
  description,
  register(api) {
    for (const tool of tools) api.registerTool((ctx) => offered(tool, ctx), { name: tool.name });
    // Register these only if the operator chose them: with the first, the gateway streams no answer
    // of any session; the second serves the recording of commands alone.
    const chosen = { ...(holdsBack(api.pluginConfig) && { before_agent_finalize: finalized }), ...(Awaited.isRecording(api) && { resolve_exec_env: hosted }) };
    for (const [hook, heard] of Object.entries({ ...hooks, ...chosen })) api.on(hook, (event, ctx) => observed(hook, heard, event, ctx));
    if (api.registrationMode !== "full") return;
    const instance = new Instance(api);
    api.registerService({ id, start: (ctx) => instance.start(ctx), stop: () => instance.stop() });
    api.on("gateway_start", (_, ctx) => attempt(() => instance.until(ctx?.abortSignal)));
    api.agent.events.registerAgentEventSubscription({
      id,
      streams: ["lifecycle"],
      handle: (event) => attempt(() => started()?.sessions.lifecycle(event)),
    });
    api.registerGatewayMethod("taskmem.questions", ({ context, respond }) => {
      started()?.cards.enter(context);
      respond(true, {});
    }, { scope: "operator.questions" });
    registerCommands(api, started);
  },
};

class Instance {
  #ending = new AbortController();
  #cutting; // timer that ends our turns again and again while the gateway stops
  boot = randomUUID();
  startedAt = performance.now();
  news = new Kept(MOST_SESSIONS); // session → when its agent may have lost its context
  fetched = new Kept(MOST_SESSIONS); // session → { found, since }: found is a promise of what goes before its prompt
  greeted = new Kept(MOST_SESSIONS); // sessions that had a turn since this start
  given = new Kept(MOST_SESSIONS); // sessions whose next turn gets a packet by /resume
  revised = new Kept(MOST_SESSIONS); // ids of gateway runs of which an answer was held back

  constructor(api) {
    const { command = ["taskmem"] } = api.pluginConfig ?? {};
    this.api = api;
    this.command = command;
    const ask = (...call) => this.daemon.call(...call);
    this.work = new Work({ api, version, runner: command, own: new Set(tools.map(({ name }) => name)), ask, tell: (event) => this.daemon?.tell(event) });
    this.cards = new Cards({ api, tell: (event) => this.daemon?.tell(event) });
    this.notices = new Notices({ api, cards: this.cards });
    this.reader = new Reader({ api, id });
    this.sessions = new Sessions({ api, id, work: this.work, tell: (event) => this.daemon?.tell(event) });
  }

  start({ stateDir, getCron }) {
    const home = this.api.pluginConfig?.home ?? process.env.TASKMEM_HOME ?? join(stateDir, "taskmem");
    this.home = home;
    this.host = readHost(stateDir);
    const { logger } = this.api;
    const heard = (said, events) => attempt(() => this.heard(said, events));
    this.daemon = new Daemon({ command: this.command, home, hello: () => this.hello(), known: () => this.open(), heard, logger });
    this.daemon.keep();
    globalThis[STARTED] = this;
    attempt(() => this.work.awaited.scheduled(getCron?.()));
  }

  /** Return the event that tells a daemon about this gateway before it sends a wake. */
  hello() {
    const { main, running } = this.sessions;
    return { kind: "gateway", boot: this.boot, host: this.host, age: performance.now() - this.startedAt, transport: "openclaw-plugin", version, main, running, fingerprints: this.work.fingerprints(), at_work: this.work.allStillRunning() };
  }

  /** End the turns that the daemon's answer to a report names, unless they are over: the report of
   * their start may be late. */
  heard({ stop = [] }, events) {
    const begun = (session) => events.find(({ kind, session_key }) => kind === "turn_started" && session_key === session)?.run_id;
    return this.work.stop(stop.filter((session) => begun(session) === this.sessions.current(session)));
  }

  /** Return whether a session's turn is at least `age` milliseconds old; a younger one is a later
   * turn. A turn of unknown start is as old as this instance. */
  isOlder(session, age) {
    return performance.now() - (this.sessions.began(session) ?? this.startedAt) >= age;
  }

  /** Open our socket beside the daemon's. */
  open() {
    this.door ??= new Door(() => join(dirname(this.daemon.path), "openclaw.sock"), this.handlers, this.api.logger);
    this.door.open();
  }

  handlers = {
    wake: this.#beginning(({ host, ...wake }) => (host && host !== this.host ? { elsewhere: true } : this.sessions.wake(wake))),
    open: this.#beginning(({ session_key, message }) => this.sessions.run(session_key, message)),
    version: () => ({ version, boot: this.boot }),
    read: this.#beginning((question, signal) => this.reader.read(question, AbortSignal.any([signal, this.#ending.signal]))),
    reader: () => this.reader.facts(),
    lacks: async () => ({ lacks: [...(await this.notices.lacks()), ...(await this.work.awaited.lacks())], shown: await this.cards.lacks(this.sessions.main) }),
    say: this.#beginning(({ session_key, ...notice }) => this.notices.tell(session_key ?? this.sessions.main, notice)),
    show: this.#beginning((view) => this.cards.show(view)),
    stop: async ({ session_key, age }) => ({ stopped: this.isOlder(session_key, age) ? await this.work.stop([session_key]) : undefined }),
    exec: (command) => this.work.awaited.facts(command),
    seen: ({ session_key }) => this.sessions.seen(session_key),
    close: async ({ session_key }) => this.api.runtime.subagent.deleteSession({ sessionKey: session_key }),
  };

  /** Return a handler that throws while the gateway is stopping, because it would wait for whatever
   * is begun. */
  #beginning(begin) {
    return async (...given) => {
      if (this.sessions.stopping) throw new Error(STOPPING);
      return begin(...given);
    };
  }

  /** Once the signal says that the gateway stops, begin nothing more, and end our turns. */
  until(signal) {
    if (signal?.aborted) this.#ends();
    else signal?.addEventListener("abort", () => this.#ends(), { once: true });
  }

  #ends() {
    this.sessions.stops();
    this.#ending.abort();
    this.daemon?.hasten(STOP_MS);
    // Repeat: a turn may begin late, or be too young to be ended.
    const cut = () => attempt(() => this.work.cut(() => this.sessions.cancel()));
    cut();
    this.#cutting = setInterval(cut, CUT_MS).unref();
  }

  async stop() {
    this.sessions.stops();
    this.#ending.abort();
    clearInterval(this.#cutting);
    this.work.stops();
    this.daemon.tell({ kind: "gateway_stopped", boot: this.boot });
    this.door?.close();
    this.cards.close();
    await new Promise((done) => setTimeout(done, 50));
    this.daemon.close();
    if (started() === this) delete globalThis[STARTED];
  }

  /** Fetch what goes before a prompt when the user's row is written, a second before the prompt is
   * built: the open task's packet, if the agent may have lost its context or the user asks for it;
   * the agent's open questions, if a user wrote. */
  prepare({ message }, { sessionKey }) {
    if (message?.role !== "user") return;
    const since = this.news.get(sessionKey) ?? (this.greeted.has(sessionKey) ? undefined : this.startedAt);
    const asked = CARRY_ON.test(texts(message.content));
    const wanted = [];
    if (origin(message) === "user" && !asked) wanted.push(["question", { session_key: sessionKey }]);
    if (since !== undefined || asked) wanted.push(["packet", { session_key: sessionKey, at_work: this.work.stillRunning(sessionKey), age: asked ? null : performance.now() - since }]);
    const found = Promise.all(wanted.map(([method, params]) => this.daemon.call(method, params, COMMAND_MS)));
    found.catch(() => undefined);
    this.fetched.set(sessionKey, { found, since });
  }

  /** Return what goes before a prompt; a packet that is late goes before the next prompt. */
  async context(_, { sessionKey }) {
    const { found, since } = this.fetched.get(sessionKey) ?? {};
    for (const each of [this.fetched, this.news]) each.delete(sessionKey);
    this.greeted.set(sessionKey, true);
    const given = this.given.delete(sessionKey) || this.sessions.hasPacket(sessionKey);
    if (!found || given) return undefined;
    try {
      const parts = await within(found, PROMPT_MS, "The packet is late.");
      const text = parts.map((part) => part.text).filter(Boolean).join("\n\n");
      return text ? { prependContext: text } : undefined;
    } catch {
      if (since !== undefined) this.news.set(sessionKey, since);
      return undefined;
    }
  }
}

/** Return the id of this OpenClaw, which differs from others that use the same home and stays when
 * its folder is moved; plain `openclaw` if the id can be neither read nor written. */
function readHost(stateDir) {
  const file = join(stateDir, "taskmem", "host.id"); // in the folder that is the home by default
  const fresh = `${file}.${process.pid}`;
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    writeFileSync(fresh, randomUUID(), { mode: 0o600 });
    linkSync(fresh, file); // atomic, and fails if the file exists
  } catch {
    // The file exists already, or cannot be written.
  }
  attempt(() => unlinkSync(fresh));
  const known = attempt(() => readFileSync(file, "utf8").trim());
  return known ? `openclaw:${known}` : "openclaw";
}

/** Return whether answers are held back for a check; the environment overrides set-up. */
function holdsBack({ holdBack = false } = {}) {
  const said = process.env.TASKMEM_HOLD_BACK?.trim();
  return said ? /^(1|on|true|yes)$/i.test(said) : holdBack;
}

/** Ask the model once for another answer if the daemon refuses this one, because it names something
 * that is not found. The gateway ignores that if the turn has changed anything. */
async function finalized({ daemon, revised }, { runId, lastAssistantMessage: said }, { sessionKey }) {
  if (revised.has(runId)) return undefined;
  await daemon.kept(KEPT_MS);
  const { refused } = await daemon.call("finalize", { session_key: sessionKey, said: ending(said, 8_000) }, FINALIZE_MS);
  if (!refused) return undefined;
  revised.set(runId, true);
  const retry = { instruction: `${refused} You said: ${said.slice(-500)}`, idempotencyKey: `taskmem:${runId}`, maxAttempts: 1 };
  return { action: "revise", reason: "It names what is found nowhere.", retry };
}

/** Note where the session's next command runs; return what is added to its environment. */
const hosted = ({ work, host }, event, ctx) => work.awaited.hosted(event, ctx, host);

/** Call a function and return its result; undefined if it throws or rejects, for no error of ours
 * may reach the gateway. */
function attempt(what) {
  try {
    const answer = what();
    return typeof answer?.catch === "function" ? answer.catch(() => undefined) : answer;
  } catch {
    return undefined;
  }
}

/** Count a hook, and pass its event to our handler, if an instance was started. */
function observed(hook, heard, event, ctx) {
  return attempt(() => {
    const here = started();
    here?.sessions.fired(hook, ctx?.sessionKey);
    return here && heard(here, event, ctx);
  });
}

const hooks = {
  message_received: ({ work }, _, ctx) => work.received(ctx),
  before_message_write: (here, event, ctx) => {
    here.work.written(event, ctx);
    here.prepare(event, ctx);
    return here.sessions.written(event.message);
  },
  before_prompt_build: (here, event, ctx) => here.context(event, ctx),
  before_tool_call: async ({ daemon, work, home }, event, ctx) => {
    await daemon.kept(work.isResuming(ctx.sessionKey) ? RECOVERY_MS : KEPT_MS);
    const blockReason = await work.blocked(event, ctx);
    if (blockReason) return { block: true, blockReason };
    work.calls(event, ctx);
    const params = await work.awaited.wrapped(event, ctx, home);
    return params && { params };
  },
  after_tool_call: ({ work }, event, ctx) => work.called(event, ctx),
  subagent_spawned: ({ work }, _, ctx) => work.spawned(ctx),
  subagent_ended: ({ work }, event) => work.gone(event),
  cron_reconciled: ({ work }, { enabled }, { getCron }) => work.awaited.scheduled(enabled ? getCron?.() : undefined),
  cron_changed: ({ work }, _, { getCron }) => work.awaited.scheduled(getCron?.()),
  gateway_stop: ({ work }) => work.stops(),
  session_start: ({ daemon, news }, _, { sessionKey }) => {
    news.set(sessionKey, performance.now());
    daemon.tell({ kind: "session_started", session_key: sessionKey });
  },
  session_end: ({ daemon, greeted }, { reason }, { sessionKey }) => {
    greeted.delete(sessionKey);
    daemon.tell({ kind: "session_ended", session_key: sessionKey, reason });
  },
  model_call_ended: ({ sessions, reader }, { runId, outcome, provider }) => {
    if (outcome !== "completed") return;
    sessions.answered(runId);
    reader.answered(provider);
  },
  after_compaction: ({ daemon, news }, _, { sessionKey }) => {
    news.set(sessionKey, performance.now());
    daemon.tell({ kind: "compacted", session_key: sessionKey });
  },
};

/** Return one of our tools for a session; its calls are forwarded to the daemon. */
function offered({ name: tool, description: does, parameters, direct }, { sessionKey, agentId, workspaceDir, sandboxed }) {
  return {
    name: tool,
    label: tool,
    description: does,
    parameters,
    ...(direct && { catalogMode: "direct-only" }),
    async execute(callId, given) {
      let said;
      try {
        const here = started();
        if (!here) throw new DaemonError("daemon_unavailable", "The plug-in is just starting; call again.");
        const root = here.work.root(sessionKey);
        const by = { session_key: root, agent_id: root?.split(":")[1] ?? agentId, run_id: here.sessions.current(sessionKey), call_id: callId, folder: workspaceDir, ...(sandboxed && { sandboxed }), at_work: here.work.stillRunning(root), ...here.work.request(root) };
        said = await here.daemon.call("call", { tool, arguments: given ?? {}, ...by }, TOOL_MS);
        here.sessions.fired("tool", sessionKey);
      } catch (error) {
        said = error.said ?? { error: error.name, message: error.message };
      }
      return { content: [{ type: "text", text: JSON.stringify(said) }], details: { ok: !said.error } };
    },
  };
}
