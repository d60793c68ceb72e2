import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { dirname, join } from "node:path";
import { mock, test } from "node:test";
import { folder, load } from "./stand_ins.mjs";

const { RequestServer } = await load("request_server.js");
const there = (path) => existsSync(path) && statSync(path).isSocket();

async function until(fulfilled) {
  while (!fulfilled()) await new Promise((done) => setImmediate(done));
}

async function serve(test, handlers, path = join(folder(test), "openclaw.sock")) {
  const warned = [];
  const made = new RequestServer(() => path, handlers, { warn: (line) => warned.push(line) });
  test.after(() => made.close());
  made.open();
  await until(() => made.path || warned.length);
  return { path, made, warned };
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
  return all
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
}

test("a request is answered by the handler of its name", async (t) => {
  const { path } = await serve(t, { add: async ({ a, b }) => ({ sum: a + b }) });
  assert.deepEqual(await said(path, '{"ask":"add","a":1,"b":2}\n'), [{ sum: 3 }]);
});

test("nobody else on the machine may knock", async (t) => {
  const { path } = await serve(t, {});
  assert.equal(statSync(path).mode & 0o777, 0o600);
});

test("whatever is asked is answered, also nonsense", async (t) => {
  const { path } = await serve(t, {
    nothing: () => undefined,
    fail: () => {
      throw new Error("it broke");
    },
  });
  const asked = [
    "{",
    "[]",
    "7",
    "null",
    '{"ask":"unknown"}',
    '{"ask":"toString"}',
    '{"ask":"fail"}',
    '{"ask":"nothing"}',
  ];
  const answers = [];
  for (const each of asked) answers.push(...(await said(path, `${each}\n`)));
  assert.equal(answers.length, asked.length);
  assert.ok(answers.slice(0, 6).every(({ failed }) => typeof failed === "string"));
  assert.deepEqual(answers.slice(6), [{ failed: "it broke" }, {}]);
});

test("requests may come in pieces, and several on one connection", async (t) => {
  const { path } = await serve(t, { echo: ({ word }) => ({ word }) });
  const socket = connect(path).setEncoding("utf8");
  socket.write('{"ask":"echo",');
  await once(socket, "connect");
  socket.write('"word":"one"}\n{"ask":"echo","word":"two"}\n');
  let all = "";
  while (all.split("\n").length < 3) all += await once(socket, "data");
  socket.destroy();
  const words = all
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line).word);
  assert.deepEqual(words.sort(), ["one", "two"]);
});

test("who sends a line without an end is shown out", async (t) => {
  const { path } = await serve(t, {});
  const socket = connect(path);
  socket.on("error", () => {});
  const shown_out = new Promise((done) => socket.on("close", done));
  socket.write("x".repeat(8_500_000));
  await shown_out;
});

test("a door that cannot be opened is told of once, and opened when it can be", async (t) => {
  mock.timers.enable({ apis: ["setInterval"] });
  t.after(() => mock.timers.reset());
  const home = join(folder(t), "home");
  const { made, warned } = await serve(t, { ask: () => ({}) }, join(home, "openclaw.sock"));
  made.open();
  await until(() => warned.length);
  mkdirSync(home);
  mock.timers.tick(5_000);
  await until(() => made.path);
  assert.equal(warned.length, 1);
  assert.match(warned[0], /no wake gets in .*; run: taskmem doctor/);
});

for (const [what, ruin] of [
  ["taken away", (path) => rmSync(path)],
  [
    "replaced by a dead one",
    (path) => {
      rmSync(path);
      return writeFileSync(path, "");
    },
  ],
])
  test(`a door that is ${what} is opened again`, async (t) => {
    mock.timers.enable({ apis: ["setInterval"] });
    t.after(() => mock.timers.reset());
    const { path } = await serve(t, { ping: () => ({ pong: true }) });
    ruin(path);
    mock.timers.tick(5_000);
    await until(() => there(path));
    assert.deepEqual(await said(path, '{"ask":"ping"}\n'), [{ pong: true }]);
  });

test("where somebody is at home already, he stays, and his door is not taken away", async (t) => {
  mock.timers.enable({ apis: ["setInterval"] });
  t.after(() => mock.timers.reset());
  const { path } = await serve(t, { who: () => ({ who: "first" }) });
  const second = new RequestServer(
    () => path,
    { who: () => ({ who: "second" }) },
    { warn: assert.fail },
  );
  second.open();
  assert.deepEqual(await said(path, '{"ask":"who"}\n'), [{ who: "first" }]);
  second.close();
  assert.deepEqual(await said(path, '{"ask":"who"}\n'), [{ who: "first" }]);
});

test("of two gateways of one home the other is asked when the first is gone", async (t) => {
  mock.timers.enable({ apis: ["setInterval"] });
  t.after(() => mock.timers.reset());
  const { path, made } = await serve(t, { who: () => ({ who: "first" }) });
  const second = new RequestServer(
    () => path,
    { who: () => ({ who: "second" }) },
    { warn: assert.fail },
  );
  t.after(() => second.close());
  second.open();
  assert.deepEqual(await said(path, '{"ask":"who"}\n'), [{ who: "first" }]);
  made.close();
  mock.timers.tick(5_000);
  await until(() => there(path));
  assert.deepEqual(await said(path, '{"ask":"who"}\n'), [{ who: "second" }]);
  assert.deepEqual(readdirSync(dirname(path)), ["openclaw.sock"]);
});

test("of several gateways of one home each has a door of its own", async (t) => {
  const { path } = await serve(t, {});
  const others = ["openclaw-2.sock", "openclaw-3.sock"].map((name) => join(dirname(path), name));
  for (const other of others) {
    const made = new RequestServer(
      () => path,
      { who: () => ({ who: other }) },
      { warn: assert.fail },
    );
    t.after(() => made.close());
    made.open();
    await until(() => there(other));
    assert.deepEqual(await said(other, '{"ask":"who"}\n'), [{ who: other }]);
  }
});

test("a gateway for which no door is left says so", async (t) => {
  const path = join(folder(t), "openclaw.sock");
  for (let number = 1; number <= 4; number++)
    assert.deepEqual((await serve(t, {}, path)).warned, []);
  const { warned } = await serve(t, {}, path);
  assert.deepEqual(warned, [
    "taskmem: no wake gets in (4 other gateways use this home); run: taskmem doctor",
  ]);
});

test("a door that is closed leaves nothing behind", async (t) => {
  const { path, made } = await serve(t, {});
  made.close();
  assert.deepEqual(readdirSync(dirname(path)), []);
});

test("a handler is told when nobody waits for its answer any more", async (t) => {
  let given;
  const begun = new Promise((done) => {
    t.told = (signal) => {
      given = signal;
      done();
    };
  });
  const { path } = await serve(t, {
    slow: (_, signal) => {
      t.told(signal);
      return new Promise(() => {});
    },
  });
  const socket = connect(path);
  socket.write('{"ask":"slow"}\n');
  await begun;
  assert.equal(given.aborted, false);
  socket.destroy();
  await until(() => given.aborted);
});

test("a request of some megabytes arrives whole, in pieces", async (t) => {
  const { path } = await serve(t, { size: ({ jpeg }) => ({ length: jpeg.length }) });
  const request = (jpeg) => `${JSON.stringify({ ask: "size", jpeg })}\n`;
  const big = "x".repeat(5_000_000);
  assert.deepEqual(await said(path, request(big) + request("y"), 2), [
    { length: 5_000_000 },
    { length: 1 },
  ]);
});
