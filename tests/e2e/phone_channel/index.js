// The smallest channel that OpenClaw accepts. What it is sent it writes to `sent.jsonl` in
// its folder; the file `fault` there says how it fails: "off" (nothing was sent, and it can
// tell), "hang", "after" (it has sent, and the answer was lost), or "random" (each of them now
// and then). `phone.receive` plays a message from a person.
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createChannelPluginBase, createChatChannelPlugin } from "openclaw/plugin-sdk/channel-core";
import { PlatformMessageNotDispatchedError } from "openclaw/plugin-sdk/error-runtime";
import { chunkText } from "openclaw/plugin-sdk/reply-chunking";

const id = "phone";
const accountId = "default";
const RANDOM = ["off", "off", "after", "late", "late", "", "", "", "", ""];
let numbered = 0;

const folderOf = (cfg) => cfg.channels?.[id]?.folder;

async function send(cfg, { to, text, threadId, how }) {
  const folder = folderOf(cfg);
  const faults = join(folder, "fault");
  const said = existsSync(faults) ? readFileSync(faults, "utf8").trim() : "";
  const fault = said === "random" ? RANDOM[Math.floor(Math.random() * RANDOM.length)] : said;
  if (fault) appendFileSync(join(folder, "tries"), `${to}\n`);
  if (fault === "off")
    throw new PlatformMessageNotDispatchedError("the phone is switched off", {
      cause: new Error("off"),
    });
  if (fault === "hang")
    while (readFileSync(faults, "utf8").trim() === "hang")
      await new Promise((done) => setTimeout(done, 50));
  if (fault === "late") await new Promise((done) => setTimeout(done, Math.random() * 2_000));
  appendFileSync(
    join(folder, "sent.jsonl"),
    `${JSON.stringify({ to, text, thread: threadId ?? null, how })}\n`,
  );
  if (fault === "after") throw new Error("the line broke after it was sent");
  return { messageId: `${++numbered}` };
}

/** It is connected until the gateway ends it. */
async function startAccount({ abortSignal, setStatus }) {
  setStatus({ accountId, running: true, connected: true, lifecycle: "ready" });
  await new Promise((done) => abortSignal.addEventListener("abort", done, { once: true }));
}

const base = createChannelPluginBase({
  id,
  meta: {
    id,
    label: "Phone",
    selectionLabel: "Phone",
    docsPath: "/channels/phone",
    blurb: "A channel for tests.",
  },
  capabilities: { chatTypes: ["direct"] },
  config: {
    listAccountIds: (cfg) => (folderOf(cfg) ? [accountId] : []),
    resolveAccount: (cfg) => ({ accountId, folder: folderOf(cfg), enabled: true }),
    inspectAccount: (cfg) => ({ enabled: true, configured: Boolean(folderOf(cfg)) }),
    isConfigured: () => true,
    isEnabled: () => true,
  },
  setup: { applyAccountConfig: ({ cfg }) => cfg },
});

const phone = createChatChannelPlugin({
  base: { ...base, gateway: { startAccount } },
  outbound: {
    base: {
      deliveryMode: "direct",
      resolveTarget: ({ to }) => ({ ok: true, to }),
      chunker: chunkText,
      textChunkLimit: 4_000,
    },
    attachedResults: {
      channel: id,
      sendText: ({ cfg, to, text, threadId }) => send(cfg, { to, text, threadId, how: "send" }),
    },
  },
});

/** A person's message arrives, and what is answered goes back to them. */
async function receive(api, { from, text, number, thread }) {
  const cfg = api.runtime.config.current();
  const { inbound, routing } = api.runtime.channel;
  const peer = { kind: "direct", id: from };
  const route = routing.resolveAgentRoute({ cfg, channel: id, accountId, peer });
  const to = `phone:${from}`;
  const ctxPayload = inbound.buildContext({
    channel: id,
    accountId,
    messageId: number,
    messageIdFull: number,
    timestamp: Date.now(),
    from: to,
    sender: { id: from, name: from },
    conversation: { kind: "direct", id: from, label: from },
    route: {
      agentId: route.agentId,
      accountId,
      routeSessionKey: route.sessionKey,
      dispatchSessionKey: route.sessionKey,
    },
    reply: { to, originatingTo: to, messageThreadId: thread },
    message: { body: text, bodyForAgent: text, rawBody: text, commandBody: text },
    access: { commands: { authorized: true } },
    channelIngress: "unsupported",
  });
  const deliver = async (payload, { kind }) => {
    if (kind === "final") await send(cfg, { to, text: payload.text, how: "reply" });
  };
  return inbound.dispatch({
    cfg,
    channel: id,
    accountId,
    route: { agentId: route.agentId, sessionKey: route.sessionKey },
    ctxPayload,
    delivery: { deliver, onError: (error) => api.logger.error(`phone: ${error}`) },
    replyOptions: { sourceReplyDeliveryMode: "automatic" },
    replyPipeline: {},
  });
}

export default {
  id,
  name: "Phone",
  description: "A channel for tests.",
  register(api) {
    api.registerChannel({ plugin: phone });
    if (api.registrationMode !== "full") return;
    api.registerGatewayMethod(
      "phone.receive",
      async ({ params, respond }) => {
        try {
          const { admission } = await receive(api, params);
          respond(true, { admission });
        } catch (error) {
          respond(false, undefined, {
            code: "INVALID_REQUEST",
            message: `${error.stack ?? error}`,
          });
        }
      },
      { scope: "operator.write" },
    );
  },
};
