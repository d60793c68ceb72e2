// Report turns and tool calls of the sessions to the daemon, as hooks show them; block tool calls
// and stop turns that must not go on.
import { createHash } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { BackgroundWork } from "./background_work.js";
import { BoundedMap } from "./bounded_map.js";
import { readSession } from "./gateway_requests.js";
import { SubAgents } from "./sub_agents.js";
import { readSent } from "./tool_arguments.js";

const MOST_SESSIONS = 1_000;
const MOST_LINES = 8;
const MOST_AT_WORK = 50;
const MOST_LEVELS = 20;
const LONGEST = 600; // characters of a text that are reported
const LONGEST_REQUEST = 2_000; // characters of what the user said in a turn
const LONGEST_WORDS = 16_000; // characters of an agent's last reply
const LONGEST_END = 1_500; // characters of a sub-agent's last words
const PROMPT_FILES = ["AGENTS.md", "SOUL.md", "TOOLS.md"];
const BUDGET_MS = 200; // time limit for the daemon's answer; without it, a tool call is allowed
const LONGEST_MS = 24 * 3_600_000; // after which a sub-agent whose end no hook told counts as ended
const OVER = "The task of this session was stopped, so this turn ends; call no further tool.";
const SILENT = new Set(["NO_REPLY", "HEARTBEAT_OK"]); // replies that OpenClaw shows to nobody
const CHILD = ":subagent:"; // in the session keys of sub-agents
const WRAPPERS = new Set(["tool_call", "tool_search", "tool_search_code", "tool_describe"]);

const MOST_TOUCHED = 1_000; // files of one call: the daemon refuses a report with more
// Tools that change nothing; any unknown tool may have changed anything in its folders.
const READS = new Set(
  (
    "read ls find grep glob search view_image web_fetch web_search x_search memory_get get_goal " +
    "sessions_list sessions_history sessions_search agents_list conversations_list " +
    "tool_search tool_describe"
  ).split(" "),
);

const digest = (value) =>
  createHash("sha256")
    .update(JSON.stringify(value) ?? "")
    .digest("hex")
    .slice(0, 12);

/** Return the beginning of a text, without a word cut at its end: half a secret may not be
 * recognised as one. */
function takeBeginning(text, longest = LONGEST) {
  if (text.length <= longest) return text;
  const start = text.slice(0, longest);
  return start.replace(/\s*\S*$/, "") || start;
}

/** Return the end of a text, without a word cut at its start: its rest may look like another file's
 * name. */
export function takeEnd(text, longest = LONGEST) {
  if (text.length <= longest) return text;
  const end = text.slice(-longest);
  return end.replace(/^[^\s，。；、！？：（）「」『』【】]*/, "") || end;
}

/** Return a text as far as a report may have it, with a note if it was cut. */
const limitWords = (text) =>
  text.length <= LONGEST_WORDS
    ? text
    : `${takeBeginning(text, LONGEST_WORDS)}\n[… cut after ${LONGEST_WORDS} characters]`;

export const extractText = (content) =>
  (typeof content === "string"
    ? content
    : [content ?? []]
        .flat()
        .map((part) => part?.text ?? "")
        .join("\n")
  ).trim();

/** Accents and Arabic vowel signs, which people leave out, and what joins or varies letters. */
const OPTIONAL_SIGNS = /\p{Script=Inherited}/gu;
/** Return a message's words without case, accents, punctuation and emoji. */
const reduceText = (text) =>
  text
    .normalize("NFKD")
    .toLowerCase()
    .replace(OPTIONAL_SIGNS, "")
    .replace(/[^\p{L}\p{M}\p{N}]+/gu, " ")
    .trim();

/** The words by which users tell an agent to go on, by language: those that many people write, and
 * none, such as "yes" or "go ahead", that may answer another question. */
