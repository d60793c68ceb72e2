import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { mock, test } from "node:test";
import { daemon, folder, gateway, load, MAIN, OTHER, sdk } from "./stand_ins.mjs";

const { default: plugin } = await load("index.js");
const INSTANCE = Symbol.for("openclaw-taskmem");
const said_by_user = (content) => [{ message: { role: "user", content } }, { sessionKey: MAIN }];
const turn = (runId = "r1", sessionKey = MAIN) => [{}, { sessionKey, runId }];

/** A gateway with the plug-in registered, and started against a stand-in for a daemon. */
async function at_home(test, { started = true, packet = "the packet", says = {}, config } = {}) {
  const state = folder(test);
  const there = await daemon(test, state);
  const answers = {
    report: {},
    packet: { text: packet, task_id: "task_1" },
    question: { text: null },
    call: { done: true },
    budget: { budget: null },
    finalize: { task_id: null, refused: null },
    ...says,
  };
  there.answer = ({ method }) => ({ result: answers[method] });
  const house = gateway({ home: state });
  Object.assign(house.api.pluginConfig, config);
  plugin.register(house.api);
  if (started) {
    house.service.start({ stateDir: state });
    test.after(() => house.service.stop());
    await there.until((d) => d.events().length > 0);
  }
  const asked = (of = "packet") => there.received.filter(({ method }) => method === of);
  return { ...house, there, asked, state };
}

/** What is put before the prompt of a message. */
async function prompted(house, content, runId = "r1") {
  const before = house.asked().length;
  house.hooks.before_message_write(...said_by_user(content));
  if (globalThis[INSTANCE].fetchedContexts.has(MAIN))
    await globalThis[INSTANCE].fetchedContexts.get(MAIN).found.catch(() => {});
  const given = await house.hooks.before_prompt_build(...turn(runId));
  return { given: given?.prependContext, asked: house.asked().slice(before) };
}

/** A tool is about to be called. */
const calling = (house, toolName = "exec", toolCallId = "c1") =>
  house.hooks.before_tool_call({ toolName, toolCallId, params: {} }, { sessionKey: MAIN });
const told = (house, kind) =>
  house.there.until((d) => d.events().some((event) => event.kind === kind));

test("the packet comes on a session's first turn, once, with how long it may be forgotten", async (t) => {
  const house = await at_home(t);
  const first = await prompted(house, "hello");
  assert.equal(first.given, "the packet");
  assert.equal(first.asked[0].params.session_key, MAIN);
  assert.equal(typeof first.asked[0].params.age, "number");
  assert.deepEqual(await prompted(house, "hello again"), { given: undefined, asked: [] });
});

test("it comes again after a compaction, and in a new session", async (t) => {
  const house = await at_home(t);
  await prompted(house, "hello");
  for (const hook of ["after_compaction", "session_start"]) {
    house.hooks[hook]({}, { sessionKey: MAIN });
    assert.equal((await prompted(house, "go on")).given, "the packet");
  }
});

for (const [word, expected] of [
  ["continue", true],
  ["  /resume\n", true],
  ["继续", true],
  ["continue with the bread", false],
  ["", false],
]) {
  test(`${JSON.stringify(word)} ${expected ? "asks" : "does not ask"} for it`, async (t) => {
    const house = await at_home(t);
    await prompted(house, "hello");
    const { given, asked } = await prompted(house, word);
    assert.equal(given, expected ? "the packet" : undefined);
    if (expected) assert.equal(asked[0].params.age, null);
  });
}

test("who asks for it beside a picture is understood too", async (t) => {
  const house = await at_home(t);
  await prompted(house, "hello");
  const { given } = await prompted(house, [
    { type: "text", text: "continue" },
    { type: "image", data: "" },
  ]);
  assert.equal(given, "the packet");
});

test("a wake's turn gets it too, but for one that brings a packet of its own", async (t) => {
  const house = await at_home(t);
  house.waiting(MAIN).push({
    idempotencyKey: "wake-1",
    text: "[system] smart_wait resolved",
    createdAt: Date.now(),
    ttlMs: 1e6,
  });
  assert.equal((await prompted(house, "hello")).given, "the packet");
  house.hooks.after_compaction({}, { sessionKey: MAIN });
  house.waiting(MAIN).push({
    idempotencyKey: "wake-2",
    text: "[task_stuck_resume] {}",
    createdAt: Date.now(),
    ttlMs: 1e6,
  });
  assert.equal((await prompted(house, "hello")).given, undefined);
});

test("another session's prompt gets nothing of it", async (t) => {
  const house = await at_home(t);
  house.hooks.before_message_write(...said_by_user("hello"));
  assert.equal(await house.hooks.before_prompt_build(...turn("r1", OTHER)), undefined);
  await house.there.until(() => house.asked().length === 1);
});

