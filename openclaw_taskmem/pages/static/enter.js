// The first page: exchange the token of the link for the address of the pages.
"use strict";
(async () => {
  const body = new URLSearchParams({ token: location.hash.slice(1) });
  try {
    const answer = await fetch("enter", { method: "POST", body });
    const { path, message } = await answer.json();
    if (answer.ok) location.replace(path);
    else document.getElementById("said").textContent = message;
  } catch {
    document.getElementById("said").textContent =
      "These pages are closed; open them with: taskmem ui";
  }
})();
