import assert from "node:assert/strict";
import { once } from "node:events";
import { chmodSync, existsSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { mock, test } from "node:test";
import { daemon, folder, kinds, load, runCommand } from "./stand_ins.mjs";

const { DaemonClient, withTimeout } = await load("daemon_client.js");
const LONG = 60_000;

function line(test, home, more = {}) {
  const warned = [];
  const known = [];
  const made = new DaemonClient({
    command: ["/bin/false"],
    home,
    runCommand,
    buildHello: () => ({ kind: "gateway", boot: "b" }),
    onConnected: () => known.push(true),
    logger: { warn: (said) => warned.push(said) },
    ...more,
  });
  test.after(() => made.close());
  return Object.assign(made, { warned, told_known: known });
}

async function both(test, more) {
  const home = folder(test);
  return { home, there: await daemon(test, home), here: line(test, home, more) };
}

test("a daemon is told of the gateway before anything else, and then it is known", async (t) => {
  const { here, there } = await both(t);
  there.answer = ({ method }) => ({ result: method === "report" ? {} : { text: "packet" } });
  assert.deepEqual(await here.call("packet", { session_key: "s" }, LONG), { text: "packet" });
  assert.deepEqual(
    there.received.map(({ method }) => method),
    ["report", "packet"],
  );
  assert.equal(there.events()[0].kind, "gateway");
  assert.equal(here.told_known.length, 1);
});

test("reports come in order, on one connection", async (t) => {
  const { here, there } = await both(t);
  for (let n = 0; n < 120; n++) here.queueEvent({ kind: `k${n}` });
  await there.until((d) => kinds(d.events()).length === 120);
  assert.deepEqual(
    kinds(there.events()),
    Array.from({ length: 120 }, (_, n) => `k${n}`),
  );
  assert.equal(there.sockets.length, 1);
});

test("what is told while no daemon runs is told when one does, the last five hundred", async (t) => {
  const home = folder(t);
  const here = line(t, home);
  for (let n = 0; n < 600; n++) here.queueEvent({ kind: `k${n}` });
  await assert.rejects(here.call("packet", {}, LONG), /could not be started/);
  const there = await daemon(t, home);
  here.stayConnected();
  await there.until((d) => kinds(d.events()).includes("k599"));
  const told = kinds(there.events());
  assert.equal(told.length, 500);
  assert.equal(told[0], "k100");
});

const refused = (name) => ({ error: { error: name, message: "not that" } });
const holds = ({ params }, kind) => params.events?.some((event) => event.kind === kind);

test("a report that is no report is given up and said so, and those around it are told", async (t) => {
  const { here, there } = await both(t);
  there.answer = (asked) => (holds(asked, "bad") ? refused("invalid_arguments") : { result: {} });
  for (const kind of ["first", "bad", "good"]) here.queueEvent({ kind });
  await there.until(
    (d) => kinds(d.events()).at(-1) === "good" && d.received.at(-1).params.events.length === 1,
  );
  const alone = there.received.filter(({ params }) => params.events.length === 1);
  assert.deepEqual(kinds(alone.flatMap(({ params }) => params.events)), ["first", "bad", "good"]);
  assert.match(here.warned.join(), /a report was refused, and is lost \(not that\)/);
});

test("what is longer than a daemon takes is refused here, and reports go one by one", async (t) => {
  const { here, there } = await both(t);
  await assert.rejects(here.call("call", { x: "x".repeat(1024 * 1024) }, LONG), /more than 1 MiB/);
  await assert.rejects(here.call("call", { x: Array(100_002).fill(0) }, LONG), {
    name: "invalid_arguments",
  });
  for (const kind of ["a", "b", "c"]) here.queueEvent({ kind, words: "x".repeat(400_000) });
  await there.until((d) => kinds(d.events()).length === 3);
  assert.ok(
    there.received.every(({ method, params }) => method === "report" && params.events.length === 1),
  );
});

test("what is told again keeps its number, and what is told later has a higher one", async (t) => {
  const { here, there } = await both(t);
  let lost = true;
  there.answer = (asked) => {
    if (!lost || !holds(asked, "first")) return { result: {} };
    lost = false;
    there.sockets[0].destroy();
  };
  here.queueEvent({ kind: "first" });
  here.queueEvent({ kind: "second" });
  const numbers = (kind) =>
    there
      .events()
      .filter((each) => each.kind === kind)
      .map(({ number }) => number);
  await there.until(() => numbers("first").length === 2 && numbers("second").length > 0);
  assert.equal(new Set(numbers("first")).size, 1);
  assert.ok(numbers("first")[0] < numbers("second")[0]);
  assert.deepEqual(numbers("gateway"), [undefined, undefined]);
});

test("what a daemon in trouble cannot take is told again, in order", async (t) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  t.after(() => mock.timers.reset());
  const { here, there } = await both(t);
  let busy = true;
  there.answer = (asked) =>
    busy && holds(asked, "first") ? refused("store_busy") : { result: {} };
  here.queueEvent({ kind: "first" });
  here.queueEvent({ kind: "second" });
  await there.until((d) => d.received.length === 3);
  await here.call("status", {}, LONG);
  busy = false;
  mock.timers.tick(1_000);
  await there.until((d) => kinds(d.events()).at(-1) === "second");
  assert.deepEqual(here.warned, []);
});

