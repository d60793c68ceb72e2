// Ask the user's own model what a text or a picture shows: outside any turn, with OpenClaw's
// provider and key, and without tools.
const CALLS_PER_DAY = 200; // default limit
const AT_ONCE = 8; // the daemon sends four; further ones that it gave up may still run
const TOKENS = 1_024; // limit of an answer; a ruling takes some sixty
const LONGEST_ANSWER = 16_000; // characters
const LONGEST_TEXT = 100_000; // characters of all texts of a question
const MOST_PICTURES = 16;
const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const RECENT_MS = 600_000; // how long after an answer the provider's key counts as valid
const SHORT_MS = 30_000; // pause after a failure while the key counts as valid; else HOUR_MS
const AGAIN_SECONDS = 60; // longest retry delay that we give the daemon, however long the pause
const ISOLATED = /no api key|api key.{0,40}(missing|not found|required)|missing.{0,20}(auth|key|credential)|no credentials/i;

/** Asks the gateway's models. Has limits of its own, since the socket requires no secret. */
export class Reader {
  #day = 0; // days since the epoch
  #asked = 0; // questions on that day
  #running = 0;
  #plain = new Set(); // models whose provider accepts no response schema
  #isolated = new Set(); // models that only an agent's runtime can ask
  #takenAt = new Map(); // provider → when it last accepted its key
  #rests = new Map(); // identity of a model → { until, why }: its pause after a failure
  #catalog; // promise of OpenClaw's model catalogue, read once

  constructor({ api, id, now = Date.now }) {
    Object.assign(this, { api, id, now });
  }

  /** Return the models for texts and for pictures (null: none), and today's count and limit. */
  async facts() {
    const seeing = await this.#seeing();
    return { model: this.#text(), pictures: seeing !== undefined, picture_model: seeing ?? null, ...this.#spent() };
  }

  /** Ask a question, in at most `limit` seconds. Returns the model's text as it is; `none`, why
   * that is no answer; or `unavailable`, why it could not be asked, with `retry` in seconds. */
  async read({ instruction, parts, schema, limit: seconds }, signal) {
    const pictures = parts.some(({ jpeg }) => jpeg);
    const seeing = pictures ? await this.#seeing() : undefined;
    const refused = this.#refused(parts, pictures, seeing);
    if (refused) return { unavailable: refused };
    const model = pictures ? seeing : this.#text();
    const resting = this.#resting(model);
    if (resting) return resting;
    this.#asked++;
    this.#running++;
    try {
      const limit = AbortSignal.timeout(Math.min(Math.max(Number(seconds) || 0, 1), 60) * 1_000);
      return await this.#ask({ instruction, parts, schema, model, pictures }, AbortSignal.any([limit, signal].filter(Boolean)));
    } finally {
      this.#running--;
    }
  }

  /** Note that a provider answered in an agent's turn, so its key is valid: end the pauses of the
   * default model's provider. */
  answered(provider) {
    const primary = this.#primary();
    if (provider !== undefined && providerOf(primary) !== provider) return;
    this.#takenAt.set(providerOf(primary), this.now());
    for (const who of this.#rests.keys()) if (providerOf(JSON.parse(who)[0]) === providerOf(primary)) this.#rests.delete(who);
  }

  async #ask(question, signal) {
    const { model } = question;
    try {
      const { text, provider, model: name, stopReason, usage = {} } = await this.#complete(question, signal);
      const found = { model: `${provider}/${name}`, tokens_in: read(usage), tokens_out: usage.outputTokens ?? null, cost_usd: usage.costUsd ?? null };
      if (stopReason === "error" && !text?.trim()) return this.#fail(model, "its provider failed, and OpenClaw's log says why");
      this.#takenAt.set(providerOf(model), this.now());
      if (stopReason === "length") return { ...found, none: "its answer was cut, being too long" };
      if (!text?.trim()) return { ...found, none: "its answer was empty" };
      if (text.length > LONGEST_ANSWER) return { ...found, none: `its answer was longer than ${LONGEST_ANSWER} characters` };
      return { ...found, text };
    } catch (error) {
      const said = plain(error);
      if (signal.aborted) return { unavailable: `${model} gave no answer in time` };
      return this.#fail(model, `it could not be asked (${said})`);
    }
  }

  /** Pause a model after a failure. OpenClaw does not say which failure, and a refused key must not
   * be tried again within the hour: the pause is short only if the key was accepted lately. */
  #fail(model, why) {
    const long = this.now() - (this.#takenAt.get(providerOf(model)) ?? -Infinity) > RECENT_MS;
    this.#rests.set(this.#identity(model), { until: this.now() + (long ? HOUR_MS : SHORT_MS), why: `${model}: ${why}` });
    return this.#resting(model);
  }

  /** Return why a model is paused, as the answer to a question; undefined: it is not. */
  #resting(model) {
    const { until = 0, why } = this.#rests.get(this.#identity(model)) ?? {};
    const left = Math.ceil((until - this.now()) / 1_000);
    if (left <= 0) return undefined;
    const again = left > 60 ? `${Math.ceil(left / 60)} minutes, or when a turn of the agent was answered` : `${left} s`;
    return { unavailable: `${why}; it is asked again in ${again}`, retry: Math.min(left, AGAIN_SECONDS) };
  }

