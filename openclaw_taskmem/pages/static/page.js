// The page: live updates, actions with their confirmation, keys, filters, and the replay. The server
// renders everything; this only fetches it anew and swaps in what has changed.
"use strict";
(() => {
  const main = document.getElementById("main");
  const live = document.getElementById("live");
  const toast = document.getElementById("toast");
  const TOAST_MS = 6_000;
  const RETRY_MS = 1_500;
  const hiddenKinds = new Set(["told"]); // lines that only repeat what other entries say
  let toastTimer;
  let asked = 0; // number of requests for the page

  // --- what has changed ---------------------------------------------------------

  async function refresh(url = findHere()) {
    const mine = ++asked;
    const answer = await fetch(url);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("main");
    if (!fresh || mine !== asked) return; // a later request shows more, or another time
    document.title = page.title;
    Idiomorph.morph(main, fresh, { morphStyle: "outerHTML", ignoreActiveValue: true, callbacks: { beforeNodeMorphed: keepOpen } });
    applyFilters();
    tickAges();
  }

  /** Return the address of this page; a tab's first page was opened at another one. */
  function findHere() {
    const root = document.querySelector("base")?.href;
    return root && !location.href.startsWith(root) ? root : location.href;
  }

  /** Keep what the person has opened or typed. */
  function keepOpen(old, fresh) {
    if (old.nodeName === "DETAILS" && old.open) fresh.setAttribute("open", "");
    return !(old.nodeName === "INPUT" && old.type === "text" && old.value);
  }

  function showLive(state, text) {
    live.dataset.state = state;
    live.textContent = text;
  }

  /** Ask for the next change until the page is left; each answer says what to ask next. */
  async function follow() {
    let seen = "";
    for (;;) {
      try {
        const answer = await fetch(`changes?seen=${encodeURIComponent(seen)}`);
        if (answer.status === 403) return showLive("off", "signed out");
        if (!answer.ok) throw new Error(answer.statusText);
        const { seen: next } = await answer.json();
        if (next !== seen && !document.hidden && !isReplaying()) await refresh();
        seen = next;
        showLive("on", "live");
      } catch {
        showLive("off", "away");
        await new Promise((done) => setTimeout(done, RETRY_MS));
      }
    }
  }

  function tickAges() {
    const units = [["d", 86_400], ["h", 3_600], ["min", 60], ["s", 1]];
    for (const each of document.querySelectorAll("time[data-ago]")) {
      const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(each.dateTime)) / 1000));
      const [unit, size] = units.find(([, size]) => seconds >= size) ?? ["s", 1];
      const text = `${Math.floor(seconds / size)} ${unit}`;
      if (each.textContent !== text) each.textContent = text;
    }
  }

  // --- actions ------------------------------------------------------------------

  function say(text) {
    toast.textContent = text;
    toast.hidden = false;
    clearTimeout(toastTimer);
    toastTimer = setTimeout(() => { toast.hidden = true; }, TOAST_MS);
  }

  /** Ask the person in a dialog; resolves to whether they agree. */
  function confirmAct(title, text, verb) {
    const dialog = document.getElementById("confirm");
    document.getElementById("confirm-title").textContent = title;
    document.getElementById("confirm-text").textContent = text;
    dialog.querySelector("[value=yes]").textContent = verb;
    dialog.showModal();
    return new Promise((done) => {
      dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true });
    });
  }

  async function act(id, action, words, button) {
    button.disabled = true;
    try {
      const body = new URLSearchParams({ id, action, words });
      const answer = await fetch("act", { method: "POST", body });
      const { message } = await answer.json();
      say(message);
      if (answer.ok) for (const each of button.closest(".reply")?.querySelectorAll("input") ?? []) each.value = "";
      await refresh();
    } catch {
      say("This page cannot reach the daemon; nothing may have been done. Look before you repeat it.");
    } finally {
      button.disabled = false;
    }
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button, .session");
    if (!button) return;
    const dialog = button.closest("dialog");
    if (dialog) return dialog.close(button.value);
    if (button.classList.contains("session")) return openSession(button.dataset.session);
    const reply = button.closest(".reply");
    if (reply) {
      const input = reply.querySelector("input");
      const words = button.dataset.words ?? input.value.trim();
      if (!words) return input.focus();
      return act(reply.dataset.id, reply.dataset.action, words, button);
    }
    const { id, action, ask, title } = button.dataset;
    if (!action) return;
    if (ask && !(await confirmAct(title, ask, button.textContent))) return;
    await act(id, action, "", button);
  });

  /** Open the chat of a session, where the page is a tab of the host's own interface. */
  function openSession(sessionKey) {
    if (window.parent === window) return;
    const message = { type: "openclaw-plugin-session-open", sessionKey };
    window.parent.postMessage(message, new URL(location.href).origin);
  }

  // --- keys ---------------------------------------------------------------------

  function moveRow(by) {
    const rows = [...document.querySelectorAll(".row")];
    if (!rows.length) return;
    const at = rows.findIndex((row) => row.classList.contains("selected"));
    rows[at]?.classList.remove("selected");
    const row = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by))];
    row.classList.add("selected");
    row.querySelector("a").focus();
    row.scrollIntoView({ block: "nearest" });
  }

  const keys = {
    "/": () => document.getElementById("q").focus(),
    j: () => moveRow(1),
    k: () => moveRow(-1),
    g: () => { location.href = "./"; },
    "?": () => document.getElementById("help").showModal(),
  };

  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input:not([type=checkbox]):not([type=range]), textarea");
    if (typing) {
      const send = event.target.closest(".reply")?.querySelector("[data-send]");
      if (event.key === "Enter" && send) { event.preventDefault(); send.click(); }
      if (event.key === "Enter" && event.target.id === "q") { event.preventDefault(); location.href = `search?q=${encodeURIComponent(event.target.value)}`; }
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const act = keys[event.key];
    if (act) { event.preventDefault(); act(); }
  });

  // --- filters and replay -------------------------------------------------------

  function applyFilters() {
    for (const each of document.querySelectorAll(".entry")) each.hidden = hiddenKinds.has(each.dataset.kind);
    for (const box of document.querySelectorAll("[data-filter]")) box.checked = !hiddenKinds.has(box.dataset.filter);
  }

  const isReplaying = () => new URLSearchParams(location.search).has("at");

  document.addEventListener("change", ({ target }) => {
    const kind = target.dataset.filter;
    if (!kind) return;
    hiddenKinds[target.checked ? "delete" : "add"](kind);
    applyFilters();
  });

  document.addEventListener("input", ({ target }) => {
    if (target.id !== "slider") return;
    const events = target.dataset.events.split(" ");
    const at = events[target.value];
    const url = `task?id=${encodeURIComponent(target.dataset.task)}${at ? `&at=${at}` : ""}`;
    history.replaceState(null, "", url);
    refresh(url);
  });

  // --- the host's look ----------------------------------------------------------

  const TOKENS = { surface: "--back", card: "--card", text: "--text", border: "--line" };

  window.addEventListener("message", ({ data, source }) => {
    if (source !== window.parent || typeof data !== "object" || !data) return;
    const { style, dataset } = document.documentElement;
    if (data.mode === "dark" || data.mode === "light") dataset.theme = data.mode;
    for (const [token, name] of Object.entries(TOKENS)) {
      const value = data.tokens?.[token];
      if (typeof value === "string") style.setProperty(name, value);
    }
  });

  setInterval(tickAges, 1_000);
  tickAges();
  applyFilters();
  follow();
})();