test("a report that is refused for ever does not hold up the others for ever", async (t) => {
  const { here, there } = await both(t);
  there.answer = (asked) => (holds(asked, "bad") ? refused("store_busy") : { result: {} });
  here.queueEvent({ kind: "bad" });
  here.queueEvent({ kind: "good" });
  for (let n = 0; n < 30 && here.warned.length === 0; n++) {
    here.stayConnected();
    await here.call("status", {}, LONG);
  }
  await there.until((d) => kinds(d.events()).at(-1) === "good");
  assert.equal(here.warned.length, 1);
});

test("a line that breaks, however often, loses no report", async (t) => {
  const { here, there } = await both(t);
  let left = 12;
  there.answer = (asked) => {
    if (!holds(asked, "told") || left-- <= 0) return { result: {} };
    there.sockets.at(-1).destroy();
  };
  here.queueEvent({ kind: "told" });
  await there.until((d) => left < 0 && d.received.length > 0);
  assert.deepEqual(here.warned, []);
});

test("where too much is told, calls of tools go first", async (t) => {
  const home = folder(t);
  const here = line(t, home);
  here.queueEvent({ kind: "turn_ended" });
  for (let n = 0; n < 600; n++) here.queueEvent({ kind: n % 2 ? "tool_called" : "tool_started" });
  for (let n = 0; n < 499; n++) here.queueEvent({ kind: "session_ended" });
  const there = await daemon(t, home);
  here.stayConnected();
  await there.until((d) => kinds(d.events()).length === 500);
  assert.deepEqual(kinds(there.events()).slice(0, 2), ["turn_ended", "session_ended"]);
});

for (const broken of ["buildHello", "onConnected"])
  test(`where ${broken}() fails, the connection is closed, and made again after a rest`, async (t) => {
    mock.timers.enable({ apis: ["setTimeout"] });
    t.after(() => mock.timers.reset());
    const { here, there } = await both(t, { [broken]: () => assert.fail("EIO") });
    for (let n = 0; n < 3; n++) await assert.rejects(here.call("status", {}, LONG), /EIO/);
    await Promise.all(
      there.sockets.map(
        (socket) => socket.closed || new Promise((done) => socket.on("close", done)),
      ),
    );
    assert.equal(there.sockets.length, 3);
  });

test("a hello that is refused is said again only after ever longer rests", async (t) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  t.after(() => mock.timers.reset());
  const { here, there } = await both(t);
  there.answer = () => refused("invalid_arguments");
  const closed = () =>
    Promise.all(
      there.sockets.map(
        (socket) => socket.closed || new Promise((done) => socket.on("close", done)),
      ),
    );
  for (const [n, rest] of [250, 1_000, 5_000].entries()) {
    if (n === 0) here.stayConnected();
    await there.until((d) => d.received.length === n + 1);
    await closed();
    mock.timers.tick(rest - 1);
    assert.equal(there.received.length, n + 1);
    mock.timers.tick(1);
  }
  await there.until((d) => d.received.length === 4);
});

