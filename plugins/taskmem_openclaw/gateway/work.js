// What the hooks show of the work in the sessions, reported as it happens.
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
const LONGEST_REQUEST = 2_000; // characters of what the user has asked for
const LONGEST_WORDS = 16_000; // characters of an agent's last words
const PROMPT_FILES = ["AGENTS.md", "SOUL.md", "TOOLS.md"];
const BUDGET_MS = 200; // after which a tool is let through unasked
const LONGEST_MS = 24 * 3_600_000; // after which a sub-agent whose end was never told counts as gone
const OVER = "Its task is not to go on now, so this turn is stopped. Call nothing more.";
const CHILD = ":subagent:"; // in the keys of sessions that sub-agents have
const WRAPPERS = new Set(["tool_call", "tool_search", "tool_search_code", "tool_describe"]);

const digest = (value) => createHash("sha256").update(JSON.stringify(value) ?? "").digest("hex").slice(0, 12);

/** The beginning of a text, without the part of a word that is left where it is cut: half a secret
 * may not look like one. */
function beginning(text, longest = LONGEST) {
  if (text.length <= longest) return text;
  const start = text.slice(0, longest);
  return start.replace(/\s*\S*$/, "") || start;
}

/** The end of a text, without the rest of a word that is cut: it may look like another file's name. */
export function ending(text, longest = LONGEST) {
  if (text.length <= longest) return text;
  const end = text.slice(-longest);
  return end.replace(/^[^\s，。；、！？：（）「」『』【】]*/, "") || end;
}

/** A text as far as a report takes it; that it was cut is said. */
const within = (text) => (text.length <= LONGEST_WORDS ? text : `${beginning(text, LONGEST_WORDS)}\n[… cut after ${LONGEST_WORDS} characters]`);

export const texts = (content) => (typeof content === "string" ? content : [content ?? []].flat().map((part) => part?.text ?? "").join("\n")).trim();

/** What began the turn that a user's row belongs to. */
export function origin({ provenance, idempotencyKey }) {
  const by = provenance?.sourceTool;
  if (by === "main_session_restart_recovery") return "recovery";
  if (by === "heartbeat") return "heartbeat";
  if (provenance) return "other";
  return idempotencyKey?.startsWith("taskmem:") ? "taskmem" : "user";
}

/** The HTTP method, or the action, that a call was given; undefined: none. */
const method = (params) => [params?.method, params?.action].find((each) => typeof each === "string");

/** What a call is about: the command, the path, or whatever it was given; that it was cut is seen. */
function about(params) {
  const { command, path, url, query } = params ?? {};
  const address = url && typeof params.method === "string" ? `${params.method} ${url}` : url;
  const text = String(command ?? path ?? address ?? query ?? JSON.stringify(params ?? {}));
  return text.length <= LONGEST ? text : `${beginning(text, LONGEST - 1)}…`;
}

/** The user has said something that began a turn, or into one. */
function said(turn, text) {
  turn.origin = "user";
  turn.request = beginning([turn.request, text].filter(Boolean).join("\n"), LONGEST_REQUEST);
  delete turn.unsure;
}

export class Work {
  #turns = new Kept(MOST_SESSIONS); // session → { origin, begunBy, received, calls, said, over… }
  #lines = new Kept(MOST_SESSIONS); // session → what was said since its last call
  #parents = new Kept(MOST_SESSIONS); // session of a sub-agent → the one that spawned it
  #children = new Kept(MOST_SESSIONS); // session of a sub-agent that runs → since when
  #errands = new Kept(MOST_SESSIONS); // session of a sub-agent → what it was told to do
  #files = new Kept(MOST_SESSIONS); // path → { mark, sum }
  #budgets = new Kept(MOST_SESSIONS); // session → a promise of what its step may still call
  #blocked = new Kept(MOST_SESSIONS); // calls that we did not let through
  #stopping = false;

