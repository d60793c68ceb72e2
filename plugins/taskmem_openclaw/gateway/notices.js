// Tells users what they are to know, where they are: on their channel, else in the web chat.
import { Kept } from "./kept.js";

const MOST_TOLD = 1_000;

export class Notices {
  #told = new Kept(MOST_TOLD); // keys of notices that were told
  #sending = new Map(); // key of a notice that is on its way → its promise

  constructor({ api }) {
    this.api = api;
  }

  /** Tell the user of a session something, once for each key. */
  async tell(session, { text, key, in_chat: inChat }) {
    if (this.#told.has(key)) return {};
    const going = this.#sending.get(key) ?? this.#tell(session, text, inChat);
    this.#sending.set(key, going);
    try {
      const done = await going;
      this.#told.set(key, true);
      return done;
    } finally {
      this.#sending.delete(key);
    }
  }

  async #tell(session, text, inChat) {
    const entry = this.#entry(session);
    if (!entry) return { refused: `The gateway has no session ${session}.` };
    const { kind, context } = entry.delivery ?? {};
    if (kind === "external" && context?.channel && context.to && (await this.#send(context, text))) return {};
    if (inChat) return {};
    const { callGatewayTool } = await import("openclaw/plugin-sdk/agent-harness-runtime");
    await callGatewayTool("chat.inject", {}, { sessionKey: session, message: text, label: "taskmem" });
    return {};
  }

  /** Send a text the way that the user's last message came; false: there is no such channel any more.
   * What the gateway holds it settles by itself, and is not sent again; what it let go of was not
   * sent, and is an error. */
  async #send({ channel, to, accountId, threadId }, text) {
    const { sendDurableMessageBatch } = await import("openclaw/plugin-sdk/channel-outbound");
    const cfg = this.api.runtime.config.current();
    const route = { channel, to, ...(accountId && { accountId }), ...(threadId !== undefined && { threadId }) };
    const { status, stage, error } = await sendDurableMessageBatch({ cfg, ...route, payloads: [{ text }], deliveryRetryOwner: "caller" });
    if (status !== "failed") return true;
    if (stage === undefined) return false;
    if (error?.queueCustody !== "held") throw error;
    this.api.logger.warn(`taskmem: a notice on ${channel} may not have been sent: ${error?.message ?? "no reason given"}`);
    return true;
  }

  #entry(session) {
    const [, agentId] = session.split(":");
    return this.api.runtime.agent.session.getSessionEntry({ agentId, sessionKey: session });
  }
}
