import assert from "node:assert/strict";
import { test } from "node:test";
import { load, sdk } from "./stand_ins.mjs";

const { ModelReader } = await load("model_reader.js");
const SCHEMA = { type: "object", properties: { met: { type: "string" } } };
const HOUR = 3_600_000;
const text = (words = "hello") => ({
  instruction: "You judge.",
  parts: [{ text: words }],
  schema: SCHEMA,
  limit: 5,
});
const picture = () => ({ ...text(), parts: [{ text: "Look:" }, { jpeg: "/9j/" }] });
const SAID = {
  text: '{"met":"no"}',
  provider: "local",
  model: "one",
  stopReason: "stop",
  usage: { inputTokens: 100, outputTokens: 10, costUsd: 0.002 },
};

/** A reader of a gateway whose model answers as `complete` does. */
function reader({
  complete = async () => SAID,
  defaults = {},
  llm,
  input = ["text"],
  pluginConfig,
  now,
} = {}) {
  const asked = [];
  const config = {
    agents: { defaults: { model: { primary: "local/one" }, ...defaults } },
    models: { providers: { local: { models: [{ id: "one", input }] } } },
    plugins: { entries: { taskmem: { llm } } },
  };
  const api = {
    pluginConfig,
    runtime: {
      config: { current: () => config },
      llm: {
        complete: (given) => {
          asked.push(given);
          return complete(given);
        },
      },
    },
  };
  return { made: new ModelReader({ api, id: "taskmem", ...(now && { now }) }), asked, config };
}

test("a question goes to the agent's own model, with limits and without grants", async () => {
  const { made, asked } = reader();
  assert.deepEqual(await made.askModel(text()), {
    model: "local/one",
    tokens_in: 100,
    tokens_out: 10,
    cost_usd: 0.002,
    text: SAID.text,
  });
  const [{ signal, ...given }] = asked;
  assert.ok(signal instanceof AbortSignal);
  assert.deepEqual(given, {
    systemPrompt: `You judge.\nAnswer with one JSON object of this schema, and nothing else:\n${JSON.stringify(SCHEMA)}`,
    messages: [{ role: "user", content: "hello" }],
    purpose: "taskmem.read",
    maxTokens: 1024,
    responseFormat: { type: "json_schema", json_schema: { name: "answer", schema: SCHEMA } },
  });
});

test("pictures go only to a model that takes them", async () => {
  const blind = reader();
  const { unavailable } = await blind.made.askModel(picture());
  assert.match(unavailable, /takes no pictures; set agents.defaults.imageModel/);
  assert.deepEqual(blind.asked, []);
  assert.equal((await blind.made.describeModels()).pictures, false);

  const seeing = reader({ input: ["text", "image"] });
  await seeing.made.askModel(picture());
  assert.deepEqual(seeing.asked[0].messages[0].content, [
    { type: "text", text: "Look:" },
    { type: "image", data: "/9j/", mimeType: "image/jpeg" },
  ]);
  assert.equal(seeing.asked[0].model, undefined);
  assert.deepEqual(await seeing.made.describeModels(), {
    model: "local/one",
    pictures: true,
    picture_model: "local/one",
    asked: 1,
    limit: 200,
  });
});

test("what a model takes is looked up where the configuration does not say it", async () => {
  const { made, config } = reader({ input: undefined });
  sdk.loadModelCatalog = async () => [{ provider: "local", id: "one", input: ["text", "image"] }];
  delete config.models;
  assert.equal((await made.describeModels()).picture_model, "local/one");
});

test("a catalogue that cannot be read shows no pictures to anyone", async () => {
  const { made, config } = reader();
  sdk.loadModelCatalog = async () => {
    throw new Error("gone");
  };
  delete config.models;
  assert.equal((await made.describeModels()).pictures, false);
});

test("another model is asked only with the grant", async () => {
  const defaults = { utilityModel: "local/small", imageModel: { primary: "local/eye" } };
  const without = reader({ defaults });
  await without.made.askModel(text());
  assert.equal(without.asked[0].model, undefined);
  assert.match((await without.made.askModel(picture())).unavailable, /takes no pictures/);
  const granted = { allowModelOverride: true, allowedModels: ["local/small", "local/eye"] };
  const allowed = reader({ defaults, llm: granted });
  await allowed.made.askModel(text());
  await allowed.made.askModel(picture());
  assert.deepEqual(
    allowed.asked.map(({ model }) => model),
    ["local/small", "local/eye"],
  );
  const other = reader({
    defaults,
    llm: { allowModelOverride: true, allowedModels: ["local/big"] },
  });
  await other.made.askModel(text());
  assert.equal(other.asked[0].model, undefined);
});

test("a provider without a key of its own is asked by the agent's runtime", async () => {
  const { made, asked } = reader({
    complete: async ({ execution }) => {
      if (!execution)
        throw new Error("Plugin LLM completion failed: No API key found for provider local");
      return { ...SAID, stopReason: undefined, usage: {} };
    },
  });
  const found = await made.askModel(text());
  assert.deepEqual([found.text, found.tokens_in, found.cost_usd], [SAID.text, null, null]);
  assert.deepEqual(asked[1].execution, { mode: "isolated-agent-runtime", timeoutMs: 60_000 });
  assert.equal(asked[1].responseFormat, undefined);
  await made.askModel(text());
  assert.equal(asked.length, 3, "the next question goes there at once");
});

