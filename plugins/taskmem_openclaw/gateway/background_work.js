// Track what agents may wait for in the gateway: commands that its `exec` runs in the background,
// and automations. Also wrap such commands so that they are recorded, and show their output.
import { AsyncLocalStorage } from "node:async_hooks";
import { randomUUID } from "node:crypto";
import { basename } from "node:path";
import { BoundedMap } from "./bounded_map.js";
import { listCommands } from "./gateway_requests.js";

const MOST_COMMANDS = 1_000;
const MOST_LISTED = 100; // commands that one report names
const CHECK_MS = 2_000; // interval of looks at running commands
// how soon an automation must be due, and how young a repeated one must be
const LONGEST_MS = 3_600_000;
const EVENT_DRIVEN = ["on-exit", "stream"]; // kinds of schedules without a known due time
const EVERY_LINE = 1_000_000; // more lines than any command's output has
const SHELL_ONLY = {
  includeBaseCodingTools: false,
  includeShellTools: true,
  includeChannelTools: false,
  includeOpenClawTools: false,
  includePluginTools: false,
};
// how OpenClaw begins a text whose beginning it has cut
const TRUNCATED = "[earlier output was discarded";

/** Return an automation's name for people. */
const nameAutomation = ({ id, name }) => `automation ${name || id}`.slice(0, 200);

/** Return whether an automation runs, or will within the hour. A repeated or event-driven one that
 * does not run counts only in the first hour after it was made. */
function isAwaited({ enabled, schedule, state = {}, createdAtMs = 0 }) {
  const now = Date.now();
  if (state.runningAtMs > now - LONGEST_MS) return true;
  const young = createdAtMs > now - LONGEST_MS;
  const due = state.nextRunAtMs < now + LONGEST_MS;
  if (!enabled) return false;
  if (EVENT_DRIVEN.includes(schedule?.kind)) return young;
  return due && (young || schedule?.kind === "at");
}

export class BackgroundWork {
  // name → { session that runs it, root, about, since, runs, recording }
  #commandByName = new BoundedMap(MOST_COMMANDS);
  #hostBySession = new BoundedMap(MOST_COMMANDS); // session → host on which its next command runs
  #wrappedCalls = new BoundedMap(MOST_COMMANDS); // id of a call → { command, recording }
  // id → an automation that an agent made, as the scheduler last listed it
  #automations = new Map();
  #checkTimer; // timer of the next look
  #stopped = false;
  // runs looks outside of the tool call that begins them, whose authority ends with it
  #runOutside = AsyncLocalStorage.snapshot();

  /** `runner` is the command that runs `taskmem`; `boot` is when the gateway started, in epoch
   * milliseconds: an older row is none of its commands. `onEnded(session, name, how)` is called for
   * each command and automation that ends; `findRoot` returns the session that a session works for.
   */
  constructor({
    api,
    runner,
    onEnded,
    findRoot = (session) => session,
    boot = Math.round(performance.timeOrigin),
  }) {
    Object.assign(this, { api, runner, onEnded, findRoot, boot });
  }

  /** Return whether the operator allows the recording of commands; never on Windows. */
  static isRecording(api) {
    return api.pluginConfig?.recordCommands === true && process.platform !== "win32";
  }

  /** Note on which host the session's next command runs. Returns what `taskmem call` needs in its
   * environment, the session and this OpenClaw; undefined: it does not run in the gateway. */
  recordHost({ host }, { sessionKey }, openclaw) {
    this.#hostBySession.set(sessionKey, host);
    return host === "gateway"
      ? { TASKMEM_SESSION_KEY: this.findRoot(sessionKey), TASKMEM_HOST: openclaw }
      : undefined;
  }