test("a daemon that is there and refuses is not started once more", async (t) => {
  const home = folder(t);
  const note = join(home, "note");
  const program = join(home, "program");
  writeFileSync(program, `#!/bin/sh\ntouch ${note}\n`, { mode: 0o700 });
  const there = await daemon(t, home);
  there.greeting = '{"error":"protocol","message":"Too new."}\n';
  await assert.rejects(line(t, home, { command: [program] }).call("status", {}, LONG), /Too new/);
  assert.equal(existsSync(note), false);
});

test("a refusal of the daemon is thrown by its name", async (t) => {
  const { here, there } = await both(t);
  there.answer = ({ method }) =>
    method === "report"
      ? { result: {} }
      : { error: { error: "task_not_found", message: "No task." } };
  await assert.rejects(here.call("call", {}, LONG), {
    name: "task_not_found",
    message: "No task.",
  });
});

test("an answer that does not come in time is given up, and said to be unknown", async (t) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  t.after(() => mock.timers.reset());
  const { here, there } = await both(t);
  there.answer = ({ method }) => method === "report" && { result: {} };
  const call = here.call("call", {}, 500);
  await there.until((d) => d.received.length === 2);
  mock.timers.tick(500);
  await assert.rejects(call, /did not answer call within 500 ms; it may or may not have been done/);
});

test("a daemon that ends under a call says so, and is found again and greeted", async (t) => {
  const { here, there } = await both(t);
  there.answer = ({ method }) => method === "report" && { result: {} };
  const call = here.call("call", {}, LONG);
  await there.until((d) => d.received.length === 2);
  there.sockets[0].destroy();
  await assert.rejects(call, /ended while this call was running/);
  there.answer = () => ({ result: {} });
  // Nobody asks: it looks by itself.
  await there.until((d) => d.events().filter(({ kind }) => kind === "gateway").length === 2);
});

for (const said of ["hello\n", "{\n", "null\n", "{}\n", "[[[\n", "\u0000\n"]) {
  test(`a daemon that greets with ${JSON.stringify(said)} is none`, async (t) => {
    const { here, there } = await both(t);
    there.greeting = said;
    const message =
      "Something that is not a taskmem daemon answers on its socket. See: taskmem doctor";
    await assert.rejects(here.call("call", {}, LONG), { name: "daemon_unavailable", message });
  });
}

test("a daemon that answers nonsense is left, and the call says so", async (t) => {
  const { here, there } = await both(t);
  there.answer = ({ method }) => (method === "report" ? { result: {} } : "nonsense\n");
  await assert.rejects(here.call("call", {}, LONG), /ended while this call was running/);
});

test("a daemon that refuses the gateway is not called known", async (t) => {
  const { here, there } = await both(t);
  there.answer = () => ({ error: { error: "invalid", message: "Too old." } });
  await assert.rejects(here.call("call", {}, LONG), /Too old/);
  assert.equal(here.told_known.length, 0);
});

test("where no daemon runs, one is started with the home, and then reached", async (t) => {
  const home = folder(t);
  const program = join(home, "program");
  const note = join(home, "note");
  writeFileSync(program, `#!/bin/sh\necho "$@ $TASKMEM_HOME" > ${note}\nexit 3\n`);
  chmodSync(program, 0o700);
  const here = line(t, home, { command: [program, "--verbose"] });
  await assert.rejects(here.call("call", {}, LONG), { name: "daemon_unavailable" });
  assert.equal(readFileSync(note, "utf8").trim(), `--verbose daemon --detach ${home}`);
});

test("the gateway's own runner starts it, in its environment, without its input", async (t) => {
  const home = folder(t);
  const asked = [];
  const run = async (...given) => asked.push(given) && { code: 3, stderr: "" };
  const here = line(t, home, { command: ["taskmem", "-v"], runCommand: run });
  await assert.rejects(here.call("call", {}, LONG), { name: "daemon_unavailable" });
  const [[argv, { signal, ...options }]] = asked;
  assert.deepEqual(argv, ["taskmem", "-v", "daemon", "--detach"]);
  assert.deepEqual(options, { env: { TASKMEM_HOME: home }, input: "", timeoutMs: 30_000 });
  assert.equal(signal.aborted, false);
});

