// Report turns and tool calls of the sessions to the daemon, as hooks show them; block tool calls
// and stop turns that must not go on.
import { createHash } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { Awaited } from "./awaited.js";
import { deeds } from "./deeds.js";
import { Kept } from "./kept.js";
import { readSession } from "./requests.js";

const MOST_SESSIONS = 1_000;
const MOST_LINES = 8;
const MOST_AT_WORK = 50;
const MOST_LEVELS = 20;
const LONGEST = 600; // characters of a text that are reported
const LONGEST_REQUEST = 2_000; // characters of what the user said in a turn
const LONGEST_WORDS = 16_000; // characters of an agent's last reply
const PROMPT_FILES = ["AGENTS.md", "SOUL.md", "TOOLS.md"];
const BUDGET_MS = 200; // time limit for the daemon's answer; without it, a tool call is allowed
const LONGEST_MS = 24 * 3_600_000; // after which a sub-agent whose end no hook told counts as ended
const OVER = "Its task is not to go on now, so this turn is stopped. Call nothing more.";
const SILENT = new Set(["NO_REPLY", "HEARTBEAT_OK"]); // replies that OpenClaw shows to nobody
const CHILD = ":subagent:"; // in the session keys of sub-agents
const WRAPPERS = new Set(["tool_call", "tool_search", "tool_search_code", "tool_describe"]);

const digest = (value) => createHash("sha256").update(JSON.stringify(value) ?? "").digest("hex").slice(0, 12);

/** Return the beginning of a text, without a word cut at its end: half a secret may not be
 * recognised as one. */
function beginning(text, longest = LONGEST) {
  if (text.length <= longest) return text;
  const start = text.slice(0, longest);
  return start.replace(/\s*\S*$/, "") || start;
}

/** Return the end of a text, without a word cut at its start: its rest may look like another file's
 * name. */
export function ending(text, longest = LONGEST) {
  if (text.length <= longest) return text;
  const end = text.slice(-longest);
  return end.replace(/^[^\s，。；、！？：（）「」『』【】]*/, "") || end;
}

/** Return a text as far as a report may have it, with a note if it was cut. */
const within = (text) => (text.length <= LONGEST_WORDS ? text : `${beginning(text, LONGEST_WORDS)}\n[… cut after ${LONGEST_WORDS} characters]`);

export const texts = (content) => (typeof content === "string" ? content : [content ?? []].flat().map((part) => part?.text ?? "").join("\n")).trim();

/** Return what began the turn that a row with the role `user` belongs to. */
export function origin({ provenance, idempotencyKey }) {
  const by = provenance?.sourceTool;
  if (by === "main_session_restart_recovery") return "recovery";
  if (by === "heartbeat") return "heartbeat";
  if (provenance) return "other";
  return idempotencyKey?.startsWith("taskmem:") ? "taskmem" : "user";
}

/** Return the HTTP method or the action among a call's arguments; undefined: it has none. */
const method = (params) => [params?.method, params?.action].find((each) => typeof each === "string");

/** Return what a call is about: its command, path, URL, query, or all its arguments. A cut text
 * ends with "…". */
function about(params) {
  const { command, path, url, query } = params ?? {};
  const address = url && typeof params.method === "string" ? `${params.method} ${url}` : url;
  const text = String(command ?? path ?? address ?? query ?? JSON.stringify(params ?? {}));
  return text.length <= LONGEST ? text : `${beginning(text, LONGEST - 1)}…`;
}

/** Note what the user said, whether it began the turn or came during it. */
function said(turn, text) {
  turn.origin = "user";
  turn.request = beginning([turn.request, text].filter(Boolean).join("\n"), LONGEST_REQUEST);
  delete turn.unsure;
}

export class Work {
  #turns = new Kept(MOST_SESSIONS); // session → { origin, begunBy, received, calls, said, over… }
  #lines = new Kept(MOST_SESSIONS); // session → messages since its last reported call
  #parents = new Kept(MOST_SESSIONS); // session of a sub-agent → the one that spawned it
  #children = new Kept(MOST_SESSIONS); // session of a sub-agent that runs → since when
  #errands = new Kept(MOST_SESSIONS); // session of a sub-agent → its task
  #files = new Kept(MOST_SESSIONS); // path → { mark: the file's time and size, sum: its digest }
  #budgets = new Kept(MOST_SESSIONS); // session → a promise of the daemon's answer to `budget`
  #blocked = new Kept(MOST_SESSIONS); // ids of calls that we blocked
  #stopping = false;

