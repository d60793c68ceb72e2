// What the gateway shows of the commands that its `exec` runs in the background. What
// that means is the daemon's to say.
import { randomUUID } from "node:crypto";
import { basename } from "node:path";
import { Kept } from "./kept.js";
import { listCommands } from "./requests.js";

const MOST_COMMANDS = 1_000;
const EVERY_LINE = 1_000_000;
const SHELL_ONLY = { includeBaseCodingTools: false, includeShellTools: true, includeChannelTools: false, includeOpenClawTools: false, includePluginTools: false };
const CUT = "[earlier output was discarded"; // what OpenClaw puts before a text that it has cut, and an empty line

export class Execs {
  #sessions = new Kept(MOST_COMMANDS); // name of a command → the session that runs it
  #hosts = new Kept(MOST_COMMANDS); // session → where its next command runs
  #wrapped = new Kept(MOST_COMMANDS); // call → { command, recording }
  #recordings = new Kept(MOST_COMMANDS); // name of a command → the name of its recording

  /** `runner` is the command that is taskmem, `boot` when the gateway has started, in
   * milliseconds: what it runs it has started itself. */
  constructor({ api, runner, boot = Math.round(performance.timeOrigin) }) {
    Object.assign(this, { api, boot, runner });
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

  /** OpenClaw says where the command runs that is called next in a session. */
  hosted({ host }, { sessionKey }) {
    this.#hosts.set(sessionKey, host);
  }

  /** What a tool is called with instead, so that its command is recorded; undefined: it stays as it is. */
  async wrapped({ toolName, toolCallId, params }, { sessionKey }, home) {
    const { command, background, host = "auto", env } = params ?? {};
    if (!Execs.isRecording(this.api) || toolName !== "exec" || background !== true || !command) return undefined;
    if (this.#hosts.get(sessionKey) !== "gateway" || !["auto", "gateway"].includes(host)) return undefined;
    if (await this.#isSandboxed(sessionKey)) return undefined;
    const recording = `${word(command)}-${randomUUID().slice(0, 4)}`;
    this.#wrapped.set(toolCallId, { command, recording });
    // "$0" is the shell that OpenClaw starts.
    const run = `${this.runner.map(quoted).join(" ")} run --name ${recording} -- "$0" -c ${quoted(command)}`;
    return { ...params, command: run, env: { ...env, TASKMEM_HOME: home } };
  }

  /** A tool has answered in a session: a command may run on in the background. Returns the
   * event with the command as the agent gave it. */
  called(event, { sessionKey }) {
    const { status, sessionId: name } = event.result?.details ?? {};
    const { command, recording } = this.#wrapped.get(event.toolCallId) ?? {};
    if (name && status === "running") this.#sessions.set(name, sessionKey);
    if (!recording) return event;
    this.#wrapped.delete(event.toolCallId);
    if (name) this.#recordings.set(name, recording);
    return { ...event, params: { ...event.params, command } };
  }

  /** What is shown of a command; its text only where it is not of the `size` that is known. */
  async facts({ name, size }) {
    if (this.#recordings.has(name)) return { boot: this.boot, recording: this.#recordings.get(name) };
    const session = this.#sessions.get(name);
    const shown = session && (await this.#shown(session, name, size));
    if (shown) return { boot: this.boot, shown };
    const called = ({ sourceId }) => sourceId === name;
    // A gateway that stops in order leaves rows behind that say "running".
    const running = (await listCommands({ status: "running" })).filter(({ startedAt }) => startedAt >= this.boot);
    const row = running.find(called) ?? (await listCommands({ sessionKey: session })).find(called);
    if (!row) return { boot: this.boot, running: running.map(({ sourceId }) => sourceId) };
    this.#sessions.set(name, row.sessionKey);
    const { status, terminalSummary, error, startedAt } = row;
    return { boot: this.boot, row: { status, terminalSummary, error, startedAt }, shown: await this.#shown(row.sessionKey, name, size) };
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
