// Opens every page of a running server in a real browser and checks it.
//
// The test `pages_hold_in_a_browser` starts it, with a directory that has runs in every state. SAGE_WALK (JSON) contains
// the address of the server, the tokens and the output folder. All checks run, and failures are printed.

import { readFileSync, mkdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { block, choose, form, keyboard, live, signIn, verify, withoutScript } from "./deeds.mjs";

const walk = JSON.parse(process.env.SAGE_WALK);
const require = createRequire(join(walk.modules, "x.js"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const failures = [];
// Whether a failure is printed at once. The sample page must fail.
let telling = true;
const counts = { pages: 0, audits: 0, screenshots: 0, requests: 0, checks: 0 };

function check(holds, text) {
  counts.checks += 1;
  if (!holds) {
    failures.push(text);
    if (telling) console.log(`  NOT: ${text}`);
  }
}

/** A page that tells of whatever it asks elsewhere, and of every error. */
async function watched(context, who) {
  const page = await context.newPage();
  // A busy machine is not a failure of the page.
  page.setDefaultTimeout(180_000);
  page.expected = [];
  page.on("request", (request) => {
    counts.requests += 1;
    const own = request.url().startsWith(walk.address) || request.url().startsWith("data:");
    check(own, `${who} requested ${request.url()}, which is not the server`);
  });
  page.on("pageerror", (error) => check(false, `${who} ${page.url()}: ${error}`));
  page.on("console", (message) => {
    const refused = page.expected.some((status) => message.text().includes(`status of ${status}`));
    check(message.type() !== "error" || refused, `${who} ${page.url()}: console: ${message.text()}`);
  });
  return page;
}

/** A page with one fault of each kind, all of which must be found: a check that finds nothing is none. */
async function sample(browser) {
  const context = await browser.newContext({ viewport: { width: 360, height: 740 } });
  const page = await watched(context, "sample");
  telling = false;
  await page.setContent(`<main><p style="color: #aaa; background: #bbb">pale</p><div style="width: 2000px">wide</div>
    <a href="#x" style="outline: none">unseen</a><script>console.error("logged"); throw new Error("thrown")</script>
    <img src="http://127.0.0.1:9/elsewhere.png"></main>`);
  const violations = await audited(page);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  await page.keyboard.press("Tab");
  const unseen = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle === "none");
  const found = failures.splice(0).join("\n");
  telling = true;
  const missed = Object.entries({
    contrast: violations.some((one) => one.startsWith("color-contrast")),
    text: violations.some((one) => one.startsWith("image-alt")),
    elsewhere: found.includes("elsewhere.png"),
    logged: found.includes("logged"),
    thrown: found.includes("thrown"),
    wide: wide > 360,
    unseen,
  }).filter(([, holds]) => !holds);
  check(missed.length === 0, `faults that were not found: ${missed.map(([name]) => name).join(", ")}`);
  await context.close();
}

/** Every page that can be reached from the first by links, by its path; of pages alike some are enough. */
async function reachable(page, starts) {
  const [found, todo, alike] = [[], [...starts], new Map()];
  while (todo.length > 0) {
    const path = todo.shift();
    if (found.includes(path)) continue;
    const kind = path.replace(/\?.*/, "?").replace(/\/blocks\/.*/, "/blocks/");
    const most = kind.endsWith("/blocks/") || kind.endsWith("?") ? 1 : 40;
    alike.set(kind, (alike.get(kind) ?? 0) + 1);
    if (alike.get(kind) > most) continue;
    await page.goto(walk.address + path);
    found.push(path);
    const links = await page.locator("a[href]").evaluateAll((all) => all.map((one) => one.getAttribute("href")));
    check(links.every((link) => /^[/#]/.test(link)), `${path} has a link to elsewhere`);
    const pages = links.filter((link) => link.startsWith("/") && !link.startsWith("/v1/"));
    todo.push(...pages.map((link) => link.replace(/#.*/, "")));
  }
  return found;
}

/** What an audit by axe-core finds, in words. */
async function audited(page) {
  counts.audits += 1;
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return found.violations.map((one) => `${one.id} (${one.help}): ${one.nodes.map((node) => node.target).join("; ")}`);
}

async function screenshot(page, who, path, look) {
  counts.screenshots += 1;
  const name = `${who}-${path.replace(/[^a-z0-9]+/gi, "-").replace(/^-|-$/g, "") || "streams"}-${look}.png`;
  await page.screenshot({ path: join(walk.screenshots, name), fullPage: true, timeout: 180_000 });
}

/** One page in both schemes of colours and on a narrow screen. */
async function looked(page, who, path) {
  counts.pages += 1;
  const at = `${who} ${path}`;
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.goto(walk.address + path);
    for (const violation of await audited(page)) check(false, `${at} ${colorScheme}: ${violation}`);
    await screenshot(page, who, path, colorScheme);
  }
  check((await page.locator("h1").count()) === 1, `${at} has no single heading`);
  const pictures = await page.locator("figure svg").count();
  const tables = await page.locator("main table").count();
  check(pictures === 0 || tables > 0, `${at} has a picture and no table`);
  for (const picture of await page.locator("figure svg").all()) {
    check(((await picture.getAttribute("aria-label")) ?? "").includes("says the same"), `${at}: a picture has no name`);
  }
  for (const plot of await page.locator(".plot").all()) {
    check((await plot.locator(".interval, .bar").count()) > 0, `${at}: a picture shows nothing`);
  }
  const hatched = (await page.locator(".aside").count()) === 0 || (await page.locator("#hatch").count()) === 1;
  check(hatched, `${at}: what is set aside has no pattern`);
  await page.setViewportSize({ width: 360, height: 740 });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  check(wide <= 360, `${at} is ${wide} wide on a screen of 360`);
  for (const violation of await audited(page)) check(false, `${at} narrow: ${violation}`);
  await screenshot(page, who, path, "narrow");
  await page.setViewportSize({ width: 1280, height: 800 });
}

/** The picture of the README: a stream with all kinds of blocks. */
async function portrait(browser, token) {
  const context = await browser.newContext({ viewport: { width: 1180, height: 1000 }, colorScheme: "light" });
  const page = await watched(context, "picture");
  await signIn(page, walk.address, token);
  await page.goto(`${walk.address}/streams/taxi`);
  await page.locator(".live[data-on]").waitFor();
  await page.screenshot({ path: walk.picture, timeout: 180_000 });
  const size = statSync(walk.picture).size;
  check(size < 300_000, `the picture has ${size} bytes`);
  await context.close();
}

async function privileged(browser) {
  const who = "engineer";
  const context = await browser.newContext();
  const page = await watched(context, who);
  page.expected = [401];
  await looked(page, "nobody", "/login");
  await signIn(page, walk.address, "sage_pat_wrong");
  check(await page.getByRole("alert").isVisible(), "a wrong token is not reported");
  for (const violation of await audited(page)) check(false, `a wrong token: ${violation}`);
  await signIn(page, walk.address, walk.tokens.mia);
  page.expected = [];
  check(new URL(page.url()).pathname === "/", `logging in leads to ${page.url()}`);
  const paths = await reachable(page, ["/"]);
  const known = ["/streams/taxi", "/streams/taxi/blocks/", "/runs", "/runs/1", "/releases/", "/audit"];
  for (const wanted of [...known, ...walk.pages]) {
    check(paths.some((path) => path.startsWith(wanted)), `no link leads to ${wanted}`);
  }
  for (const path of paths) await looked(page, who, path);
  for (const [number, status] of Object.entries(walk.states)) {
    await page.goto(`${walk.address}/runs/${number}`);
    const shown = (await page.locator(".facts .badge").first().textContent()) ?? "";
    check(shown.includes(status), `run ${number} is "${shown.trim()}", not ${status}`);
  }
  for (const path of ["/", "/streams/taxi", "/runs", "/runs/1", "/releases/taxi-duration/1", "/audit"]) {
    await keyboard(page, walk.address, path, check);
  }
  await block(page, walk.address, check);
  await form(page, walk.address, check);
  await verify(page, walk.address, check);
  await choose(page, walk.address, check);
  await live(page, walk, check);
  await context.close();
}

async function consumer(browser) {
  const context = await browser.newContext();
  const page = await watched(context, "consumer");
  await signIn(page, walk.address, walk.tokens.carl);
  for (const path of await reachable(page, ["/", "/runs", "/releases"])) {
    await looked(page, "consumer", path);
    const text = await page.locator("main").innerText();
    // Simulated runs belong to no user, so some may wait.
    const telling = path.startsWith("/simulate") ? /\bhour=2026-09-28\b/ : /\b(hour=2026-09-28|retired|waiting|rejected)\b/;
    check(!telling.test(text), `consumer ${path} tells of a stream`);
  }
  await form(page, walk.address, check);
  page.expected = [403, 404];
  for (const path of ["/audit", "/streams/taxi", "/streams/none", "/runs/1", "/releases/none/1"]) {
    await looked(page, "consumer", path);
    check(!(await page.locator("table").count()), `consumer ${path} is shown a table`);
  }
  await context.close();
}

rmSync(walk.screenshots, { recursive: true, force: true });
mkdirSync(walk.screenshots, { recursive: true });
const args = ["--no-sandbox", "--disable-dev-shm-usage"];
const browser = await chromium.launch({ executablePath: walk.browser, args });
try {
  await sample(browser);
  if (walk.picture) await portrait(browser, walk.tokens.mia);
  await privileged(browser);
  await consumer(browser);
  await withoutScript(browser, walk, check);
} finally {
  await browser.close();
}
const version = { axe: require("axe-core/package.json").version };
writeFileSync(join(walk.screenshots, "report.json"), JSON.stringify({ ...counts, ...version, failures }, null, 2));
console.log(`pages: ${JSON.stringify(counts)}`);
if (failures.length > 0) {
  console.log(`${failures.length} of ${counts.checks} checks do not hold:\n  ${failures.join("\n  ")}`);
  process.exit(1);
}
