import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { beforeEach, test } from "node:test";
import { gateway, load, MAIN, sdk } from "./stand_ins.mjs";

const { Cards } = await load("cards.js");
const QUESTION = {
  key: "run_1-1-0",
  header: "Resume?",
  text: "Shall it go on?",
  options: ["Resume", "Leave it"],
  newest_event: 5,
};
const CARD = {
  markdown: "**Deploy**",
  plan: [{ step: "Build", status: "in_progress" }],
  since: "2026-01-01T00:00:00Z",
};
const LATER = { ...CARD, plan: [{ step: "Build", status: "completed" }] };
const request = new AsyncLocalStorage();
let house, cards, told, stored, puts, asked, heard, slow;

/** The gateway's own cards and questions. */
function openclaw() {
  const context = {
    questionManager: {
      request(question) {
        const record = { id: `id-${asked.length + 1}`, ...question, within: request.getStore() };
        asked.push(record);
        return record;
      },
      cancel(id) {
        asked.find((each) => each.id === id).onResolved({ id, status: "cancelled" });
      },
    },
    broadcast: (event, { id }, to) => heard.push([event, id, to]),
  };
  return {
    "progressCard.get": () => ({ card: stored }),
    "progressCard.put": async ({ markdown, plan }) => {
      await slow;
      puts.push({ markdown, plan });
      stored = markdown
        ? { markdown, steps: plan, revision: (stored?.revision ?? 0) + 1, updatedAt: Date.now() }
        : null;
      return { card: stored };
    },
    "taskmem.questions": () => request.run("a request", () => cards.setGatewayContext(context)),
  };
}

const show = (card, questions = [], newest_event = QUESTION.newest_event) =>
  cards.showView({ session_key: MAIN, card, questions, newest_event });
const end = (id, status, answer) =>
  asked
    .find((each) => each.id === id)
    .onResolved({ id, status, ...(answer && { answers: { answers: { answer: [answer] } } }) });

beforeEach(() => {
  [told, puts, asked, heard, stored, slow] = [[], [], [], [], null, undefined];
  house = gateway();
  cards = new Cards({ api: house.api, tell: (event) => told.push(event) });
  const methods = openclaw();
  sdk.callGatewayTool = async (method, _, params) => {
    if (!methods[method]) throw new Error(`unknown method: ${method}`);
    return methods[method](params);
  };
  house.methods = methods;
});

test("a card is put, changed and taken away, and put once only", async () => {
  await show(CARD);
  await show(CARD);
  assert.equal(cards.hasOwnCard(MAIN), true);
  await show(LATER);
  await show(null);
  assert.deepEqual(
    puts.map(({ plan }) => plan),
    [CARD.plan, LATER.plan, undefined],
  );
  assert.equal(cards.hasOwnCard(MAIN), false);
});

test("what the agent has put since its task began stays", async () => {
  stored = { markdown: "Mine", revision: 7, updatedAt: Date.parse(CARD.since) + 1 };
  await show(CARD);
  await show(null);
  assert.deepEqual([puts, cards.hasOwnCard(MAIN)], [[], false]);
  stored.updatedAt -= 1;
  await show(CARD);
  assert.equal(puts.length, 1);
  stored = { markdown: "Mine again", revision: 9, updatedAt: Date.now() };
  await show(LATER);
  assert.equal(puts.length, 1);
});

test("after a restart a card of ours is known by its task", async () => {
  stored = { markdown: CARD.markdown, steps: CARD.plan, revision: 3, updatedAt: Date.now() };
  await show(LATER);
  assert.deepEqual(
    puts.map(({ plan }) => plan),
    [LATER.plan],
  );
});

test("of views that come while one is put the newest alone follows", async () => {
  let go;
  slow = new Promise((done) => (go = done));
  const all = [show(CARD), show({ ...CARD, plan: [] }), show(LATER)];
  go();
  await Promise.all(all);
  assert.deepEqual(puts.map(({ plan }) => plan).slice(-1), [LATER.plan]);
  assert.ok(puts.length <= 2);
});

test("a card that cannot be put now is an error, and a session that is not there refused", async () => {
  house.methods["progressCard.put"] = () =>
    Promise.reject(Object.assign(new Error("busy"), { gatewayCode: "UNAVAILABLE" }));
  await assert.rejects(show(CARD), /busy/);
  const { refused } = await cards.showView({
    session_key: "agent:main:gone",
    card: CARD,
    questions: [],
  });
  assert.match(refused, /no session agent:main:gone/);
});

