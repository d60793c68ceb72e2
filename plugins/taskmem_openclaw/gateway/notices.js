// Tells users what they are to know, where they are: on their channel, else in the web chat.
import { buttons } from "./cards.js";
import { Kept } from "./kept.js";
import { canRequest, readSession, request, showLine } from "./requests.js";

const MOST_TOLD = 1_000;
const OURS = "taskmem:"; // in the gateway's names of what we have it send
/** How long the gateway knows what it has sent for us: longer than the daemon asks for it again. */
const RECEIPTS = { idPrefix: OURS, maxAgeMs: 48 * 3_600_000, maxEntries: 5_000 };
const MOST_TRIES = 1_000; // by the gateway's own recovery; the daemon says when it is enough
// For how long what a gateway was about to send, or to make ready, may be claimed when it is gone: a
// minute, or five.
const CLAIM_MS = 90_000;
const MAKING_MS = 310_000;
const AGAIN = "Sent once more, as it may not have arrived:\n\n"; // before what was on its way in a gateway that died
const NOT_SENT = "OPENCLAW_PLATFORM_MESSAGE_NOT_DISPATCHED";
const OUT_OF_REACH = ["connect", "getaddrinfo"];

// What an older OpenClaw may not have.
const outbound = () => import("openclaw/plugin-sdk/channel-outbound").catch(() => ({}));

export class Notices {
  #told = new Kept(MOST_TOLD); // keys of notices that were told
  #sending = new Map(); // key of a notice that is on its way → its promise
  #taken = new Kept(MOST_TOLD); // name of what is claimed already → since when we know

  constructor({ api, cards }) {
    Object.assign(this, { api, cards });
  }

  /** Tell the user of a session something, once for each key. */
  async tell(session, { key, ...notice }) {
    if (this.#told.has(key)) return {};
    const going = this.#sending.get(key) ?? this.#tell(session, notice, `${OURS}${key}`);
    this.#sending.set(key, going);
    try {
      const done = await going;
      this.#told.set(key, true);
      return done;
    } finally {
      this.#sending.delete(key);
    }
  }

  /** What the gateway does not offer that notices are told by. */
  async lacks() {
    const { sendDurableMessageBatch } = await outbound();
    return Object.entries({ sendDurableMessageBatch, callGatewayTool: await canRequest() }).filter(([, there]) => !there).map(([name]) => name);
  }

  async #tell(session, { text, without_card: more, in_chat: inChat, question }, name) {
    const entry = readSession(this.api, session);
    if (!entry) return { refused: `The gateway has no session ${session}.` };
    const { kind, context } = entry.delivery ?? {};
    const asked = question && (await this.cards.ask(session, question));
    const below = asked ? buttons(asked, question) : {};
    const away = kind === "external" && context?.channel && context.to;
    if (away && (!text || (await this.#send(context, text, name, below)))) return {};
    const message = (!this.cards.shows(session) && more) || text;
    if (inChat || asked || !message) return {};
    await showLine(session, message);
    return {};
  }

  /** Send a text, and what goes below it, the way that the user's last message came; false: that way
   * is closed for good. */
  async #send(context, text, name, below) {
    const { sendDurableMessageBatch: send } = await outbound();
    if (!send) return this.#plainly(context, text, name);
    const { channel, to, accountId, threadId } = context;
    const cfg = this.api.runtime.config.current();
    const route = { channel, to, ...(accountId && { accountId }), ...(threadId !== undefined && { threadId }) };
    const deliver = async (payload, deliveryIntentId) => {
      const named = { deliveryIntentId, reusePendingDeliveryIntent: true, completionRetention: RECEIPTS, maxRetries: MOST_TRIES };
      const { status, error } = await send({ cfg, ...route, payloads: [payload], ...named });
      if (status !== "failed") return true;
      if (!(await this.#isSettled(context, error, deliveryIntentId))) return false;
      if (!isTaken(error)) return true;
      return deliver({ ...payload, text: AGAIN + payload.text.replace(AGAIN, "") }, `${deliveryIntentId}/again`);
    };
    // Each part has a name of its own: where one fails, those before it are not sent again.
    const parts = await this.#parts(cfg, context, text);
    for (const [number, part] of parts.entries()) {
      const last = number === parts.length - 1;
      if (!(await deliver({ text: part, ...(last && below) }, `${name}/${number}`))) return false;
    }
    return true;
  }

  /** Whether nothing more can be done for what has failed; false: its channel takes nothing.
   * The gateway keeps what it was given under its name until it is sent, so whatever was not
   * sent is an error, and asked for again. */
  async #isSettled(context, error, name) {
    const held = error?.queueCustody === "held";
    if (isUnsent(error)) {
      if (held) throw error;
      return false;
    }
    if (isTaken(error) ? this.#isClaimed(name, held ? CLAIM_MS : MAKING_MS) : error?.queueCustody === undefined) throw error;
    if (await this.#isClosed(context)) return false;
    this.#warn(context.channel, error);
    return true;
  }

  /** Whether what is taken may yet be let go of, since its sending may not have begun. */
  #isClaimed(name, longest) {
    const since = this.#taken.get(name) ?? performance.now();
    this.#taken.set(name, since);
    return performance.now() - since < longest;
  }

  /** Whether a channel has no account any more by which anything can be sent. */
  async #isClosed({ channel, accountId }) {
    try {
      const { channelAccounts } = await request("channels.status", { channel });
      const mine = channelAccounts[channel].filter((each) => !accountId || each.accountId === accountId);
      return mine.every(({ enabled, configured }) => enabled === false || configured === false);
    } catch {
      return false;
    }
  }

  /** Send a text by the gateway's own request, which remembers less. */
  async #plainly({ channel, to, accountId, threadId }, message, name) {
    const route = { channel, to, ...(accountId && { accountId }), ...(threadId !== undefined && { threadId: String(threadId) }) };
    try {
      await request("send", { ...route, message, idempotencyKey: name });
    } catch (error) {
      if (error?.gatewayCode === "INVALID_REQUEST") return false;
      // Once a delivery has begun, its failure is UNAVAILABLE and not retryable; nothing else was sent.
      if (error?.gatewayCode !== "UNAVAILABLE" || error.retryable) throw error;
      this.#warn(channel, error);
    }
    return true;
  }

  /** A text in the parts that a channel takes, as the gateway would cut it. */
  async #parts(cfg, { channel, accountId }, text) {
    const { outbound: adapters, text: cutting } = this.api.runtime.channel ?? {};
    const adapter = await adapters?.loadAdapter(channel);
    if (!adapter?.chunker || !cutting) return [text];
    const fallbackLimit = cutting.resolveTextChunkLimit(cfg, channel, accountId, { fallbackLimit: adapter.textChunkLimit });
    const limit = adapter.resolveEffectiveTextChunkLimit?.({ cfg, accountId, fallbackLimit }) ?? fallbackLimit;
    const parts = adapter.chunker(text, limit);
    return parts.length ? parts : [text];
  }

  #warn(channel, error) {
    this.api.logger.warn(`taskmem: a notice on ${channel} may not have been sent: ${error?.message ?? "no reason given"}`);
  }
}

/** Whether a failure proves that nothing was sent. */
function isUnsent(error) {
  if (!error || error.sentBeforeError) return false;
  return error.code === NOT_SENT || OUT_OF_REACH.includes(error.syscall) || isUnsent(error.cause);
}

/** Whether the gateway has had that name before, and sends nothing for it any more. */
const isTaken = (error) => String(error?.message).startsWith("Stable delivery intent is");