test("a provider that takes no schema is asked without it from then on", async () => {
  const { made, asked } = reader({
    complete: async ({ responseFormat }) => {
      if (responseFormat) throw new Error("400 response_format is not supported");
      return SAID;
    },
  });
  assert.equal((await made.askModel(text())).text, SAID.text);
  await made.askModel(text());
  assert.deepEqual(
    asked.map((each) => "responseFormat" in each),
    [true, false, false],
  );
});

test("an answer that is none says why", async () => {
  const cases = [
    [{ text: "{", stopReason: "length" }, /cut, being too long/],
    [{ text: " " }, /was empty/],
    [{ text: "x".repeat(20_000) }, /longer than 16000 characters/],
  ];
  for (const [said, why] of cases) {
    const { none, tokens_in } = await reader({
      complete: async () => ({ ...SAID, ...said }),
    }).made.askModel(text());
    assert.match(none, why);
    assert.equal(tokens_in, 100);
  }
});

test("a failing provider is not tried again within the hour", async () => {
  let now = 5 * HOUR;
  const { made, asked } = reader({
    complete: async () => ({ ...SAID, text: "", stopReason: "error" }),
    now: () => now,
  });
  const { unavailable, retry } = await made.askModel(text());
  assert.match(
    unavailable,
    /^local\/one: its provider failed, and OpenClaw's log says why; it is asked again in 60 minutes/,
  );
  assert.equal(retry, 60);
  now += HOUR - 1;
  await made.askModel(text());
  assert.equal(asked.length, 1);
  now += 1;
  await made.askModel(text());
  assert.equal(asked.length, 2);
});

test("one that took the key lately is tried again soon", async () => {
  let now = 5 * HOUR;
  let fails = false;
  const { made, asked } = reader({
    complete: async () => (fails ? { ...SAID, text: "", stopReason: "error" } : SAID),
    now: () => now,
  });
  await made.askModel(text());
  fails = true;
  assert.match((await made.askModel(text())).unavailable, /asked again in 30 s/);
  now += 30_000;
  await made.askModel(text());
  assert.equal(asked.length, 3);
});

test("a turn that was answered, or another provider, ends the rest", async () => {
  const { made, asked, config } = reader({
    complete: async () => Promise.reject(new Error("401 unauthorized")),
  });
  await made.askModel(text());
  made.recordAnswer("other");
  await made.askModel(text());
  assert.equal(asked.length, 1);
  made.recordAnswer("local");
  await made.askModel(text());
  assert.equal(asked.length, 2);
  config.models = { providers: { local: { apiKey: "another" } } };
  await made.askModel(text());
  assert.equal(asked.length, 3);
});

test("a failure lets its own model rest, and no other provider's", async () => {
  const llm = { allowModelOverride: true, allowedModels: ["far/eye"] };
  const complete = async ({ model }) =>
    model ? Promise.reject(new Error("401 unauthorized")) : SAID;
  const { made, asked } = reader({ complete, llm, defaults: { imageModel: "far/eye" } });
  await made.askModel(text());
  assert.match((await made.askModel(picture())).unavailable, /asked again in 60 minutes/);
  assert.ok((await made.askModel(text())).text);
  await made.askModel(picture());
  assert.equal(asked.length, 3);
});

test("a day has a limit of its own, whoever asks", async () => {
  let now = 5 * HOUR;
  const { made, asked } = reader({ pluginConfig: { modelCallsPerDay: 2 }, now: () => now });
  for (let n = 0; n < 3; n++) await made.askModel(text());
  assert.equal(asked.length, 2);
  assert.match(
    (await made.askModel(text())).unavailable,
    /plugins.entries.taskmem.config.modelCallsPerDay is 2/,
  );
  now += 24 * HOUR;
  await made.askModel(text());
  assert.equal(asked.length, 3);
});

test("no more than eight are answered at once, and nothing too long", async () => {
  const { made, asked } = reader({ complete: () => new Promise(() => {}) });
  for (let n = 0; n < 8; n++) void made.askModel(text());
  await new Promise((done) => setImmediate(done));
  assert.match((await made.askModel(text())).unavailable, /8 questions are being answered/);
  assert.equal(asked.length, 8);
  const fresh = reader().made;
  assert.match((await fresh.askModel(text("x".repeat(100_001)))).unavailable, /too long/);
});

test("who hangs up ends the question, and one that is late ends itself", async () => {
  const complete = ({ signal }) =>
    new Promise((_, failed) => signal.addEventListener("abort", () => failed(signal.reason)));
  const hungUp = new AbortController();
  const { made } = reader({ complete });
  const asked = made.askModel(text(), hungUp.signal);
  setImmediate(() => hungUp.abort());
  assert.match((await asked).unavailable, /gave no answer in time/);
  assert.match(
    (await made.askModel({ ...text(), limit: 1 })).unavailable,
    /gave no answer in time/,
  );
});
