// What the gateway itself does that agents wait for, and what it shows of that: the commands
// that its `exec` runs in the background, and automations. What that means is the daemon's to say.
import { AsyncLocalStorage } from "node:async_hooks";
import { randomUUID } from "node:crypto";
import { basename } from "node:path";
import { Kept } from "./kept.js";
import { listCommands } from "./requests.js";

const MOST_COMMANDS = 1_000;
const MOST_AWAITED = 100; // of them, that a report names
const GLANCE_MS = 2_000; // between two looks, while anything runs
const LONGEST_MS = 3_600_000; // for which an automation without an end is awaited, and within which another is due
const EVENT_DRIVEN = ["on-exit", "stream"]; // kinds of schedules of which nobody knows when they are due
const EVERY_LINE = 1_000_000;
const SHELL_ONLY = { includeBaseCodingTools: false, includeShellTools: true, includeChannelTools: false, includeOpenClawTools: false, includePluginTools: false };
const CUT = "[earlier output was discarded"; // what OpenClaw puts before a text that it has cut, and an empty line

/** What an automation does, in words. */
const named = ({ id, name }) => `automation ${name || id}`.slice(0, 200);

/** Whether an automation is at work, or will be within the hour; one without an end is awaited for an hour. */
function isAwaited({ enabled, schedule, state = {}, createdAtMs = 0 }) {
  const now = Date.now();
  if (state.runningAtMs > now - LONGEST_MS) return true;
  const young = createdAtMs > now - LONGEST_MS;
  const due = state.nextRunAtMs < now + LONGEST_MS;
  if (!enabled) return false;
  if (EVENT_DRIVEN.includes(schedule?.kind)) return young;
  return due && (young || schedule?.kind === "at");
}

export class Awaited {
  #commands = new Kept(MOST_COMMANDS); // name → { session that runs it, root, about, since, runs, recording }
  #hosts = new Kept(MOST_COMMANDS); // session → where its next command runs
  #wrapped = new Kept(MOST_COMMANDS); // call → { command, recording }
  #jobs = new Map(); // id → an automation that an agent made, as the scheduler showed it last
  #looking; // the timer of the next look
  #stopped = false;
  #outside = AsyncLocalStorage.snapshot(); // of the calls in which a look is begun: their authority ends with them

  /** `runner` is the command that is taskmem, `boot` when the gateway has started, in milliseconds:
   * what it runs it has started itself. `ended` is told of each command and automation that ends;
   * `root` names the session whose work another's is. */
  constructor({ api, runner, ended, root = (session) => session, boot = Math.round(performance.timeOrigin) }) {
    Object.assign(this, { api, runner, ended, root, boot });
  }

  /** Whether the operator allows that commands are recorded. */
  static isRecording(api) {
    return api.pluginConfig?.recordCommands === true && process.platform !== "win32";
  }

  /** What this OpenClaw does not offer of what shows commands. */
  async lacks() {
    const { createOpenClawCodingTools } = await import("openclaw/plugin-sdk/agent-harness").catch(() => ({}));
    return createOpenClawCodingTools ? [] : ["createOpenClawCodingTools"];
  }

  /** OpenClaw says where the command runs that is called next in a session; what it is to find in
   * its environment: in whose name `taskmem call` speaks, and in which OpenClaw. */
  hosted({ host }, { sessionKey }, openclaw) {
    this.#hosts.set(sessionKey, host);
    return host === "gateway" ? { TASKMEM_SESSION_KEY: this.root(sessionKey), TASKMEM_HOST: openclaw } : undefined;
  }