  constructor({ api, version, runner, own, tell, ask }) {
    Object.assign(this, { api, version, own, tell, ask });
    const ended = (session, name, how) => tell({ kind: "awaited_ended", ...this.#who(session), name, how });
    this.awaited = new Awaited({ api, runner, ended, root: (session) => this.root(session) });
  }

  /** The session that the work of a sub-agent counts for. */
  root(session) {
    let root = session;
    for (let level = 0; level < MOST_LEVELS && this.#parent(root); level++) root = this.#parent(root);
    return root;
  }

  /** The session that spawned a sub-agent; undefined: none did. One from before a restart
   * that is carried on is known to the gateway alone. */
  #parent(session) {
    if (!this.#parents.has(session) && session?.includes(CHILD)) this.#parents.set(session, this.#spawner(session));
    return this.#parents.get(session);
  }

  /** The session that the gateway says has spawned another; undefined: it names none. */
  #spawner(session) {
    try {
      return readSession(this.api, session)?.spawnedBy;
    } catch {
      return undefined;
    }
  }

  /** What the user said in a session's turn, where a user has begun it. */
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

  /** The user of a session has sent a message, into its turn where one goes on. The web chat's is
   * told of after its row is written, a channel's before. */
  received({ sessionKey }) {
    const turn = this.#turns.get(sessionKey);
    if (!turn) return;
    turn.received = true;
    if (turn.unsure !== undefined) said(turn, turn.unsure);
  }

  /** A row of the conversation is written. */
  written({ message }, { sessionKey }) {
    const { role, content } = message ?? {};
    if (role !== "user" && role !== "assistant") return;
    const text = texts(content);
    const turn = this.#turn(sessionKey);
    if (role === "user") {
      const by = origin(message);
      if (!turn.begun) delete turn.request; // it was a command, which began no turn
      if (by !== "user") turn.origin = by;
      else if (!turn.begun || turn.received) said(turn, text);
      else turn.unsure = text; // the gateway writes such a row, too, when it asks a provider again
      if (!turn.begun) turn.begunBy = by; // what is written later was said into the turn
    }
    if (role === "assistant" && text) Object.assign(turn, { said: ending(text), words: text });
    const lines = this.#lines.get(sessionKey) ?? [];
    if (text && lines.at(-1)?.text !== beginning(text)) lines.push({ role, text: beginning(text) });
    this.#lines.set(sessionKey, lines.slice(-MOST_LINES));
  }

  began(session) {
    this.#budgets.delete(session);
    if (!this.#parents.get(session)) this.#parents.delete(session); // it is asked for once a turn
    if (this.#parent(session)) this.#children.set(session, performance.now());
    const turn = this.#turn(session);
    Object.assign(turn, { calls: 0, over: false, begun: true }); // what was called before is no call of its
    return { ...this.#who(session), origin: turn.origin };
  }

  ended(session) {
    const { origin = "other", begunBy, said = "", words = "", calls = 0, stopped = false, cut = false } = this.#turns.get(session) ?? {};
    this.#turns.delete(session);
    this.#children.delete(session);
    return { ...this.#who(session), origin, said, ...(begunBy === "taskmem" && { words: within(words) }), calls, stopped, children: this.#running(session).length, at_work: this.stillRunning(session), ...this.awaited.of(session), cut: this.#stopping || cut };
  }

  /** Whether OpenClaw resumed a session's turn, which has called nothing yet. */
  isResuming(session) {
    const { origin, calls } = this.#turn(session);
    return origin === "recovery" && calls === 0;
  }

  /** The sub-agents of a session that run, theirs among them, each with its start. */
  #running(session) {
    const late = performance.now() - LONGEST_MS;
    return [...this.#children].filter(([child, since]) => since > late && this.root(child) === session);
  }

  /** What the gateway runs now for a session: commands in its background, and sub-agents. */
  stillRunning(session) {
    if (!session) return [];
    const now = performance.now();
    const agents = this.#running(session).map(([name, since]) => ({ kind: "sub_agent", name, about: this.#errands.get(name) ?? "", age: now - since }));
    return [...this.awaited.commands(session), ...agents].slice(0, MOST_AT_WORK);
  }

  /** The same for all sessions for which anything runs. */
  allStillRunning() {
    const sessions = new Set([...this.awaited.sessions, ...[...this.#children].map(([child]) => this.root(child))]);
    return Object.fromEntries([...sessions].map((session) => [session, this.stillRunning(session)]));
  }

  /** Why a tool may not be called now; undefined: it may. */
  async blocked({ toolName, toolCallId }, ctx) {
    if (WRAPPERS.has(toolName)) return undefined;
    const budget = this.#isOurs(toolName) ? undefined : await this.#budget(this.root(ctx.sessionKey));
    const over = this.#turns.get(ctx.sessionKey)?.over; // by now: it may have been told meanwhile
    if (over) this.stop([ctx.sessionKey]).catch(() => undefined); // it may have been too young to be ended
    else if (!budget || budget.left-- > 0) return undefined;
    this.#blocked.set(toolCallId, true);
    return over ? OVER : budget.reason;
  }

  /** A tool is about to be called. */
  calls({ toolName, params, toolCallId }, ctx) {
    const turn = this.#turn(ctx.sessionKey);
    if (WRAPPERS.has(toolName)) return;
    turn.calls++;
    const root = this.root(ctx.sessionKey);
    const who = this.#who(root);
    const { folders, command } = this.#isOurs(toolName) ? {} : deeds({ toolName, params }, who.folder);
    if (toolCallId) this.tell({ kind: "tool_started", ...who, call_id: toolCallId, tool: toolName, about: about(params), method: method(params), ...this.request(root), folders, command });
  }

  /** A tool has answered. */
  called(event, ctx) {
    const { toolName, params, toolCallId, result, error, durationMs } = this.awaited.unwrapped(event);
    if (WRAPPERS.has(toolName) || this.#blocked.delete(toolCallId)) return;
    const session = this.root(ctx.sessionKey);
    const own = this.#isOurs(toolName);
    if (own) this.#budgets.delete(session);
    else this.awaited.called(ctx.sessionKey, beginning(about(params), 200), event);
    const { status, childSessionKey: child } = result?.details ?? {};
    if (status === "accepted" && child) this.#errands.set(child, beginning(String(params?.task ?? params?.label ?? "")));
    const said = own ? [] : (this.#lines.get(session) ?? []); // of our own tools no checkpoint tells
    if (!own) this.#lines.delete(session);
    const outcome = error ? String(error) : texts(result?.content);
    const call = { call_id: toolCallId, tool: toolName, about: about(params), method: method(params), given: digest([toolName, params]), result: digest(outcome) };
    const end = { outcome: beginning(outcome), exit_code: result?.details?.exitCode ?? null, failed: Boolean(error), ms: durationMs ?? 0, said };
    const who = this.#who(session);
    const did = own ? {} : deeds({ toolName, params, result, error }, who.folder);
    this.tell({ kind: "tool_called", ...who, ...call, ...end, ...did });
  }

  /** End turns that must not go on; undefined: there was none; false: they cannot be ended.
   * From now on they call no tool, however long that takes. */
  async stop(sessions = []) {
    if (sessions.length === 0) return undefined;
    for (const turn of sessions.map((session) => this.#turns.get(session))) if (turn) turn.over = true;
    const { abortAgentHarnessRun, resolveActiveEmbeddedRunSessionId } = await import("openclaw/plugin-sdk/agent-harness");
    const stop = ([session, id]) => {
      const turn = this.#turns.get(session) ?? {};
      const { stopped = false } = turn;
      turn.stopped = true; // before: its end may come at once
      const done = abortAgentHarnessRun(id);
      turn.stopped = done || stopped;
      return done;
    };
    const turns = sessions.map((session) => [session, resolveActiveEmbeddedRunSessionId(session)]).filter(([, id]) => id);
    return turns.length ? turns.map(stop).includes(true) : undefined;
  }

  /** End the turns that were begun by us: the daemon takes them up at the gateway's next start.
   * `cancel` calls them off where they are asked for, before what is left is ended. */
  async cut(cancel) {
    const ours = [...this.#turns].filter(([, { begunBy }]) => begunBy === "taskmem");
    for (const [, turn] of ours) turn.cut = true;
    await cancel();
    return this.stop(ours.map(([session]) => session));
  }

  /** Of each agent, what shapes its prompt. */
  fingerprints() {
    const ids = [...this.#agents().keys()];
    return Object.fromEntries((ids.length ? ids : ["main"]).map((id) => [id, this.#fingerprint(id)]));
  }

  /** Whether a tool is one of ours, here or as a host of MCP calls it. */
  #isOurs(tool) {
    return this.own.has(tool.replace(/^taskmem__/, ""));
  }

  /** What a session's step may still call; undefined: all, or the daemon cannot say. */
  async #budget(session) {
    // Calls that are made at once spend one budget.
    const asked = this.#budgets.get(session) ?? this.ask("budget", { session_key: session }, BUDGET_MS);
    this.#budgets.set(session, asked);
    try {
      return (await asked).budget;
    } catch {
      if (this.#budgets.get(session) === asked) this.#budgets.delete(session);
      return undefined;
    }
  }

  /** What is configured of each agent, by the name that it has in its sessions' keys. */
  #agents() {
    const { agents } = this.api.runtime.config.current();
    return new Map(Object.entries(agents?.entries ?? {}).map(([id, agent]) => [id.toLowerCase(), agent]));
  }

  #turn(session) {
    if (!this.#turns.has(session)) this.#turns.set(session, { origin: "other", calls: 0, said: "" });
    return this.#turns.get(session);
  }

  /** Whose work it is: the root session's agent's, also where a sub-agent does it. */
  #who(session) {
    const [, agentId] = session.split(":");
    return { session_key: session, agent_id: agentId, folder: this.#folder(agentId), fingerprint: this.#fingerprint(agentId) };
  }

  /** The folder that an agent works in; undefined: the gateway cannot say. */
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

  /** The digest of a file, read again only where it has changed; undefined: there is none. */
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