test("a packet that is late is put before the next prompt, and keeps nobody waiting", async (t) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  t.after(() => mock.timers.reset());
  const house = await at_home(t);
  const answer = house.there.answer;
  house.there.answer = ({ method }) => method !== "packet" && { result: {} };
  house.hooks.before_message_write(...said_by_user("hello"));
  const waiting = house.hooks.before_prompt_build(...turn());
  mock.timers.tick(13);
  assert.equal(await waiting, undefined);
  house.there.answer = answer;
  assert.equal((await prompted(house, "and now?")).given, "the packet");
});

test("an open question is put before each of the user's words, after no other", async (t) => {
  const house = await at_home(t, { packet: null, says: { question: { text: "you had asked" } } });
  assert.equal((await prompted(house, "hello")).given, "you had asked");
  assert.equal((await prompted(house, "and?")).given, "you had asked");
  house.hooks.before_message_write(
    { message: { role: "user", content: "go on", idempotencyKey: "taskmem:run:1" } },
    { sessionKey: MAIN },
  );
  assert.equal(await house.hooks.before_prompt_build(...turn("r3")), undefined);
  assert.equal(house.asked("question").length, 2);
});

test("where there is no news, nothing is put before the prompt", async (t) => {
  const house = await at_home(t, { packet: null });
  assert.equal((await prompted(house, "hello")).given, undefined);
});

test("what the gateway says of a run's life never comes back as an error", async (t) => {
  const house = await at_home(t);
  for (const event of [
    undefined,
    {},
    { data: null },
    { runId: "r1", data: { executionSettled: true } },
  ])
    assert.equal(house.lifecycle(event), undefined);
});

test("no handler throws, whatever it is given, started or not", async (t) => {
  for (const started of [false, true]) {
    const house = await at_home(t, { started });
    for (const handler of Object.values(house.hooks))
      for (const given of [
        [],
        [undefined, undefined],
        [{}, {}],
        [{ message: 7 }, { sessionKey: MAIN }],
        [null, null],
      ])
        assert.equal(await handler(...given), undefined);
  }
});

test("a tool call goes to the daemon with its session and run, and the answer comes back as it is", async (t) => {
  const house = await at_home(t);
  house.begin("r1");
  house.begin("r2", OTHER);
  const tool = house.tools.task_list({ sessionKey: MAIN, agentId: "main" });
  const { content, details } = await tool.execute("call_1", { status: "active" });
  assert.deepEqual(JSON.parse(content[0].text), { done: true });
  assert.equal(details.ok, true);
  const { params } = house.there.received.find(({ method }) => method === "call");
  assert.deepEqual(params, {
    ...{ tool: "task_list", arguments: { status: "active" } },
    ...{ session_key: MAIN, agent_id: "main", run_id: "r1", call_id: "call_1", at_work: [] },
  });
});

test("what the gateway's check of a call would refuse reaches the daemon, from the catalogue too", async (t) => {
  const house = await at_home(t);
  const sent = { task_id: "t", completed_steps: null };
  const tool = house.tools.task_update({ sessionKey: MAIN });
  const event = { toolName: "task_update", toolCallId: "c1", params: sent };
  const { params } = await house.hooks.before_tool_call(event, { sessionKey: MAIN });
  assert.deepEqual(params, tool.prepareArguments(sent));
  assert.deepEqual(params, { task_id: "t", completed_steps: [], as_sent: sent });
  await tool.execute("c1", params);
  assert.deepEqual(house.asked("call")[0].params.arguments, sent);
  // What is heard of it is what was sent.
  house.hooks.after_tool_call({ ...event, params }, { sessionKey: MAIN });
  await told(house, "tool_called");
  for (const { kind, about } of house.there.events().filter((each) => each.call_id))
    assert.equal(about, JSON.stringify(sent), kind);
});

test("a call that fits, and one of another tool, is left as it is", async (t) => {
  const house = await at_home(t);
  for (const call of [
    { toolName: "task_update", params: { task_id: "t", completed_steps: [1] } },
    { toolName: "taskmem__task_update", params: { task_id: null } },
    { toolName: "exec", params: { command: null } },
  ])
    assert.equal(await house.hooks.before_tool_call(call, { sessionKey: MAIN }), undefined);
});

test("a tool call says that its agent is in a sandbox, as the gateway does and not the agent", async (t) => {
  const house = await at_home(t);
  await house.tools
    .smart_wait({ sessionKey: MAIN, sandboxed: true })
    .execute("call_1", { sandboxed: false });
  await house.tools
    .smart_wait({ sessionKey: MAIN, sandboxed: false })
    .execute("call_2", { sandboxed: true });
  assert.deepEqual(
    house.asked("call").map(({ params }) => params.sandboxed),
    [true, undefined],
  );
});

test("a tool call says what the user has said in its turn", async (t) => {
  const house = await at_home(t);
  house.hooks.before_message_write(
    { message: { role: "user", content: "Bake it." } },
    { sessionKey: MAIN },
  );
  await house.tools.task_list({ sessionKey: MAIN, agentId: "main" }).execute("call_1", {});
  const { params } = house.there.received.find(({ method }) => method === "call");
  assert.equal(params.request, "Bake it.");
});

