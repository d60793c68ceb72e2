// The page: live updates, actions with their confirmation, keys and filters. The
// server
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
  let asking; // the newest request for the page; an earlier one is given up
  // what the daemon had counted before it read the page that is shown
  let shown = main.dataset.seen;
  let latest = shown; // what it has counted so far; empty: not known

  // --- what has changed ---------------------------------------------------------

  /** Fetch the page and show what is new on it; an error if there is no page. */
  async function refresh() {
    asking?.abort(); // this shows more
    const mine = new AbortController();
    asking = mine;
    let text;
    try {
      text = await (await fetch(findHere(), { signal: mine.signal })).text();
    } catch (error) {
      if (!mine.signal.aborted) throw error;
    }
    if (mine.signal.aborted) return;
    const page = new DOMParser().parseFromString(text, "text/html");
    const fresh = page.getElementById("main");
    if (!fresh) throw new Error("no page");
    document.title = page.title;
    shown = latest = fresh.dataset.seen;
    Idiomorph.morph(main, fresh, {
      morphStyle: "outerHTML",
      ignoreActiveValue: true,
      callbacks: { beforeNodeMorphed: keepOpen },
    });
    applyFilters();
    tickAges();
    document.dispatchEvent(new Event("taskmem:shown"));
  }

  /** Return the address of this page; a tab's first page was opened at another one. */
  function findHere() {
    const root = document.querySelector("base")?.href;
    return root && !location.href.startsWith(root) ? root : location.href;
  }

  /** Keep what the person has opened or typed, the question that they type an answer to, and what
   * is drawn on a picture that is still the same. */
  function keepOpen(old, fresh) {
    if (old.nodeName === "CANVAS" && old.dataset.of === fresh.dataset?.of) return false;
    const typed = old.matches?.(".reply") && old.querySelector("input").value;
    if (typed && !old.dataset.refused && old.dataset.question !== fresh.dataset.question)
      return false;
    if (old.nodeName === "DETAILS" && old.open) fresh.setAttribute("open", "");
    return !(old.nodeName === "INPUT" && old.type === "text" && old.value);
  }

  /** Say whether the page is live. While it is not, nothing can be pressed: nobody would hear. */
  function showLive(state, text) {
    live.dataset.state = state;
    live.textContent = text;
    for (const each of main.querySelectorAll("button"))
      if (state === "off") {
        each.disabled = true;
        each.dataset.away = "";
      } else if ("away" in each.dataset) {
        each.disabled = false;
        delete each.dataset.away;
      }
  }

  /** Show the present, unless nobody looks. */
  async function catchUp() {
    if (document.hidden || shown === latest) return;
    await refresh();
  }

  /** Ask for the next change until the page is left; each answer says what to ask next. */
  async function follow() {
    for (;;) {
      try {
        const answer = await fetch(`changes?seen=${encodeURIComponent(latest)}`);
        if (answer.status === 403) return showLive("off", "closed");
        if (!answer.ok) throw new Error(answer.statusText);
        latest = (await answer.json()).seen;
        await catchUp();
        showLive("on", "page is live");
      } catch {
        latest = "";
        showLive("off", "not connected");
        await new Promise((done) => setTimeout(done, RETRY_MS));
      }
    }
  }

  document.addEventListener("visibilitychange", async () => {
    if (document.hidden || shown === latest || live.dataset.state !== "on") return;
    showLive("wait", "updating");
    try {
      await catchUp();
      showLive("on", "page is live");
    } catch {
      showLive("off", "not connected"); // the next change shows it
    }
  });

  function tickAges() {
    const units = [
      ["day", 86_400],
      ["hour", 3_600],
      ["minute", 60],
      ["second", 1],
    ];
    for (const each of document.querySelectorAll("time[data-age]")) {
      const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(each.dateTime)) / 1000));
      const [unit, size] = units.find(([, size]) => seconds >= size) ?? units.at(-1);
      const count = Math.floor(seconds / size);
      const text = `${count} ${unit}${count === 1 ? "" : "s"}`;
      if (each.textContent !== text) each.textContent = text;
    }
  }

  // --- actions ------------------------------------------------------------------

  function say(text) {
    toast.textContent = text;
    toast.hidden = false;
    clearTimeout(toastTimer);
    toastTimer = setTimeout(() => {
      toast.hidden = true;
    }, TOAST_MS);
  }

  /** Ask the person in a dialog; resolves to whether they agree. */
  function confirmAct(title, text, verb) {
    const dialog = document.getElementById("confirm");
    document.getElementById("confirm-title").textContent = title;
    document.getElementById("confirm-text").textContent = text;
    dialog.querySelector("[value=yes]").textContent = verb;
    dialog.returnValue = "no"; // Escape leaves it as it is
    dialog.showModal();
    return new Promise((done) => {
      dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true });
    });
  }

  async function act({ id, action, question = "", files = "" }, words, button) {
    button.disabled = true;
    try {
      const body = new URLSearchParams({
        id,
        action,
        words,
        question_id: question,
        files_id: files,
      });
      const answer = await fetch("act", { method: "POST", body });
      const { message } = await answer.json();
      say(message);
      const reply = button.closest(".reply");
      if (reply && answer.ok) reply.querySelector("input").value = "";
      // the person is told the question that is open now
      else if (reply) reply.dataset.refused = "yes";
    } catch {
      say("No answer came, so nobody knows whether it was done. Look before you repeat it.");
    }
    button.disabled = false;
    await refresh().catch(() => showLive("off", "not connected")); // the next change shows it
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
      if (!words) {
        say(`Write it into the field first: ${input.placeholder.toLowerCase()}. Nothing was sent.`);
        return input.focus();
      }
      const { title, ask } = button.dataset; // of an offered answer, which nobody has typed
      if (ask && !(await confirmAct(title, ask, button.textContent))) return;
      return act(reply.dataset, words, button);
    }
    const data = { ...button.dataset }; // while the dialog is open, the button may become another
    if (!data.action) return;
    const typed = button.closest(".actions")?.querySelector(".reply input")?.value.trim();
    const unsent = typed ? ` What you wrote (“${typed}”) is not sent.` : "";
    if (data.ask && !(await confirmAct(data.title, data.ask + unsent, button.textContent))) return;
    await act(data, "", button);
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
    const row =
      rows[
        at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by))
      ];
    row.classList.add("selected");
    row.querySelector("a").focus();
    row.scrollIntoView({ block: "nearest" });
  }

  const keys = {
    "/": () => document.getElementById("q").focus(),
    j: () => moveRow(1),
    k: () => moveRow(-1),
    g: () => {
      location.href = "./";
    },
    "?": () => document.getElementById("help").showModal(),
  };

  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input:not([type=checkbox]), textarea");
    if (typing) {
      const send = event.target.closest(".reply")?.querySelector("[data-send]");
      if (event.key === "Enter" && send) {
        event.preventDefault();
        send.click();
      }
      if (event.key === "Enter" && event.target.id === "q") {
        event.preventDefault();
        location.href = `search?q=${encodeURIComponent(event.target.value)}`;
      }
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]"))
      return;
    const act = keys[event.key];
    if (act) {
      event.preventDefault();
      act();
    }
  });

  // --- filters ------------------------------------------------------------------

  function applyFilters() {
    for (const each of document.querySelectorAll(".entry"))
      each.hidden = hiddenKinds.has(each.dataset.kind);
    for (const box of document.querySelectorAll("[data-filter]"))
      box.checked = !hiddenKinds.has(box.dataset.filter);
  }

  document.addEventListener("change", ({ target }) => {
    const kind = target.dataset.filter;
    if (!kind) return;
    hiddenKinds[target.checked ? "delete" : "add"](kind);
    applyFilters();
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
  showLive("on", "page is live"); // the page comes from there
  follow();
})();
