// Ask the user's own model what a text or a picture shows: outside any turn, with OpenClaw's
// provider and key, and without tools.
const CALLS_PER_DAY = 200; // default limit
const MOST_QUESTIONS = 8; // the daemon sends four; further ones that it gave up may still run
const TOKENS = 1_024; // limit of an answer; a ruling takes some sixty
const LONGEST_ANSWER = 16_000; // characters
const LONGEST_TEXT = 100_000; // characters of all texts of a question
const MOST_PICTURES = 16;
const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const RECENT_MS = 600_000; // how long after an answer the provider's key counts as valid
const SHORT_MS = 30_000; // pause after a failure while the key counts as valid; else HOUR_MS
const AGAIN_SECONDS = 60; // longest retry delay that we give the daemon, however long the pause
const ISOLATED = new RegExp(
  [
    "no (api key|credentials)",
    "api key.{0,40}(missing|not found|required)",
    "missing.{0,20}(auth|key|credential)",
  ].join("|"),
  "i",
);

/** Asks the gateway's models. Has limits of its own, since the socket requires no secret. */
export class ModelReader {
  #day = 0; // days since the epoch
  #askedToday = 0; // questions on that day
  #running = 0;
  #withoutSchema = new Set(); // models whose provider accepts no response schema
  #isolated = new Set(); // models that only an agent's runtime can ask
  #keyAcceptedAt = new Map(); // provider → when it last accepted its key
  #pauses = new Map(); // identity of a model → { until, why }: its pause after a failure
  #catalog; // promise of OpenClaw's model catalogue, read once

  constructor({ api, id, now = Date.now }) {
    Object.assign(this, { api, id, now });
  }

  /** Return the models for texts and for pictures (null: none), and today's count and limit. */
  async describeModels() {
    const seeing = await this.#findPictureModel();
    return {
      model: this.#findTextModel(),
      pictures: seeing !== undefined,
      picture_model: seeing ?? null,
      ...this.#countAsked(),
    };
  }

