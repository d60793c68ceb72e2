// What a session's user sees besides the chat: the card of its newest task, and buttons for what is asked.
import { AsyncLocalStorage } from "node:async_hooks";
import { Kept } from "./kept.js";
import { readSession, request } from "./requests.js";

const MOST_SESSIONS = 1_000;
const MOST_ASKED = 1_000;
const BUTTON_MS = 24 * 3_600_000; // after which the gateway takes a button away, and it is renewed
const ANSWER = "answer";
const HEADER = 12; // characters that the gateway takes

export class Cards {
  #cards = new Kept(MOST_SESSIONS); // session → { mine, revision }: whether the card that it has is ours
  #newest = new Map(); // session → the newest view, until it is shown
  #showing = new Map(); // session → a promise: views are shown one after the other
  #buttons = new Map(); // key of a question → { session, question, asked }: a promise of { id, cancel }
  #over = new Kept(MOST_ASKED); // keys of questions that need no button: answered, put aside, or told as a line
  #warned = new Set(); // about what an operator was warned: once a start is enough
  #outside = AsyncLocalStorage.snapshot(); // of requests to the gateway: a question that one of them asks keeps it from stopping
  #gateway; // what a method of the gateway is given: its questions, and whom it tells of them

  constructor({ api, tell }) {
    Object.assign(this, { api, tell });
  }

  /** What users cannot be shown here, and why; undefined: they can. */
  async lacks(session) {
    const why = (error) => String(error?.message ?? error);
    const card = request("progressCard.get", { sessionKey: session });
    return { cards: await card.then(() => undefined, why), buttons: await this.#questions().then(() => undefined, why) };
  }

  /** A method of ours was called: that is how the gateway lets a plug-in come to its questions. */
  enter(context) {
    this.#gateway = context;
  }

  /** Take all buttons away: who shows them next asks anew. */
  close() {
    for (const [key, button] of [...this.#buttons]) void this.#withdraw(key, button);
  }

  /** Whether a session's user sees a card of ours. */
  shows(session) {
    return this.#cards.get(session)?.mine === true;
  }

  /** Show what the daemon has for a session: the newest only, and never an older one after it. */
  show({ session_key: session, ...view }) {
    this.#newest.set(session, view);
    const showing = this.#showing.get(session) ?? this.#show(session).finally(() => this.#showing.delete(session));
    this.#showing.set(session, showing);
    return showing;
  }

  async #show(session) {
    let answer = {};
    while (this.#newest.has(session)) {
      const { card, questions, newest_event: upto } = this.#newest.get(session);
      this.#newest.delete(session);
      if (!readSession(this.api, session)) return { refused: `The gateway has no session ${session}.` };
      const keys = questions.map(({ key }) => key);
      const known = [...this.#buttons].filter(([, { session: whose, question }]) => whose === session && question.newest_event <= upto);
      for (const [key, button] of known) if (!keys.includes(key)) await this.#withdraw(key, button);
      for (const question of questions) await this.ask(session, question);
      answer = await this.#put(session, card).catch((error) => this.#refused(error));
    }
    return answer;
  }

  /** What the gateway will not take now or later needs no second try; all other trouble is one. */
  #refused(error) {
    if (!error.gatewayCode || error.gatewayCode === "UNAVAILABLE") throw error;
    this.#warn("cards", `no card can be shown (${error.message})`);
    return {};
  }

  #warn(about, what) {
    if (!this.#warned.has(about)) this.api.logger.warn(`taskmem: ${what}; run: taskmem doctor`);
    this.#warned.add(about);
  }

  /** Put a card; what the agent itself has put since its task began stays. */
  async #put(session, card) {
    const { card: there } = await request("progressCard.get", { sessionKey: session });
    const known = this.#cards.get(session);
    const mine = there !== null && (known ? there.revision === known.revision : titled(there) === titled(card));
    if (there && !mine && (!card || there.updatedAt > Date.parse(card.since))) {
      this.#cards.set(session, { mine: false });
      return {};
    }
    if (!card && !mine) return {};
    const wanted = card ? { markdown: card.markdown, plan: card.plan } : {};
    if (card && mine && same(there, wanted)) {
      this.#cards.set(session, { mine, revision: there.revision });
      return {};
    }
    const { card: put } = await request("progressCard.put", { sessionKey: session, ...wanted });
    if (put) this.#cards.set(session, { mine: true, revision: put.revision });
    else this.#cards.delete(session);
    return {};
  }

  /** Give a question its buttons; answers its id, undefined where there can be none. */
  async ask(session, question) {
    const { key } = question;
    if (this.#over.has(key)) return undefined;
    const button = this.#buttons.get(key) ?? { session, question };
    button.asked ??= this.#ask(button);
    this.#buttons.set(key, button);
    try {
      return (await button.asked).id;
    } catch (error) {
      // Its line is told instead, and needs no button besides.
      this.#warn("buttons", `questions have no buttons (${error.message})`);
      this.#buttons.delete(key);
      this.#over.set(key, true);
      return undefined;
    }
  }

  /** Asked by the gateway's own method, a question would be a request that its stop waits for. */
  async #ask(button) {
    const { session, question: { header, text, options } } = button;
    const { questionManager, broadcast } = await this.#questions();
    const choices = { options: options.map((label) => ({ label })), ...(options.length && { isOther: true }) };
    const questions = [{ questionId: ANSWER, header: header.slice(0, HEADER), question: text, ...choices }];
    const [, agentId] = session.split(":");
    const heard = { sessionKeys: [session], agentId };
    const onResolved = (event) => {
      broadcast("question.resolved", event, heard);
      this.#ended(button, event);
    };
    const record = this.#outside(() => questionManager.request({ questions, agentId, sessionKey: session, timeoutMs: BUTTON_MS, onResolved }));
    broadcast("question.requested", record, heard);
    return { id: record.id, cancel: () => questionManager.cancel(record.id, this.api.id) };
  }

  async #questions() {
    await request("taskmem.questions", {});
    if (!this.#gateway?.questionManager) throw new Error("this OpenClaw lets no plug-in ask");
    return this.#gateway;
  }

  /** A question was answered, put aside, or its time is up. */
  #ended(button, { status, answers }) {
    const { key } = button.question;
    if (status === "answered") this.tell({ kind: "question_answered", key, answer: answers.answers[ANSWER][0] });
    else if (this.#buttons.get(key) !== button) return; // we took it away
    this.#buttons.delete(key);
    if (status === "expired") void this.ask(button.session, button.question);
    else this.#over.set(key, true);
  }

  /** Take a question's buttons away: it is not asked now, and may be again. */
  async #withdraw(key, { asked }) {
    this.#buttons.delete(key);
    const { cancel } = await asked.catch(() => ({}));
    try {
      cancel?.();
    } catch {
      // It was answered at this very moment, and the daemon is told.
    }
  }
}

/** The buttons of a question, as a channel that has some shows them below its line. */
export function buttons(questionId, { options, text }) {
  if (options.length === 0) return {};
  const choices = options.map((label) => ({ label, action: { type: "question", questionId, optionValue: label } }));
  return { presentation: { blocks: [{ type: "text", text }, { type: "buttons", buttons: choices }] }, presentationTextMode: "fallback" };
}

/** The first line of a card's text, which names its task. */
const titled = (card) => card?.markdown?.split("\n")[0];

/** Whether a card says already what is wanted. */
const same = ({ markdown, steps = [] }, wanted) => markdown === wanted.markdown && JSON.stringify(steps) === JSON.stringify(wanted.plan);