test("a card that this gateway never takes is left out, and its operator warned once", async () => {
  house.methods["progressCard.get"] = () =>
    Promise.reject(Object.assign(new Error("unknown method"), { gatewayCode: "INVALID_REQUEST" }));
  await show(CARD, [QUESTION]);
  await show(LATER);
  assert.deepEqual([puts, cards.hasOwnCard(MAIN), asked.length], [[], false, 1]);
  assert.equal(house.warned.length, 1);
});

test("a question is asked once, with free words beside its options", async () => {
  const [id] = await Promise.all([cards.askQuestion(MAIN, QUESTION), show(null, [QUESTION])]);
  assert.equal(await cards.askQuestion(MAIN, QUESTION), id);
  const [{ questions, agentId, sessionKey }] = asked;
  assert.deepEqual([asked.length, agentId, sessionKey], [1, "main", MAIN]);
  assert.deepEqual(questions, [
    {
      questionId: "answer",
      header: "Resume?",
      question: "Shall it go on?",
      options: [{ label: "Resume" }, { label: "Leave it" }],
      isOther: true,
    },
  ]);
  assert.deepEqual(heard, [["question.requested", id, { sessionKeys: [MAIN], agentId: "main" }]]);
});

test("a question belongs to no request that a stopping gateway waits for", async () => {
  await request.run("a request", () => cards.askQuestion(MAIN, QUESTION));
  assert.equal(asked[0].within, undefined);
});

test("an answer is told once, and its question asked no more", async () => {
  await show(null, [QUESTION]);
  end("id-1", "answered", "Resume");
  await show(null, [QUESTION]);
  await show(null);
  assert.deepEqual(told, [{ kind: "question_answered", key: QUESTION.key, answer: "Resume" }]);
  assert.equal(asked.length, 1);
});

test("a question whose time is up is asked anew, and one put aside is not", async () => {
  await show(null, [QUESTION]);
  end("id-1", "expired");
  await cards.askQuestion(MAIN, QUESTION);
  assert.equal(asked.length, 2);
  end("id-2", "cancelled");
  await show(null, [QUESTION]);
  assert.deepEqual([asked.length, told], [2, []]);
});

test("a question that is over loses its buttons, and so does each at the end", async () => {
  await show(null, [QUESTION, { ...QUESTION, key: "2" }]);
  await show(null, [QUESTION]);
  const over = () => heard.filter(([event]) => event === "question.resolved").map(([, id]) => id);
  assert.deepEqual(over(), ["id-2"]);
  cards.close();
  await cards.askQuestion(MAIN, { ...QUESTION, key: "3" });
  assert.deepEqual(over(), ["id-2", "id-1"]);
});

test("a question whose buttons were taken away is asked anew when it is open again", async () => {
  await show(null, [QUESTION]);
  await show(null);
  await show(null, [QUESTION]);
  assert.equal(asked.length, 2);
  end("id-2", "answered", "Leave it");
  assert.deepEqual(
    told.map(({ answer }) => answer),
    ["Leave it"],
  );
});

test("what was drawn before a question was asked leaves its buttons", async () => {
  await cards.askQuestion(MAIN, QUESTION);
  await show(CARD, [], QUESTION.newest_event - 1);
  assert.deepEqual(
    heard.map(([event]) => event),
    ["question.requested"],
  );
});

test("where nothing can be asked there are no buttons, then or later", async () => {
  const enter = house.methods["taskmem.questions"];
  house.methods["taskmem.questions"] = () => cards.setGatewayContext({});
  assert.equal(await cards.askQuestion(MAIN, QUESTION), undefined);
  assert.match(house.warned[0], /have no buttons .*lets no plug-in ask.*taskmem doctor/);
  house.methods["taskmem.questions"] = enter;
  assert.equal(await cards.askQuestion(MAIN, QUESTION), undefined);
  assert.deepEqual(asked, []);
});

test("what users cannot be shown is known, with the reason", async () => {
  assert.deepEqual(await cards.checkSupport(MAIN), { cards: undefined, buttons: undefined });
  for (const method of ["progressCard.get", "taskmem.questions"]) delete house.methods[method];
  assert.deepEqual(await cards.checkSupport(MAIN), {
    cards: "unknown method: progressCard.get",
    buttons: "unknown method: taskmem.questions",
  });
});