for (const [how, end, why] of [
  ["ends with a status", { code: 3, termination: "exit" }, "exit status 3"],
  ["is killed", { code: null, signal: "SIGKILL", termination: "signal" }, "exit status SIGKILL"],
  ["takes too long", { code: 124, termination: "timeout" }, "no answer in 30 s"],
  ["cannot be begun", new Error("Launch failed (ENOENT)"), "Launch failed (ENOENT)"],
])
  test(`a command that ${how} is told in one sentence`, async (t) => {
    const run = async () => {
      if (end instanceof Error) throw end;
      return { stdout: "", stderr: "", ...end };
    };
    await assert.rejects(line(t, folder(t), { runCommand: run }).call("status", {}, LONG), {
      name: "daemon_unavailable",
      message: `The daemon could not be started by /bin/false (${why}). See: taskmem doctor`,
    });
  });

test("a daemon that ends as it lets us in is followed by another", async (t) => {
  const home = folder(t);
  const ending = createServer((socket) => socket.destroy()).listen(join(home, "daemon.sock"));
  t.after(() => ending.close());
  const program = join(home, "program");
  writeFileSync(program, "#!/bin/sh\necho 'Another is started.' >&2\nexit 1\n", { mode: 0o700 });
  const here = line(t, home, { command: [program] });
  await assert.rejects(here.call("status", {}, LONG), {
    message: "Another is started. See: taskmem doctor",
  });
});

const GONE =
  "The daemon ended as it was being reached; nothing was done. Call again, and one is started.";
for (const [left, leave] of [
  ["no socket", () => undefined],
  ["a socket on which nobody listens", (socket) => writeFileSync(socket, "")],
  [
    "one that hangs up",
    (socket, t) => {
      const ending = createServer((client) => client.destroy()).listen(socket);
      t.after(() => ending.close());
    },
  ],
])
  test(`a daemon that started and left ${left} has ended`, async (t) => {
    const home = folder(t);
    leave(join(home, "daemon.sock"), t);
    const here = line(t, home, { command: ["/bin/true"] });
    await assert.rejects(here.call("status", {}, LONG), {
      name: "daemon_unavailable",
      message: GONE,
    });
  });

test("a daemon that ends as it is greeted has not begun the call", async (t) => {
  const { here, there } = await both(t);
  there.answer = () => void there.sockets[0].destroy();
  await assert.rejects(here.call("status", {}, LONG), {
    name: "daemon_unavailable",
    message: GONE,
  });
});

test("a socket that cannot be used is told of with what to do", async (t) => {
  const home = folder(t);
  symlinkSync("daemon.sock", join(home, "daemon.sock"));
  const message = "The daemon's socket cannot be used (ELOOP). See: taskmem doctor";
  await assert.rejects(line(t, home).call("status", {}, LONG), {
    name: "daemon_unavailable",
    message,
  });
});

test("it is warned of once, however often it is tried", async (t) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  t.after(() => mock.timers.reset());
  const here = line(t, folder(t));
  for (let n = 0; n < 3; n++) {
    here.stayConnected();
    await here.call("call", {}, LONG).catch(() => {});
  }
  assert.equal(here.warned.length, 1);
  assert.match(here.warned[0], /See: taskmem doctor/);
});

test("what kept a start from coming through is told in its own words, and later with its age", async (t) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  t.after(() => mock.timers.reset());
  const home = folder(t);
  const program = join(home, "program");
  writeFileSync(program, "#!/bin/sh\necho 'Process 7 holds it.' >&2\nexit 1\n", { mode: 0o700 });
  const here = line(t, home, { command: [program] });
  await assert.rejects(here.call("status", {}, LONG), {
    message: "Process 7 holds it. See: taskmem doctor",
  });
  await assert.rejects(here.call("status", {}, LONG), {
    message: /^\d+ s ago: Process 7 holds it\./,
  });
});

test("a call that is late while a daemon is being started says so", async (t) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  t.after(() => mock.timers.reset());
  const home = folder(t);
  const begun = createServer().listen(join(home, "begun.sock"));
  t.after(() => begun.close());
  const script = `require("net").connect(${JSON.stringify(join(home, "begun.sock"))})`;
  const here = line(t, home, { command: [process.execPath, "-e", script, "--"] });
  const call = here.call("status", {}, 500);
  await once(begun, "connection");
  mock.timers.tick(500);
  await assert.rejects(call, /not reached within 500 ms and is being started; call again/);
});

