// What the gateway shows of the commands that its `exec` runs in the background. What
// that means is the daemon's to say.
import { Kept } from "./kept.js";

const MOST_COMMANDS = 1_000;
const MOST_LISTED = 200;
const EVERY_LINE = 1_000_000;
const SHELL_ONLY = { includeBaseCodingTools: false, includeShellTools: true, includeChannelTools: false, includeOpenClawTools: false, includePluginTools: false };
const CUT = "[earlier output was discarded"; // what OpenClaw puts before a text that it has cut, and an empty line

export class Execs {
  #sessions = new Kept(MOST_COMMANDS); // name of a command → the session that runs it

  constructor({ api, boot }) {
    Object.assign(this, { api, boot });
  }

  /** A tool has answered in a session: a command may run on in the background. */
  called(session, details) {
    const { status, sessionId: name } = details ?? {};
    if (name && status === "running") this.#sessions.set(name, session);
  }

  /** What is shown of a command; its text only where it is not of the `size` that is known. */
  async facts({ name, size }) {
    const session = this.#sessions.get(name);
    const shown = session && (await this.#shown(session, name, size));
    if (shown) return { boot: this.boot, shown };
    const called = ({ sourceId }) => sourceId === name;
    const running = await this.#rows({ status: "running" });
    const row = running.find(called) ?? (await this.#rows({ sessionKey: session })).find(called);
    if (!row) return { boot: this.boot, running: running.map(({ sourceId }) => sourceId) };
    this.#sessions.set(name, row.sessionKey);
    const { status, terminalSummary, error } = row;
    return { boot: this.boot, row: { status, terminalSummary, error }, shown: await this.#shown(row.sessionKey, name, size) };
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

  async #rows(filter) {
    const { callGatewayTool } = await import("openclaw/plugin-sdk/agent-harness-runtime");
    const { tasks } = await callGatewayTool("tasks.list", {}, { ...filter, limit: MOST_LISTED });
    return tasks.filter(({ kind }) => kind === "exec");
  }
}
