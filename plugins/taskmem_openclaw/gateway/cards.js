// Show a session's user the progress card of its newest task, and buttons for open questions.
import { AsyncLocalStorage } from "node:async_hooks";
import { BoundedMap } from "./bounded_map.js";
import { readSession, request } from "./gateway_requests.js";

const MOST_SESSIONS = 1_000;
const MOST_QUESTIONS = 1_000;
const BUTTON_MS = 24 * 3_600_000; // after which the gateway removes buttons, and we ask again
const ANSWER = "answer"; // id of the only question of each request
const HEADER = 12; // characters of a header that the gateway accepts

export class Cards {
  // session → { mine: whether its card is ours, revision }
  #cardBySession = new BoundedMap(MOST_SESSIONS);
  #newestViews = new Map(); // session → the newest view, until it is shown
  #showingViews = new Map(); // session → promise of the view in progress: one at a time
  #buttons = new Map(); // key → { session, question, asked: promise of { id, cancel } }
  // keys of questions that are answered, dismissed, or shown as a line
  #closedQuestions = new BoundedMap(MOST_QUESTIONS);
  #warnedSubjects = new Set(); // subjects of warnings in the log: one each for a start
  #runOutside = AsyncLocalStorage.snapshot(); // runs code outside the current request (see #ask)
  #gatewayContext; // the context of a gateway method: its `questionManager` and `broadcast`

  constructor({ api, tell }) {
    Object.assign(this, { api, tell });
  }

  /** Return why users cannot be shown cards and buttons; undefined: they can. */
  async checkSupport(session) {
    const why = (error) => String(error?.message ?? error);
    const card = request("progressCard.get", { sessionKey: session });
    return {
      cards: await card.then(() => undefined, why),
      buttons: await this.#getQuestionContext().then(() => undefined, why),
    };
  }

  /** Keep the context that the gateway gives to a method of ours: only this way can a plug-in reach
   * the gateway's questions. */
  setGatewayContext(context) {
    this.#gatewayContext = context;
  }