  /** Return the identity of a model with its provider's settings, so that a changed key in them
   * ends its pause. */
  #identity(model) {
    return JSON.stringify([model, this.#config().models?.providers?.[providerOf(model)], this.#config().auth]);
  }

  /** Ask the provider directly; if it has no key of its own, through an agent's runtime. */
  async #complete(question, signal) {
    const { model, pictures } = question;
    if (!this.#isolated.has(model)) {
      try {
        return await this.#directly(question, signal);
      } catch (error) {
        if (signal.aborted || pictures || !ISOLATED.test(plain(error))) throw error;
        this.#isolated.add(model);
      }
    }
    const execution = { mode: "isolated-agent-runtime", timeoutMs: 60_000 };
    return await this.api.runtime.llm.complete({ ...this.#request(question, signal), execution });
  }

  async #directly(question, signal) {
    const request = this.#request(question, signal);
    const { model, schema } = question;
    if (this.#plain.has(model)) return await this.api.runtime.llm.complete(request);
    const responseFormat = { type: "json_schema", json_schema: { name: "answer", schema } };
    try {
      return await this.api.runtime.llm.complete({ ...request, responseFormat });
    } catch (error) {
      if (signal.aborted || !/response_?format|json_?schema/i.test(plain(error))) throw error;
      this.#plain.add(model);
      return await this.api.runtime.llm.complete(request);
    }
  }

  #request({ instruction, parts, schema, model, pictures }, signal) {
    const systemPrompt = `${instruction}\nAnswer with one JSON object of this schema, and nothing else:\n${JSON.stringify(schema)}`;
    const content = pictures ? parts.map(piece) : parts.map(({ text }) => text).join("\n");
    const other = model !== this.#primary() && { model };
    return { systemPrompt, messages: [{ role: "user", content }], purpose: "taskmem.read", maxTokens: TOKENS, signal, ...other };
  }

  /** Return why a question may not be asked, in a sentence; undefined: it may. */
  #refused(parts, pictures, seeing) {
    if (pictures && seeing === undefined) return "OpenClaw's model takes no pictures; set agents.defaults.imageModel, then run taskmem setup openclaw to allow it";
    const texts = parts.reduce((sum, { text = "" }) => sum + text.length, 0);
    if (texts > LONGEST_TEXT || parts.filter(({ jpeg }) => jpeg).length > MOST_PICTURES) return "the question is too long";
    const { asked, limit } = this.#spent();
    if (asked >= limit) return `it was asked as often as one day allows (plugins.entries.${this.id}.config.modelCallsPerDay is ${limit})`;
    if (this.#running >= AT_ONCE) return `${AT_ONCE} questions are being answered`;
    return undefined;
  }

  #spent() {
    const day = Math.floor(this.now() / DAY_MS);
    if (day !== this.#day) [this.#day, this.#asked] = [day, 0];
    return { asked: this.#asked, limit: this.api.pluginConfig?.modelCallsPerDay ?? CALLS_PER_DAY };
  }

  /** Return the model for texts: the small one if the operator allows it, else the default one. */
  #text() {
    const small = this.#defaults().utilityModel;
    return small && this.#mayUse(small) ? small : this.#primary();
  }

  /** Return the model for pictures; undefined: no model that we may use accepts them. */
  async #seeing() {
    const primary = this.#primary();
    const images = named(this.#defaults().imageModel);
    if (images && (images === primary || this.#mayUse(images))) return images;
    return (await this.#takesPictures(primary)) ? primary : undefined;
  }

  async #takesPictures(ref) {
    const [provider, ...rest] = ref.split("/");
    const model = rest.join("/");
    const own = this.#config().models?.providers?.[provider]?.models?.find(({ id }) => id === model);
    if (own?.input) return own.input.includes("image");
    try {
      this.#catalog ??= import("openclaw/plugin-sdk/agent-runtime").then(({ loadModelCatalog }) => loadModelCatalog({ config: this.#config() }));
      const found = (await this.#catalog).find((each) => each.provider === provider && each.id === model);
      return found?.input?.includes("image") ?? false;
    } catch {
      this.#catalog = undefined;
      return false;
    }
  }

  #mayUse(ref) {
    const { allowModelOverride, allowedModels = [] } = this.#config().plugins?.entries?.[this.id]?.llm ?? {};
    return allowModelOverride === true && allowedModels.some((each) => each === ref || each === "*");
  }

  #primary() {
    const { resolveDefaultModelForAgent } = this.api.runtime.modelConfig ?? {};
    const found = resolveDefaultModelForAgent?.({ cfg: this.#config(), agentId: this.#agent() });
    return found ? `${found.provider}/${found.model}` : named(this.#defaults().model) ?? "";
  }

  #agent() {
    const agents = this.#config().agents?.entries ?? {};
    return Object.keys(agents).find((each) => agents[each]?.default) ?? "main";
  }

  #defaults() {
    return this.#config().agents?.defaults ?? {};
  }

  #config() {
    return this.api.runtime.config.current();
  }
}

const providerOf = (model) => model.split("/")[0];
const named = (model) => (typeof model === "string" ? model : model?.primary);
const piece = ({ text, jpeg }) => (jpeg ? { type: "image", data: jpeg, mimeType: "image/jpeg" } : { type: "text", text });
const read = ({ inputTokens, cacheReadTokens = 0, cacheWriteTokens = 0 }) => (inputTokens === undefined ? null : inputTokens + cacheReadTokens + cacheWriteTokens);
/** Return the messages of an error and its cause, at most 300 characters on one line. */
const plain = (error) => [error, error?.cause].filter(Boolean).map((each) => each.message ?? String(each)).join(": ").replace(/\s+/g, " ").slice(0, 300);
