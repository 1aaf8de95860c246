// Keeps a page that shows something changing up to date: what has happened is fetched anew, at most every 5 seconds.
"use strict";
(() => {
  const main = document.querySelector("main[data-live]");
  if (!main || !window.EventSource) return;
  let waiting = false;
  const refresh = async () => {
    waiting = false;
    const answer = await fetch(location.href, { credentials: "same-origin" });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
    const open = [...main.querySelectorAll("details")].map((one) => one.open);
    if (!fresh) return;
    main.replaceChildren(...fresh.childNodes);
    main.querySelectorAll("details").forEach((one, place) => { one.open = open[place] ?? one.open; });
  };
  const soon = () => {
    if (waiting) return;
    waiting = true;
    setTimeout(refresh, 5000);
  };
  const kinds = ["run-submitted", "attempt-chosen", "attempt-charged", "attempt-judged", "attempt-lost", "released",
    "run-ended", "blocks-added", "blocks-sealed", "blocks-retired", "alias-moved", "release-withdrawn"];
  const events = new EventSource("/v1/events");
  kinds.forEach((kind) => events.addEventListener(kind, soon));
})();
