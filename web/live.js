// Brings the page of a live run up to date with what the server sends. Without it the page is whole, of the moment it was
// loaded.
"use strict";
(() => {
  const main = document.querySelector("main[data-live]");
  if (!main || !window.EventSource) return;
  const status = document.getElementById("live-status");
  const source = new EventSource(main.dataset.live);
  source.addEventListener("parts", (event) => {
    for (const part of JSON.parse(event.data)) {
      let section = document.getElementById(part.id);
      if (!section) {
        section = document.createElement("section");
        section.id = part.id;
        main.insertBefore(section, document.getElementById("part-table") || document.getElementById("part-notes"));
      }
      // What the reader has opened, and where the keyboard is, stays.
      const open = [...section.querySelectorAll("figure")].filter((f) => f.querySelector("details[open]")).map((f) => f.id);
      const figure = section.contains(document.activeElement) ? document.activeElement.closest("figure") : null;
      const tag = figure ? document.activeElement.tagName : "";
      section.innerHTML = part.html;
      for (const id of open) document.getElementById(id)?.querySelector("details")?.setAttribute("open", "");
      if (figure) document.getElementById(figure.id)?.querySelector(tag)?.focus({ preventScroll: true });
    }
    if (status) status.textContent = "Updated " + new Date().toLocaleTimeString();
  });
  source.addEventListener("end", () => {
    source.close();
    if (status) status.textContent = "The page is complete.";
  });
  source.onerror = () => {
    if (status) status.textContent = "No connection to proxylab; trying again.";
  };
})();
