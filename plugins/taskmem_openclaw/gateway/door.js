// Where the daemon comes in: a Unix socket beside its own, a JSON object a line.
import { chmodSync, rmSync } from "node:fs";
import { createServer } from "node:net";

const LONGEST = 1_000_000;

/** Answer each request by the handler of its name, until it is closed; `failed(error)`
 * is called when it cannot be opened. */
export function openDoor(path, handlers, failed) {
  const server = createServer((socket) => {
    let rest = "";
    socket.setEncoding("utf8");
    socket.on("error", () => socket.destroy());
    socket.on("data", (text) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop();
      if (rest.length > LONGEST) socket.destroy();
      for (const line of lines) void answer(line).then((said) => socket.write(`${said}\n`));
    });
  });
  const answer = async (line) => {
    try {
      const { ask, ...given } = JSON.parse(line);
      if (!Object.hasOwn(handlers, ask)) throw new Error(`the plug-in knows no ${ask}`);
      return JSON.stringify((await handlers[ask](given)) ?? {});
    } catch (error) {
      return JSON.stringify({ failed: String(error?.message ?? error) });
    }
  };
  rmSync(path, { force: true });
  server.on("error", failed);
  server.listen(path, () => {
    try {
      chmodSync(path, 0o600);
    } catch (error) {
      server.close();
      failed(error);
    }
  });
  server.unref();
  return server;
}