test("a session's turn that ends while a sub-agent runs says so, until that has ended", async (t) => {
  const house = await at_home(t);
  const child = "agent:main:subagent:1";
  const children = async (runId) => {
    house.begin(runId);
    house.end(runId);
    await house.there.until((d) => d.events().some((event) => event.run_id === runId));
    await globalThis[INSTANCE].daemon.awaitReports(1_000);
    return house.there.events().findLast(({ kind }) => kind === "turn_ended").children;
  };
  house.hooks.subagent_spawned({}, { childSessionKey: child, requesterSessionKey: MAIN });
  assert.equal(await children("r1"), 1);
  house.hooks.subagent_ended({ targetSessionKey: child }, { requesterSessionKey: MAIN });
  assert.equal(await children("r2"), 0);
});

test("either hook tells how a sub-agent has ended, but not that it has begun", async (t) => {
  const house = await at_home(t);
  const [child, second] = ["agent:main:subagent:1", "agent:main:subagent:2"];
  for (const childSessionKey of [child, second])
    house.hooks.subagent_spawned({}, { childSessionKey, requesterSessionKey: MAIN });
  const ended = () => house.there.events().filter(({ kind }) => kind === "sub_agent_ended");
  house.hooks.subagent_progress({ phase: "started", childSessionKey: child, runId: "r1" });
  house.hooks.subagent_progress({
    phase: "ended",
    childSessionKey: child,
    runId: "r1",
    outcome: "error",
  });
  house.hooks.subagent_ended({ targetSessionKey: second, runId: "r2", outcome: "killed" });
  await house.there.until(() => ended().length === 2);
  assert.deepEqual(
    ended().map((event) => [event.child, event.outcome]),
    [
      [child, "error"],
      [second, "killed"],
    ],
  );
});

for (const [how, data, told] of [
  ["ends", {}, true],
  ["waits for its own sub-agents", { yielded: true }, false],
  ["is stopped", { aborted: true }, false],
  ["fails", { phase: "error", error: "no model answers" }, false],
])
  test(`a sub-agent whose turn ${how} has ${told ? "" : "not "}ended with it`, async (t) => {
    const house = await at_home(t);
    const child = "agent:main:subagent:1";
    house.sessions.set(child, { pluginNextTurnInjections: { taskmem: [] } });
    house.hooks.subagent_spawned({}, { childSessionKey: child, requesterSessionKey: MAIN });
    house.begin("r1", child);
    house.end("r1", data);
    const kinds = () => house.there.events().map(({ kind }) => kind);
    await house.there.until(() => kinds().includes("turn_ended"));
    assert.equal(kinds().includes("sub_agent_ended"), told);
  });

test("sub-agents whose ends the daemon has missed are looked up once it is reached", async (t) => {
  const child = "agent:main:subagent:1";
  sdk.callGatewayTool = async () => ({
    tasks: [{ kind: "subagent", childSessionKey: child, status: "timed_out" }],
  });
  const house = await at_home(t, { says: { report: { unheard: [child] } } });
  const find = () => house.there.events().find(({ kind }) => kind === "sub_agent_ended");
  await house.there.until(find);
  assert.deepEqual([find().child, find().outcome], [child, "timeout"]);
});

test("a sub-agent's call of a tool is made in the name of the session and the agent that spawned it", async (t) => {
  const house = await at_home(t);
  const child = "agent:coder:subagent:1";
  house.hooks.subagent_spawned({}, { childSessionKey: child, requesterSessionKey: MAIN });
  await house.tools
    .task_update({ sessionKey: child, agentId: "coder", workspaceDir: "/of/coder" })
    .execute("call_1", {});
  await house.tools.task_list({ sessionKey: "global", agentId: "coder" }).execute("call_2", {});
  const by = house
    .asked("call")
    .map(({ params }) => [params.session_key, params.agent_id, params.folder]);
  assert.deepEqual(by, [
    [MAIN, "main", "/of/coder"],
    ["global", "coder", undefined],
  ]);
});

test("a refusal is an answer that the model can read", async (t) => {
  const house = await at_home(t);
  house.there.answer = () => ({
    error: { error: "task_not_found", message: "No task has that id." },
  });
  const { content, details } = await house.tools
    .task_update({ sessionKey: MAIN })
    .execute("call_1", {});
  assert.deepEqual(JSON.parse(content[0].text), {
    error: "task_not_found",
    message: "No task has that id.",
  });
  assert.equal(details.ok, false);
});

test("before it has started, tools and commands say so", async (t) => {
  const house = await at_home(t, { started: false });
  const { content } = await house.tools.task_list({ sessionKey: MAIN }).execute("call_1", {});
  assert.match(content[0].text, /just starting; call again/);
  for (const { handler } of Object.values(house.commands))
    assert.match((await handler({ sessionKey: MAIN })).text, /just starting/);
});

const obeys = (house, command, args) =>
  house.commands[command].handler({ sessionKey: MAIN, agentId: "main", args });

const RESUMED = { says: { command: { text: "", task_id: "task_1", packet: "the packet" } } };

