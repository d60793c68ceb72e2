// The plug-in inside the gateway: forward tool calls, report events, and deliver wakes. The daemon
// decides what they mean.
import { randomUUID } from "node:crypto";
import { linkSync, mkdirSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { BackgroundWork } from "./background_work.js";
import { Cards } from "./cards.js";
import { registerCommands } from "./commands.js";
import { DaemonClient, DaemonError, withTimeout } from "./daemon_client.js";
import { RequestServer } from "./request_server.js";
import { BoundedMap } from "./bounded_map.js";
import { Notices } from "./notices.js";
import { ModelReader } from "./model_reader.js";
import { registerPages } from "./pages.js";
import { findRecallOwner, registerPastTasks } from "./past_tasks.js";
import { Sessions, STOPPING } from "./sessions.js";
import {
  takeEnd,
  findOrigin,
  extractText,
  isContinueWord,
  SessionReports,
} from "./session_reports.js";
import { prepareArguments, readSent } from "./tool_arguments.js";

const read = (name) => JSON.parse(readFileSync(new URL(name, import.meta.url), "utf8"));
const { id, name, description, version } = read("./openclaw.plugin.json");
const tools = read("./tools.json");

const TOOL_MS = 60_000;
const PROMPT_MS = 13; // time limit for a packet; we may delay a turn by 15 ms in all
const COMMAND_MS = 2_000;
const REPORTS_MS = 150; // time limit for saving earlier reports before a tool call or an answer
const RECOVERY_MS = 5_000; // the same before the first call of a resumed turn: it may have to stop
const MOST_SESSIONS = 1_000;
const FINALIZE_MS = 2_000;
const CUT_MS = 250;
const STOP_MS = 500; // time limit of calls to the daemon once the gateway is stopping

// Turns load this module anew, so the one started instance is kept in a global.
const INSTANCE = Symbol.for("openclaw-taskmem");
const getInstance = () => globalThis[INSTANCE];

export default {
  id,
  name,
  description,
  register(api) {
    // The gateway drops the later of two tools with one name in silence, so ours is left out.
    const isTaken = runSafely(() =>
      findRecallOwner(api.runtime.config.current(), api.runtime.state?.resolveStateDir?.()),
    );
    const offered = tools.filter((each) => !(isTaken && each.name === "memory_recall"));
    for (const tool of offered)
      api.registerTool((ctx) => buildTool(tool, ctx), { name: tool.name });
    // Register these only if the operator chose them: with the first, the gateway streams no answer
    // of any session; the second serves the recording of commands alone.
    const chosen = {
      ...(holdsBack(api.pluginConfig) && { before_agent_finalize: checkFinalAnswer }),
      ...(BackgroundWork.isRecording(api) && { resolve_exec_env: recordHost }),
    };
    for (const [hook, handler] of Object.entries({ ...hooks, ...chosen }))
      api.on(hook, (event, ctx) => handleHook(hook, handler, event, ctx));
    runSafely(() => registerPastTasks(api, getInstance));
    // With several agents the gateway looks for commands where it has registered us once more.
    registerCommands(api, getInstance);
    if (api.registrationMode !== "full") return;
    const instance = new GatewayPlugin(api, offered);
    api.registerService({ id, start: (ctx) => instance.start(ctx), stop: () => instance.stop() });
    api.on("gateway_start", (_, ctx) => runSafely(() => instance.watchAbort(ctx?.abortSignal)));
    // ClawHub's check registers us where there are no events.
    api.agent.events?.registerAgentEventSubscription({
      id,
      streams: ["lifecycle"],
      handle: (event) => runSafely(() => getInstance()?.sessions.handleLifecycle(event)),
    });
    api.registerGatewayMethod(
      "taskmem.questions",
      ({ context, respond }) => {
        getInstance()?.cards.setGatewayContext(context);
        respond(true, {});
      },
      { scope: "operator.questions" },
    );
    runSafely(() => registerPages(api, getInstance));
  },
};

class GatewayPlugin {
  #stopSignal = new AbortController();
  #stopTimer; // timer that ends our turns again and again while the gateway stops
  boot = randomUUID();
  startedAt = performance.now();
  // session → when its agent may have lost its context
  contextLostAt = new BoundedMap(MOST_SESSIONS);
  // session → { found, since }: found is a promise of what goes before its prompt
  fetchedContexts = new BoundedMap(MOST_SESSIONS);
  greetedSessions = new BoundedMap(MOST_SESSIONS); // sessions that had a turn since this start
  packetGiven = new BoundedMap(MOST_SESSIONS); // sessions whose next turn gets a packet by /resume
  // ids of gateway runs of which an answer was held back
  revisedRuns = new BoundedMap(MOST_SESSIONS);

  constructor(api, offered) {
    const { command = ["taskmem"] } = api.pluginConfig ?? {};
    this.api = api;
    this.schemas = new Map(offered.map(({ name, parameters }) => [name, parameters]));
    this.command = command;
    const ask = (...call) => this.daemon.call(...call);
    this.reports = new SessionReports({
      api,
      version,
      runner: command,
      ownTools: new Set(tools.map(({ name }) => name)),
      ask,
      tell: (event) => this.daemon?.queueEvent(event),
    });
    this.cards = new Cards({ api, tell: (event) => this.daemon?.queueEvent(event) });
    this.notices = new Notices({ api, cards: this.cards });
    this.reader = new ModelReader({ api, id });
    this.sessions = new Sessions({
      api,
      id,
      reports: this.reports,
      tell: (event) => this.daemon?.queueEvent(event),
    });
  }

  start({ stateDir, getCron }) {
    const home =
      this.api.pluginConfig?.home ?? process.env.TASKMEM_HOME ?? join(stateDir, "taskmem");
    this.home = home;
    this.host = readHost(stateDir);
    const { logger } = this.api;
    const onAnswer = (answer, events) => runSafely(() => this.handleAnswer(answer, events));
    this.daemon = new DaemonClient({
      command: this.command,
      home,
      runCommand: (...given) => this.api.runtime.system.runCommandWithTimeout(...given),
      buildHello: () => this.buildHello(),
      onConnected: (answer) => {
        this.openServer();
        this.reports.subAgents.lookUp(answer?.unheard ?? []);
      },
      onAnswer,
      logger,
    });
    this.daemon.stayConnected();
    globalThis[INSTANCE] = this;
    runSafely(() => this.reports.backgroundWork.refreshAutomations(getCron?.()));
  }

  /** Return the event that tells a daemon about this gateway before it sends a wake. */
  buildHello() {
    const { main, running } = this.sessions;
    const now = performance.now();
    return {
      kind: "gateway",
      boot: this.boot,
      host: this.host,
      age: now - this.startedAt,
      transport: "openclaw-plugin",
      version,
      main,
      running,
      turn_ages: Object.fromEntries(
        running.map((session) => [session, now - this.sessions.findRunStart(session)]),
      ),
      fingerprints: this.reports.computeFingerprints(),
      at_work: this.reports.listAllRunning(),
    };
  }

  /** End the turns that the daemon's answer to a report names, unless they are over: the report of
   * their start may be late. */
  handleAnswer({ stop = [] }, events) {
    const begun = (session) =>
      events.find(({ kind, session_key }) => kind === "turn_started" && session_key === session)
        ?.run_id;
    return this.reports.stopTurns(
      stop.filter((session) => begun(session) === this.sessions.findRun(session)),
    );
  }

  /** Return whether a session's turn is at least `age` milliseconds old; a younger one is a later
   * turn. A turn of unknown start is as old as this instance. */
  isOlder(session, age) {
    return performance.now() - (this.sessions.findRunStart(session) ?? this.startedAt) >= age;
  }

  /** Open our socket beside the daemon's. */
  openServer() {
    this.requestServer ??= new RequestServer(
      () => join(dirname(this.daemon.path), "openclaw.sock"),
      this.handlers,
      this.api.logger,
    );
    this.requestServer.open();
  }

  handlers = {
    wake: this.#refuseWhenStopping(({ host, ...wake }) =>
      host && host !== this.host ? { elsewhere: true } : this.sessions.deliverWake(wake),
    ),
    open: this.#refuseWhenStopping(({ session_key, message }) =>
      this.sessions.startTurn(session_key, message),
    ),
    version: () => ({ version, boot: this.boot }),
    read: this.#refuseWhenStopping((question, signal) =>
      this.reader.askModel(question, AbortSignal.any([signal, this.#stopSignal.signal])),
    ),
    reader: () => this.reader.describeModels(),
    lacks: async () => ({ shown: await this.cards.checkSupport(this.sessions.main) }),
    say: this.#refuseWhenStopping(({ session_key, ...notice }) =>
      this.notices.sendNotice(session_key ?? this.sessions.main, notice),
    ),
    show: this.#refuseWhenStopping((view) => this.cards.showView(view)),
    stop: async ({ session_key, age }) => ({
      stopped: this.isOlder(session_key, age)
        ? await this.reports.stopTurns([session_key])
        : undefined,
    }),
    exec: (command) => this.reports.backgroundWork.describeCommand(command),
    seen: ({ session_key }) => this.sessions.getHookCounts(session_key),
    close: async ({ session_key }) =>
      this.api.runtime.subagent.deleteSession({ sessionKey: session_key }),
  };

  /** Return a handler that throws while the gateway is stopping, because it would wait for whatever
   * is begun. */
  #refuseWhenStopping(begin) {
    return async (...given) => {
      if (this.sessions.stopping) throw new Error(STOPPING);
      return begin(...given);
    };
  }

  /** Once the signal says that the gateway stops, begin nothing more, and end our turns. */
  watchAbort(signal) {
    if (signal?.aborted) this.#beginStop();
    else signal?.addEventListener("abort", () => this.#beginStop(), { once: true });
  }

  #beginStop() {
    this.sessions.beginStop();
    this.#stopSignal.abort();
    this.daemon?.limitCalls(STOP_MS);
    // Repeat: a turn may begin late, or be too young to be ended.
    const stopTurns = () =>
      runSafely(() => this.reports.stopOwnTurns(() => this.sessions.cancelTurns()));
    stopTurns();
    this.#stopTimer = setInterval(stopTurns, CUT_MS).unref();
  }

  async stop() {
    this.sessions.beginStop();
    this.#stopSignal.abort();
    clearInterval(this.#stopTimer);
    this.reports.beginStop();
    this.daemon.queueEvent({ kind: "gateway_stopped", boot: this.boot });
    this.requestServer?.close();
    this.cards.close();
    await new Promise((done) => setTimeout(done, 50));
    this.daemon.close();
    if (getInstance() === this) delete globalThis[INSTANCE];
  }

  /** Fetch what goes before a prompt when the user's row is written, a second before the prompt is
   * built: the open task's packet, if the agent may have lost its context or the user asks for it;
   * the agent's open questions, if a user wrote. */
  fetchContext({ message }, { sessionKey }) {
    if (message?.role !== "user") return;
    runSafely(() => this.sessions.recordInjections(sessionKey)); // before the gateway takes them
    const since =
      this.contextLostAt.get(sessionKey) ??
      (this.greetedSessions.has(sessionKey) ? undefined : this.startedAt);
    const asked = isContinueWord(extractText(message.content));
    const wanted = [];
    if (findOrigin(message) === "user" && !asked)
      wanted.push(["question", { session_key: sessionKey }]);
    if (since !== undefined || asked)
      wanted.push([
        "packet",
        {
          session_key: sessionKey,
          at_work: this.reports.listRunning(sessionKey),
          age: asked ? null : performance.now() - since,
        },
      ]);
    const found = Promise.all(
      wanted.map(([method, params]) => this.daemon.call(method, params, COMMAND_MS)),
    );
    found.catch(() => undefined);
    this.fetchedContexts.set(sessionKey, { found, since });
  }

  /** Return what goes before a prompt; a packet that is late goes before the next prompt. */
  async buildContext(_, { sessionKey, runId }) {
    this.sessions.handlePrompt(sessionKey, runId);
    const { found, since } = this.fetchedContexts.get(sessionKey) ?? {};
    for (const each of [this.fetchedContexts, this.contextLostAt]) each.delete(sessionKey);
    this.greetedSessions.set(sessionKey, true);
    const given = this.packetGiven.delete(sessionKey) || this.sessions.hasPacket(sessionKey);
    if (!found || given) return undefined;
    try {
      const parts = await withTimeout(found, PROMPT_MS, "The packet is late.");
      const text = parts
        .map((part) => part.text)
        .filter(Boolean)
        .join("\n\n");
      return text ? { prependContext: text } : undefined;
    } catch {
      if (since !== undefined) this.contextLostAt.set(sessionKey, since);
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
  runSafely(() => unlinkSync(fresh));
  const known = runSafely(() => readFileSync(file, "utf8").trim());
  return known ? `openclaw:${known}` : "openclaw";
}

/** Return whether answers are held back for a check; the environment overrides set-up. */
function holdsBack({ holdBack = false } = {}) {
  const setting = process.env.TASKMEM_HOLD_BACK?.trim();
  return setting ? /^(1|on|true|yes)$/i.test(setting) : holdBack;
}

/** Ask the model once for another answer if the daemon refuses this one, because it names something
 * that is not found. The gateway ignores that if the turn has changed anything. */
async function checkFinalAnswer(
  { daemon, revisedRuns },
  { runId, lastAssistantMessage: answer },
  { sessionKey },
) {
  if (revisedRuns.has(runId)) return undefined;
  await daemon.awaitReports(REPORTS_MS);
  const { refused } = await daemon.call(
    "finalize",
    { session_key: sessionKey, said: takeEnd(answer, 8_000) },
    FINALIZE_MS,
  );
  if (!refused) return undefined;
  revisedRuns.set(runId, true);
  const retry = {
    instruction: `${refused} You said: ${answer.slice(-500)}`,
    idempotencyKey: `taskmem:${runId}`,
    maxAttempts: 1,
  };
  return { action: "revise", reason: "The answer names a file that does not exist.", retry };
}

/** Note where the session's next command runs; return what is added to its environment. */
const recordHost = ({ reports, host }, event, ctx) =>
  reports.backgroundWork.recordHost(event, ctx, host);

/** Call a function and return its result; undefined if it throws or rejects, for no error of ours
 * may reach the gateway. */
function runSafely(what) {
  try {
    const answer = what();
    return typeof answer?.catch === "function" ? answer.catch(() => undefined) : answer;
  } catch {
    return undefined;
  }
}

/** Count a hook, and pass its event to our handler, if an instance was started. */
function handleHook(hook, handler, event, ctx) {
  return runSafely(() => {
    const here = getInstance();
    here?.sessions.countHook(hook, ctx?.sessionKey);
    return here && handler(here, event, ctx);
  });
}

const hooks = {
  message_received: ({ reports, sessions }, event, ctx) => {
    const { sessionKey, channelId } = ctx;
    if (sessionKey) sessions.handleArrival(sessionKey, extractText(event.content), channelId);
    reports.recordMessage(ctx);
  },
  before_message_write: (here, event, ctx) => {
    const { message } = event;
    if (message?.role === "user" && findOrigin(message) !== "taskmem")
      here.sessions.handleArrival(ctx.sessionKey, extractText(message.content));
    here.reports.recordRow(event, ctx);
    here.fetchContext(event, ctx);
    return here.sessions.hideRow(event.message);
  },
  before_prompt_build: (here, event, ctx) => here.buildContext(event, ctx),
  before_tool_call: async ({ daemon, reports, sessions, home, schemas }, event, ctx) => {
    await daemon.awaitReports(reports.isResuming(ctx.sessionKey) ? RECOVERY_MS : REPORTS_MS);
    const blockReason = await reports.findBlockReason(event, ctx);
    if (blockReason) return { block: true, blockReason };
    sessions.handleActed(ctx.sessionKey);
    reports.reportCallStart(event, ctx);
    const schema = schemas.get(event.toolName);
    const params = schema
      ? prepareArguments(event.params, schema) // the catalogue's tool_call prepares none itself
      : await reports.backgroundWork.wrapCommand(event, ctx, home);
    return params && params !== event.params ? { params } : undefined;
  },
  after_tool_call: ({ reports }, event, ctx) => reports.reportCallEnd(event, ctx),
  subagent_spawned: ({ reports }, event, ctx) => reports.recordSpawn(ctx, event),
  subagent_progress: ({ reports }, { phase, ...event }) =>
    phase === "ended" ? reports.recordSubAgentEnd(event) : undefined,
  subagent_ended: ({ reports }, event) => reports.recordSubAgentEnd(event),
  cron_reconciled: ({ reports }, { enabled }, { getCron }) =>
    reports.backgroundWork.refreshAutomations(enabled ? getCron?.() : undefined),
  cron_changed: ({ reports }, _, { getCron }) =>
    reports.backgroundWork.refreshAutomations(getCron?.()),
  gateway_stop: ({ reports }) => reports.beginStop(),
  session_start: ({ daemon, contextLostAt }, _, { sessionKey }) => {
    contextLostAt.set(sessionKey, performance.now());
    daemon.queueEvent({ kind: "session_started", session_key: sessionKey });
  },
  session_end: ({ daemon, greetedSessions, sessions }, { reason }, { sessionKey }) => {
    greetedSessions.delete(sessionKey);
    daemon.queueEvent({ kind: "session_ended", session_key: sessionKey, reason });
    sessions.handleSessionEnd(sessionKey);
  },
  model_call_ended: ({ sessions, reader }, { runId, outcome, provider }) => {
    if (outcome !== "completed") return;
    sessions.handleAnswered(runId);
    reader.recordAnswer(provider);
  },
  after_compaction: ({ daemon, contextLostAt }, _, { sessionKey }) => {
    contextLostAt.set(sessionKey, performance.now());
    daemon.queueEvent({ kind: "compacted", session_key: sessionKey });
  },
};

/** Return one of our tools for a session; its calls are forwarded to the daemon. */
function buildTool(
  { name: tool, description: does, parameters, direct },
  { sessionKey, agentId, workspaceDir, sandboxed },
) {
  return {
    name: tool,
    label: tool,
    description: does,
    parameters,
    ...(direct && { catalogMode: "direct-only" }),
    prepareArguments: (given) => prepareArguments(given, parameters),
    async execute(callId, given) {
      let answer;
      try {
        const here = getInstance();
        if (!here)
          throw new DaemonError("daemon_unavailable", "The plug-in is just starting; call again.");
        const root = here.reports.findRoot(sessionKey);
        const by = {
          session_key: root,
          agent_id: root?.split(":")[1] ?? agentId,
          run_id: here.sessions.findRun(sessionKey),
          call_id: callId,
          folder: workspaceDir,
          ...(sandboxed && { sandboxed }),
          at_work: here.reports.listRunning(root),
          ...here.reports.describeRequest(root),
        };
        answer = await here.daemon.call(
          "call",
          { tool, arguments: readSent(given), ...by },
          TOOL_MS,
        );
        here.sessions.countHook("tool", sessionKey);
      } catch (error) {
        answer = error.answer ?? { error: error.name, message: error.message };
      }
      return {
        content: [{ type: "text", text: JSON.stringify(answer) }],
        details: { ok: !answer.error },
      };
    },
  };
}