const CONTINUE_WORDS = new Set(
  Object.values(JSON.parse(readFileSync(new URL("./continue_words.json", import.meta.url), "utf8")))
    .flat()
    .map(reduceText),
);

/** Return whether a whole message, which may be a command, only tells the agent to go on. */
export const isContinueWord = (text) => CONTINUE_WORDS.has(reduceText(text));

/** Return what began the turn that a row with the role `user` belongs to. */
export function findOrigin({ provenance, idempotencyKey }) {
  const by = provenance?.sourceTool;
  if (by === "main_session_restart_recovery") return "recovery";
  if (by === "heartbeat") return "heartbeat";
  if (provenance) return "other";
  return idempotencyKey?.startsWith("taskmem:") ? "taskmem" : "user";
}

/** Return the HTTP method or the action among a call's arguments; undefined: it has none. */
const findMethod = (params) =>
  [params?.method, params?.action].find((each) => typeof each === "string");

/** Return what a call is about: its command, path, URL, query, or all its arguments. A cut text
 * ends with "…". */
function describeCall(given) {
  const params = readSent(given);
  const { command, path, url, query } = params;
  const address = url && typeof params.method === "string" ? `${params.method} ${url}` : url;
  const text = String(command ?? path ?? address ?? query ?? JSON.stringify(params));
  return text.length <= LONGEST ? text : `${takeBeginning(text, LONGEST - 1)}…`;
}

/** Return `touched`, the files that a call has changed, and `folders`, the folders that it used,
 * both as absolute paths; `command`: it may have changed anything in those folders. */
export function describeFileEffects({ toolName, params, result, error }, workspace) {
  const details = result?.details ?? {};
  const absolute = (path) =>
    path.startsWith("~/") ? join(homedir(), path.slice(2)) : resolve(workspace ?? "/", path);
  const touch = (change) => (path) => ({ path: absolute(path), change });
  const path = params?.path ?? params?.file_path;
  const named = typeof path === "string" && (workspace || isAbsolute(path)) ? path : undefined;
  const folders = named ? [dirname(absolute(named))] : [];
  switch (toolName) {
    case "write":
    case "edit": {
      const changed = named && !error && details.changed !== false;
      return {
        folders,
        touched: changed ? [touch(details.created ? "created" : "changed")(named)] : [],
      };
    }
    case "apply_patch": {
      const { added = [], modified = [], deleted = [] } = details.summary ?? {};
      const touched = [
        ...added.map(touch("created")),
        ...modified.map(touch("changed")),
        ...deleted.map(touch("removed")),
      ];
      return { touched: touched.slice(0, MOST_TOUCHED) };
    }
    default: {
      if (READS.has(toolName)) return { folders };
      const used = [workspace, details.cwd ?? params?.workdir].filter(
        (folder) => typeof folder === "string",
      );
      return { command: true, folders: [...new Set(used.map(absolute))] };
    }
  }
}

/** Note what the user said, whether it began the turn or came during it. */
function recordRequest(turn, text) {
  turn.origin = "user";
  turn.request = takeBeginning([turn.request, text].filter(Boolean).join("\n"), LONGEST_REQUEST);
  delete turn.unsure;
}

export class SessionReports {
  // session → { origin, begunBy, received, calls, said, over… }
  #turns = new BoundedMap(MOST_SESSIONS);
  #messages = new BoundedMap(MOST_SESSIONS); // session → messages since its last reported call
  #parents = new BoundedMap(MOST_SESSIONS); // session of a sub-agent → the one that spawned it
  // session of a sub-agent that runs → since when
  #runningSubAgents = new BoundedMap(MOST_SESSIONS);
  #subAgentTasks = new BoundedMap(MOST_SESSIONS); // session of a sub-agent → its task
  // path → { mark: the file's time and size, sum: its digest }
  #files = new BoundedMap(MOST_SESSIONS);
  // session → a promise of the daemon's answer to `budget`
  #budgets = new BoundedMap(MOST_SESSIONS);
  #blockedCalls = new BoundedMap(MOST_SESSIONS); // ids of calls that we blocked
  #stopping = false;

