// Send requests to the gateway, and read its session entries.
const MOST_LISTED = 500; // rows on one page: the gateway's maximum

export async function request(method, params) {
  const { callGatewayTool } = await import("openclaw/plugin-sdk/agent-harness-runtime");
  return callGatewayTool(method, {}, params);
}

/** Show a line in a session's chat; no model reads it. */
export const showLine = (sessionKey, message) =>
  request("chat.inject", { sessionKey, message, label: "taskmem" });

/** Return the gateway's rows of what runs, or ran, in the background, of one kind; the latest
 * first. */
export async function listTasks(wanted, filter) {
  const rows = [];
  for (let page = {}; page; page = page.nextCursor && { cursor: page.nextCursor }) {
    page = await request("tasks.list", { ...filter, limit: MOST_LISTED, ...page });
    rows.push(...page.tasks.filter(({ kind }) => kind === wanted));
  }
  return rows;
}

/** Return the same of commands. */
export const listCommands = (filter) => listTasks("exec", filter);

/** Return the gateway's entry of a session; undefined: it has no such session. */
export function readSession(api, sessionKey) {
  const [, agentId] = sessionKey.split(":");
  return api.runtime.agent.session.getSessionEntry({ agentId, sessionKey });
}
