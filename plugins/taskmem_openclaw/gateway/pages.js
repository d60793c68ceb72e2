// Show the daemon's pages as a tab of the Control UI.
//
// The tab's frame is sandboxed: its origin is opaque, and it may only read the page that it opens
// first. That page names an address with a key below which everything else is: further pages, what
// has changed, and what the person does. Every sandboxed frame of every site has the same opaque
// origin, so no script may read the first page: only the answers below the key allow that origin.
import { randomBytes, timingSafeEqual } from "node:crypto";

const FIRST = "/taskmem/pages/";
const KEYED = "/taskmem/tab/";
const PAGE_MS = 15_000;
const CHANGES_MS = 40_000; // the daemon answers after 25 s at the latest
const ACT_MS = 60_000;
const MOST_BYTES = 64 * 1024;
const KEY = randomBytes(32).toString("base64url");
const LOOPBACK = /^(127\.0\.0\.1|\[::1\]|localhost)(:\d+)?$/;
const STARTING = {
  status: 503,
  type: "text/plain",
  body: "The plug-in is just starting; try again.",
};
const HEADERS = {
  "Cache-Control": "no-store",
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
    "connect-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'self'",
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
};

/** Register the tab and its routes; `getInstance` returns the started instance; undefined: there is
 * none. */
export function registerPages(api, getInstance) {
  const handle = (find, readable) => (request, response) =>
    answer(request, response, () => find(getInstance(), request), readable);
  const readFirst = (here, request) =>
    findRefusal(request, api.runtime?.config?.current()?.gateway?.auth?.mode) ??
    (here ? readPage(here, "", {}) : STARTING);
  api.registerHttpRoute({ path: FIRST, auth: "gateway", handler: handle(readFirst, false) });
  api.registerHttpRoute({
    path: KEYED,
    match: "prefix",
    auth: "plugin",
    handler: handle(answerKeyed, true),
  });
  api.session.controls.registerControlUiDescriptor({
    surface: "tab",
    id: "tasks",
    label: "Task memory",
    description: "What needs you, what your agents do, and what they wait for.",
    icon: "list",
    group: "control",
    slug: "task-memory",
    path: FIRST,
    requiredScopes: ["operator.write"],
  });
}

/** Return why the first page, which has the key, is not given to a request; undefined: it is. */
function findRefusal({ headers }, mode) {
  const refused = { status: 403, type: "text/plain" };
  const navigates =
    !headers.origin && !["cross-site", "same-site"].includes(headers["sec-fetch-site"]);
  if (!navigates) return { ...refused, body: "Another page asks, and is refused." };
  // Without a login, a name that its owner has pointed at this machine would be enough.
  if (mode === "none" && !LOOPBACK.test(headers.host ?? ""))
    return {
      ...refused,
      body:
        "This gateway has no login, so the pages are shown on its own machine only. " +
        "See gateway.auth.mode.",
    };
}

/** Write the answer to a request; the tab's scripts may read it if it is `readable`. */
async function answer(request, response, find, readable) {
  let found;
  try {
    found = await find();
  } catch (error) {
    found = {
      ...asJson({ message: error.message }),
      status: error.name === "daemon_unavailable" ? 503 : 409,
    };
  }
  response.statusCode = found.status;
  for (const [name, value] of Object.entries(HEADERS)) response.setHeader(name, value);
  response.setHeader("Content-Type", found.type);
  if (request.headers.origin === "null" && readable)
    response.setHeader("Access-Control-Allow-Origin", "null");
  response.end(found.body);
  return true;
}

/** Answer a request whose address has the key. */
async function answerKeyed(here, request) {
  const { pathname, searchParams } = new URL(request.url, "http://localhost");
  const [key, ...rest] = pathname.slice(KEYED.length).split("/");
  if (!isKey(key))
    return {
      status: 403,
      type: "text/plain",
      body: "This page is of an earlier start of the gateway; load it anew.",
    };
  if (!here) return STARTING;
  const path = rest.join("/");
  if (path === "act") return act(here, request);
  if (path !== "changes") return readPage(here, path, Object.fromEntries(searchParams));
  const counts = (searchParams.get("seen") ?? "")
    .split(".")
    .filter((each) => /^\d{1,15}$/.test(each))
    .map(Number);
  const { seen } = await here.daemon.call("changes", { seen: counts }, CHANGES_MS);
  return asJson({ seen: seen.join(".") });
}

async function readPage(here, path, query) {
  const page = await here.daemon.call("page", { path, query, tab: `${KEYED}${KEY}/` }, PAGE_MS);
  return { status: page.status, type: page.content_type, body: Buffer.from(page.body, "base64") };
}

async function act(here, request) {
  if (request.method !== "POST") return { status: 405, type: "text/plain", body: "POST only." };
  let text = "";
  for await (const part of request) {
    text += part;
    if (text.length > MOST_BYTES)
      return { status: 413, type: "text/plain", body: "That is too long; shorten it." };
  }
  const form = new URLSearchParams(text);
  const fields = Object.fromEntries(
    ["id", "action", "words", "question_id", "files_id"]
      .filter((name) => form.has(name))
      .map((name) => [name, form.get(name)]),
  );
  const { message } = await here.daemon.call("act", fields, ACT_MS);
  return asJson({ message });
}

const asJson = (value) => ({ status: 200, type: "application/json", body: JSON.stringify(value) });

function isKey(given) {
  const [ours, theirs] = [Buffer.from(KEY), Buffer.from(given)];
  return ours.length === theirs.length && timingSafeEqual(ours, theirs);
}
