import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { gateway, load, MAIN, OTHER, sdk } from "./stand_ins.mjs";

const { Notices } = await load("notices.js");
const PHONE = { channel: "phone", to: "phone:1", accountId: "default", threadId: 7 };
let house, notices, done;

const tell = (more = {}, session = MAIN) => notices.tell(session, { text: "It is done.", key: "1", in_chat: false, ...more });
const failed = (error) => async () => ({ status: "failed", stage: "platform_send", error });

beforeEach(() => {
  house = gateway();
  notices = new Notices({ api: house.api });
  house.sessions.get(MAIN).delivery = { kind: "external", context: PHONE };
  done = [];
  sdk.callGatewayTool = async (_, __, { sessionKey, message }) => void done.push(["chat", sessionKey, message]);
  sdk.sendDurableMessageBatch = async ({ cfg, payloads: [{ text }], deliveryRetryOwner, ...route }) => (done.push(["channel", route, text]), { status: "sent" });
});

test("a user is told the way that their last message came", async () => {
  assert.deepEqual(await tell(), {});
  assert.deepEqual(done, [["channel", PHONE, "It is done."]]);
});

test("a user of the web chat is told there, in our name", async () => {
  await tell({}, OTHER);
  assert.deepEqual(done, [["chat", OTHER, "It is done."]]);
});

test("words that the chat shows already are sent to a channel only", async () => {
  await tell({ in_chat: true }, OTHER);
  await tell({ in_chat: true, key: "2" });
  assert.deepEqual(done.map(([where]) => where), ["channel"]);
});

test("what is asked for again is told once, also while it is on its way", async () => {
  await Promise.all([tell(), tell()]);
  await tell();
  await tell({ key: "2" });
  assert.equal(done.length, 2);
});

test("what was not sent is an error, and sent when it is asked for again", async () => {
  const { sendDurableMessageBatch } = sdk;
  sdk.sendDurableMessageBatch = failed(Object.assign(new Error("switched off"), { queueCustody: "released" }));
  await assert.rejects(tell(), /switched off/);
  sdk.sendDurableMessageBatch = sendDurableMessageBatch;
  await tell();
  assert.equal(done.length, 1);
});

test("what the gateway holds is its own to send, and is not sent again", async () => {
  sdk.sendDurableMessageBatch = failed(Object.assign(new Error("the line broke"), { queueCustody: "held" }));
  await tell();
  sdk.sendDurableMessageBatch = () => assert.fail("sent again");
  assert.deepEqual(await tell(), {});
  assert.match(house.warned[0], /may not have been sent: the line broke/);
});

test("where the channel is gone the web chat shows it", async () => {
  sdk.sendDurableMessageBatch = async () => ({ status: "failed", error: new Error("Outbound not configured for channel: phone") });
  await tell();
  assert.deepEqual(done, [["chat", MAIN, "It is done."]]);
});

test("a session that is not there is refused, and any other trouble is one", async () => {
  assert.match((await tell({}, "agent:main:gone")).refused, /no session agent:main:gone/);
  sdk.callGatewayTool = async () => Promise.reject(new Error("missing scope"));
  await assert.rejects(tell({ key: "2" }, OTHER), /missing scope/);
});
