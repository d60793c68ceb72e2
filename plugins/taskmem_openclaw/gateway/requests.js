// What the plug-in asks the gateway for by name, and the gateway's sessions.
const MOST_LISTED = 500; // on one page: the most that the gateway gives

// What an older OpenClaw may not have.
const sdk = () => import("openclaw/plugin-sdk/agent-harness-runtime").catch(() => ({}));

/** Whether this OpenClaw lets a plug-in make requests. */
export const canRequest = async () => Boolean((await sdk()).callGatewayTool);

export async function request(method, params) {
  const { callGatewayTool } = await sdk();
  if (!callGatewayTool) throw new Error("this OpenClaw lets no plug-in make requests");
  return callGatewayTool(method, {}, params);
}

/** Show a line in a session's chat; no model reads it. */
export const showLine = (sessionKey, message) => request("chat.inject", { sessionKey, message, label: "taskmem" });

/** The gateway's rows of the commands that run, or ran, in the background. */
export async function listCommands(filter) {
  const rows = [];
  for (let page = {}; page; page = page.nextCursor && { cursor: page.nextCursor }) {
    page = await request("tasks.list", { ...filter, limit: MOST_LISTED, ...page });
    rows.push(...page.tasks.filter(({ kind }) => kind === "exec"));
  }
  return rows;
}

/** What the gateway keeps of a session; undefined: it has none of that name. */
export function readSession(api, sessionKey) {
  const [, agentId] = sessionKey.split(":");
  return api.runtime.agent.session.getSessionEntry({ agentId, sessionKey });
}
