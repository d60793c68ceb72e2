// The arguments of our tools, on their way past the gateway's check. The gateway checks a call
// against the published schema, which says less than the daemon reads ("How arguments are read" in
// docs/tools.md): what does not fit goes along as it was sent, beside arguments that do fit.

const SENT = "as_sent";

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** By type of a schema: a value of it, and whether a value is one. */
const TYPES = {
  string: ["", (value) => typeof value === "string"],
  number: [0, (value) => typeof value === "number"],
  integer: [0, Number.isInteger],
  boolean: [false, (value) => typeof value === "boolean"],
  array: [[], Array.isArray],
  object: [{}, isObject],
};

/** Return whether a value is as a published schema says; tests hold that to these keywords. */
function fits(value, { type, enum: choices, items, properties = {}, required = [] }) {
  if (!TYPES[type][1](value) || (choices && !choices.includes(value))) return false;
  if (type === "array") return !items || value.every((each) => fits(each, items));
  if (type !== "object") return true;
  return (
    required.every((name) => Object.hasOwn(value, name)) &&
    Object.entries(properties).every(
      ([name, schema]) => !Object.hasOwn(value, name) || fits(value[name], schema),
    )
  );
}

/** Return a call's arguments as the gateway lets them pass: themselves if they fit the schema, else
 * blanks for those that do not fit, beside all as they were sent. (Of what a hook returns, the
 * gateway takes over names, and keeps the others as they are.) */
export function prepareArguments(given, schema) {
  if (given !== undefined && fits(given, schema)) return given;
  const sent = given ?? {};
  const { properties, required = [] } = schema;
  const prepared = { ...(isObject(sent) && sent), [SENT]: sent };
  for (const [name, asked] of Object.entries(properties))
    if (Object.hasOwn(prepared, name) ? !fits(prepared[name], asked) : required.includes(name))
      prepared[name] = asked.enum?.[0] ?? TYPES[asked.type][0];
  return prepared;
}

/** Return the arguments that a model sent, whether they were prepared or not. */
export const readSent = (given) => given?.[SENT] ?? given ?? {};