test("before a daemon is reached nothing is done, and a call that is late says so", async (t) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  t.after(() => mock.timers.reset());
  const { here, there } = await both(t);
  there.answer = () => undefined;
  const call = here.call("call", {}, 500);
  await there.until((d) => d.received.length === 1);
  mock.timers.tick(500);
  await assert.rejects(call, /was not reached within 500 ms; nothing was done/);
});

test("one that is closed while it opens leaves no connection behind", async (t) => {
  const { here, there } = await both(t);
  const call = here.call("status", {}, LONG);
  here.close();
  await assert.rejects(call, /has stopped/);
  await Promise.all(
    there.sockets.map((socket) => socket.closed || new Promise((done) => socket.on("close", done))),
  );
  await assert.rejects(here.call("status", {}, LONG), /has stopped/);
  assert.equal(here.told_known.length, 0);
});

test("one that is closed while it starts a daemon ends the start, and calls it no failure", async (t) => {
  const home = folder(t);
  const begun = createServer().listen(join(home, "begun.sock"));
  t.after(() => begun.close());
  const script = `require("net").connect(${JSON.stringify(join(home, "begun.sock"))})`;
  const here = line(t, home, { command: [process.execPath, "-e", script, "--"] });
  here.stayConnected();
  const call = here.call("status", {}, LONG);
  const [starting] = await once(begun, "connection");
  const ended = once(starting.resume(), "close");
  here.close();
  await Promise.all([assert.rejects(call, /has stopped/), ended]);
  assert.deepEqual(here.warned, []);
});

test("a call that is not answered when the plug-in stops ends", async (t) => {
  const { here, there } = await both(t);
  await here.call("status", {}, LONG);
  there.answer = () => undefined;
  const call = here.call("call", {}, LONG);
  await there.until((d) => d.received.at(-1).method === "call");
  here.close();
  await assert.rejects(call, /has stopped/);
});

test("where the gateway stops, calls of before and after wait no longer than is left", async (t) => {
  const { here, there } = await both(t);
  await here.call("status", {}, LONG);
  mock.timers.enable({ apis: ["setTimeout"] });
  t.after(() => mock.timers.reset());
  there.answer = () => undefined;
  const before = here.call("before", {}, LONG);
  here.limitCalls(500);
  const after = here.call("after", {}, LONG);
  await there.until((d) => d.received.at(-1).method === "after");
  mock.timers.tick(500);
  await assert.rejects(before, { name: "daemon_unavailable", message: /^The gateway stops/ });
  await assert.rejects(after, /did not answer after within 500 ms/);
});

test("what the daemon answers to a report is heard, and to a greeting or a call is not", async (t) => {
  const heard = [];
  const { here, there } = await both(t, { onAnswer: (...said) => heard.push(said) });
  there.answer = ({ method }) => ({ result: { to: method } });
  here.queueEvent({ kind: "turn_started" });
  await here.awaitReports(LONG);
  await here.call("call", {}, LONG);
  assert.deepEqual(heard, [[{ to: "report" }, there.events().slice(1)]]);
});

test("what went before is kept once the daemon has said so, and not before", async (t) => {
  const { here, there } = await both(t);
  let said;
  there.answer = (asked) => {
    if (!holds(asked, "told")) return { result: {} };
    said = () => there.sockets[0].write(`{"id":${asked.id},"result":{}}\n`);
    return undefined;
  };
  await here.awaitReports(LONG);
  here.queueEvent({ kind: "told" });
  let kept = false;
  const waiting = here.awaitReports(LONG).then(() => (kept = true));
  await there.until((d) => d.received.some((asked) => holds(asked, "told")));
  await here.call("status", {}, LONG);
  assert.equal(kept, false);
  said();
  await waiting;
});

test("nobody waits longer for what is not kept than was said", async (t) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  t.after(() => mock.timers.reset());
  const { here, there } = await both(t);
  there.answer = (asked) => (holds(asked, "told") ? undefined : { result: {} });
  here.queueEvent({ kind: "told" });
  await there.until((d) => d.received.length === 2);
  const waiting = here.awaitReports(150);
  mock.timers.tick(150);
  assert.equal(await waiting, undefined);
});

test("what comes in time is not late", async () => {
  assert.equal(await withTimeout(Promise.resolve(7), LONG, "late"), 7);
  await assert.rejects(withTimeout(Promise.reject(new Error("no")), LONG, "late"), /no/);
});