  /** What a tool is called with instead, so that its command is recorded; undefined: it stays as it is. */
  async wrapped({ toolName, toolCallId, params }, { sessionKey }, home) {
    const { command, background, host = "auto", env } = params ?? {};
    if (!Awaited.isRecording(this.api) || toolName !== "exec" || background !== true || !command) return undefined;
    if (this.#hosts.get(sessionKey) !== "gateway" || !["auto", "gateway"].includes(host)) return undefined;
    if (await this.#isSandboxed(sessionKey)) return undefined;
    const recording = `${word(command)}-${randomUUID().slice(0, 4)}`;
    this.#wrapped.set(toolCallId, { command, recording });
    // "$0" is the shell that OpenClaw starts.
    const run = `${this.runner.map(quoted).join(" ")} run --name ${recording} -- "$0" -c ${quoted(command)}`;
    return { ...params, command: run, env: { ...env, TASKMEM_HOME: home } };
  }

  /** A call with its command as the agent gave it. */
  unwrapped(event) {
    const { command } = this.#wrapped.get(event.toolCallId) ?? {};
    return command ? { ...event, params: { ...event.params, command } } : event;
  }

  /** A tool has answered: a command may run on in the background, or be known to have ended. */
  called(session, about, { toolCallId, result }) {
    const { status, sessionId: name } = result?.details ?? {};
    const { recording } = this.#wrapped.get(toolCallId) ?? {};
    this.#wrapped.delete(toolCallId);
    const known = this.#commands.get(name);
    if (status !== "running") {
      if (known && status) known.runs = false;
    } else if (name && !known?.runs) {
      const command = { session, root: this.root(session), about, since: performance.now(), runs: true };
      this.#commands.set(name, { ...command, recording });
      if (!this.#stopped) this.#looking ??= this.#outside(setTimeout, () => this.#look(), GLANCE_MS).unref();
    }
  }

  /** The scheduler may show others than before; without one, nothing is scheduled. */
  async scheduled(cron) {
    const all = (await cron?.list({ includeDisabled: true })) ?? [];
    const before = this.#jobs;
    this.#jobs = new Map(all.flatMap((job) => (job.owner?.sessionKey ? [[job.id, job]] : [])));
    for (const [id, job] of before) {
      const now = this.#jobs.get(id);
      if (job.enabled === false || now?.enabled) continue;
      const { lastRunStatus, lastError } = now?.state ?? {};
      this.ended(this.#of(job), named(job), lastError ?? lastRunStatus ?? "it is over");
    }
  }

  /** What a session may wait for, in words: commands that run, and what will be done by the scheduler. */
  of(session) {
    const commands = this.commands(session).slice(-MOST_AWAITED);
    const jobs = [...this.#jobs.values()].filter((job) => this.#of(job) === session && isAwaited(job));
    return { awaited: commands.map(({ name, about }) => `${name} (${about})`), scheduled: jobs.map(named) };
  }

  /** The commands that run in the background of a session, however long, with their ages in milliseconds. */
  commands(session) {
    const now = performance.now();
    const its = this.#running.filter(([, { root }]) => root === session);
    return its.map(([name, { about, since }]) => ({ kind: "command", name, about, age: now - since }));
  }

  /** The sessions in whose background anything runs. */
  get sessions() {
    return new Set(this.#running.map(([, { root }]) => root));
  }

  /** What is shown of a command; its text only where it is not of the `size` that is known. */
  async facts({ name, size }) {
    const known = this.#commands.get(name) ?? {};
    const { recording, session } = known;
    if (recording) return { boot: this.boot, recording };
    const shown = session && (await this.#shown(session, name, size));
    if (shown) return { boot: this.boot, shown };
    const called = ({ sourceId }) => sourceId === name;
    const running = await this.#listed();
    const row = running.find(called) ?? (await listCommands({ sessionKey: session })).find(called);
    if (!row) return { boot: this.boot, running: running.map(({ sourceId }) => sourceId) };
    this.#commands.set(name, Object.assign(known, { session: row.sessionKey }));
    const { status, terminalSummary, error, startedAt } = row;
    return { boot: this.boot, row: { status, terminalSummary, error, startedAt }, shown: await this.#shown(row.sessionKey, name, size) };
  }

  stop() {
    this.#stopped = true;
    clearTimeout(this.#looking);
  }

  /** What the gateway lists as running; one that stops in order leaves such rows behind. */
  async #listed() {
    return (await listCommands({ status: "running" })).filter(({ startedAt }) => startedAt >= this.boot);
  }

  get #running() {
    return [...this.#commands].filter(([, { runs }]) => runs);
  }

  /** The session that an automation was made in. */
  #of({ owner }) {
    return this.root(owner.sessionKey.toLowerCase());
  }

  /** Ask the gateway which of the commands still run, and how the others have ended. */
  async #look() {
    try {
      const listed = new Set((await this.#listed()).map(({ sourceId }) => sourceId));
      for (const [name, command] of this.#running.filter(([name]) => !listed.has(name))) {
        const row = (await listCommands({ sessionKey: command.session })).find(({ sourceId }) => sourceId === name);
        // It may have begun after the first list was made, or its agent has seen its end by now.
        if (row?.status === "running" || !command.runs) continue;
        command.runs = false;
        this.ended(command.root, name, row?.terminalSummary ?? row?.status ?? "ended");
      }
    } catch {
      // The next look may succeed.
    } finally {
      this.#looking = this.#running.length && !this.#stopped ? setTimeout(() => this.#look(), GLANCE_MS).unref() : undefined;
    }
  }

  /** What OpenClaw's own tool says of it; undefined: nothing, or we are not given the tool. */
  async #shown(session, name, size) {
    const details = await this.#log(session, name).catch(() => undefined);
    if (details?.sessionId !== name) return undefined;
    const { status, exitCode, exitSignal, exitReason, lastOutputAt, output = "", totalLines = 0, totalChars = 0 } = details;
    const cut = output.startsWith(CUT);
    // What else OpenClaw says to the model stands before and behind these lines.
    const lines = output.split("\n").slice(cut ? 2 : 0).slice(0, totalLines).join("\n");
    const text = totalChars > lines.length ? `${lines}\n` : lines;
    return { status, exitCode, exitSignal, exitReason, lastOutputAt, size: totalChars, cut, ...((cut || totalChars !== size) && { text }) };
  }

  async #log(session, name) {
    const { createOpenClawCodingTools } = await import("openclaw/plugin-sdk/agent-harness");
    const asked = { config: this.api.runtime.config.current(), sessionKey: session, toolConstructionPlan: SHELL_ONLY, wrapBeforeToolCallHook: false };
    const tool = createOpenClawCodingTools(asked).find((each) => each.name === "process");
    return (await tool?.execute("taskmem", { action: "log", sessionId: name, offset: 0, limit: EVERY_LINE }))?.details;
  }

  /** Whether a session's commands run in a sandbox; where nobody can tell, they may. */
  async #isSandboxed(sessionKey) {
    try {
      const { resolveSandboxRuntimeStatus } = await import("openclaw/plugin-sdk/sandbox");
      return resolveSandboxRuntimeStatus({ cfg: this.api.runtime.config.current(), sessionKey }).sandboxed !== false;
    } catch {
      return true;
    }
  }
}

/** A word for a shell, whatever is in it. */
const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

/** What a recording is called after: the program. */
const word = (command) => basename(command.trim().split(/\s/, 1)[0]).replace(/[^\w-]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 48) || "command";
