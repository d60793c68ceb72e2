import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { channel, gateway, load, MAIN, OTHER, sdk } from "./stand_ins.mjs";

const { Notices } = await load("notices.js");
const PHONE = { channel: "phone", to: "phone:1", accountId: "default", threadId: 7 };
let house, notices, phone, done, asked, carded;
const QUESTION = {
  key: "q",
  header: "Review",
  text: "It is for you to review.",
  options: ["Accept", "Send back"],
};

const tell = (more = {}, session = MAIN) =>
  notices.sendNotice(session, { text: "It is done.", key: "1", in_chat: false, ...more });
const texts = () => phone.sent.map(([, , text]) => text);

beforeEach(() => {
  house = gateway();
  asked = undefined;
  carded = [];
  notices = new Notices({
    api: house.api,
    cards: { askQuestion: async () => asked, hasOwnCard: (session) => carded.includes(session) },
  });
  house.sessions.get(MAIN).delivery = { kind: "external", context: PHONE };
  phone = channel();
  done = phone.sent;
  const accounts = [{ accountId: "default", enabled: true, configured: true }];
  sdk.callGatewayTool = async (method, _, { sessionKey, message }) =>
    method === "channels.status"
      ? { channelAccounts: { phone: accounts } }
      : void done.push(["chat", sessionKey, message]);
  sdk.sendDurableMessageBatch = (batch) => phone.send(batch);
});

test("a user is told the way that their last message came", async () => {
  assert.deepEqual(await tell(), {});
  assert.deepEqual(done, [["channel", PHONE, "It is done."]]);
});

test("an account and a thread that are not known are not named", async () => {
  const { channel, to } = PHONE;
  house.sessions.get(MAIN).delivery.context = { channel, to };
  await tell();
  assert.deepEqual(done, [["channel", { channel, to }, "It is done."]]);
});

test("a user of the web chat is told there, in our name", async () => {
  await tell({}, OTHER);
  assert.deepEqual(done, [["chat", OTHER, "It is done."]]);
});

test("a route that names nobody is none", async () => {
  house.sessions.get(MAIN).delivery.context = { channel: "phone" };
  await tell();
  house.sessions.get(MAIN).delivery = { kind: "internal", context: PHONE };
  await tell({ key: "2" });
  assert.deepEqual(
    done.map(([where]) => where),
    ["chat", "chat"],
  );
});

const AGAIN = "Sent once more, as it may not have arrived:\n\n";
const MORE = { without_card: "It is done.\nbuild: waiting." };

test("steps and waits are told in the web chat alone, and only where no card shows them", async () => {
  await tell(MORE);
  await tell({ ...MORE, key: "5" }, OTHER);
  carded.push(OTHER);
  await tell({ ...MORE, key: "2" }, OTHER);
  await tell({ ...MORE, key: "3", text: "" }, OTHER);
  await tell({ ...MORE, key: "4", text: "" });
  assert.deepEqual(
    done.map(([where, , text]) => [where, text]),
    [
      ["channel", "It is done."],
      ["chat", MORE.without_card],
      ["chat", "It is done."],
    ],
  );
});

test("words that the chat shows already are sent to a channel only", async () => {
  await tell({ in_chat: true }, OTHER);
  await tell({ in_chat: true, key: "2" });
  assert.deepEqual(
    done.map(([where]) => where),
    ["channel"],
  );
});

test("what is asked for again is told once, also while it is on its way", async () => {
  await Promise.all([tell(), tell()]);
  await tell();
  await tell({ key: "2" });
  assert.equal(done.length, 2);
});

test("what hangs is on its way however often it is asked for", async () => {
  let release;
  Object.assign(phone, { fault: "hang", hanging: new Promise((free) => (release = free)) });
  const asked = [tell(), tell(), tell()];
  release();
  await Promise.all(asked);
  assert.deepEqual(texts(), ["It is done."]);
});

test("what was not sent is an error, and sent when it is asked for again", async () => {
  phone.fault = "off";
  await assert.rejects(tell(), /switched off/);
  await assert.rejects(tell(), /switched off/);
  phone.fault = undefined;
  await tell();
  assert.deepEqual(texts(), ["It is done."]);
});

test("a channel that cannot be reached has sent nothing", async () => {
  const unreached = Object.assign(
    new Error("fetch failed", { cause: Object.assign(new Error("no"), { syscall: "connect" }) }),
    { queueCustody: "held" },
  );
  sdk.sendDurableMessageBatch = async () => ({ status: "failed", error: unreached });
  await assert.rejects(tell(), /fetch failed/);
});

for (const fault of ["after", "rude"])
  test(`what may have been sent is not sent again: ${fault}`, async () => {
    phone.fault = fault;
    await tell();
    phone.fault = undefined;
    assert.deepEqual(await tell(), {});
    assert.equal(phone.tries, 1);
    assert.match(house.warned[0], /on phone may not have been sent/);
  });

test("a gateway that starts anew sends again only what was on its way, and says so", async (t) => {
  let now = 0;
  t.mock.method(performance, "now", () => now);
  await tell();
  phone.fault = "killed";
  void tell({ key: "2" });
  await new Promise(setImmediate);
  phone.restart();
  phone.fault = undefined;
  notices = new Notices({ api: house.api });
  await tell();
  await assert.rejects(tell({ key: "2" }), /already queued/);
  now = 309_000;
  await assert.rejects(tell({ key: "2" }), /already queued/);
  now = 310_000;
  for (const key of ["2", "3"]) await tell({ key, text: key });
  assert.deepEqual(texts(), ["It is done.", `${AGAIN}2`, "3"]);
  assert.match(house.warned[0], /may not have been sent/);
});

