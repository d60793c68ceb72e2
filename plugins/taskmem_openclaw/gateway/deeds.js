// What a call of OpenClaw's tools may have done to files, in terms that the daemon knows.
import { homedir } from "node:os";
import { dirname, isAbsolute, join, resolve } from "node:path";

// These leave nothing behind; of any tool that is not known here, nobody can tell.
const READS = new Set([
  ...["read", "ls", "find", "grep", "glob", "search", "view_image", "web_fetch", "web_search", "x_search", "memory_get", "get_goal"],
  ...["sessions_list", "sessions_history", "sessions_search", "agents_list", "conversations_list", "tool_search", "tool_describe"],
]);

const MOST_TOUCHED = 1_000; // files of one report: the daemon refuses one with more

/**
 * The files that a call has changed, by their absolute paths, and the folders that it used;
 * `command`: it may have changed anything in them.
 */
export function deeds({ toolName, params, result, error }, workspace) {
  const details = result?.details ?? {};
  const absolute = (path) => (path.startsWith("~/") ? join(homedir(), path.slice(2)) : resolve(workspace ?? "/", path));
  const touch = (change) => (path) => ({ path: absolute(path), change });
  const path = params?.path ?? params?.file_path;
  const named = typeof path === "string" && (workspace || isAbsolute(path)) ? path : undefined;
  const folders = named ? [dirname(absolute(named))] : [];
  switch (toolName) {
    case "write":
    case "edit": {
      const changed = named && !error && details.changed !== false;
      return { folders, touched: changed ? [touch(details.created ? "created" : "changed")(named)] : [] };
    }
    case "apply_patch": {
      const { added = [], modified = [], deleted = [] } = details.summary ?? {};
      const touched = [...added.map(touch("created")), ...modified.map(touch("changed")), ...deleted.map(touch("removed"))];
      return { touched: touched.slice(0, MOST_TOUCHED) };
    }
    default: {
      if (READS.has(toolName)) return { folders };
      const used = [workspace, details.cwd ?? params?.workdir].filter((folder) => typeof folder === "string");
      return { command: true, folders: [...new Set(used.map(absolute))] };
    }
  }
}