  constructor({ api, version, runner, ownTools, tell, ask }) {
    Object.assign(this, { api, version, ownTools, tell, ask });
    const onEnded = (session, name, how) =>
      tell({ kind: "awaited_ended", ...this.#describeOwner(session), name, how });
    this.backgroundWork = new BackgroundWork({
      api,
      runner,
      onEnded,
      findRoot: (session) => this.findRoot(session),
    });
    this.subAgents = new SubAgents({
      api,
      tell,
      describeOwner: (session) => this.#describeOwner(this.findRoot(session)),
      extractText,
      takeEnd: (text) => takeEnd(text, LONGEST_END),
      isRunning: (session) => this.#runningSubAgents.has(session),
    });
  }

  /** Return the session for which the work of a session counts: for a sub-agent's, the topmost
   * session that spawned it; else the session itself. */
  findRoot(session) {
    let root = session;
    for (let level = 0; level < MOST_LEVELS && this.#findParent(root); level++)
      root = this.#findParent(root);
    return root;
  }

  /** Return the session that spawned a sub-agent; undefined: it is none. For one that was spawned
   * before a restart and goes on after it, only the gateway knows that. */
  #findParent(session) {
    if (this.#parents.has(session) || !session?.includes(CHILD)) return this.#parents.get(session);
    let parent;
    try {
      parent = readSession(this.api, session)?.spawnedBy;
    } catch {
      // The gateway does not say.
    }
    this.#parents.set(session, parent);
    return parent;
  }

  /** Return `{ request }`, what the user said in a session's turn; `{}`: the user said nothing. */
  describeRequest(session) {
    const { request } = this.#turns.get(session) ?? {};
    return request === undefined ? {} : { request };
  }

  recordSpawn({ childSessionKey: child, requesterSessionKey: parent, runId }, { label } = {}) {
    if (child?.includes(CHILD) && parent) {
      this.#parents.set(child, parent);
      this.#runningSubAgents.set(child, performance.now());
      this.subAgents.reportStart(child, parent, { label, run: runId });
    }
  }

  /** Note that a sub-agent has ended, as one of two hooks tells. */
  recordSubAgentEnd({ targetSessionKey, childSessionKey = targetSessionKey, ...end }) {
    this.#runningSubAgents.delete(childSessionKey);
    if (this.#findParent(childSessionKey))
      this.subAgents.reportEnd(childSessionKey, { ...end, run: end.runId });
  }

  /** Report the end of a sub-agent's work with that of its turn, unless it goes on once sub-agents
   * of its own have ended; then, and of one that fails, a hook tells. */
  #settleSubAgent(session, run) {
    const waits = [...this.#runningSubAgents].some(([child]) => this.#isBelow(child, session));
    if (this.#findParent(session) && !waits && !this.#stopping)
      this.subAgents.reportEnd(session, { run });
  }

  /** Return whether a session is a sub-agent of another, or of a sub-agent of that. */
  #isBelow(session, above) {
    let parent = this.#findParent(session);
    for (let level = 0; level < MOST_LEVELS && parent && parent !== above; level++)
      parent = this.#findParent(parent);
    return parent === above;
  }

  beginStop() {
    this.#stopping = true;
    this.backgroundWork.stop();
    this.subAgents.stop();
  }

  /** Note that a session's user sent a message, perhaps during a turn. For the web chat this hook
   * fires after the row is written, for a channel before. */
  recordMessage({ sessionKey }) {
    const turn = this.#turns.get(sessionKey);
    if (!turn) return;
    turn.received = true;
    if (turn.unsure !== undefined) recordRequest(turn, turn.unsure);
  }

  /** Note a row of the conversation: what began the turn, what was said, and by whom. */
  recordRow({ message }, { sessionKey }) {
    const { role, content } = message ?? {};
    if (role !== "user" && role !== "assistant") return;
    const text = extractText(content);
    const turn = this.#getTurn(sessionKey);
    if (role === "user") {
      const by = findOrigin(message);
      if (!turn.begun) delete turn.request; // the earlier row was a command, which began no turn
      if (by !== "user") turn.origin = by;
      else if (!turn.begun || turn.received) recordRequest(turn, text);
      else turn.unsure = text; // the gateway also writes such a row when it asks a provider again
      if (!turn.begun) turn.begunBy = by; // later rows were written during the turn
    }
    if (role === "assistant" && text) {
      Object.assign(turn, { said: takeEnd(text), words: text });
      if (sessionKey.includes(CHILD)) this.subAgents.recordWords(sessionKey, text);
    }
    const lines = this.#messages.get(sessionKey) ?? [];
    if (text && lines.at(-1)?.text !== takeBeginning(text))
      lines.push({ role, text: takeBeginning(text) });
    this.#messages.set(sessionKey, lines.slice(-MOST_LINES));
  }

  beginTurn(session, run) {
    this.#budgets.delete(session);
    // ask the gateway again, once a turn
    if (!this.#parents.get(session)) this.#parents.delete(session);
    const parent = this.#findParent(session);
    if (parent) {
      this.#runningSubAgents.set(session, performance.now());
      this.subAgents.reportStart(session, parent, { run });
    }
    const turn = this.#getTurn(session);
    // earlier calls are not this turn's
    Object.assign(turn, { calls: 0, over: false, begun: true });
    return { ...this.#describeOwner(session), origin: turn.origin };
  }

  /** Return what is reported of a turn that ends; `run`: its id, if its work is done with it. */
  endTurn(session, run) {
    const {
      origin = "other",
      begunBy,
      said = "",
      words = "",
      calls = 0,
      stopped = false,
      cut = false,
    } = this.#turns.get(session) ?? {};
    this.#turns.delete(session);
    this.#runningSubAgents.delete(session);
    if (run !== undefined) this.#settleSubAgent(session, run);
    return {
      ...this.#describeOwner(session),
      origin,
      said: SILENT.has(said) ? "" : said,
      ...(begunBy === "taskmem" && { words: limitWords(words) }),
      calls,
      stopped,
      children: this.#listSubAgents(session).length,
      at_work: this.listRunning(session),
      ...this.backgroundWork.listAwaited(session),
      cut: this.#stopping || cut,
    };
  }

  /** Return whether OpenClaw resumed a session's turn. */
  isResumed(session) {
    return this.#getTurn(session).origin === "recovery";
  }

  /** Return whether OpenClaw resumed a session's turn and that has called no tool yet. */
  isResuming(session) {
    return this.isResumed(session) && this.#getTurn(session).calls === 0;
  }

  /** Return the running sub-agents of a session and of its sub-agents, each with its start. */
  #listSubAgents(session) {
    const late = performance.now() - LONGEST_MS;
    return [...this.#runningSubAgents].filter(
      ([child, since]) => since > late && this.findRoot(child) === session,
    );
  }

  /** Return what the gateway runs for a session: background commands and sub-agents, with their
   * ages in milliseconds. */
  listRunning(session) {
    if (!session) return [];
    const now = performance.now();
    const agents = this.#listSubAgents(session).map(([name, since]) => ({
      kind: "sub_agent",
      name,
      about: this.#subAgentTasks.get(name) ?? "",
      age: now - since,
    }));
    return [...this.backgroundWork.listRunning(session), ...agents].slice(0, MOST_AT_WORK);
  }

  /** Return the same for all sessions for which anything runs, by session. */
  listAllRunning() {
    const sessions = new Set([
      ...this.backgroundWork.sessions,
      ...[...this.#runningSubAgents].map(([child]) => this.findRoot(child)),
    ]);
    return Object.fromEntries([...sessions].map((session) => [session, this.listRunning(session)]));
  }

  /** Return why a tool may not be called now; undefined: it may. Spends one call of the budget. */
  async findBlockReason({ toolName, toolCallId }, ctx) {
    if (WRAPPERS.has(toolName)) return undefined;
    const budget = this.#isOurs(toolName)
      ? undefined
      : await this.#fetchBudget(this.findRoot(ctx.sessionKey));
    // read after the wait: the daemon may have said so meanwhile
    const over = this.#turns.get(ctx.sessionKey)?.over;
    // it may have been too young to be ended
    if (over) this.stopTurns([ctx.sessionKey]).catch(() => undefined);
    else if (!budget || budget.left-- > 0) return undefined;
    this.#blockedCalls.set(toolCallId, true);
    return over ? OVER : budget.reason;
  }

  /** Report that a tool is about to be called. */
  reportCallStart({ toolName, params, toolCallId }, ctx) {
    const turn = this.#getTurn(ctx.sessionKey);
    if (WRAPPERS.has(toolName)) return;
    turn.calls++;
    const root = this.findRoot(ctx.sessionKey);
    const who = this.#describeOwner(root);
    const { folders, command } = this.#isOurs(toolName)
      ? {}
      : describeFileEffects({ toolName, params }, who.folder);
    if (toolCallId)
      this.tell({
        kind: "tool_started",
        ...who,
        call_id: toolCallId,
        tool: toolName,
        about: describeCall(params),
        method: findMethod(params),
        ...this.describeRequest(root),
        folders,
        command,
      });
  }

  /** Report how a tool call ended. */
  reportCallEnd(event, ctx) {
    const { toolName, params, toolCallId, result, error, durationMs } =
      this.backgroundWork.unwrapEvent(event);
    if (WRAPPERS.has(toolName) || this.#blockedCalls.delete(toolCallId)) return;
    const session = this.findRoot(ctx.sessionKey);
    const own = this.#isOurs(toolName);
    if (own) this.#budgets.delete(session);
    else
      this.backgroundWork.recordResult(
        ctx.sessionKey,
        takeBeginning(describeCall(params), 200),
        event,
      );
    const { status, childSessionKey: child } = result?.details ?? {};
    if (status === "accepted" && child)
      this.#subAgentTasks.set(child, takeBeginning(String(params?.task ?? params?.label ?? "")));
    // no checkpoint records a call of our own tools
    const messages = own ? [] : (this.#messages.get(session) ?? []);
    if (!own) this.#messages.delete(session);
    const outcome = error ? String(error) : extractText(result?.content);
    const call = {
      call_id: toolCallId,
      tool: toolName,
      about: describeCall(params),
      method: findMethod(params),
      given: digest([toolName, readSent(params)]),
      result: digest(outcome),
    };
    const end = {
      outcome: takeBeginning(outcome),
      exit_code: result?.details?.exitCode ?? null,
      failed: Boolean(error),
      ms: durationMs ?? 0,
      said: messages,
    };
    const who = this.#describeOwner(session);
    const did = own ? {} : describeFileEffects({ toolName, params, result, error }, who.folder);
    this.tell({ kind: "tool_called", ...who, ...call, ...end, ...did });
  }

  /** End the turns of sessions. Returns true if any was ended, false if none could be, and
   * undefined if there is none. From now on these turns can call no tool, even while they last. */
  async stopTurns(sessions = []) {
    if (sessions.length === 0) return undefined;
    for (const turn of sessions.map((session) => this.#turns.get(session)))
      if (turn) turn.over = true;
    const { abortAgentHarnessRun, resolveActiveEmbeddedRunSessionId } = await import(
      "openclaw/plugin-sdk/agent-harness"
    );
    const stop = ([session, id]) => {
      const turn = this.#turns.get(session) ?? {};
      const { stopped = false } = turn;
      turn.stopped = true; // set before, since the turn may end during the call
      const done = abortAgentHarnessRun(id);
      turn.stopped = done || stopped;
      return done;
    };
    const turns = sessions
      .map((session) => [session, resolveActiveEmbeddedRunSessionId(session)])
      .filter(([, id]) => id);
    return turns.length ? turns.map(stop).includes(true) : undefined;
  }

  /** End the turns that we began; the daemon resumes them after the gateway's next start. `cancel`
   * cancels them as the gateway's runs first; turns that remain are then ended. */
  async stopOwnTurns(cancel) {
    const ours = [...this.#turns].filter(([, { begunBy }]) => begunBy === "taskmem");
    for (const [, turn] of ours) turn.cut = true;
    await cancel().catch(() => undefined); // those that cannot be cancelled are ended all the same
    return this.stopTurns(ours.map(([session]) => session));
  }

  /** Return, by agent, the fingerprint of what shapes its prompt. */
  computeFingerprints() {
    const ids = [...this.#readAgents().keys()];
    return Object.fromEntries(
      (ids.length ? ids : ["main"]).map((id) => [id, this.#computeFingerprint(id)]),
    );
  }

  /** Return whether a tool is ours, by its plain name or by the name that an MCP host gives it. */
  #isOurs(tool) {
    return this.ownTools.has(tool.replace(/^taskmem__/, ""));
  }

  /** Return the budget `{ left, reason }` of a session's step; none: all calls are allowed, or the
   * daemon does not answer in time. */
  async #fetchBudget(session) {
    // Concurrent calls share one answer, and so spend the same budget.
    const asked =
      this.#budgets.get(session) ?? this.ask("budget", { session_key: session }, BUDGET_MS);
    this.#budgets.set(session, asked);
    try {
      return (await asked).budget;
    } catch {
      if (this.#budgets.get(session) === asked) this.#budgets.delete(session);
      return undefined;
    }
  }

  /** Return each agent's configuration, by its id as session keys have it (lower case). */
  #readAgents() {
    const { agents } = this.api.runtime.config.current();
    return new Map(
      Object.entries(agents?.entries ?? {}).map(([id, agent]) => [id.toLowerCase(), agent]),
    );
  }

  #getTurn(session) {
    if (!this.#turns.has(session))
      this.#turns.set(session, { origin: "other", calls: 0, said: "" });
    return this.#turns.get(session);
  }

  /** Return the fields of an event that say whose work it is; `session` is a root session. */
  #describeOwner(session) {
    const [, agentId] = session.split(":");
    return {
      session_key: session,
      agent_id: agentId,
      folder: this.#findFolder(agentId),
      fingerprint: this.#computeFingerprint(agentId),
    };
  }

  /** Return an agent's workspace folder; undefined: the gateway cannot say. */
  #findFolder(agentId) {
    const { agent, config } = this.api.runtime;
    try {
      return agent.resolveAgentWorkspaceDir(config.current(), agentId);
    } catch {
      return undefined;
    }
  }

  #computeFingerprint(agentId) {
    const { agents } = this.api.runtime.config.current();
    const model = this.#readAgents().get(agentId)?.model ?? agents?.defaults?.model;
    const folder = this.#findFolder(agentId);
    return digest([
      agentId,
      model,
      this.version,
      ...PROMPT_FILES.map((name) => folder && this.#digestFile(join(folder, name))),
    ]);
  }

  /** Return the digest of a file, which is read again only if its time or size has changed;
   * undefined: it cannot be read. */
  #digestFile(path) {
    try {
      const { mtimeMs, size } = statSync(path);
      const mark = `${mtimeMs}:${size}`;
      if (this.#files.get(path)?.mark !== mark)
        this.#files.set(path, { mark, sum: digest(readFileSync(path, "utf8")) });
      return this.#files.get(path).sum;
    } catch {
      return undefined;
    }
  }
}
