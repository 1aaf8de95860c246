// Optional behaviour: live pages refresh when events arrive, and blocks of the map can be selected.
"use strict";
(() => {
  const main = document.querySelector("main");

  // A live page is fetched again after an event, at most every 5 seconds.
  const follow = () => {
    const LEAST = 5000;
    const status = document.querySelector(".live");
    let [last, planned, missed] = [0, false, false];
    const say = (text, on) => { status.textContent = text; status.toggleAttribute("data-on", on); };
    const refresh = async () => {
      // Do not interrupt the user while a form is being filled in or text is selected.
      const busy = main.contains(document.activeElement) && document.activeElement.matches("input, select, textarea");
      if (busy || String(getSelection())) { planned = false; missed = true; return; }
      [last, planned, missed] = [Date.now(), false, false];
      let answer;
      try { answer = await fetch(location.href, { credentials: "same-origin" }); } catch { return; }
      if (!answer.ok || answer.redirected) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
      if (!fresh) return;
      const reachable = "a[href], button, input, select, summary, [tabindex]";
      const focused = [...main.querySelectorAll(reachable)].indexOf(document.activeElement);
      const opened = [...main.querySelectorAll("details")].map((one) => one.open);
      const chosen = [...(main.querySelector(".chosen")?.childNodes ?? [])];
      const scrolled = [...main.querySelectorAll(".wide")].map((one) => one.scrollLeft);
      main.replaceChildren(...fresh.childNodes);
      main.querySelectorAll("details").forEach((one, index) => { one.open = opened[index] ?? one.open; });
      main.querySelector(".chosen")?.replaceChildren(...chosen);
      maps();
      main.querySelectorAll(".wide").forEach((one, index) => { one.scrollLeft = scrolled[index] ?? 0; });
      if (focused >= 0) main.querySelectorAll(reachable)[focused]?.focus({ preventScroll: true });
      say(`Updated ${new Date().toLocaleTimeString()}`, true);
    };
    const soon = () => {
      if (planned) return;
      planned = true;
      setTimeout(refresh, Math.max(300, last + LEAST - Date.now()));
    };
    main.addEventListener("focusout", () => { if (missed) soon(); });
    const kinds = ["stream-created", "stream-defined", "policy-proposed", "policy-changed", "rows-ingested",
      "blocks-added", "blocks-sealed", "blocks-retired", "blocks-deleted", "run-submitted", "attempt-chosen",
      "attempt-charged", "attempt-refused", "attempt-withdrawn", "attempt-judged", "attempt-lost", "released",
      "run-ended", "retest-failed", "retest-passed", "alias-moved", "release-withdrawn"];
    const events = new EventSource("/v1/events");
    kinds.forEach((kind) => events.addEventListener(kind, soon));
    events.onopen = () => say("Live", true);
    events.onerror = () => say("Not connected", false);
  };

  // The map of blocks: shows the block that is clicked or reached with the arrow keys.
  const maps = () => main.querySelectorAll(".map").forEach((map) => {
    const [svg, frame] = [map.querySelector("svg"), map.querySelector(".wide")];
    const size = (name) => Number(map.dataset[name]);
    const [pitch, across, rows, band, left, top] = [size("pitch"), size("across"), size("rows"), size("band"), 44, 18];
    const ranges = map.dataset.cells.split(" ").map((text) => text.split(":").map(Number));
    const details = main.querySelector(".chosen");
    let cell = null;
    const block = (wanted) => {
      const own = ranges.find(([first, , count]) => wanted >= first && wanted < first + count);
      return own && own[1] + wanted - own[0];
    };
    const mark = () => {
      const [column, row] = [Math.floor(cell / rows), cell % rows];
      svg.querySelector(".here")?.remove();
      const here = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      const x = left + (column % across) * pitch - 1;
      const y = Math.floor(column / across) * band + top + row * pitch - 1;
      const place = { x, y, width: pitch, height: pitch, class: "here" };
      Object.entries(place).forEach(([name, value]) => here.setAttribute(name, value));
      svg.append(here);
    };
    const show = async (wanted) => {
      const number = block(wanted);
      if (number === undefined) return;
      cell = wanted;
      mark();
      const stream = encodeURIComponent(map.dataset.stream);
      const address = `/v1/streams/${stream}/blocks?after=${number}&limit=1`;
      const answer = await fetch(address, { credentials: "same-origin" });
      if (!answer.ok || cell !== wanted) return;
      const [found] = (await answer.json()).blocks;
      const link = document.createElement("a");
      link.href = `/streams/${stream}/blocks/${found.block.split("/").map(encodeURIComponent).join("/")}`;
      link.textContent = found.block;
      const lane = (name) => `${name}: ε ${found[name].epsilon_spent} spent, ${found[name].epsilon_left} left`;
      details.replaceChildren(link, ` ${found.state}; ${lane("train")}; ${lane("test")}`);
    };
    const hint = "Click a block, or select one with the arrow keys, to see what it has left.";
    if (!details.hasChildNodes()) details.textContent = hint;
    frame.tabIndex = 0;
    frame.setAttribute("role", "group");
    const name = svg.getAttribute("aria-label");
    frame.setAttribute("aria-label", `${name}. Arrow keys select a block, Enter opens it.`);
    frame.addEventListener("click", (event) => {
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      const [column, row] = [Math.floor((point.x - left) / pitch), Math.floor(((point.y % band) - top) / pitch)];
      const inside = column >= 0 && column < across && row >= 0 && row < rows;
      if (inside) show((Math.floor(point.y / band) * across + column) * rows + row);
    });
    frame.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: -rows, ArrowRight: rows, ArrowUp: -1, ArrowDown: 1 };
      if (event.key === "Enter" && cell !== null) details.querySelector("a")?.click();
      if (!(event.key in steps)) return;
      event.preventDefault();
      const [first, , count] = ranges[ranges.length - 1];
      if (cell === null) { show(first + count - 1); return; }
      // Skip empty cells up to the next block.
      const step = steps[event.key];
      for (let next = cell + step, tries = 0; next >= 0 && tries < 400; next += step, tries += 1) {
        if (block(next) !== undefined) { show(next); return; }
      }
    });
  });

  maps();
  if (main.hasAttribute("data-live") && window.EventSource) follow();
})();
