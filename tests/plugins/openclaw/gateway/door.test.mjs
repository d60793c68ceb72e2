import assert from "node:assert/strict";
import { once } from "node:events";
import { rmSync, statSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { folder, load } from "./stand_ins.mjs";

const { openDoor } = await load("door.js");

async function door(test, handlers) {
  const path = join(folder(test), "openclaw.sock");
  const server = openDoor(path, handlers, assert.ifError);
  test.after(() => server.close());
  await once(server, "listening");
  return { path, server };
}

/** Knock, say something, and return what is answered until a number of lines has come. */
async function said(path, text, lines = 1) {
  const socket = connect(path);
  socket.write(text);
  let all = "";
  for await (const chunk of socket.setEncoding("utf8")) {
    all += chunk;
    if (all.split("\n").length > lines) break;
  }
  return all.split("\n").filter(Boolean).map((line) => JSON.parse(line));
}

test("a request is answered by the handler of its name", async (t) => {
  const { path } = await door(t, { add: async ({ a, b }) => ({ sum: a + b }) });
  assert.deepEqual(await said(path, '{"ask":"add","a":1,"b":2}\n'), [{ sum: 3 }]);
});

test("nobody else on the machine may knock", async (t) => {
  const { path } = await door(t, {});
  assert.equal(statSync(path).mode & 0o777, 0o600);
});

test("whatever is asked is answered, also nonsense", async (t) => {
  const { path } = await door(t, {
    nothing: () => undefined,
    fail: () => {
      throw new Error("it broke");
    },
  });
  const asked = ["{", "[]", "7", "null", '{"ask":"unknown"}', '{"ask":"toString"}', '{"ask":"fail"}', '{"ask":"nothing"}'];
  const answers = [];
  for (const each of asked) answers.push(...(await said(path, `${each}\n`)));
  assert.equal(answers.length, asked.length);
  assert.ok(answers.slice(0, 6).every(({ failed }) => typeof failed === "string"));
  assert.deepEqual(answers.slice(6), [{ failed: "it broke" }, {}]);
});

test("requests may come in pieces, and several on one connection", async (t) => {
  const { path } = await door(t, { echo: ({ word }) => ({ word }) });
  const socket = connect(path).setEncoding("utf8");
  socket.write('{"ask":"echo",');
  await once(socket, "connect");
  socket.write('"word":"one"}\n{"ask":"echo","word":"two"}\n');
  let all = "";
  while (all.split("\n").length < 3) all += await once(socket, "data");
  socket.destroy();
  const words = all.trim().split("\n").map((line) => JSON.parse(line).word);
  assert.deepEqual(words.sort(), ["one", "two"]);
});

test("who sends a line without an end is shown out", async (t) => {
  const { path } = await door(t, {});
  const socket = connect(path);
  socket.on("error", () => {});
  const shown_out = new Promise((done) => socket.on("close", done));
  socket.write("x".repeat(1_500_000));
  await shown_out;
});

test("a door that cannot be opened is told of, and breaks nothing", async (t) => {
  const path = join(folder(t), "no", "such", "folder.sock");
  const error = await new Promise((told) => openDoor(path, {}, told));
  assert.equal(error.syscall, "listen");
});

test("a door that somebody takes away while it opens is told of, and breaks nothing", async (t) => {
  const path = join(folder(t), "openclaw.sock");
  const error = await new Promise((told) => {
    const server = openDoor(path, {}, told);
    server.prependListener("listening", () => rmSync(path));
  });
  assert.equal(error.code, "ENOENT");
});