test("the packet of a task that is taken up is put before the turn that its command continues, once", async (t) => {
  const house = await at_home(t, RESUMED);
  assert.deepEqual(await obeys(house, "resume"), { continueAgent: true });
  assert.deepEqual(house.begin("r1"), ["the packet"]);
  assert.equal((await prompted(house, "/resume")).given, undefined);
});

test("a packet that could not be put there comes when the turn's prompt is built", async (t) => {
  const house = await at_home(t, RESUMED);
  await prompted(house, "hello");
  house.api.session.workflow.enqueueNextTurnInjection = async () => ({ enqueued: false });
  await obeys(house, "resume");
  assert.equal((await prompted(house, "/resume")).given, "the packet");
});

test("a row that is for the model alone is written so", async (t) => {
  const house = await at_home(t);
  sdk.callGatewayTool = async () => {};
  await globalThis[INSTANCE].sessions.deliverWake({
    session_key: MAIN,
    key: "k",
    delivery_id: "d",
    text: "the packet",
    message: "Deploy: on.",
  });
  const message = {
    role: "user",
    content: "[taskmem] Deploy: on.",
    idempotencyKey: `${house.turns[0].idempotencyKey}:user`,
  };
  assert.deepEqual(house.hooks.before_message_write({ message }, { sessionKey: MAIN }), {
    message: { ...message, display: false },
  });
});

for (const [what, come, expected] of [
  [
    "that is received",
    ({ message_received: hook }) =>
      hook({ content: "Hi." }, { sessionKey: MAIN, channelId: "phone" }),
    "the next one",
  ],
  [
    "whose row is written",
    ({ before_message_write: hook }) =>
      hook({ message: { role: "user", content: "Hi." } }, { sessionKey: MAIN }),
    "the next one",
  ],
  [
    "of the agent",
    ({ before_message_write: hook }) =>
      hook({ message: { role: "assistant", content: "Hi." } }, { sessionKey: MAIN }),
    "ordinary",
  ],
])
  test(`after a message ${what} a wake begins a turn: ${expected}`, async (t) => {
    const house = await at_home(t);
    sdk.callGatewayTool = async () => {};
    come(house.hooks);
    const wake = { session_key: MAIN, key: "k", delivery_id: "d", text: "the packet", message: "" };
    assert.deepEqual(await globalThis[INSTANCE].sessions.deliverWake(wake), { turn: expected });
  });

test("the first call after a model's answer tells that the turn's wake has arrived", async (t) => {
  const house = await at_home(t);
  sdk.callGatewayTool = async () => {};
  await globalThis[INSTANCE].sessions.deliverWake({
    session_key: MAIN,
    key: "k",
    delivery_id: "d",
    text: "the packet",
    message: "Deploy: on.",
  });
  house.begin("r1");
  house.hooks.model_call_ended({ runId: "r1", outcome: "completed", provider: "local" }, {});
  await calling(house);
  await house.there.until((d) => d.events().some(({ kind }) => kind === "answered"));
  assert.deepEqual(house.there.events().find(({ kind }) => kind === "answered").deliveries, ["d"]);
});

test("what a turn takes of an earlier start is known when its wake comes again", async (t) => {
  const house = await at_home(t);
  house
    .waiting(MAIN)
    .push({ idempotencyKey: "k", text: "the packet", createdAt: Date.now(), ttlMs: 1e6 });
  house.hooks.before_message_write(...said_by_user("hello"));
  house.begin("r1");
  assert.deepEqual(
    await globalThis[INSTANCE].sessions.deliverWake({
      session_key: MAIN,
      key: "k",
      delivery_id: "d",
      text: "the packet",
      message: "Deploy: on.",
    }),
    { turn: "running" },
  );
});

test("a wake that a session's reset dropped is reported", async (t) => {
  const house = await at_home(t);
  sdk.callGatewayTool = async () => {};
  await globalThis[INSTANCE].sessions.deliverWake({
    session_key: MAIN,
    key: "k",
    delivery_id: "d",
    text: "the packet",
    message: "Deploy: on.",
  });
  house.waiting(MAIN).splice(0);
  house.hooks.session_end({ reason: "reset" }, { sessionKey: MAIN });
  await told(house, "turn_not_started");
  assert.deepEqual(house.there.events().at(-1).deliveries, ["d"]);
});

test("what is seen of a turn is reported: calls, sessions, compactions", async (t) => {
  const house = await at_home(t);
  house.hooks.after_tool_call(
    { toolName: "exec", toolCallId: "c1", durationMs: 5, error: "no" },
    { sessionKey: MAIN, runId: "r1" },
  );
  house.hooks.session_end({ reason: "idle" }, { sessionKey: MAIN });
  await house.there.until((d) => d.events().some(({ kind }) => kind === "session_ended"));
  const [, call, ended] = house.there.events();
  assert.deepEqual([call.kind, call.tool, call.failed], ["tool_called", "exec", true]);
  assert.deepEqual([ended.kind, ended.reason], ["session_ended", "idle"]);
});

