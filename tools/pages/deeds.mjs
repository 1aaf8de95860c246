// Actions of a user: log in, navigate by keyboard, request a prediction, verify the log, wait for an event.

export async function signIn(page, address, token) {
  await page.goto(`${address}/login`);
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
}

/** By keyboard alone: the skip link, then everything in its order, each seen when it has the focus. */
export async function keyboard(page, address, path, check) {
  await page.goto(address + path);
  await page.keyboard.press("Tab");
  const skip = page.locator(".skip");
  check(await skip.evaluate((one) => one === document.activeElement), `${path}: the first stop is not the skip link`);
  check(((await skip.boundingBox())?.y ?? -1) >= 0, `${path}: the skip link is not seen`);
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  const inside = await page.evaluate(() => document.querySelector("main").contains(document.activeElement));
  check(inside, `${path}: the skip link does not lead into the content`);
  await page.goto(address + path);
  const stops = await page.evaluate(() => {
    const shown = (one) => one.checkVisibility() && !one.closest("details:not([open]) > :not(summary)");
    const all = [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")].filter(shown);
    globalThis.stops = all;
    return all.length;
  });
  const limit = Math.min(stops, 60);
  for (let stop = 0; stop < limit; stop += 1) {
    await page.keyboard.press("Tab");
    const [reached, seen] = await page.evaluate((stop) => {
      const style = getComputedStyle(document.activeElement);
      const seen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
      return [globalThis.stops.indexOf(document.activeElement), seen, stop];
    }, stop);
    check(reached === stop, `${path}: stop ${stop} of the keyboard is ${reached}`);
    check(seen, `${path}: the focus on stop ${stop} is not seen`);
    if (reached !== stop) return;
  }
}

/** A block is found on the map with the arrow keys, described, and opened. */
export async function block(page, address, check) {
  await page.goto(`${address}/streams/taxi`);
  const map = page.locator(".map .wide").first();
  await map.focus();
  await page.keyboard.press("ArrowDown");
  const chosen = page.locator(".chosen");
  await chosen.locator("a").waitFor();
  const first = await chosen.innerText();
  check(/hour=.*ε .* left/.test(first), `the map tells "${first}"`);
  await page.keyboard.press("ArrowLeft");
  await page.waitForFunction((first) => document.querySelector(".chosen").innerText !== first, first);
  check((await page.locator(".map .here").count()) === 1, "the chosen block is not marked");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/blocks\//);
  check(await page.getByRole("heading", { name: "Who read it" }).isVisible(), "a block does not open");
  // The same with a pointer: the first hour of the first day.
  await page.goto(`${address}/streams/taxi`);
  const box = await page.locator(".map svg").first().boundingBox();
  const scale = box.width / Number(await page.locator(".map svg").first().getAttribute("width"));
  await page.mouse.click(box.x + 50 * scale, box.y + 24 * scale);
  await chosen.locator("a").waitFor();
  check((await chosen.innerText()).includes("hour=2026-09-01T00"), `a click shows "${await chosen.innerText()}"`);
}

/** A model predicts by its form, a wrong value is reported, and a line of a statistic is looked up. */
export async function form(page, address, check) {
  await page.goto(`${address}/releases/taxi-duration/1`);
  await page.getByLabel("distance").fill("2.5");
  await page.getByLabel("payment").selectOption("card");
  await page.getByLabel("pickup").fill("2026-11-02T08:15:00");
  await page.getByRole("button", { name: "Show the result" }).click();
  const answer = await page.locator("form [role=status]").innerText();
  check(/The prediction is -?\d/.test(answer), `the model answers "${answer}"`);
  check((await page.getByLabel("distance").inputValue()) === "2.5", "what was filled in is gone");
  await page.getByLabel("distance").fill("-7");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").waitFor();
  check((await page.getByRole("alert").innerText()).includes("from 0 to 100"), "a wrong value is not reported");
  await page.goto(`${address}/releases/speed-by-hour/1`);
  await page.getByLabel("key").selectOption("17");
  await page.getByRole("button", { name: "Show the result" }).click();
  const line = await page.locator("form [role=status]").innerText();
  check(/at least .* at most/.test(line), `the statistic answers "${line}"`);
}

export async function verify(page, address, check) {
  await page.goto(`${address}/audit`);
  await page.getByRole("button", { name: "Verify" }).click();
  const found = await page.locator(".notice").innerText();
  check(/Verified: each of the \d+ events/.test(found), `verifying says "${found}"`);
}

/** Events are chosen by kind and name, the choice stays in the form, and what was chosen is taken away. */
export async function choose(page, address, check) {
  await page.goto(`${address}/audit`);
  await page.locator("select[name=kind]").selectOption("released");
  await page.locator("input[name=by]").fill("mia");
  await page.getByRole("button", { name: "Show these" }).click();
  await page.waitForURL(/kind=released/);
  const kinds = await page.locator("tbody tr td:nth-child(3)").allInnerTexts();
  check(kinds.length > 0 && kinds.every((kind) => kind === "released"), `chosen are ${kinds.join(", ")}`);
  check((await page.locator("input[name=by]").inputValue()) === "mia", "what was chosen is gone from the form");
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("link", { name: /^events 0 to/ }).click(),
  ]);
  const chunks = [];
  for await (const chunk of await download.createReadStream()) chunks.push(chunk);
  const lines = Buffer.concat(chunks).toString("utf8").trim().split("\n").map((line) => JSON.parse(line));
  check(lines.length === kinds.length, `${lines.length} lines were taken away and ${kinds.length} shown`);
  check(lines.every((line) => line.kind === "released" && line.by[0] === "mia"), "other events were taken away");
  await page.getByRole("link", { name: "Show all" }).click();
  await page.waitForURL(/\/audit$/);
}