  constructor({ api, version, runner, own, tell, ask }) {
    Object.assign(this, { api, version, own, tell, ask });
    const ended = (session, name, how) => tell({ kind: "awaited_ended", ...this.#who(session), name, how });
    this.awaited = new Awaited({ api, runner, ended, root: (session) => this.root(session) });
  }

  /** Return the session for which the work of a session counts: for a sub-agent's, the topmost
   * session that spawned it; else the session itself. */
  root(session) {
    let root = session;
    for (let level = 0; level < MOST_LEVELS && this.#parent(root); level++) root = this.#parent(root);
    return root;
  }

  /** Return the session that spawned a sub-agent; undefined: it is none. For one that was spawned
   * before a restart and goes on after it, only the gateway knows that. */
  #parent(session) {
    if (!this.#parents.has(session) && session?.includes(CHILD)) this.#parents.set(session, this.#spawner(session));
    return this.#parents.get(session);
  }

  /** Ask the gateway which session spawned another; undefined: it does not say. */
  #spawner(session) {
    try {
      return readSession(this.api, session)?.spawnedBy;
    } catch {
      return undefined;
    }
  }

  /** Return `{ request }`, what the user said in a session's turn; `{}`: the user said nothing. */
  request(session) {
    const { request } = this.#turns.get(session) ?? {};
    return request === undefined ? {} : { request };
  }

  spawned({ childSessionKey: child, requesterSessionKey: parent }) {
    if (child?.includes(CHILD) && parent) {
      this.#parents.set(child, parent);
      this.#children.set(child, performance.now());
    }
  }

  /** A sub-agent has ended. */
  gone({ targetSessionKey: child }) {
    this.#children.delete(child);
  }

  stops() {
    this.#stopping = true;
    this.awaited.stop();
  }

  /** Note that a session's user sent a message, perhaps during a turn. For the web chat this hook
   * fires after the row is written, for a channel before. */
  received({ sessionKey }) {
    const turn = this.#turns.get(sessionKey);
    if (!turn) return;
    turn.received = true;
    if (turn.unsure !== undefined) said(turn, turn.unsure);
  }

  /** Note a row of the conversation: what began the turn, what was said, and by whom. */
  written({ message }, { sessionKey }) {
    const { role, content } = message ?? {};
    if (role !== "user" && role !== "assistant") return;
    const text = texts(content);
    const turn = this.#turn(sessionKey);
    if (role === "user") {
      const by = origin(message);
      if (!turn.begun) delete turn.request; // the earlier row was a command, which began no turn
      if (by !== "user") turn.origin = by;
      else if (!turn.begun || turn.received) said(turn, text);
      else turn.unsure = text; // the gateway also writes such a row when it asks a provider again
      if (!turn.begun) turn.begunBy = by; // later rows were written during the turn
    }
    if (role === "assistant" && text) Object.assign(turn, { said: ending(text), words: text });
    const lines = this.#lines.get(sessionKey) ?? [];
    if (text && lines.at(-1)?.text !== beginning(text)) lines.push({ role, text: beginning(text) });
    this.#lines.set(sessionKey, lines.slice(-MOST_LINES));
  }

  began(session) {
    this.#budgets.delete(session);
    if (!this.#parents.get(session)) this.#parents.delete(session); // ask the gateway again, once a turn
    if (this.#parent(session)) this.#children.set(session, performance.now());
    const turn = this.#turn(session);
    Object.assign(turn, { calls: 0, over: false, begun: true }); // earlier calls are not this turn's
    return { ...this.#who(session), origin: turn.origin };
  }

  ended(session) {
    const { origin = "other", begunBy, said = "", words = "", calls = 0, stopped = false, cut = false } = this.#turns.get(session) ?? {};
    this.#turns.delete(session);
    this.#children.delete(session);
    return { ...this.#who(session), origin, said: SILENT.has(said) ? "" : said, ...(begunBy === "taskmem" && { words: within(words) }), calls, stopped, children: this.#running(session).length, at_work: this.stillRunning(session), ...this.awaited.of(session), cut: this.#stopping || cut };
  }

  /** Return whether OpenClaw resumed a session's turn and that has called no tool yet. */
  isResuming(session) {
    const { origin, calls } = this.#turn(session);
    return origin === "recovery" && calls === 0;
  }

  /** Return the running sub-agents of a session and of its sub-agents, each with its start. */
  #running(session) {
    const late = performance.now() - LONGEST_MS;
    return [...this.#children].filter(([child, since]) => since > late && this.root(child) === session);
  }

  /** Return what the gateway runs for a session: background commands and sub-agents, with their
   * ages in milliseconds. */
  stillRunning(session) {
    if (!session) return [];
    const now = performance.now();
    const agents = this.#running(session).map(([name, since]) => ({ kind: "sub_agent", name, about: this.#errands.get(name) ?? "", age: now - since }));
    return [...this.awaited.commands(session), ...agents].slice(0, MOST_AT_WORK);
  }

  /** Return the same for all sessions for which anything runs, by session. */
  allStillRunning() {
    const sessions = new Set([...this.awaited.sessions, ...[...this.#children].map(([child]) => this.root(child))]);
    return Object.fromEntries([...sessions].map((session) => [session, this.stillRunning(session)]));
  }

  /** Return why a tool may not be called now; undefined: it may. Spends one call of the budget. */
  async blocked({ toolName, toolCallId }, ctx) {
    if (WRAPPERS.has(toolName)) return undefined;
    const budget = this.#isOurs(toolName) ? undefined : await this.#budget(this.root(ctx.sessionKey));
    const over = this.#turns.get(ctx.sessionKey)?.over; // read after the wait: the daemon may have said so meanwhile
    if (over) this.stop([ctx.sessionKey]).catch(() => undefined); // it may have been too young to be ended
    else if (!budget || budget.left-- > 0) return undefined;
    this.#blocked.set(toolCallId, true);
    return over ? OVER : budget.reason;
  }

  /** Report that a tool is about to be called. */
  calls({ toolName, params, toolCallId }, ctx) {
    const turn = this.#turn(ctx.sessionKey);
    if (WRAPPERS.has(toolName)) return;
    turn.calls++;
    const root = this.root(ctx.sessionKey);
    const who = this.#who(root);
    const { folders, command } = this.#isOurs(toolName) ? {} : deeds({ toolName, params }, who.folder);
    if (toolCallId) this.tell({ kind: "tool_started", ...who, call_id: toolCallId, tool: toolName, about: about(params), method: method(params), ...this.request(root), folders, command });
  }

  /** Report how a tool call ended. */
  called(event, ctx) {
    const { toolName, params, toolCallId, result, error, durationMs } = this.awaited.unwrapped(event);
    if (WRAPPERS.has(toolName) || this.#blocked.delete(toolCallId)) return;
    const session = this.root(ctx.sessionKey);
    const own = this.#isOurs(toolName);
    if (own) this.#budgets.delete(session);
    else this.awaited.called(ctx.sessionKey, beginning(about(params), 200), event);
    const { status, childSessionKey: child } = result?.details ?? {};
    if (status === "accepted" && child) this.#errands.set(child, beginning(String(params?.task ?? params?.label ?? "")));
    const said = own ? [] : (this.#lines.get(session) ?? []); // no checkpoint records a call of our own tools
    if (!own) this.#lines.delete(session);
    const outcome = error ? String(error) : texts(result?.content);
    const call = { call_id: toolCallId, tool: toolName, about: about(params), method: method(params), given: digest([toolName, params]), result: digest(outcome) };
    const end = { outcome: beginning(outcome), exit_code: result?.details?.exitCode ?? null, failed: Boolean(error), ms: durationMs ?? 0, said };
    const who = this.#who(session);
    const did = own ? {} : deeds({ toolName, params, result, error }, who.folder);
    this.tell({ kind: "tool_called", ...who, ...call, ...end, ...did });
  }

  /** End the turns of sessions. Returns true if any was ended, false if none could be, and
   * undefined if there is none. From now on these turns can call no tool, even while they last. */
  async stop(sessions = []) {
    if (sessions.length === 0) return undefined;
    for (const turn of sessions.map((session) => this.#turns.get(session))) if (turn) turn.over = true;
    const { abortAgentHarnessRun, resolveActiveEmbeddedRunSessionId } = await import("openclaw/plugin-sdk/agent-harness");
    const stop = ([session, id]) => {
      const turn = this.#turns.get(session) ?? {};
      const { stopped = false } = turn;
      turn.stopped = true; // set before, since the turn may end during the call
      const done = abortAgentHarnessRun(id);
      turn.stopped = done || stopped;
      return done;
    };
    const turns = sessions.map((session) => [session, resolveActiveEmbeddedRunSessionId(session)]).filter(([, id]) => id);
    return turns.length ? turns.map(stop).includes(true) : undefined;
  }

  /** End the turns that we began; the daemon resumes them after the gateway's next start. `cancel`
   * cancels them as the gateway's runs first; turns that remain are then ended. */
  async cut(cancel) {
    const ours = [...this.#turns].filter(([, { begunBy }]) => begunBy === "taskmem");
    for (const [, turn] of ours) turn.cut = true;
    await cancel();
    return this.stop(ours.map(([session]) => session));
  }

  /** Return, by agent, the fingerprint of what shapes its prompt. */
  fingerprints() {
    const ids = [...this.#agents().keys()];
    return Object.fromEntries((ids.length ? ids : ["main"]).map((id) => [id, this.#fingerprint(id)]));
  }

  /** Return whether a tool is ours, by its plain name or by the name that an MCP host gives it. */
  #isOurs(tool) {
    return this.own.has(tool.replace(/^taskmem__/, ""));
  }

  /** Return the budget `{ left, reason }` of a session's step; none: all calls are allowed, or the
   * daemon does not answer in time. */
  async #budget(session) {
    // Concurrent calls share one answer, and so spend the same budget.
    const asked = this.#budgets.get(session) ?? this.ask("budget", { session_key: session }, BUDGET_MS);
    this.#budgets.set(session, asked);
    try {
      return (await asked).budget;
    } catch {
      if (this.#budgets.get(session) === asked) this.#budgets.delete(session);
      return undefined;
    }
  }

  /** Return each agent's configuration, by its id as session keys have it (lower case). */
  #agents() {
    const { agents } = this.api.runtime.config.current();
    return new Map(Object.entries(agents?.entries ?? {}).map(([id, agent]) => [id.toLowerCase(), agent]));
  }

  #turn(session) {
    if (!this.#turns.has(session)) this.#turns.set(session, { origin: "other", calls: 0, said: "" });
    return this.#turns.get(session);
  }

  /** Return the fields of an event that say whose work it is; `session` is a root session. */
  #who(session) {
    const [, agentId] = session.split(":");
    return { session_key: session, agent_id: agentId, folder: this.#folder(agentId), fingerprint: this.#fingerprint(agentId) };
  }

  /** Return an agent's workspace folder; undefined: the gateway cannot say. */
  #folder(agentId) {
    const { agent, config } = this.api.runtime;
    try {
      return agent.resolveAgentWorkspaceDir(config.current(), agentId);
    } catch {
      return undefined;
    }
  }

  #fingerprint(agentId) {
    const { agents } = this.api.runtime.config.current();
    const model = this.#agents().get(agentId)?.model ?? agents?.defaults?.model;
    const folder = this.#folder(agentId);
    return digest([agentId, model, this.version, ...PROMPT_FILES.map((name) => folder && this.#sum(join(folder, name)))]);
  }

  /** Return the digest of a file, which is read again only if its time or size has changed;
   * undefined: it cannot be read. */
  #sum(path) {
    try {
      const { mtimeMs, size } = statSync(path);
      const mark = `${mtimeMs}:${size}`;
      if (this.#files.get(path)?.mark !== mark) this.#files.set(path, { mark, sum: digest(readFileSync(path, "utf8")) });
      return this.#files.get(path).sum;
    } catch {
      return undefined;
    }
  }
}