test("what a turn did is told from its first row to its end, which the gateway's own cut", async (t) => {
  const house = await at_home(t);
  house.hooks.before_message_write(...said_by_user("make it"));
  house.begin("r1");
  await calling(house);
  house.hooks.after_tool_call(
    { toolName: "exec", toolCallId: "c1", params: {} },
    { sessionKey: MAIN },
  );
  house.hooks.before_message_write(
    { message: { role: "assistant", content: "made" } },
    { sessionKey: MAIN },
  );
  house.hooks.gateway_stop({}, {});
  house.end("r1", { phase: "end", aborted: true });
  await told(house, "turn_ended");
  const [greeting, began, , call, ended] = house.there.events();
  assert.deepEqual(greeting.fingerprints, { main: began.fingerprint });
  assert.deepEqual(
    [began.kind, began.session_key, began.agent_id, began.folder, began.origin],
    ["turn_started", MAIN, "main", "/nowhere/main", "user"],
  );
  assert.deepEqual(call.said, [{ role: "user", text: "make it" }]);
  assert.deepEqual(
    [ended.origin, ended.said, ended.calls, ended.cut, ended.aborted],
    ["user", "made", 1, true, true],
  );
});

test("a module that a turn loads anew finds the one that was started", async (t) => {
  const house = await at_home(t);
  const again = gateway();
  again.api.registrationMode = "discovery";
  plugin.register(again.api);
  assert.equal(again.service, undefined);
  assert.deepEqual(Object.keys(again.commands), Object.keys(house.commands));
  const { content } = await again.tools.task_list({ sessionKey: MAIN }).execute("call_1", {});
  assert.deepEqual(JSON.parse(content[0].text), { done: true });
  assert.ok(house.there.received.length > 0);
});

test("when the gateway stops, the daemon is told, and the instance is gone", async (t) => {
  const house = await at_home(t);
  await house.service.stop();
  await told(house, "gateway_stopped");
  assert.equal(globalThis[INSTANCE], undefined);
});

for (const when of ["before", "after"])
  test(`a gateway that is to stop begins nothing of ours, told ${when} it started`, async (t) => {
    const stop = new AbortController();
    if (when === "before") stop.abort();
    const house = await at_home(t);
    house.hooks.gateway_start({}, { abortSignal: stop.signal });
    stop.abort();
    const { handlers } = globalThis[INSTANCE];
    for (const ask of ["wake", "open", "say", "read"])
      await assert.rejects(handlers[ask]({}), /the gateway is stopping/);
    assert.deepEqual([house.turns, house.beats], [[], []]);
    const { version, boot } = globalThis[INSTANCE].buildHello();
    assert.deepEqual(handlers.version(), { version, boot });
    // What goes on ends as ever, and is told.
    house.begin("r1");
    house.end("r1");
    await told(house, "turn_ended");
    assert.equal(house.there.events().at(-1).cut, false);
  });

/** The plug-in in a process of its own, which nothing of ours may keep alive once it has stopped. */
async function apart(test, home, ...command) {
  const child = fork(new URL("stopping.mjs", import.meta.url), [home, ...command]);
  test.after(() => child.kill("SIGKILL"));
  await once(child, "message");
  return { ended: once(child, "exit"), stop: () => child.send("stop") };
}

/** Go in by a door, as soon as it is open. */
async function inside(path) {
  for (;;) {
    const guest = connect(path);
    if (await once(guest, "connect").catch(() => undefined)) return guest.on("error", () => {});
    await new Promise(setImmediate);
  }
}

test("nothing of a plug-in that has stopped at work keeps its process alive", async (t) => {
  const home = folder(t);
  const there = await daemon(t, home);
  there.answer = ({ method }) => method !== "call" && { result: {} };
  const child = await apart(t, home, "/bin/false");
  await there.until(({ received }) => received.some(({ method }) => method === "call"));
  const guest = await inside(join(home, "openclaw.sock"));
  t.after(() => guest.destroy());
  guest.write('{"ask":"say","key":"k","text":"Cook: completed."}\n{"ask":"version"}\n');
  await once(guest, "data");
  child.stop();
  assert.deepEqual(await child.ended, [0, null]);
});

test("nothing of a plug-in that has stopped while it starts a daemon keeps its process alive", async (t) => {
  const home = folder(t);
  const begun = createServer().listen(join(home, "begun.sock"));
  t.after(() => begun.close());
  const script = `require("net").connect(${JSON.stringify(join(home, "begun.sock"))})`;
  const starting = once(begun, "connection");
  const child = await apart(t, home, process.execPath, "-e", script, "--");
  const [socket] = await starting;
  const gone = once(socket.resume(), "close");
  child.stop();
  assert.deepEqual(await child.ended, [0, null]);
  await gone;
});