  /** Ask a question, in at most `limit` seconds. Returns the model's text as it is; `none`, why
   * that is no answer; or `unavailable`, why it could not be asked, with `retry` in seconds. */
  async askModel({ instruction, parts, schema, limit: seconds }, signal) {
    const pictures = parts.some(({ jpeg }) => jpeg);
    const seeing = pictures ? await this.#findPictureModel() : undefined;
    const refused = this.#findRefusal(parts, pictures, seeing);
    if (refused) return { unavailable: refused };
    const model = pictures ? seeing : this.#findTextModel();
    const resting = this.#describePause(model);
    if (resting) return resting;
    this.#askedToday++;
    this.#running++;
    try {
      const limit = AbortSignal.timeout(Math.min(Math.max(Number(seconds) || 0, 1), 60) * 1_000);
      return await this.#askProvider(
        { instruction, parts, schema, model, pictures },
        AbortSignal.any([limit, signal].filter(Boolean)),
      );
    } finally {
      this.#running--;
    }
  }

  /** Note that a provider answered in an agent's turn, so its key is valid: end the pauses of the
   * default model's provider. */
  recordAnswer(provider) {
    const primary = this.#findDefaultModel();
    if (provider !== undefined && providerOf(primary) !== provider) return;
    this.#keyAcceptedAt.set(providerOf(primary), this.now());
    for (const who of this.#pauses.keys())
      if (providerOf(JSON.parse(who)[0]) === providerOf(primary)) this.#pauses.delete(who);
  }

  async #askProvider(question, signal) {
    const { model } = question;
    try {
      const {
        text,
        provider,
        model: name,
        stopReason,
        usage = {},
      } = await this.#complete(question, signal);
      const found = {
        model: `${provider}/${name}`,
        tokens_in: countInputTokens(usage),
        tokens_out: usage.outputTokens ?? null,
        cost_usd: usage.costUsd ?? null,
      };
      if (stopReason === "error" && !text?.trim())
        return this.#pauseModel(model, "its provider failed, and OpenClaw's log says why");
      this.#keyAcceptedAt.set(providerOf(model), this.now());
      if (stopReason === "length") return { ...found, none: "its answer was cut, being too long" };
      if (!text?.trim()) return { ...found, none: "its answer was empty" };
      if (text.length > LONGEST_ANSWER)
        return { ...found, none: `its answer was longer than ${LONGEST_ANSWER} characters` };
      return { ...found, text };
    } catch (error) {
      const reason = describeError(error);
      if (signal.aborted) return { unavailable: `${model} gave no answer in time` };
      return this.#pauseModel(model, `it could not be asked (${reason})`);
    }
  }

  /** Pause a model after a failure. OpenClaw does not say which failure, and a refused key must not
   * be tried again within the hour: the pause is short only if the key was accepted lately. */
  #pauseModel(model, why) {
    const long = this.now() - (this.#keyAcceptedAt.get(providerOf(model)) ?? -Infinity) > RECENT_MS;
    this.#pauses.set(this.#identity(model), {
      until: this.now() + (long ? HOUR_MS : SHORT_MS),
      why: `${model}: ${why}`,
    });
    return this.#describePause(model);
  }

  /** Return why a model is paused, as the answer to a question; undefined: it is not. */
  #describePause(model) {
    const { until = 0, why } = this.#pauses.get(this.#identity(model)) ?? {};
    const left = Math.ceil((until - this.now()) / 1_000);
    if (left <= 0) return undefined;
    const again =
      left > 60
        ? `${Math.ceil(left / 60)} minutes, or when a turn of the agent was answered`
        : `${left} s`;
    return {
      unavailable: `${why}; it is asked again in ${again}`,
      retry: Math.min(left, AGAIN_SECONDS),
    };
  }

  /** Return the identity of a model with its provider's settings, so that a changed key in them
   * ends its pause. */
  #identity(model) {
    return JSON.stringify([
      model,
      this.#readConfig().models?.providers?.[providerOf(model)],
      this.#readConfig().auth,
    ]);
  }

  /** Ask the provider directly; if it has no key of its own, through an agent's runtime. */
  async #complete(question, signal) {
    const { model, pictures } = question;
    if (!this.#isolated.has(model)) {
      try {
        return await this.#completeDirectly(question, signal);
      } catch (error) {
        if (signal.aborted || pictures || !ISOLATED.test(describeError(error))) throw error;
        this.#isolated.add(model);
      }
    }
    const execution = { mode: "isolated-agent-runtime", timeoutMs: 60_000 };
    return await this.api.runtime.llm.complete({
      ...this.#buildRequest(question, signal),
      execution,
    });
  }

  async #completeDirectly(question, signal) {
    const request = this.#buildRequest(question, signal);
    const { model, schema } = question;
    if (this.#withoutSchema.has(model)) return await this.api.runtime.llm.complete(request);
    const responseFormat = { type: "json_schema", json_schema: { name: "answer", schema } };
    try {
      return await this.api.runtime.llm.complete({ ...request, responseFormat });
    } catch (error) {
      if (signal.aborted || !/response_?format|json_?schema/i.test(describeError(error)))
        throw error;
      this.#withoutSchema.add(model);
      return await this.api.runtime.llm.complete(request);
    }
  }

  #buildRequest({ instruction, parts, schema, model, pictures }, signal) {
    const form = `Answer with one JSON object of this schema, and nothing else:`;
    const systemPrompt = [instruction, form, JSON.stringify(schema)].join("\n");
    const content = pictures ? parts.map(buildPart) : parts.map(({ text }) => text).join("\n");
    const other = model !== this.#findDefaultModel() && { model };
    return {
      systemPrompt,
      messages: [{ role: "user", content }],
      purpose: "taskmem.read",
      maxTokens: TOKENS,
      signal,
      ...other,
    };
  }

  /** Return why a question may not be asked, in a sentence; undefined: it may. */
  #findRefusal(parts, pictures, seeing) {
    if (pictures && seeing === undefined)
      return (
        "OpenClaw's model takes no pictures; set agents.defaults.imageModel, " +
        "then run taskmem setup openclaw to allow it"
      );
    const texts = parts.reduce((sum, { text = "" }) => sum + text.length, 0);
    if (texts > LONGEST_TEXT || parts.filter(({ jpeg }) => jpeg).length > MOST_PICTURES)
      return "the question is too long";
    const { asked, limit } = this.#countAsked();
    if (asked >= limit) {
      const setting = `plugins.entries.${this.id}.config.modelCallsPerDay`;
      return `it was asked as often as one day allows (${setting} is ${limit})`;
    }
    if (this.#running >= MOST_QUESTIONS) return `${MOST_QUESTIONS} questions are being answered`;
    return undefined;
  }

  #countAsked() {
    const day = Math.floor(this.now() / DAY_MS);
    if (day !== this.#day) [this.#day, this.#askedToday] = [day, 0];
    return {
      asked: this.#askedToday,
      limit: this.api.pluginConfig?.modelCallsPerDay ?? CALLS_PER_DAY,
    };
  }

  /** Return the model for texts: the small one if the operator allows it, else the default one. */
  #findTextModel() {
    const small = this.#readDefaults().utilityModel;
    return small && this.#mayUse(small) ? small : this.#findDefaultModel();
  }

  /** Return the model for pictures; undefined: no model that we may use accepts them. */
  async #findPictureModel() {
    const primary = this.#findDefaultModel();
    const images = readModelName(this.#readDefaults().imageModel);
    if (images && (images === primary || this.#mayUse(images))) return images;
    return (await this.#takesPictures(primary)) ? primary : undefined;
  }

  async #takesPictures(ref) {
    const [provider, ...rest] = ref.split("/");
    const model = rest.join("/");
    const own = this.#readConfig().models?.providers?.[provider]?.models?.find(
      ({ id }) => id === model,
    );
    if (own?.input) return own.input.includes("image");
    try {
      this.#catalog ??= import("openclaw/plugin-sdk/agent-runtime").then(({ loadModelCatalog }) =>
        loadModelCatalog({ config: this.#readConfig() }),
      );
      const found = (await this.#catalog).find(
        (each) => each.provider === provider && each.id === model,
      );
      return found?.input?.includes("image") ?? false;
    } catch {
      this.#catalog = undefined;
      return false;
    }
  }

  #mayUse(ref) {
    const { allowModelOverride, allowedModels = [] } =
      this.#readConfig().plugins?.entries?.[this.id]?.llm ?? {};
    return (
      allowModelOverride === true && allowedModels.some((each) => each === ref || each === "*")
    );
  }

  #findDefaultModel() {
    const { resolveDefaultModelForAgent } = this.api.runtime.modelConfig ?? {};
    const agents = this.#readConfig().agents?.entries ?? {};
    const found = resolveDefaultModelForAgent?.({
      cfg: this.#readConfig(),
      agentId: Object.keys(agents).find((each) => agents[each]?.default) ?? "main",
    });
    return found
      ? `${found.provider}/${found.model}`
      : (readModelName(this.#readDefaults().model) ?? "");
  }

  #readDefaults() {
    return this.#readConfig().agents?.defaults ?? {};
  }

  #readConfig() {
    return this.api.runtime.config.current();
  }
}

const providerOf = (model) => model.split("/")[0];
const readModelName = (model) => (typeof model === "string" ? model : model?.primary);
const buildPart = ({ text, jpeg }) =>
  jpeg ? { type: "image", data: jpeg, mimeType: "image/jpeg" } : { type: "text", text };
const countInputTokens = ({ inputTokens, cacheReadTokens = 0, cacheWriteTokens = 0 }) =>
  inputTokens === undefined ? null : inputTokens + cacheReadTokens + cacheWriteTokens;
/** Return the messages of an error and its cause, at most 300 characters on one line. */
const describeError = (error) =>
  [error, error?.cause]
    .filter(Boolean)
    .map((each) => each.message ?? String(each))
    .join(": ")
    .replace(/\s+/g, " ")
    .slice(0, 300);
