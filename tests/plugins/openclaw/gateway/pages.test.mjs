import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { beforeEach, test } from "node:test";
import { load } from "./stand_ins.mjs";

const { registerPages } = await load("pages.js");
const FIRST = "/taskmem/pages/";
// the frame opens its page
const OPENS = { host: "gateway.example", "sec-fetch-site": "same-origin" };
// its script asks
const SCRIPT = { host: "gateway.example", "sec-fetch-site": "cross-site", origin: "null" };
let routes, tabs, asked, here, mode;

beforeEach(() => {
  [routes, tabs, asked] = [{}, [], []];
  const call = async (method, params) => {
    asked.push([method, params]);
    if (method === "page")
      return {
        status: 200,
        content_type: "text/html",
        body: Buffer.from(`<base href="${params.tab}">`).toString("base64"),
      };
    if (method === "changes") return { seen: [7, 1, 2] };
    if (params.action === "nonsense")
      throw Object.assign(new Error("You cannot do that now."), { name: "not_allowed" });
    return { message: "Done." };
  };
  here = { daemon: { call } };
  mode = "token";
  const api = {
    runtime: { config: { current: () => ({ gateway: { auth: { mode } } }) } },
    registerHttpRoute: ({ path, ...route }) => {
      routes[path] = route;
    },
    session: { controls: { registerControlUiDescriptor: (tab) => tabs.push(tab) } },
  };
  registerPages(api, () => here);
});

/** Send a request to one of the routes, as the tab's frame does; what it is answered. */
async function send(path, { method = "GET", body = "", headers: given } = {}) {
  const route = Object.entries(routes).find(([start, { match }]) =>
    match === "prefix" ? path.startsWith(start) : path.split("?")[0] === start,
  );
  const request = Object.assign(Readable.from(body ? [body] : []), {
    method,
    url: path,
    headers: given ?? (path === FIRST ? OPENS : SCRIPT),
  });
  const headers = {};
  const response = {
    setHeader: (name, value) => {
      headers[name] = value;
    },
    end(text) {
      this.text = String(text);
    },
  };
  assert.equal(await route[1].handler(request, response), true);
  return { status: response.statusCode, headers, text: response.text };
}

async function findRoot() {
  return (await send(FIRST)).text.match(/href="(.*)"/)[1];
}

test("the tab opens a page that only the gateway's users may read", () => {
  assert.equal(tabs[0].surface, "tab");
  assert.deepEqual(tabs[0].requiredScopes, ["operator.write"]);
  assert.equal(routes[tabs[0].path].auth, "gateway");
});

test("all else is answered below an address with a key", async () => {
  const root = await findRoot();
  assert.equal((await send(`${root}task?id=task_1`)).status, 200);
  assert.deepEqual(asked.at(-1), ["page", { path: "task", query: { id: "task_1" }, tab: root }]);
  assert.equal((await send(`${root}changes?seen=7.1.1`)).text, '{"seen":"7.1.2"}');
  assert.deepEqual(asked.at(-1), ["changes", { seen: [7, 1, 1] }]);
});

test("without the key nothing is read or done", async () => {
  for (const path of [
    "/taskmem/tab/",
    "/taskmem/tab/x/act",
    "/taskmem/tab/x/changes",
    "/taskmem/tab/%2e%2e/task",
  ]) {
    assert.equal((await send(path, { method: "POST", body: "id=task_1" })).status, 403);
  }
  assert.deepEqual(asked, []);
});

test("no script may read the page that names the key", async () => {
  for (const headers of [
    SCRIPT,
    { ...OPENS, "sec-fetch-site": "cross-site" },
    { ...OPENS, origin: "https://evil.example" },
  ]) {
    const { status, headers: given, text } = await send(FIRST, { headers });
    assert.deepEqual(
      [status, given["Access-Control-Allow-Origin"], /tab/.test(text)],
      [403, undefined, false],
    );
  }
  assert.equal((await send(FIRST)).headers["Access-Control-Allow-Origin"], undefined);
  assert.equal(
    (await send(`${await findRoot()}changes`)).headers["Access-Control-Allow-Origin"],
    "null",
  );
});

test("without a login, the page is for the gateway's own machine", async () => {
  mode = "none";
  for (const host of ["evil.example", "localhost.evil.example:1", "127.0.0.1.evil.example", ""]) {
    assert.equal((await send(FIRST, { headers: { ...OPENS, host } })).status, 403, host);
  }
  for (const host of ["127.0.0.1:18789", "localhost", "[::1]:18789"]) {
    assert.equal((await send(FIRST, { headers: { ...OPENS, host } })).status, 200, host);
  }
});

test("a form names what to do, and not for whom", async () => {
  const forged = "id=task_1&action=accept&process=mother&by=user&method=call";
  await send(`${await findRoot()}act`, { method: "POST", body: forged });
  assert.deepEqual(asked.at(-1), ["act", { id: "task_1", action: "accept" }]);
});

test("odd addresses are answered, too", async () => {
  const root = await findRoot();
  await send(`${root}changes?seen=${"9".repeat(5_000)}.x.7`);
  assert.deepEqual(asked.at(-1), ["changes", { seen: [7] }]);
  assert.equal((await send("/taskmem/tab/%E0%A4%A")).status, 403);
});

test("a person acts, and reads what became of it", async () => {
  const root = await findRoot();
  const done = await send(`${root}act`, {
    method: "POST",
    body: "id=task_1&action=answer&words=Yes%2C+both",
  });
  assert.deepEqual([done.status, done.text], [200, '{"message":"Done."}']);
  assert.deepEqual(asked.at(-1), ["act", { id: "task_1", action: "answer", words: "Yes, both" }]);
  const refused = await send(`${root}act`, { method: "POST", body: "action=nonsense" });
  assert.deepEqual([refused.status, refused.text], [409, '{"message":"You cannot do that now."}']);
  assert.equal((await send(`${root}act`)).status, 405);
  assert.equal(
    (await send(`${root}act`, { method: "POST", body: "x".repeat(70_000) })).status,
    413,
  );
});

test("no script and no frame of others is allowed in a page", async () => {
  const { headers } = await send(FIRST);
  assert.match(headers["Content-Security-Policy"], /default-src 'none'.*frame-ancestors 'self'/);
  assert.doesNotMatch(headers["Content-Security-Policy"], /unsafe/);
});

test("while the plug-in starts, the page says so", async () => {
  here = undefined;
  assert.equal((await send(FIRST)).status, 503);
});