test("a gateway that is to stop ends what we began, also what begins late or is too young", async (t) => {
  mock.timers.enable({ apis: ["setInterval"] });
  t.after(() => mock.timers.reset());
  const house = await at_home(t);
  const stop = new AbortController();
  house.hooks.gateway_start({}, { abortSignal: stop.signal });
  stop.abort();
  let young = true;
  sdk.resolveActiveEmbeddedRunSessionId = (session) => (young ? undefined : `id of ${session}`);
  house.hooks.before_message_write(
    { message: { role: "user", content: "go on", idempotencyKey: "taskmem:1:user" } },
    { sessionKey: OTHER },
  );
  const ended = new Promise((done) => (sdk.abortAgentHarnessRun = done));
  mock.timers.tick(250);
  await new Promise(setImmediate);
  young = false;
  mock.timers.tick(250);
  assert.equal(await ended, `id of ${OTHER}`);
});

test("a question that a model is asked when the gateway is to stop is given up", async (t) => {
  const house = await at_home(t);
  const stop = new AbortController();
  house.hooks.gateway_start({}, { abortSignal: stop.signal });
  const { reader, handlers } = globalThis[INSTANCE];
  reader.askModel = async (_, signal) => signal;
  const asked = await handlers.read({}, new AbortController().signal);
  assert.equal(asked.aborted, false);
  stop.abort();
  assert.equal(asked.aborted, true);
});

test("a plug-in that is loaded anew before the old one has stopped stays", async (t) => {
  const house = await at_home(t);
  const newer = gateway({ home: house.state });
  plugin.register(newer.api);
  newer.service.start({ stateDir: house.state });
  t.after(() => newer.service.stop());
  const there = globalThis[INSTANCE];
  await house.service.stop();
  assert.equal(globalThis[INSTANCE], there);
});

test("a call beyond its step's budget is not made, reads why, and is not told; ours are made", async (t) => {
  const house = await at_home(t, {
    says: { budget: { budget: { left: 0, reason: "Call task_step_done." } } },
  });
  assert.deepEqual(await calling(house), { block: true, blockReason: "Call task_step_done." });
  assert.equal(await calling(house, "task_status"), undefined);
  await told(house, "tool_started");
  assert.deepEqual(
    house.there.events().flatMap(({ kind, tool }) => (kind === "tool_started" ? [tool] : [])),
    ["task_status"],
  );
});

for (const [whose, row, ms] of [
  ["a call", {}, 150],
  [
    "the first call of a turn that OpenClaw resumed",
    { provenance: { sourceTool: "main_session_restart_recovery" } },
    5_000,
  ],
])
  test(`${whose} waits until what went before it is kept, and for its budget, and for neither long`, async (t) => {
    mock.timers.enable({ apis: ["setTimeout"] });
    t.after(() => mock.timers.reset());
    const house = await at_home(t);
    house.there.answer = () => undefined;
    house.hooks.before_message_write(
      { message: { role: "user", content: "go on", ...row } },
      { sessionKey: MAIN },
    );
    house.begin("r1");
    await told(house, "turn_started");
    const call = calling(house);
    mock.timers.tick(ms - 1);
    globalThis[INSTANCE].daemon.call("status", {}, 60_000).catch(() => {});
    await house.there.until(() => house.asked("status").length === 1);
    assert.equal(house.asked("budget").length, 0);
    mock.timers.tick(1);
    await house.there.until(() => house.asked("budget").length === 1);
    mock.timers.tick(200);
    assert.equal(await call, undefined);
  });

test("where no daemon runs, a call is made", async (t) => {
  const house = await at_home(t);
  await house.there.close();
  assert.equal(await calling(house), undefined);
});

test("a daemon that is started anew hears how long each turn runs", async (t) => {
  const house = await at_home(t);
  house.begin("r1");
  await told(house, "turn_started");
  await house.there.close();
  await house.there.open();
  await house.there.until((d) => d.events().filter(({ kind }) => kind === "gateway").length > 1);
  const { running, turn_ages } = house.there.events().findLast(({ kind }) => kind === "gateway");
  assert.deepEqual([running, Object.keys(turn_ages)], [[MAIN], [MAIN]]);
  assert.ok(turn_ages[MAIN] > 0);
});

/** A gateway whose operator has chosen that answers are held back, and whose daemon does. */
async function refusing(test, refused = "The file is not there.") {
  const house = await at_home(test, {
    says: { finalize: { task_id: "task_1", refused } },
    config: { holdBack: true },
  });
  house.begin("r1");
  const answers = (said = "I saved a.md.", runId = "r1") =>
    house.hooks.before_agent_finalize({ runId, lastAssistantMessage: said }, { sessionKey: MAIN });
  return { ...house, answers };
}

test("no answer is held back unless the operator has chosen it", async (t) => {
  assert.equal((await at_home(t)).hooks.before_agent_finalize, undefined);
});

for (const [said, chosen, held] of [
  ["on", false, true],
  ["off", true, false],
  [" ", true, true],
])
  test(`answers are ${held ? "" : "not "}held back with ${chosen} chosen and ${JSON.stringify(said)} in the environment`, async (t) => {
    process.env.TASKMEM_HOLD_BACK = said;
    t.after(() => delete process.env.TASKMEM_HOLD_BACK);
    const { hooks } = await at_home(t, { config: { holdBack: chosen } });
    assert.equal(hooks.before_agent_finalize !== undefined, held);
  });

