// The user's own model, asked what a text or a picture shows: outside any turn, with
// the provider and the key that OpenClaw has, and without tools.
const CALLS_PER_DAY = 200;
const AT_ONCE = 8; // the daemon sends four; one that it gave up may still run
const TOKENS = 1_024; // the longest answer; a verdict takes some sixty
const LONGEST_ANSWER = 16_000; // characters
const LONGEST_TEXT = 100_000; // characters of a question's texts together
const MOST_PICTURES = 16;
const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const RECENT_MS = 600_000; // how long a key counts as good that was taken
const SHORT_MS = 30_000;
const AGAIN_SECONDS = 60; // when the daemon may ask us again whether we rest still
const ISOLATED = /no api key|api key.{0,40}(missing|not found|required)|missing.{0,20}(auth|key|credential)|no credentials/i;

/** Asks the host's model; its own limits hold, for the door has no secret. */
export class Reader {
  #day = 0;
  #asked = 0;
  #running = 0;
  #plain = new Set(); // models whose provider takes no schema
  #isolated = new Set(); // models that only an agent's runtime can ask
  #takenAt = new Map(); // when each provider took its key last
  #rests = new Map(); // by identity: { until, why } after a failure of the provider
  #catalog; // which models there are: read once

  constructor({ api, id, now = Date.now }) {
    Object.assign(this, { api, id, now });
  }

  /** Which model is asked, and whether it may be shown pictures. */
  async facts() {
    const seeing = await this.#seeing();
    return { model: this.#text(), pictures: seeing !== undefined, picture_model: seeing ?? null, ...this.#spent() };
  }

  /** Ask. What the model says is answered as it is; why it could not be asked is a sentence. */
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

  /** A turn of the agent was answered: the provider takes the key. */
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

  /** Rest after a failure. The host does not say which it was, and a key that is refused
   * must not be tried again within the hour: only one that was taken lately is. */
  #fail(model, why) {
    const long = this.now() - (this.#takenAt.get(providerOf(model)) ?? -Infinity) > RECENT_MS;
    this.#rests.set(this.#identity(model), { until: this.now() + (long ? HOUR_MS : SHORT_MS), why: `${model}: ${why}` });
    return this.#resting(model);
  }

  /** Why a model is not asked now, after a failure; undefined: it is. */
  #resting(model) {
    const { until = 0, why } = this.#rests.get(this.#identity(model)) ?? {};
    const left = Math.ceil((until - this.now()) / 1_000);
    if (left <= 0) return undefined;
    const again = left > 60 ? `${Math.ceil(left / 60)} minutes, or when a turn of the agent was answered` : `${left} s`;
    return { unavailable: `${why}; it is asked again in ${again}`, retry: Math.min(left, AGAIN_SECONDS) };
  }

  /** What another key would change, as far as the configuration has it. */
  #identity(model) {
    return JSON.stringify([model, this.#config().models?.providers?.[providerOf(model)], this.#config().auth]);
  }

  /** Ask directly; where the provider has no key of its own, by the agent's runtime. */
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

  /** Why a question is not asked; undefined: it is. */
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

  /** The model for texts: the small one where the operator allows it, else the agent's own. */
  #text() {
    const small = this.#defaults().utilityModel;
    return small && this.#mayUse(small) ? small : this.#primary();
  }

  /** The model for pictures; undefined: none that may be asked takes them. */
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
/** What an error says, with what is behind it, short and on one line. */
const plain = (error) => [error, error?.cause].filter(Boolean).map((each) => each.message ?? String(each)).join(": ").replace(/\s+/g, " ").slice(0, 300);
