// Describe what a call of OpenClaw's tools may have done to files, as the daemon's reports have it.
import { homedir } from "node:os";
import { dirname, isAbsolute, join, resolve } from "node:path";

// Tools that change nothing; any unknown tool may have changed anything in its folders.
const READS = new Set([
  ...[
    "read",
    "ls",
    "find",
    "grep",
    "glob",
    "search",
    "view_image",
    "web_fetch",
    "web_search",
    "x_search",
    "memory_get",
    "get_goal",
  ],
  ...[
    "sessions_list",
    "sessions_history",
    "sessions_search",
    "agents_list",
    "conversations_list",
    "tool_search",
    "tool_describe",
  ],
]);

const MOST_TOUCHED = 1_000; // files of one call: the daemon refuses a report with more

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
