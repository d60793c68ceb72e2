// Send notices to users: on their channel, else in the session's web chat.
import { buildButtons } from "./cards.js";
import { BoundedMap } from "./bounded_map.js";
import { readSession, request, showLine } from "./gateway_requests.js";

const MOST_NOTICES = 1_000;
const OURS = "taskmem:"; // prefix of the names under which the gateway sends our messages
/** The gateway remembers what it sent for us for longer than the daemon repeats a notice. */
const RECEIPTS = { idPrefix: OURS, maxAgeMs: 48 * 3_600_000, maxEntries: 5_000 };
const MOST_TRIES = 1_000; // tries by the gateway's own recovery; the daemon gives up before
// Upper bounds of how long a gateway that ended keeps its claim on a message that it was about to
// send (one minute), or was preparing (five).
const CLAIM_MS = 90_000;
const PREPARING_MS = 310_000;
// before a text that may have been sent
const AGAIN = "Sent once more, as it may not have arrived:\n\n";
const NOT_SENT = "OPENCLAW_PLATFORM_MESSAGE_NOT_DISPATCHED";
const OUT_OF_REACH = ["connect", "getaddrinfo"]; // system calls that fail before anything is sent

export class Notices {
  #sentKeys = new BoundedMap(MOST_NOTICES); // keys of notices that were sent
  #sending = new Map(); // key of a notice that is being sent → its promise
  // name of a message that is claimed → when we first saw that
  #claimedSince = new BoundedMap(MOST_NOTICES);

  constructor({ api, cards }) {
    Object.assign(this, { api, cards });
  }

  /** Send a notice to the user of a session, once for each key. Returns `{}`, or `{ refused }` if
   * there is no such session; rejects if it must be tried again. */
  async sendNotice(session, { key, ...notice }) {
    if (this.#sentKeys.has(key)) return {};
    const sending = this.#sending.get(key) ?? this.#sendOnce(session, notice, `${OURS}${key}`);
    this.#sending.set(key, sending);
    try {
      const done = await sending;
      this.#sentKeys.set(key, true);
      return done;
    } finally {
      this.#sending.delete(key);
    }
  }

  async #sendOnce(session, { text, without_card: more, in_chat: inChat, question }, name) {
    const entry = readSession(this.api, session);
    if (!entry) return { refused: `The gateway has no session ${session}.` };
    const { kind, context } = entry.delivery ?? {};
    const asked = question && (await this.cards.askQuestion(session, question));
    const below = asked ? buildButtons(asked, question) : {};
    const onChannel = kind === "external" && context?.channel && context.to;
    if (onChannel && (!text || (await this.#sendToChannel(context, text, name, below)))) return {};
    const message = (!this.cards.hasOwnCard(session) && more) || text;
    if (inChat || asked || !message) return {};
    await showLine(session, message);
    return {};
  }

  /** Send a text, with `below` after its last part, to the channel of the user's last message;
   * returns false if that channel accepts nothing any more. */
  async #sendToChannel(context, text, name, below) {
    const { sendDurableMessageBatch: send } = await import("openclaw/plugin-sdk/channel-outbound");
    const { channel, to, accountId, threadId } = context;
    const cfg = this.api.runtime.config.current();
    const route = {
      channel,
      to,
      ...(accountId && { accountId }),
      ...(threadId !== undefined && { threadId }),
    };
    const deliver = async (payload, deliveryIntentId) => {
      const named = {
        deliveryIntentId,
        reusePendingDeliveryIntent: true,
        completionRetention: RECEIPTS,
        maxRetries: MOST_TRIES,
      };
      const { status, error } = await send({ cfg, ...route, payloads: [payload], ...named });
      if (status !== "failed") return true;
      if (!(await this.#isSettled(context, error, deliveryIntentId))) return false;
      if (!isTaken(error)) return true;
      return deliver(
        { ...payload, text: AGAIN + payload.text.replace(AGAIN, "") },
        `${deliveryIntentId}/again`,
      );
    };
    // Each part has its own name: if one fails, those before it are not sent again.
    const parts = await this.#splitText(cfg, context, text);
    for (const [number, part] of parts.entries()) {
      const last = number === parts.length - 1;
      if (!(await deliver({ text: part, ...(last && below) }, `${name}/${number}`))) return false;
    }
    return true;
  }

  /** Decide about a failed message. Returns true if nothing more can be done for it, false if its
   * channel accepts nothing; throws if it must be tried again. A message that was certainly not
   * sent is tried again if the gateway holds it under its name. */
  async #isSettled(context, error, name) {
    const isHeld = error?.queueCustody === "held";
    if (isUnsent(error)) {
      if (isHeld) throw error;
      return false;
    }
    if (
      isTaken(error)
        ? this.#isClaimed(name, isHeld ? CLAIM_MS : PREPARING_MS)
        : error?.queueCustody === undefined
    )
      throw error;
    if (await this.#isClosed(context)) return false;
    const reason = error?.message ?? "no reason given";
    this.api.logger.warn(
      `taskmem: a notice on ${context.channel} may not have been sent: ${reason}`,
    );
    return true;
  }

  /** Return whether the claim on a message may still be released, because sending it may not have
   * begun; `longest` is the time after which it is not, in milliseconds. */
  #isClaimed(name, longest) {
    const since = this.#claimedSince.get(name) ?? performance.now();
    this.#claimedSince.set(name, since);
    return performance.now() - since < longest;
  }

  /** Return whether a channel has no usable account any more; false also if that is unknown. */
  async #isClosed({ channel, accountId }) {
    try {
      const { channelAccounts } = await request("channels.status", { channel });
      const mine = channelAccounts[channel].filter(
        (each) => !accountId || each.accountId === accountId,
      );
      return mine.every(({ enabled, configured }) => enabled === false || configured === false);
    } catch {
      return false;
    }
  }

  /** Return a text in parts of the length that a channel accepts, cut as the gateway would. */
  async #splitText(cfg, { channel, accountId }, text) {
    const { outbound: adapters, text: cutting } = this.api.runtime.channel ?? {};
    const adapter = await adapters?.loadAdapter(channel);
    if (!adapter?.chunker || !cutting) return [text];
    const fallbackLimit = cutting.resolveTextChunkLimit(cfg, channel, accountId, {
      fallbackLimit: adapter.textChunkLimit,
    });
    const limit =
      adapter.resolveEffectiveTextChunkLimit?.({ cfg, accountId, fallbackLimit }) ?? fallbackLimit;
    const parts = adapter.chunker(text, limit);
    return parts.length ? parts : [text];
  }
}

/** Return whether an error proves that nothing was sent. */
function isUnsent(error) {
  if (!error || error.sentBeforeError) return false;
  return error.code === NOT_SENT || OUT_OF_REACH.includes(error.syscall) || isUnsent(error.cause);
}

/** Return whether an error says that the gateway has used the message's name before, and sends
 * nothing under it now. */
const isTaken = (error) => String(error?.message).startsWith("Stable delivery intent is");