test("an answer that the daemon refuses is asked for once more, with why and what was said", async (t) => {
  const house = await refusing(t);
  const { action, retry } = await house.answers();
  assert.equal(action, "revise");
  assert.equal(retry.instruction, "The file is not there. You said: I saved a.md.");
  assert.equal(retry.maxAttempts, 1);
  assert.deepEqual(
    house.asked("finalize").map(({ params }) => params),
    [{ session_key: MAIN, said: "I saved a.md." }],
  );
  assert.equal(await house.answers(), undefined);
  assert.equal((await house.answers("I did.", "another run")).action, "revise");
});

test("an answer that the daemon takes goes out, and one that it does not know of", async (t) => {
  const house = await refusing(t, null);
  assert.equal(await house.answers(), undefined);
  await house.there.close();
  assert.equal(await house.answers(), undefined);
});

test("of a long answer the daemon and the agent hear the end, from a whole word on", async (t) => {
  const house = await refusing(t);
  const { retry } = await house.answers(`a/deep/report.md ${"x".repeat(7_990)}y`);
  assert.equal(house.asked("finalize")[0].params.said, ` ${"x".repeat(7_990)}y`);
  assert.ok(retry.instruction.endsWith(`said: ${"x".repeat(499)}y`));
});

test("an answer waits until what went before it is kept, and for the daemon, and for neither long", async (t) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  t.after(() => mock.timers.reset());
  const house = await refusing(t);
  house.there.answer = () => undefined;
  await told(house, "turn_started");
  const answer = house.hooks.before_agent_finalize(
    { runId: "r1", lastAssistantMessage: "done" },
    { sessionKey: MAIN },
  );
  globalThis[INSTANCE].daemon.call("status", {}, 60_000).catch(() => {});
  await house.there.until(() => house.asked("status").length === 1);
  assert.equal(house.asked("finalize").length, 0);
  mock.timers.tick(150);
  await house.there.until(() => house.asked("finalize").length === 1);
  mock.timers.tick(2_000);
  assert.equal(await answer, undefined);
});

test("a turn that must not go on is stopped when its beginning was told", async (t) => {
  const house = await at_home(t, { says: { report: { stop: [MAIN] } } });
  sdk.resolveActiveEmbeddedRunSessionId = (session) => `id of ${session}`;
  const stopped = new Promise((done) => (sdk.abortAgentHarnessRun = done));
  house.begin("r1");
  assert.equal(await stopped, `id of ${MAIN}`);
});

test("a turn that must not go on calls no tool, though it cannot be stopped yet", async (t) => {
  const house = await at_home(t, { says: { report: { stop: [MAIN] } } });
  sdk.resolveActiveEmbeddedRunSessionId = () => undefined;
  house.begin("r1");
  const { block, blockReason } = await calling(house);
  assert.equal(block, true);
  assert.match(blockReason, /call no further tool/);
});

test("a turn is not stopped for an earlier one of its session whose beginning was told late", async (t) => {
  const house = await at_home(t);
  house.there.answer = () => undefined;
  sdk.resolveActiveEmbeddedRunSessionId = (session) => session;
  const stopped = [];
  sdk.abortAgentHarnessRun = (id) => stopped.push(id);
  house.begin("r1");
  house.begin("r2", OTHER);
  house.end("r1");
  house.begin("r3");
  house.there.answer = ({ params }) => ({
    result: params.events.some(({ kind }) => kind === "turn_started")
      ? { stop: [MAIN, OTHER] }
      : {},
  });
  house.there.sockets[0].destroy();
  await house.there.until(() => stopped.length > 0);
  assert.deepEqual(stopped, [OTHER]);
});

test("a turn that cannot be stopped troubles nobody", async (t) => {
  const house = await at_home(t, { says: { report: { stop: [MAIN] } } });
  const tried = new Promise((done) => {
    sdk.resolveActiveEmbeddedRunSessionId = () => {
      done();
      assert.fail("there is none");
    };
  });
  house.begin("r1");
  await tried;
  house.hooks.session_start({}, { sessionKey: MAIN });
  await house.there.until((d) => d.events().at(-1).kind === "session_started");
});

test("at the daemon's word a line is shown and a turn is stopped, in the session that it names or the main one", async (t) => {
  const house = await at_home(t);
  const { handlers } = globalThis[INSTANCE];
  const done = [];
  sdk.callGatewayTool = async (_, __, { sessionKey, message }) =>
    void done.push([sessionKey, message]);
  sdk.resolveActiveEmbeddedRunSessionId = (session) => session;
  sdk.abortAgentHarnessRun = (id) => done.push(id) < 4;
  assert.deepEqual(
    await handlers.say({ session_key: OTHER, text: "Step 1 done.", key: "1", in_chat: false }),
    {},
  );
  assert.deepEqual(
    await handlers.say({ session_key: null, text: "Step 2 done.", key: "2", in_chat: false }),
    {},
  );
  const wanted = { session_key: OTHER, age: 0 };
  assert.deepEqual(
    [await handlers.stop(wanted), await handlers.stop(wanted)],
    [{ stopped: true }, { stopped: false }],
  );
  assert.deepEqual(done, [[OTHER, "Step 1 done."], [MAIN, "Step 2 done."], OTHER, OTHER]);
  assert.deepEqual(house.warned, []);
});