/** Something happens while a page is open, and the page shows it by itself. */
export async function live(page, walk, check) {
  const post = async (path, token, body) => {
    const headers = { Authorization: `Bearer ${token}` };
    const answer = await fetch(walk.address + path, { method: "POST", headers, body });
    check(answer.ok, `${path}: ${answer.status} ${await answer.text()}`);
  };
  const opened = async (path) => {
    await page.goto(walk.address + path);
    await page.locator(".live[data-on]").waitFor();
    await page.evaluate(() => { globalThis.same = true; });
  };
  const follows = async (text, what) => {
    const seen = await page.getByText(text).first().waitFor({ timeout: 60_000 }).then(() => true, () => false);
    check(seen, `${what} is not shown by itself`);
    check(await page.evaluate(() => globalThis.same === true), `${what} was shown by loading the page anew`);
    const said = await page.locator(".live").innerText();
    check(said.startsWith("Updated"), `the page says "${said}" after ${what}`);
  };
  await opened("/runs");
  await post("/v1/runs", walk.tokens.mia, walk.pipeline);
  await follows(walk.name, "a run that was submitted");
  await opened("/streams/taxi");
  await page.locator("details summary").first().focus();
  await post("/v1/streams/taxi/blocks", walk.tokens.ada, JSON.stringify({ do: "retire", blocks: [walk.retire] }));
  await follows(walk.retired, "a block that was retired");
  const kept = await page.evaluate(() => document.activeElement.tagName);
  check(kept === "SUMMARY", `the focus went to ${kept} when the page changed`);
  await opened("/releases");
  await post("/v1/releases/taxi-duration/1/aliases", walk.tokens.mia, JSON.stringify({ alias: "seen-at-once" }));
  await follows("seen-at-once", "a new name");
}

/** Pages are complete without script. */
export async function withoutScript(browser, walk, check) {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  page.setDefaultTimeout(180_000);
  await signIn(page, walk.address, walk.tokens.mia);
  for (const path of ["/", "/streams/taxi", "/runs", "/runs/1", "/releases", "/releases/taxi-duration/1", "/audit"]) {
    await page.goto(walk.address + path);
    const text = await page.locator("main").innerText();
    check(text.length > 100, `${path} says nothing without script`);
  }
  await choose(page, walk.address, check);
  await context.close();
}