test("what a gateway could not send before it starts anew is sent then", async () => {
  phone.fault = "off";
  await assert.rejects(tell());
  phone.restart();
  phone.fault = undefined;
  notices = new Notices({ api: house.api });
  await tell();
  assert.deepEqual(texts(), ["It is done."]);
});

test("what a gateway was about to send when it was killed is sent when its claim is over", async () => {
  phone.rows.set("taskmem:1/0", "claimed");
  await assert.rejects(tell(), /already queued/);
  phone.rows.set("taskmem:1/0", "pending");
  await tell();
  assert.deepEqual(texts(), ["It is done."]);
});

test("what may have been sent when it was killed is sent once more when no claim is left", async (t) => {
  let now = 0;
  t.mock.method(performance, "now", () => now);
  phone.rows.set("taskmem:1/0", "begun");
  await assert.rejects(tell(), /already queued/);
  now = 89_000;
  await assert.rejects(tell(), /already queued/);
  now = 90_000;
  phone.fault = "off";
  await assert.rejects(tell(), /switched off/);
  phone.fault = undefined;
  assert.deepEqual(await tell(), {});
  assert.deepEqual(texts(), [`${AGAIN}It is done.`]);
  assert.match(house.warned[0], /may not have been sent/);
});

test("what was on its way each time that a gateway died is sent until it is known to be", async (t) => {
  let now = 0;
  t.mock.method(performance, "now", () => now);
  for (const name of ["taskmem:1/0", "taskmem:1/0/again"]) phone.rows.set(name, "begun");
  await assert.rejects(tell(), /already queued/);
  now = 90_000;
  await assert.rejects(tell(), /already queued/);
  now = 180_000;
  assert.deepEqual(await tell(), {});
  assert.deepEqual(texts(), [`${AGAIN}It is done.`]);
});

test("what could not even be kept is an error", async () => {
  phone.broken = new Error("database is locked");
  await assert.rejects(tell(), /locked/);
});

test("where the channel is gone, or refuses for good, the web chat shows it", async () => {
  phone.configured = false;
  await tell();
  Object.assign(phone, { configured: true, fault: "rejects" });
  await tell({ key: "2" });
  assert.deepEqual(done, [
    ["chat", MAIN, "It is done."],
    ["chat", MAIN, "It is done."],
  ]);
});

for (const [what, accounts] of [
  ["is gone", []],
  ["is switched off", [{ accountId: "default", enabled: false }]],
  ["has no token any more", [{ accountId: "default", configured: false }]],
  ["is another's", [{ accountId: "other", configured: true }]],
])
  test(`where the channel's account ${what} the web chat shows it`, async () => {
    const chat = sdk.callGatewayTool;
    sdk.callGatewayTool = async (method, ...rest) =>
      method === "channels.status"
        ? { channelAccounts: { phone: accounts } }
        : chat(method, ...rest);
    phone.fault = "rude";
    await tell();
    assert.deepEqual(done, [["chat", MAIN, "It is done."]]);
    assert.deepEqual(house.warned, []);
  });

/** The channel takes a few characters at once. */
function cut(limit) {
  const chunker = (text, most) => text.match(new RegExp(`.{1,${most}}`, "gs"));
  house.api.runtime.channel = {
    outbound: {
      loadAdapter: async (name) =>
        name === "phone" ? { chunker, textChunkLimit: limit } : undefined,
    },
    text: { resolveTextChunkLimit: (_, __, ___, { fallbackLimit }) => fallbackLimit },
  };
}

test("a long text comes whole, in the parts that the channel takes", async () => {
  cut(4);
  await tell({ text: "one two three" });
  assert.deepEqual(texts(), ["one ", "two ", "thre", "e"]);
});

test("parts that were sent are not sent again with those that were not", async () => {
  cut(4);
  const send = phone.send;
  phone.send = (batch) => {
    phone.fault = texts().length === 2 ? "off" : undefined;
    return send(batch);
  };
  await assert.rejects(tell({ text: "one two three" }), /switched off/);
  phone.send = send;
  phone.fault = undefined;
  await tell({ text: "one two three" });
  assert.deepEqual(texts(), ["one ", "two ", "thre", "e"]);
});

test("a session that is not there is refused, and any other trouble is one", async () => {
  assert.match((await tell({}, "agent:main:gone")).refused, /no session agent:main:gone/);
  sdk.callGatewayTool = async () => Promise.reject(new Error("missing scope"));
  await assert.rejects(tell({ key: "2" }, OTHER), /missing scope/);
});

test("what is asked by buttons in the web chat needs no line besides", async () => {
  asked = "id-1";
  await tell({ question: QUESTION }, OTHER);
  assert.deepEqual(done, []);
});

test("where there can be no buttons the line is told as ever", async () => {
  await tell({ question: QUESTION }, OTHER);
  await tell({ question: QUESTION, key: "2" });
  assert.deepEqual(done, [
    ["chat", OTHER, "It is done."],
    ["channel", PHONE, "It is done."],
  ]);
});

test("a channel is sent the line, with buttons where it has some", async () => {
  const sent = [];
  sdk.sendDurableMessageBatch = async ({ payloads }) => {
    sent.push(...payloads);
    return { status: "sent" };
  };
  asked = "id-1";
  await tell({ question: QUESTION });
  await tell({ question: { ...QUESTION, options: [] }, key: "2" });
  const [{ presentation, ...first }, second] = sent;
  assert.deepEqual(first, { text: "It is done.", presentationTextMode: "fallback" });
  const [, { buttons }] = presentation.blocks;
  assert.deepEqual(buttons[0], {
    label: "Accept",
    action: { type: "question", questionId: "id-1", optionValue: "Accept" },
  });
  assert.deepEqual(second, { text: "It is done." });
});