  /** Remove all buttons; the next instance asks the questions again. */
  close() {
    for (const [key, button] of [...this.#buttons]) void this.#removeButtons(key, button);
  }

  /** Return whether a session's user sees a card of ours. */
  hasOwnCard(session) {
    return this.#cardBySession.get(session)?.mine === true;
  }

  /** Show a session's view; of views that come meanwhile, only the newest is shown. */
  showView({ session_key: session, ...view }) {
    this.#newestViews.set(session, view);
    const showing =
      this.#showingViews.get(session) ??
      this.#showNewest(session).finally(() => this.#showingViews.delete(session));
    this.#showingViews.set(session, showing);
    return showing;
  }

  async #showNewest(session) {
    let answer = {};
    while (this.#newestViews.has(session)) {
      const { card, questions, newest_event: upto } = this.#newestViews.get(session);
      this.#newestViews.delete(session);
      if (!readSession(this.api, session))
        return { refused: `The gateway has no session ${session}.` };
      const keys = questions.map(({ key }) => key);
      const known = [...this.#buttons].filter(
        ([, { session: whose, question }]) => whose === session && question.newest_event <= upto,
      );
      for (const [key, button] of known)
        if (!keys.includes(key)) await this.#removeButtons(key, button);
      for (const question of questions) await this.askQuestion(session, question);
      answer = await this.#putCard(session, card).catch((error) => {
        // Any other error may pass, so the daemon tries again.
        if (!error.gatewayCode || error.gatewayCode === "UNAVAILABLE") throw error;
        this.#warn("cards", `no card can be shown (${error.message})`);
        return {};
      });
    }
    return answer;
  }

  #warn(about, what) {
    if (!this.#warnedSubjects.has(about))
      this.api.logger.warn(`taskmem: ${what}; run: taskmem doctor`);
    this.#warnedSubjects.add(about);
  }

  /** Put a card, or remove ours if `card` is null; a card that the agent itself has put since its
   * task began stays. */
  async #putCard(session, card) {
    const { card: there } = await request("progressCard.get", { sessionKey: session });
    const known = this.#cardBySession.get(session);
    const mine =
      there !== null &&
      (known ? there.revision === known.revision : readTitle(there) === readTitle(card));
    if (there && !mine && (!card || there.updatedAt > Date.parse(card.since))) {
      this.#cardBySession.set(session, { mine: false });
      return {};
    }
    if (!card && !mine) return {};
    const wanted = card ? { markdown: card.markdown, plan: card.plan } : {};
    if (card && mine && isSame(there, wanted)) {
      this.#cardBySession.set(session, { mine, revision: there.revision });
      return {};
    }
    const { card: put } = await request("progressCard.put", { sessionKey: session, ...wanted });
    if (put) this.#cardBySession.set(session, { mine: true, revision: put.revision });
    else this.#cardBySession.delete(session);
    return {};
  }

  /** Give a question its buttons; returns the gateway's id of it, or undefined if it gets none. */
  async askQuestion(session, question) {
    const { key } = question;
    if (this.#closedQuestions.has(key)) return undefined;
    const button = this.#buttons.get(key) ?? { session, question };
    button.asked ??= this.#registerQuestion(button);
    this.#buttons.set(key, button);
    try {
      return (await button.asked).id;
    } catch (error) {
      // The question is shown as a line instead.
      this.#warn("buttons", `questions have no buttons (${error.message})`);
      this.#buttons.delete(key);
      this.#closedQuestions.set(key, true);
      return undefined;
    }
  }

  /** Register a question with the gateway, outside of the current request: a stopping gateway would
   * wait for the end of that. */
  async #registerQuestion(button) {
    const {
      session,
      question: { header, text, options },
    } = button;
    const { questionManager, broadcast } = await this.#getQuestionContext();
    const choices = {
      options: options.map((label) => ({ label })),
      ...(options.length && { isOther: true }),
    };
    const questions = [
      { questionId: ANSWER, header: header.slice(0, HEADER), question: text, ...choices },
    ];
    const [, agentId] = session.split(":");
    const audience = { sessionKeys: [session], agentId };
    const onResolved = (event) => {
      broadcast("question.resolved", event, audience);
      this.#handleQuestionEnd(button, event);
    };
    const record = this.#runOutside(() =>
      questionManager.request({
        questions,
        agentId,
        sessionKey: session,
        timeoutMs: BUTTON_MS,
        onResolved,
      }),
    );
    broadcast("question.requested", record, audience);
    return { id: record.id, cancel: () => questionManager.cancel(record.id, this.api.id) };
  }

  async #getQuestionContext() {
    await request("taskmem.questions", {});
    if (!this.#gatewayContext?.questionManager)
      throw new Error("this OpenClaw lets no plug-in ask");
    return this.#gatewayContext;
  }

  /** Handle that a question was answered, dismissed or cancelled, or that its time is up; in the
   * last case ask it again. */
  #handleQuestionEnd(button, { status, answers }) {
    const { key } = button.question;
    if (status === "answered")
      this.tell({ kind: "question_answered", key, answer: answers.answers[ANSWER][0] });
    else if (this.#buttons.get(key) !== button) return; // we removed it
    this.#buttons.delete(key);
    if (status === "expired") void this.askQuestion(button.session, button.question);
    else this.#closedQuestions.set(key, true);
  }

  /** Remove a question's buttons; it may be asked again later. */
  async #removeButtons(key, { asked }) {
    this.#buttons.delete(key);
    const { cancel } = await asked.catch(() => ({}));
    try {
      cancel?.();
    } catch {
      // It was answered meanwhile, and that is reported.
    }
  }
}

/** Return a question's buttons as part of a channel message: channels that have buttons show them
 * below the line. */
export function buildButtons(questionId, { options, text }) {
  if (options.length === 0) return {};
  const choices = options.map((label) => ({
    label,
    action: { type: "question", questionId, optionValue: label },
  }));
  return {
    presentation: {
      blocks: [
        { type: "text", text },
        { type: "buttons", buttons: choices },
      ],
    },
    presentationTextMode: "fallback",
  };
}

/** Return the first line of a card's text, which names its task. */
const readTitle = (card) => card?.markdown?.split("\n")[0];

/** Return whether a card has the wanted text and plan already. */
const isSame = ({ markdown, steps = [] }, wanted) =>
  markdown === wanted.markdown && JSON.stringify(steps) === JSON.stringify(wanted.plan);