  /** Return changed arguments of a tool call, so that its command is recorded; undefined: none. */
  async wrapCommand({ toolName, toolCallId, params }, { sessionKey }, home) {
    const { command, background, host = "auto", env } = params ?? {};
    if (
      !BackgroundWork.isRecording(this.api) ||
      toolName !== "exec" ||
      background !== true ||
      !command
    )
      return undefined;
    if (this.#hostBySession.get(sessionKey) !== "gateway" || !["auto", "gateway"].includes(host))
      return undefined;
    if (await this.#isSandboxed(sessionKey)) return undefined;
    const recording = `${nameRecording(command)}-${randomUUID().slice(0, 4)}`;
    this.#wrappedCalls.set(toolCallId, { command, recording });
    // "$0" is the shell that OpenClaw starts.
    const runner = this.runner.map(quoteWord).join(" ");
    const run = `${runner} run --name ${recording} -- "$0" -c ${quoteWord(command)}`;
    return { ...params, command: run, env: { ...env, TASKMEM_HOME: home } };
  }

  /** Return the event of a call with the command as the agent gave it. */
  unwrapEvent(event) {
    const { command } = this.#wrappedCalls.get(event.toolCallId) ?? {};
    return command ? { ...event, params: { ...event.params, command } } : event;
  }

  /** Note from a tool's result that a command runs on in the background, or has ended. */
  recordResult(session, about, { toolCallId, result }) {
    const { status, sessionId: name } = result?.details ?? {};
    const { recording } = this.#wrappedCalls.get(toolCallId) ?? {};
    this.#wrappedCalls.delete(toolCallId);
    const known = this.#commandByName.get(name);
    if (status !== "running") {
      if (known && status) known.runs = false;
    } else if (name && !known?.runs) {
      const command = {
        session,
        root: this.findRoot(session),
        about,
        since: performance.now(),
        runs: true,
      };
      this.#commandByName.set(name, { ...command, recording });
      if (!this.#stopped)
        this.#checkTimer ??= this.#runOutside(
          setTimeout,
          () => this.#checkCommands(),
          CHECK_MS,
        ).unref();
    }
  }

  /** List the automations anew, and report those that have ended; without `cron` there are none. */
  async refreshAutomations(cron) {
    const all = (await cron?.list({ includeDisabled: true })) ?? [];
    const before = this.#automations;
    this.#automations = new Map(
      all.flatMap((job) => (job.owner?.sessionKey ? [[job.id, job]] : [])),
    );
    for (const [id, job] of before) {
      const now = this.#automations.get(id);
      if (job.enabled === false || now?.enabled) continue;
      const { lastRunStatus, lastError } = now?.state ?? {};
      this.onEnded(
        this.#findRootSession(job),
        nameAutomation(job),
        lastError ?? lastRunStatus ?? "it is over",
      );
    }
  }

  /** Return, in words, the running commands and the automations that a session may wait for. */
  listAwaited(session) {
    const commands = this.listRunning(session).slice(-MOST_LISTED);
    const jobs = [...this.#automations.values()].filter(
      (job) => this.#findRootSession(job) === session && isAwaited(job),
    );
    return {
      awaited: commands.map(({ name, about }) => `${name} (${about})`),
      scheduled: jobs.map(nameAutomation),
    };
  }

  /** Return the running background commands of a session, with their ages in milliseconds. */
  listRunning(session) {
    const now = performance.now();
    const own = this.#runningCommands.filter(([, { root }]) => root === session);
    return own.map(([name, { about, since }]) => ({
      kind: "command",
      name,
      about,
      age: now - since,
    }));
  }

  /** The sessions with running background commands. */
  get sessions() {
    return new Set(this.#runningCommands.map(([, { root }]) => root));
  }

  /** Return what the gateway shows of a command, with its text only if that was cut or its length
   * is not `size`; the name of its recording, if there is one; or what runs, if it is unknown. */
  async describeCommand({ name, size }) {
    const known = this.#commandByName.get(name) ?? {};
    const { recording, session } = known;
    if (recording) return { boot: this.boot, recording };
    const shown = session && (await this.#readOutput(session, name, size));
    if (shown) return { boot: this.boot, shown };
    const called = ({ sourceId }) => sourceId === name;
    const running = await this.#listRunningRows();
    const row = running.find(called) ?? (await listCommands({ sessionKey: session })).find(called);
    if (!row) return { boot: this.boot, running: running.map(({ sourceId }) => sourceId) };
    this.#commandByName.set(name, Object.assign(known, { session: row.sessionKey }));
    const { status, terminalSummary, error, startedAt } = row;
    return {
      boot: this.boot,
      row: { status, terminalSummary, error, startedAt },
      shown: await this.#readOutput(row.sessionKey, name, size),
    };
  }

  stop() {
    this.#stopped = true;
    clearTimeout(this.#checkTimer);
  }

  /** Return the rows that the gateway lists as running, without those that an earlier one left. */
  async #listRunningRows() {
    return (await listCommands({ status: "running" })).filter(
      ({ startedAt }) => startedAt >= this.boot,
    );
  }

  get #runningCommands() {
    return [...this.#commandByName].filter(([, { runs }]) => runs);
  }

  /** Return the root session of the session in which an automation was made. */
  #findRootSession({ owner }) {
    return this.findRoot(owner.sessionKey.toLowerCase());
  }

  /** Ask the gateway which commands still run, and report how the others ended. */
  async #checkCommands() {
    try {
      const listed = new Set((await this.#listRunningRows()).map(({ sourceId }) => sourceId));
      for (const [name, command] of this.#runningCommands.filter(([name]) => !listed.has(name))) {
        const row = (await listCommands({ sessionKey: command.session })).find(
          ({ sourceId }) => sourceId === name,
        );
        // It may have begun after the list was made, or its agent has seen its end meanwhile.
        if (row?.status === "running" || !command.runs) continue;
        command.runs = false;
        this.onEnded(command.root, name, row?.terminalSummary ?? row?.status ?? "ended");
      }
    } catch {
      // The next look may succeed.
    } finally {
      this.#checkTimer =
        this.#runningCommands.length && !this.#stopped
          ? setTimeout(() => this.#checkCommands(), CHECK_MS).unref()
          : undefined;
    }
  }

  /** Return what OpenClaw's `process` tool says of a command; undefined: it does not know it, or we
   * cannot get the tool. */
  async #readOutput(session, name, size) {
    const details = await this.#readProcessLog(session, name).catch(() => undefined);
    if (details?.sessionId !== name) return undefined;
    const {
      status,
      exitCode,
      exitSignal,
      exitReason,
      lastOutputAt,
      output = "",
      totalLines = 0,
      totalChars = 0,
    } = details;
    const cut = output.startsWith(TRUNCATED);
    // OpenClaw adds its own lines for the model before and after the output.
    const lines = output
      .split("\n")
      .slice(cut ? 2 : 0)
      .slice(0, totalLines)
      .join("\n");
    const text = totalChars > lines.length ? `${lines}\n` : lines;
    return {
      status,
      exitCode,
      exitSignal,
      exitReason,
      lastOutputAt,
      size: totalChars,
      cut,
      ...((cut || totalChars !== size) && { text }),
    };
  }

  async #readProcessLog(session, name) {
    const { createOpenClawCodingTools } = await import("openclaw/plugin-sdk/agent-harness");
    const asked = {
      config: this.api.runtime.config.current(),
      sessionKey: session,
      toolConstructionPlan: SHELL_ONLY,
      wrapBeforeToolCallHook: false,
    };
    const tool = createOpenClawCodingTools(asked).find((each) => each.name === "process");
    return (
      await tool?.execute("taskmem", {
        action: "log",
        sessionId: name,
        offset: 0,
        limit: EVERY_LINE,
      })
    )?.details;
  }

  /** Return whether a session's commands run in a sandbox; true also if that is unknown. */
  async #isSandboxed(sessionKey) {
    try {
      const { resolveSandboxRuntimeStatus } = await import("openclaw/plugin-sdk/sandbox");
      return (
        resolveSandboxRuntimeStatus({ cfg: this.api.runtime.config.current(), sessionKey })
          .sandboxed !== false
      );
    } catch {
      return true;
    }
  }
}

/** Quote a text as one word for a POSIX shell. */
const quoteWord = (text) =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;

/** Return the beginning of a recording's name: the program that the command runs. */
const nameRecording = (command) =>
  basename(command.trim().split(/\s/, 1)[0])
    .replace(/[^\w-]+/g, "-")
    .replace(/^-+|-+$/g, "")
    .slice(0, 48) || "command";