test("a turn that began after the daemon wanted its session's stopped goes on", async (t) => {
  const house = await at_home(t);
  const { handlers } = globalThis[INSTANCE];
  sdk.resolveActiveEmbeddedRunSessionId = (session) => session;
  sdk.abortAgentHarnessRun = () => true;
  const elapsed = (ms) => {
    const end = performance.now() + ms;
    mock.method(performance, "now", () => end);
  };
  t.after(() => mock.restoreAll());
  const stop = async (age) => (await handlers.stop({ session_key: MAIN, age })).stopped;
  house.begin("r1");
  elapsed(1_000);
  assert.deepEqual([await stop(5_000), await stop(500)], [undefined, true]);
  house.end("r1");
  house.begin("r2");
  elapsed(100);
  assert.deepEqual([await stop(500), await stop(50)], [undefined, true]);
});

test("a turn that began before the plug-in was there is as old as the plug-in", async (t) => {
  const house = await at_home(t);
  const { handlers, startedAt } = globalThis[INSTANCE];
  sdk.resolveActiveEmbeddedRunSessionId = (session) => session;
  sdk.abortAgentHarnessRun = () => true;
  mock.method(performance, "now", () => startedAt + 1_000);
  t.after(() => mock.restoreAll());
  const stop = async (age) => (await handlers.stop({ session_key: OTHER, age })).stopped;
  assert.deepEqual([await stop(1_500), await stop(500)], [undefined, true]);
  assert.deepEqual(house.warned, []);
});

test("a background command is recorded where the operator allows it, and told as it was given", async (t) => {
  const house = await at_home(t, { config: { recordCommands: true } });
  sdk.resolveSandboxRuntimeStatus = () => ({ sandboxed: false });
  const env = house.hooks.resolve_exec_env({ host: "gateway" }, { sessionKey: MAIN });
  assert.deepEqual(env, { TASKMEM_SESSION_KEY: MAIN, TASKMEM_HOST: globalThis[INSTANCE].host });
  assert.equal(house.hooks.resolve_exec_env({ host: "sandbox" }, { sessionKey: OTHER }), undefined);
  const event = {
    toolName: "exec",
    toolCallId: "c1",
    params: { command: "make", background: true },
  };
  const { params } = await house.hooks.before_tool_call(event, { sessionKey: MAIN });
  assert.match(params.command, /^\/bin\/false run --name make-/);
  house.hooks.after_tool_call(
    { ...event, params, result: { details: { status: "running", sessionId: "calm-cove" } } },
    { sessionKey: MAIN },
  );
  await told(house, "tool_called");
  const { about } = house.there.events().find(({ kind }) => kind === "tool_called");
  assert.equal(about, "make");
});

test("a command is left as it is where the operator has not allowed its recording", async (t) => {
  const house = await at_home(t);
  assert.equal(house.hooks.resolve_exec_env, undefined);
  assert.equal(await calling(house), undefined);
});

test("who asks for a packet or calls a tool says what runs in the session, and so does a gateway's first word", async (t) => {
  const house = await at_home(t);
  const [hello] = house.there.events();
  assert.deepEqual(hello.at_work, {});
  house.hooks.after_tool_call(
    {
      toolName: "exec",
      params: { command: "make all" },
      toolCallId: "c1",
      result: { details: { status: "running", sessionId: "calm-cove" } },
    },
    { sessionKey: MAIN },
  );
  const running = (asked) =>
    asked.at(-1).params.at_work.map(({ kind, name, about }) => [kind, name, about]);
  const { asked } = await prompted(house, "hello");
  assert.deepEqual(running(asked), [["command", "calm-cove", "make all"]]);
  await house.tools.task_list({ sessionKey: MAIN, agentId: "main" }).execute("c2", {});
  assert.deepEqual(running(house.asked("call")), [["command", "calm-cove", "make all"]]);
});

test("a wake for an agent of another OpenClaw is not taken, and which this one is stays", async (t) => {
  const house = await at_home(t);
  const { handlers, host } = globalThis[INSTANCE];
  assert.match(host, /^openclaw:[0-9a-f-]{36}$/);
  assert.equal(globalThis[INSTANCE].buildHello().host, host);
  const wake = {
    session_key: MAIN,
    key: "k",
    delivery_id: "d",
    text: "the packet",
    message: "Deploy: on.",
  };
  assert.deepEqual(await handlers.wake({ ...wake, host: "openclaw:another" }), { elsewhere: true });
  assert.equal(house.waiting(MAIN).length, 0);
  for (const own of [host, null]) assert.ok((await handlers.wake({ ...wake, host: own })).turn);
  await house.service.stop();
  house.service.start({ stateDir: house.state });
  assert.equal(globalThis[INSTANCE].host, host);
});
