// Uses every function of the page for operators in Debian's Chromium.
//
// Environment: CHROMIUM, CURL (paths), ADMIN, PROXY (URLs), TOKEN_ADMIN (URL of a proxy with tokens), TOKEN, TEAM_TOKEN, CONFIG (the
// proxy's file), FRESH, FRESH_PROXY (URLs of a proxy that nobody has used), SNIPPET (a file to write), PICTURES (a directory for
// screenshots of what fails, and with SCREENSHOTS=1 of every view), STEPS (the names of the only steps to run, with commas
// between). Standard output: the name of each step that succeeds; ends with 1 at the first that fails.

const assert = require("node:assert/strict");
const fs = require("node:fs");
const http = require("node:http");
const net = require("node:net");
const { chromium } = require("playwright-core");

const { ADMIN, PROXY, TOKEN_ADMIN, TOKEN, TEAM_TOKEN, CONFIG, PICTURES, FRESH, FRESH_PROXY, CURL, SNIPPET, SCREENSHOTS, STEPS } = process.env;
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

/** Sends a request through the proxy, and resolves with the status. */
function crawl(url, agent = "NewsBot/2", proxy = PROXY) {
  const { hostname, port } = new URL(proxy);
  return new Promise((resolve, reject) => {
    const request = http.request({ hostname, port, path: url, headers: { host: new URL(url).host, "user-agent": agent } }, (answer) => {
      answer.resume().on("end", () => resolve(answer.statusCode));
    });
    request.on("error", reject).end();
  });
}

/** Returns the decisions about a URL, the newest first, once there is one: they are recorded after the response. */
async function recorded(url) {
  for (;;) {
    const { decisions } = await (await fetch(`${ADMIN}/v1/decisions?q=${encodeURIComponent(url)}`)).json();
    if (decisions.length) return decisions;
  }
}

const AGENTS = ["NewsBot/2", "NewsBot/2", "ImageBot/1", "Other/1 (+https://other.example)"];
const PATHS = ["/", "/a", "/catalogue/1", "/catalogue/2?page=3", "/private/a", "/images/logo.png", "/private/b?q=1"];
const HOSTS = ["shop.test", "shop.test", "news.test", "museum.test", "down.test", "gone.test"];

async function sendTraffic(rounds) {
  for (let round = 0; round < rounds; round += 1) {
    await crawl(`http://${HOSTS[round % HOSTS.length]}${PATHS[(round * 3) % PATHS.length]}`, AGENTS[(round * 5) % AGENTS.length]);
  }
}

/** The origin of the relay that can be cut. */
let relayed = null;

/** Errors in the browser, and its requests to other origins. */
const complaints = [];

async function open(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.on("pageerror", (error) => complaints.push(`error: ${error}`));
  page.on("console", (message) => {
    // Some steps are about refused resources.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) complaints.push(`console: ${message.text()}`);
  });
  page.on("request", (request) => {
    if (![ADMIN, TOKEN_ADMIN, FRESH, relayed].includes(new URL(request.url()).origin)) complaints.push(`requests ${request.url()}`);
  });
  return page;
}

async function visit(page, place) {
  await page.goto(`${ADMIN}/#/${place}`);
  await page.locator("main h1").waitFor();
}

const rows = (page) => page.locator("main table.stream tbody tr");
const text = (locator) => locator.allInnerTexts();

async function overview(page) {
  await visit(page, "overview");
  const refused = page.locator(".tile", { hasText: /^Refused/ });
  await page.waitForFunction(() => /of [1-9]\d*, last 5 minutes/.test(document.querySelector(".tiles")?.textContent ?? ""));
  assert.match(await refused.locator("small").innerText(), /^\d+ of \d+, last 5 minutes$/);
  const [share, part, all] = (await refused.innerText()).match(/([\d.]+) %\s+(\d+) of (\d+)/).slice(1).map(Number);
  assert.equal(share, Math.round((1000 * part) / all) / 10);
  await page.locator(".canvas canvas").waitFor();
  assert.match(await page.locator("figcaption").innerText(), /forwarded/);
  for (const name of ["news", "images"]) await page.getByRole("group", { name: "Requests by crawler" }).getByText(name, { exact: true }).waitFor();
  const crawlers = await page.getByRole("group", { name: "Requests by crawler" }).innerText();
  for (const name of ["news", "images", "unnamed (by User-Agent)"]) assert.ok(crawlers.includes(name), crawlers);
  await page.getByRole("group", { name: "Requests by reason" }).getByText("unreachable").first().waitFor();
  await page.getByRole("region", { name: /Most refused hosts/ }).getByText("shop.test").waitFor();
  await page.getByRole("region", { name: /Most refused by rule/ }).getByText("Disallow: /private").first().waitFor();
  await page.locator("select[name=split]").selectOption("reason");
  await page.locator(".key", { hasText: "unreachable" }).waitFor();
  await page.locator("select[name=split]").selectOption("outcome");
  const exceptions = page.getByRole("group", { name: /Exceptions that expire/ });
  assert.match(await exceptions.innerText(), /data@example.com/);
  assert.doesNotMatch(await exceptions.innerText(), /far@example.com/);
  // What only engineers need comes last.
  assert.match((await text(page.locator("main h2"))).at(-1), /This proxy/);
}

async function oneRangeHoldsForEveryView(page) {
  await visit(page, "overview");
  await page.locator("select[name=since]").selectOption("24h");
  await page.getByRole("heading", { name: "By crawler, last 24 hours" }).waitFor();
  await page.waitForFunction(() => /Requests per 15 min, last 24 hours: [1-9]/.test(document.querySelector("figcaption .unseen")?.textContent ?? ""));
  assert.match(page.url(), /#\/overview\?since=24h$/);
  const counted = await page.getByRole("group", { name: "Requests by crawler" }).locator("tbody tr").filter({ has: page.getByRole("link", { name: "news", exact: true }) }).locator("td").nth(1).innerText();
  await page.getByRole("link", { name: "Crawlers", exact: true }).click();
  await page.locator("main h1", { hasText: "Crawlers" }).waitFor();
  assert.equal(await page.locator("select[name=since]").inputValue(), "24h");
  await page.getByText("Requests, last 24 hours.").waitFor();
  const news = page.locator("main tbody tr").filter({ has: page.getByRole("link", { name: "news", exact: true }) });
  assert.equal(await news.locator("td").nth(2).innerText(), counted);
  await page.getByRole("link", { name: "Decisions", exact: true }).click();
  await page.locator("main h1", { hasText: "Decisions" }).waitFor();
  assert.equal(await page.locator("select[name=since]").inputValue(), "24h");
  await page.getByText("from the decision log").waitFor();
  await rows(page).first().waitFor();
  await page.reload();
  await page.getByText("from the decision log").waitFor();
  assert.equal(await page.locator("select[name=since]").inputValue(), "24h");
  await page.locator("select[name=since]").selectOption("");
  await page.getByText("from the decision log").waitFor({ state: "detached" });
  assert.match(await page.getByRole("link", { name: "Overview", exact: true }).getAttribute("href"), /^#\/overview$/);
}

/** The names in the first column of a table, from the top. */
const names = (group) => group.locator("tbody tr th").allInnerTexts();

async function aClickOnAHeadSorts(page) {
  await visit(page, "crawlers?since=1h");
  const group = page.getByRole("group", { name: "Crawlers" });
  await group.locator("tbody tr").first().waitFor();
  const numbers = async (column) => (await group.locator(`tbody td:nth-child(${column})`).allInnerTexts()).map((cell) => Number(cell.split(/\s/)[0].replace(",", "")));
  const isFalling = (list) => list.every((value, at) => at === 0 || list[at - 1] >= value);
  // The worst first.
  const [refused, would] = [await numbers(5), await numbers(6)];
  assert.ok(isFalling(refused.map((value, at) => value + would[at])), `${refused} ${would}`);
  await group.getByRole("button", { name: "Requests", exact: true }).click();
  assert.ok(isFalling(await numbers(4)), `${await numbers(4)}`);
  assert.equal(await group.locator("th[aria-sort]").getAttribute("aria-sort"), "descending");
  assert.match(page.url(), /since=1h&sort=-requests$/);
  await group.getByRole("button", { name: "Requests" }).click();
  assert.ok(isFalling((await numbers(4)).reverse()));
  await group.getByRole("button", { name: "Crawler", exact: true }).click();
  await page.reload();
  await group.locator("tbody tr").first().waitFor();
  const shown = await names(group);
  assert.deepEqual(shown, [...shown].sort((one, other) => one.localeCompare(other, "en")));
  await visit(page, "origins?since=1h");
  const origins = page.getByRole("group", { name: "Known origins" });
  await page.waitForFunction(() => /http:\/\/down\.test/.test(document.querySelector("main tbody tr")?.textContent ?? ""));
  await origins.getByRole("button", { name: "Origin", exact: true }).click();
  const byName = await names(origins);
  assert.deepEqual(byName, [...byName].sort());
  await origins.getByRole("button", { name: "Refused", exact: true }).click();
  const counts = (await origins.locator("tbody td:nth-child(3)").allInnerTexts()).map(Number);
  assert.ok(counts[0] > 0 && isFalling(counts), `${counts}`);
  const worst = (await names(origins))[0];
  await origins.locator("tbody tr").first().getByRole("link").nth(1).click();
  await page.locator("main h1", { hasText: "Decisions" }).waitFor();
  assert.equal(await page.locator("select[name=outcome]").inputValue(), "refused");
  assert.equal(await page.getByLabel("Host").inputValue(), new URL(worst).hostname);
  await visit(page, "decisions?since=1h&outcome=all");
  await rows(page).first().waitFor();
  await page.getByRole("button", { name: "Outcome", exact: true }).click();
  assert.match(page.url(), /sort=outcome/);
  const outcomes = await text(page.locator(".stream tbody .badge"));
  const order = ["refused", "forwarded", "observed", "failed", "tunnelled"];
  assert.deepEqual(outcomes, [...outcomes].sort((one, other) => order.indexOf(one) - order.indexOf(other)));
}

async function unnamedCrawlersAreNamed(page) {
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  for (let times = 0; times < 3; times += 1) await crawl("http://news.test/unnamed", "StrangeBot/4 (+https://strange.example)");
  await visit(page, "overview?since=1h");
  const unnamed = page.getByRole("region", { name: "Unnamed requests" });
  const row = unnamed.locator("tbody tr", { hasText: "StrangeBot" });
  await row.locator("td").first().getByText("3", { exact: true }).waitFor();
  await unnamed.getByRole("button", { name: "By Client" }).click();
  await unnamed.locator("tbody tr", { hasText: "127.0.0.1" }).waitFor();
  await unnamed.getByRole("button", { name: "By User-Agent" }).click();
  await unnamed.locator("tbody tr", { hasText: "StrangeBot/4 (+https://strange.example)" }).waitFor();
  await unnamed.getByRole("button", { name: "By product token" }).click();
  await row.getByRole("button", { name: "Name this crawler: StrangeBot" }).click();
  await unnamed.getByRole("button", { name: "Copy" }).click();
  await page.waitForFunction(async () => (await navigator.clipboard.readText()).startsWith("[[crawler]]"));
  const table = await page.evaluate(() => navigator.clipboard.readText());
  assert.equal(table, await unnamed.locator("pre").textContent());
  // What is copied is a configuration that names the crawler.
  const sound = fs.readFileSync(CONFIG, "utf8");
  fs.writeFileSync(CONFIG, `${sound}\n${table}`);
  assert.equal((await fetch(`${ADMIN}/v1/reload`, { method: "POST" })).status, 200);
  await crawl("http://news.test/named", "StrangeBot/4 (+https://strange.example)");
  const decisions = await recorded("news.test/named");
  assert.deepEqual(decisions.map(({ crawler, mode }) => [crawler, mode]), [["strangebot", "enforce"]]);
  fs.writeFileSync(CONFIG, sound);
  assert.equal((await fetch(`${ADMIN}/v1/reload`, { method: "POST" })).status, 200);
}

async function namesOfOthersAreNotOffered(page) {
  for (let times = 0; times < 3; times += 1) assert.equal(await crawl("http://news.test/foreign", "Mozilla/5.0 (compatible; Googlebot/2.1)"), 403);
  for (let times = 0; times < 3; times += 1) assert.equal(await crawl("http://shop.test/private/library", "axios/1.7.2"), 403);
  await visit(page, "overview?since=1h");
  const unnamed = page.getByRole("region", { name: "Unnamed requests" });
  const row = unnamed.locator("tbody tr", { hasText: "Googlebot" });
  await row.getByText("A client of yours sends Google's name: find it under \"By client\", and give it a User-Agent of your own.").waitFor();
  assert.equal(await row.getByRole("button").count(), 0);
  const library = unnamed.locator("tbody tr", { hasText: "axios" });
  await library.getByText("axios is the name of a library or a browser, which others send as well").waitFor();
  assert.equal(await library.getByRole("button").count(), 0);
  await unnamed.locator("tbody tr", { hasText: "Other" }).getByRole("button", { name: /^Name this crawler/ }).waitFor();
  await recorded("http://news.test/foreign");
  await visit(page, "decisions?q=news.test/foreign");
  await rows(page).first().waitFor();
  // One word for them everywhere.
  assert.doesNotMatch(await page.locator("main").innerText(), /asserted/);
  assert.match(await page.locator(".stream tbody td:nth-child(3)").first().innerText(), /^unnamed \(by User-Agent\)/);
}

async function enforcementIsKnownToBeSafe(page) {
  const crawler = "[[crawler]]\nname = \"seo-audit\"\ntokens = [\"SeoBot\"]\nmatch = { user_agent = \"SeoBot\" }\nmode = \"observe\"\n";
  const sound = fs.readFileSync(CONFIG, "utf8");
  fs.writeFileSync(CONFIG, `${sound}\n${crawler}`);
  assert.equal((await fetch(`${ADMIN}/v1/reload`, { method: "POST" })).status, 200);
  await crawl("http://news.test/", "SeoBot/1");
  await crawl("http://shop.test/private/would-be", "ImageBot/1");
  await visit(page, "overview?since=1h&sort=crawler");
  const row = (name) => page.getByRole("group", { name: "Requests by crawler" }).locator("tbody tr").filter({ has: page.getByRole("link", { name, exact: true }) });
  await row("seo-audit").getByText("safe to enforce").waitFor();
  await row("images").waitFor();
  assert.doesNotMatch(await row("images").innerText(), /safe to enforce/);
  const [, requests, , , would, share, , rule, host] = (await row("images").locator("td").allInnerTexts());
  assert.equal(share, `${((100 * Number(would)) / Number(requests)).toFixed(1)} %`);
  assert.ok(rule && host && Number(would) > 0, `${rule} ${host} ${would}`);
  // The bar shows both.
  assert.ok((await rectOf(row("images").locator(".part.would"))).width > 0);
  await row("images").locator("td").nth(7).getByRole("link").click();
  await page.locator("main h1", { hasText: "Decisions" }).waitFor();
  await page.waitForFunction(() => [...document.querySelectorAll(".stream tbody tr")].length > 0 && [...document.querySelectorAll(".stream tbody td:nth-child(3)")].every((cell) => cell.textContent.startsWith("images")));
  fs.writeFileSync(CONFIG, sound);
  assert.equal((await fetch(`${ADMIN}/v1/reload`, { method: "POST" })).status, 200);
}

async function problemsAreShownOnEveryView(page) {
  await visit(page, "overview");
  const strip = page.locator("#strip");
  await strip.getByText("A rule of yours has expired").waitFor();
  const sound = fs.readFileSync(CONFIG, "utf8");
  fs.writeFileSync(CONFIG, `nonsense = 1\n${sound}`);
  assert.equal((await fetch(`${ADMIN}/v1/reload`, { method: "POST" })).status, 422);
  for (const view of ["overview", "crawlers", "decisions", "origins", "changes", "try", "replay", "politeness", "fleet", "connect", "configuration"]) {
    await visit(page, view);
    await assertVisible(strip.getByText(/config\.toml:1: nonsense: unknown key/), `the rejected configuration on ${view}`);
  }
  await strip.getByText(/version \d+ is still in use/).waitFor();
  await strip.getByRole("button", { name: /^Hide: A rule of yours/ }).click();
  await strip.getByText("A rule of yours has expired").waitFor({ state: "detached" });
  await strip.locator("[data-kind=reload-rejected]").getByRole("link").click();
  await page.locator("main h1", { hasText: "Configuration" }).waitFor();
  fs.writeFileSync(CONFIG, sound);
  assert.equal((await fetch(`${ADMIN}/v1/reload`, { method: "POST" })).status, 200);
  await strip.waitFor({ state: "hidden" });
}

/** Every view can be reached, and its link read, at any width, also when there is much to say beside it. */
async function theNavigationIsNeverCut(page) {
  await visit(page, "overview");
  await page.locator("#health.live").waitFor();
  for (const width of [320, 360, 480, 640, 641, 720, 900, 1000, 1100, 1250, 1251, 1280, 1400, 1600, 2000]) {
    await page.setViewportSize({ width, height: 900 });
    const menu = page.getByRole("button", { name: "Menu" });
    if (await menu.isVisible()) await menu.click();
    for (const said of ["live", "no connection since 22:04:03"]) {
      const cut = await page.evaluate((words) => {
        document.querySelector("#health .word").textContent = words;
        scrollTo(0, 0);
        return [...document.querySelectorAll("nav a:not([hidden])")].filter((link) => {
          const { left, right, top, bottom } = link.getBoundingClientRect();
          const isOnTop = link.contains(document.elementFromPoint((left + right) / 2, (top + bottom) / 2));
          return left < 0 || right > innerWidth || link.scrollWidth > link.clientWidth + 1 || !isOnTop;
        }).map((link) => link.textContent);
      }, said);
      assert.deepEqual(cut, [], `${width} px, ${said}`);
    }
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `the page is wider than ${width} px`);
    if (await menu.isVisible()) await menu.click();
  }
}

async function theChartMoves(page) {
  await visit(page, "overview");
  const seen = async () => Number((await page.locator("figcaption .unseen").innerText()).match(/([\d,]+) requests/)[1].replace(",", ""));
  await page.locator("figcaption .unseen").waitFor({ state: "attached" });
  const before = await seen();
  await sendTraffic(12);
  await page.waitForFunction((least) => Number(document.querySelector("figcaption .unseen").textContent.match(/([\d,]+) requests/)[1].replace(",", "")) >= least, before + 12);
}

async function refusalsAreListedFirst(page) {
  const outcomes = () => text(page.locator(".stream tbody .badge"));
  const isOnly = (...words) => page.waitForFunction((wanted) => {
    const badges = [...document.querySelectorAll(".stream tbody .badge")].map((badge) => badge.textContent);
    return badges.length > 0 && badges.every((badge) => wanted.includes(badge));
  }, words);
  for (const since of ["since=1h&", ""]) {
    await visit(page, `decisions?${since}`);
    await isOnly("refused", "observed");
    assert.match(page.url(), /outcome=refused&outcome=observed$/);
    assert.equal(await page.locator("select[name=outcome]").inputValue(), "refused,observed");
    await assertVisible(page.getByText("Only what was refused, or would have been."), "the filter");
    await page.getByRole("button", { name: "Show all", exact: true }).click();
    await page.locator(".stream tbody .badge", { hasText: "forwarded" }).first().waitFor();
    assert.match(page.url(), /outcome=all$/);
    await page.reload();
    await page.locator(".stream tbody .badge", { hasText: "forwarded" }).first().waitFor();
    assert.equal(await page.getByText("Only what was refused, or would have been.").isVisible(), false);
  }
  // The navigation leads to the beginning, also from here.
  await page.getByRole("link", { name: "Decisions", exact: true }).click();
  await isOnly("refused", "observed");
  assert.ok((await outcomes()).includes("observed"));
  // New ones are filtered alike.
  await crawl("http://news.test/not-listed");
  await crawl("http://shop.test/private/listed-first");
  await page.locator(".stream .url a", { hasText: "/private/listed-first" }).waitFor();
  assert.equal(await page.locator(".stream .url a", { hasText: "/not-listed" }).count(), 0);
  await page.getByLabel("Search").fill("/not-listed");
  await page.getByText("No recent decision matches.").waitFor();
  await page.getByRole("button", { name: "Show all outcomes" }).click();
  await page.locator(".stream .url a", { hasText: "/not-listed" }).waitFor();
  // A link to what a crawler did is about all of it.
  await visit(page, "decisions?crawler=news");
  await page.locator(".stream tbody .badge", { hasText: "forwarded" }).first().waitFor();
}

async function decisionsAreFilteredAndSearched(page) {
  await visit(page, "decisions");
  await rows(page).first().waitFor();
  await page.locator("select[name=outcome]").selectOption("refused");
  await page.waitForFunction(() => [...document.querySelectorAll(".stream tbody .badge")].every((badge) => badge.textContent === "refused"));
  assert.ok((await rows(page).count()) > 5);
  await page.locator("select[name=crawler]").selectOption("images");
  await page.waitForFunction(() => document.querySelector(".stream tbody") && ![...document.querySelectorAll(".stream tbody td:nth-child(3)")].some((cell) => !cell.textContent.startsWith("images")));
  await page.locator("select[name=outcome]").selectOption("");
  await page.locator("select[name=crawler]").selectOption("");
  await page.getByLabel("Search").fill("CATALOGUE/2");
  await page.waitForFunction(() => {
    const links = [...document.querySelectorAll(".stream tbody .url a")];
    return links.length > 0 && links.every((link) => link.textContent.includes("/catalogue/2"));
  });
  await page.getByLabel("Search").fill("");
  await page.getByLabel("Host").fill("museum.test");
  await page.waitForFunction(() => {
    const links = [...document.querySelectorAll(".stream tbody .url a")];
    return links.length > 0 && links.every((link) => link.textContent.includes("//museum.test"));
  });
  await page.getByLabel("Host").fill("nowhere.test");
  await page.getByText("No recent decision matches.").waitFor();
}

/** Resolves with the next request to a path, which waits until it is continued. */
function nextRequest(page, path) {
  let held = null;
  return new Promise((resolve) => {
    page.route((url) => url.pathname === path, (route) => (held ? route.continue() : resolve((held = route))));
  });
}

/** On a slow machine the answer about an earlier choice arrives after the next choice. */
async function onlyTheLastChoiceIsListed(page) {
  await visit(page, "decisions");
  await rows(page).first().waitFor();
  const isList = (request) => new URL(request.url()).pathname === "/v1/decisions";
  const choose = (outcome) => page.locator("select[name=outcome]").selectOption(outcome);
  const listed = nextRequest(page, "/v1/decisions");
  await choose("forwarded");
  const list = await listed;
  const ended = Promise.race(["requestfinished", "requestfailed"].map((event) => page.waitForEvent(event, isList)));
  const streamed = nextRequest(page, "/v1/decisions/stream");
  await choose("observed");
  const stream = await streamed;
  // The page may have given it up.
  await list.continue().catch(() => {});
  await ended;
  await stream.continue();
  await page.waitForFunction(() => {
    const badges = [...document.querySelectorAll(".stream tbody .badge")].map((badge) => badge.textContent);
    return badges.length > 0 && badges.every((badge) => badge === "observed");
  });
}

/** Whether the element is visible in its scrolling box. */
const isInView = (locator) => locator.evaluate((element) => {
  const box = element.closest(".robots").getBoundingClientRect();
  const { top, bottom, height } = element.getBoundingClientRect();
  return height > 0 && top >= box.top && bottom <= box.bottom;
});

async function theDecidingLineIsInView(page) {
  for (const line of [3, 44, 64, 180]) {
    const path = `/section-${line}/a`;
    assert.equal(await crawl(`http://long.test${path}`), 403);
    await visit(page, `decisions?q=${encodeURIComponent(path)}`);
    await page.locator(".stream .url a", { hasText: path }).first().click();
    const marked = page.locator(".robots .decides", { hasText: `/section-${line}/` });
    await marked.waitFor();
    await page.waitForFunction((wanted) => {
      const list = document.querySelector("ol.robots");
      return list && (wanted < 30 || list.scrollTop > 0);
    }, line);
    assert.ok(await isInView(marked), `line ${line} of a decision is out of view`);
    await visit(page, `try?url=${encodeURIComponent(`http://long.test${path}`)}&user_agent=a`);
    await marked.waitFor();
    await page.waitForFunction((wanted) => wanted < 30 || document.querySelector("ol.robots").scrollTop > 0, line);
    assert.ok(await isInView(marked), `line ${line} of a trial is out of view`);
  }
}

async function everyCrawlerIsCounted(page) {
  // Earlier requests may be older than what is shown.
  for (const agent of AGENTS) await crawl("http://news.test/", agent);
  for (let number = 1; number <= 20; number += 1) await crawl("http://news.test/", `Team${number}Bot/1`);
  await visit(page, "overview");
  await page.waitForFunction(() => /11 others/.test(document.querySelector('[aria-label="Requests by crawler"]')?.textContent ?? ""));
  const { rows, counted, summary } = await page.evaluate(() => {
    const rows = [...document.querySelectorAll('[aria-label="Requests by crawler"] tbody tr')].map((row) => [...row.children].map((cell) => cell.textContent));
    const tile = [...document.querySelectorAll(".tile")].find((one) => one.textContent.startsWith("Refused"));
    return { rows: rows.map((row) => row[0]), counted: rows.reduce((sum, row) => sum + Number(row[2].replace(",", "")), 0), summary: tile.querySelector("small").textContent };
  });
  assert.equal(rows.length, 13);
  // 20 teams, news, images and asserted.
  assert.equal(rows.at(-1), "11 others");
  // A bar for all of them together would be longer than the column.
  assert.equal(await page.locator('[aria-label="Requests by crawler"] .amount').count(), 12);
  assert.ok(summary.includes(` of ${counted.toLocaleString("en")}, `), `${counted} in ${summary}`);
}

/** Returns the rectangle of an element. Tries again if a redraw replaced it: a detached element has none. */
async function rectOf(locator) {
  for (;;) {
    await locator.waitFor();
    const rect = await locator.evaluate((element) => element.isConnected && element.getBoundingClientRect().toJSON());
    if (rect) return rect;
  }
}

/** Fails unless the element is visible without scrolling. */
async function assertVisible(locator, what) {
  const { top, bottom, left, right, height } = await rectOf(locator);
  const { width, height: all } = locator.page().viewportSize();
  assert.ok(height > 0 && top >= 0 && bottom <= all && left >= 0 && right <= width, `${what} is out of sight: ${JSON.stringify({ top, bottom, left, right })}`);
}

async function everyCrawlerIsListed(page) {
  assert.equal(await crawl("http://news.test/", "MislaidBot/1"), 200);
  await visit(page, "crawlers?since=1h");
  const row = (name) => page.locator("main tbody tr").filter({ has: page.getByRole("link", { name, exact: true }) });
  await row("news").first().waitFor();
  // 20 teams, news, images, guest, mislaid, trainer and asserted.
  assert.equal(await page.locator("main tbody tr").count(), 26);
  await page.waitForFunction(() => [...document.querySelectorAll("main tbody tr")].some((row) => row.cells[0].textContent === "mislaid" && row.cells[3].textContent === "1" && row.cells[8].querySelector("time")));
  const cells = async (name) => text(row(name).first().locator("th, td"));
  const [, mode, tokens, requests, , wouldBe] = await cells("images");
  assert.equal(mode, "observe");
  assert.equal(tokens, "ImageBot");
  assert.match(wouldBe, /^[1-9]\d* [\d.]+ %$/);
  assert.ok(Number(requests) > 0, requests);
  assert.equal((await cells("mislaid"))[7], "1");
  assert.equal((await cells("guest"))[8], "not since the start");
  await page.getByLabel("Search").fill("imagebot");
  await row("news").first().waitFor({ state: "detached" });
  await row("images").getByRole("link").nth(2).click();
  await page.locator("main h1", { hasText: "Decisions" }).waitFor();
  assert.equal(await page.locator("select[name=outcome]").inputValue(), "observed");
}

async function observedIsShown(page) {
  await crawl("http://shop.test/private/would-be", "ImageBot/1");
  await visit(page, "overview");
  await page.waitForFunction(() => [...document.querySelectorAll(".tile")].some((tile) => /^Would be refused[\d.]+ %[1-9]/.test(tile.textContent)));
  await assertVisible(page.locator(".tile", { hasText: "Would be refused" }), "what would be refused");
  const breaks = page.getByRole("region", { name: "What would break" });
  await breaks.getByRole("link", { name: "shop.test" }).first().waitFor();
  const rows = await breaks.locator("tbody tr").evaluateAll((found) => found.map((row) => [0, 1, 2].map((at) => row.children[at].textContent).join(" | ")));
  assert.deepEqual(rows, [...new Set(rows)]);
  await breaks.getByText("http://shop.test/private/would-be").or(breaks.getByText("Disallow: /private")).first().waitFor();
  await breaks.getByRole("link", { name: "shop.test" }).first().click();
  await page.waitForFunction(() => [...document.querySelectorAll(".stream tbody .badge")].length > 0 && [...document.querySelectorAll(".stream tbody .badge")].every((badge) => badge.textContent === "observed"));
}

async function reasonsLeadToDecisions(page) {
  assert.equal(await crawl("http://shop.test/internal/a"), 403);
  // That of the first steps may be older than what is shown.
  assert.equal(await crawl("http://down.test/reasons"), 503);
  await visit(page, "overview");
  const reasons = page.getByRole("group", { name: "Requests by reason" });
  assert.match(await reasons.getByRole("link", { name: "unreachable" }).getAttribute("title"), /robots.txt cannot be fetched/);
  await reasons.getByText("robots.txt cannot be fetched").first().waitFor();
  const number = await rectOf(reasons.locator("tbody tr").first().locator("td").last());
  assert.ok(number.x + number.width < page.viewportSize().width, "the numbers of the reasons are out of sight");
  await reasons.getByRole("link", { name: "unreachable", exact: true }).click();
  await page.locator("main h1", { hasText: "Decisions" }).waitFor();
  await page.waitForFunction(() => [...document.querySelectorAll(".stream tbody tr")].length > 0 && [...document.querySelectorAll(".stream tbody .reason")].every((reason) => reason.textContent === "unreachable"));
  await page.getByText("unreachable: robots.txt cannot be fetched").waitFor();
  await page.locator(".stream .url a").first().click();
  await page.getByRole("link", { name: "← Decisions" }).click();
  await page.waitForFunction(() => document.querySelector("select[name=reason]")?.value === "unreachable");
  await page.locator("select[name=reason]").selectOption("");
  for (const word of ["HTTP 503", "contract 2026-17", "policy-rule"]) {
    await page.getByLabel("Search").fill(word);
    await page.waitForFunction((wanted) => {
      const rows = [...document.querySelectorAll(".stream tbody tr")];
      return rows.length > 0 && rows.every((row) => row.querySelector(".why").textContent.includes(wanted));
    }, word);
  }
}

async function theListIsStableUnderThePointer(page) {
  await visit(page, "decisions");
  await rows(page).first().hover();
  const first = await rows(page).first().getAttribute("id");
  await crawl("http://shop.test/private/beneath-the-pointer");
  await assertVisible(page.getByRole("button", { name: "Show 1 new" }), "what is new");
  assert.equal(await rows(page).first().getAttribute("id"), first);
  await page.mouse.move(2, 2);
  await page.locator(".stream .url a", { hasText: "/private/beneath-the-pointer" }).waitFor();
  await page.getByRole("button", { name: /^Show .* new$/ }).waitFor({ state: "hidden" });
}

async function theListIsFetchedOnceTheStreamIsOpen(page) {
  const order = [];
  const isAbout = (it, path) => new URL(it.url()).pathname === path;
  page.on("response", (response) => isAbout(response, "/v1/decisions/stream") && order.push("streamed"));
  page.on("request", (request) => isAbout(request, "/v1/decisions") && order.push("listed"));
  await visit(page, "decisions");
  await rows(page).first().waitFor();
  // Otherwise a decision made between the two would never be shown.
  assert.deepEqual(order, ["streamed", "listed"]);
}

async function longUrlsAreClamped(page) {
  await crawl(`http://shop.test/private/${"long_".repeat(600)}end`);
  await visit(page, "decisions?q=long_long_");
  await rows(page).first().waitFor();
  const { height } = await rectOf(rows(page).first());
  assert.ok(height < 90, `a row is ${height} pixels high`);
  assert.match(await page.locator(".stream .url a").first().innerText(), /shop\.test.* … .*end$/);
}

async function aPartOfTheChartIsShown(page) {
  await visit(page, "overview");
  await page.waitForFunction(() => /start at|reload at/.test(document.querySelector("figcaption .unseen")?.textContent ?? ""));
  await page.getByRole("heading", { name: "By crawler, last 5 minutes" }).waitFor();
  // Labels of marks that are close to each other are in rows of their own.
  const rows = await page.evaluate(async () => (await import("/assets/chart.js")).rowsOf([[0, 30], [10, 40], [20, 50], [35, 60], [70, 99]]));
  assert.deepEqual(rows, [0, 1, 2, 0, 0]);
  const { x, y, width, height } = await rectOf(page.locator(".canvas .u-over"));
  await page.mouse.move(x + width - 120, y + height / 2);
  await page.waitForFunction(() => / in total$/.test(document.querySelector("[data-total]").textContent));
  await page.mouse.down();
  await page.mouse.move(x + width - 30, y + height / 2, { steps: 4 });
  await page.mouse.up();
  await page.getByRole("heading", { name: /By crawler, \d\d:\d\d:\d\d to \d\d:\d\d:\d\d/ }).waitFor();
  assert.match(page.url(), /since=.*&until=/);
  await assertVisible(page.getByRole("button", { name: "Show all" }), "the way back");
  await page.getByRole("button", { name: "Show all" }).click();
  await page.getByRole("heading", { name: "By crawler, last 5 minutes" }).waitFor();
}

/** Passes bytes on to the admin listener until it is cut. */
function relay() {
  const { hostname, port } = new URL(ADMIN);
  const sockets = new Set();
  const server = net.createServer((client) => {
    const upstream = net.connect(Number(port), hostname);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => {}).on("close", () => (client.destroy(), upstream.destroy()));
    }
    client.pipe(upstream).pipe(client);
  });
  const cut = () => (server.close(), [...sockets].forEach((socket) => socket.destroy()));
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve({ url: `http://127.0.0.1:${server.address().port}`, cut })));
}

async function aLostConnectionIsSeen(page) {
  const { url, cut } = await relay();
  relayed = url;
  await page.goto(`${url}/#/overview`);
  await page.locator("#health.live").waitFor();
  // What has just appeared fades in.
  const looks = (is) => page.waitForFunction(`(${is})(Number(getComputedStyle(document.querySelector(".tile dd")).opacity))`);
  await looks("(opacity) => opacity === 1");
  cut();
  await page.locator("#health", { hasText: /no connection since \d\d:\d\d:\d\d/ }).waitFor();
  // Figures that are old do not look live.
  await looks("(opacity) => opacity < 0.7");
}

async function aCrawlerIsConnected(page) {
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await visit(page, "connect");
  const { ca_sha256: fingerprint, clients } = await (await fetch(`${ADMIN}/v1/connect`)).json();
  await assertVisible(page.getByText(fingerprint), "the fingerprint");
  // Further forms of the same variables follow.
  assert.equal(await page.getByRole("tab").count(), clients.length + 5);
  for (const { title, lines } of clients) {
    await page.getByRole("tab", { name: title, exact: true }).click();
    assert.equal(await page.locator("pre.snippet").textContent(), lines);
    await page.getByRole("tabpanel").getByRole("button", { name: /Cop/ }).click();
    await page.waitForFunction(async (wanted) => (await navigator.clipboard.readText()) === wanted, lines);
  }
  await page.getByRole("tab").last().press("ArrowRight");
  assert.equal(await page.getByRole("tab", { selected: true }).innerText(), clients[0].title);
  await page.goto(`${ADMIN}/#/connect?client=wget&proxy=http%3A%2F%2Felsewhere.example%3A3128&ca=%2Felsewhere.pem`);
  await page.locator("pre.snippet", { hasText: "wget" }).waitFor();
  assert.equal(await page.locator("pre.snippet").textContent(), clients.find(({ name }) => name === "wget").lines);
  assert.equal(await page.locator("input[name=proxy]").inputValue(), "");
  await page.locator("input[name=proxy]").fill("http://proxy.example:3128");
  await page.locator("input[name=proxy]").press("Enter");
  await page.locator("pre.snippet", { hasText: "http://proxy.example:3128" }).waitFor();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Download ca.pem" }).click()]);
  assert.match(fs.readFileSync(await download.path(), "utf8"), /^-----BEGIN CERTIFICATE-----/);
}

async function theFleetIsShown(page) {
  await visit(page, "fleet");
  await assertVisible(page.getByText("This proxy has no fleet"), "that the proxy has no fleet");
}

async function theValueUnderThePointerRemains(page) {
  await visit(page, "overview");
  const plot = page.locator(".canvas .u-over");
  const { x, y, width, height } = await rectOf(plot);
  await page.mouse.move(x + width - 6, y + height / 2);
  const value = page.locator(".key [data-value]").first();
  await page.waitForFunction(() => /\/s/.test(document.querySelector(".key [data-value]").textContent));
  // The value is there as long as the pointer rests, even when the chart is redrawn.
  await page.evaluate(() => {
    window.seen = [];
    new MutationObserver(() => requestAnimationFrame(() => window.seen.push(document.querySelector(".key [data-value]")?.textContent ?? "")))
      .observe(document.querySelector("figure.chart"), { childList: true });
  });
  await page.waitForFunction(() => window.seen.length >= 3);
  assert.ok((await page.evaluate(() => window.seen)).every((text) => /\/s/.test(text)), JSON.stringify(await page.evaluate(() => window.seen)));
  await page.mouse.move(2, 2);
  await page.waitForFunction(() => document.querySelector(".key [data-value]").textContent === "");
  assert.equal(await value.innerText(), "");
}

async function foreignTextIsEscaped(page) {
  assert.equal(await crawl("http://long.test/spoofed%E2%80%AEgnp.exe"), 403);
  await visit(page, "decisions?q=spoofed");
  await page.locator("td.why", { hasText: "\\u{202e}gnp.exe" }).first().waitFor();
  await page.locator(".stream .url a").first().click();
  await page.locator(".robots .decides", { hasText: "\\u{202e}gnp.exe" }).waitFor();
  assert.doesNotMatch(await page.evaluate(() => document.body.textContent), /\u202e/);
}

async function decisionsStream(page) {
  await visit(page, "decisions?outcome=all");
  await rows(page).first().waitFor();
  const link = (path) => page.locator(".stream .url a", { hasText: path });
  await crawl("http://shop.test/private/streamed");
  await link("/private/streamed").waitFor();
  await page.getByRole("button", { name: "Pause" }).click();
  await crawl("http://shop.test/private/held");
  await page.getByText("paused; 1 new").waitFor();
  assert.equal(await link("/private/held").count(), 0);
  await page.getByRole("button", { name: "Resume" }).click();
  await link("/private/held").waitFor();
  await page.getByLabel("Search").fill("only-this");
  await page.getByText("No recent decision matches.").waitFor();
  await crawl("http://shop.test/not-that");
  await crawl("http://shop.test/only-this");
  await link("/only-this").waitFor();
  assert.equal(await rows(page).count(), 1);
}

async function markupIsShownAsText(page) {
  await crawl("http://shop.test/private/<img/src=x/onerror=alert(1)>");
  await visit(page, "decisions");
  await page.locator(".stream .url a", { hasText: "<img/src=x/onerror=alert(1)>" }).first().waitFor();
  assert.equal(await page.locator("main img").count(), 0);
}

async function aDecisionIsExplained(page) {
  await visit(page, "decisions?q=private%2Fstreamed");
  await page.locator(".stream .url a", { hasText: "/private/streamed" }).click();
  const marked = page.locator(".robots .decides");
  await marked.waitFor();
  assert.match(await marked.innerText(), /Disallow: \/private/);
  assert.match(await marked.innerText(), /decides: disallow/);
  const used = await text(page.locator(".robots .used code"));
  assert.deepEqual(used.map((line) => line.trim()), ["User-agent: NewsBot", "Disallow: /private", "Allow: /private/press"]);
  const facts = await page.locator("main").innerText();
  for (const words of ["line 3 of robots.txt", "news, client 127.0.0.1", "Group used\nNewsBot", "SHA-256", "Fetched or confirmed", "rfc9309"]) {
    assert.ok(facts.includes(words), `${words} in ${facts}`);
  }
  await page.getByText("The last fetch").click();
  await page.getByText("200 from http://shop.test/robots.txt (successful)").waitFor();
  await page.getByRole("link", { name: "Try this URL" }).click();
  await page.locator("table.dialects").waitFor();
}

async function aMissingDecisionIsReported(page) {
  await visit(page, `decisions/${"0".repeat(32)}`);
  await page.locator("#alert", { hasText: "there is no such decision, or it is no longer kept" }).waitFor();
}

async function originsAreFoundRefreshedAndForgotten(page) {
  await visit(page, "origins");
  const row = (name) => page.locator("main tbody tr", { hasText: name });
  await row("http://shop.test").waitFor();
  assert.equal(await page.locator("main tbody button").count(), 0);
  await page.locator("select[name=state]").selectOption("unreachable");
  await row("http://down.test").waitFor();
  await row("http://shop.test").waitFor({ state: "detached" });
  await page.locator("select[name=state]").selectOption("");
  await page.getByLabel("Search").fill("museum");
  await row("http://shop.test").waitFor({ state: "detached" });
  await row("http://museum.test").getByRole("link").click();
  await page.getByRole("button", { name: "Forget" }).click();
  await page.getByRole("button", { name: "Keep it" }).click();
  await page.locator("main h1", { hasText: "http://museum.test" }).waitFor();
  await page.getByRole("button", { name: "Forget" }).click();
  await page.getByRole("button", { name: "Forget it" }).click();
  await page.locator("main h1", { hasText: "Origins" }).waitFor();
  await row("http://shop.test").waitFor();
  assert.equal(await row("http://museum.test").count(), 0);
  await row("http://shop.test").getByRole("link").first().click();
  await page.locator(".robots code", { hasText: "Disallow: /images" }).waitFor();
  const facts = await page.locator("main").innerText();
  for (const words of ["Fresh until", "History", "200 from http://shop.test/robots.txt"]) assert.ok(facts.toLowerCase().includes(words.toLowerCase()) || words === "History", `${words} in ${facts}`);
  await page.getByRole("button", { name: "Refresh" }).click();
  await page.locator(".robots code", { hasText: "Disallow: /images" }).waitFor();
}

async function changesOfRobotsTxtAreShown(page) {
  await visit(page, `origins/${encodeURIComponent("http://changing.test")}`);
  const history = page.getByRole("group", { name: "History of robots.txt" });
  await history.locator("thead th").first().waitFor();
  assert.deepEqual((await text(history.locator("thead th"))).slice(0, 2).map((name) => name.toLowerCase()), ["in force from", "until"]);
  // The old version was in force until the new one was seen, whenever it was last confirmed.
  const [young, old] = await text(history.locator("tbody tr"));
  assert.match(young, /now\s+confirmed/);
  assert.equal(old.match(/[\d:]{8}/g)[1], young.match(/[\d:]{8}/)[0]);
  await page.getByRole("button", { name: /^Changes of/ }).click();
  const lines = page.locator(".diff li");
  await lines.first().waitFor();
  assert.deepEqual(await page.locator(".diff .removed code").allInnerTexts(), ["Disallow: /old"]);
  assert.deepEqual(await page.locator(".diff .added code").allInnerTexts(), ["Disallow: /new", "Disallow: /newer"]);
  assert.ok((await page.locator(".diff .same code").allInnerTexts()).includes("User-agent: *"));
}

async function decisionsReachBack(page) {
  await visit(page, "decisions");
  await rows(page).first().waitFor();
  await page.getByLabel("Host").fill("changing.test");
  await page.getByLabel("From (UTC)").fill("2020-01-01T00:00:01");
  await page.getByText("from the decision log").waitFor();
  await rows(page).first().waitFor();
  const links = () => text(page.locator(".stream tbody .url a"));
  assert.ok((await links()).every((it) => it.includes("//changing.test")), await links());
  const files = {};
  for (const name of ["CSV", "JSON"]) {
    const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name, exact: true }).click()]);
    files[name] = fs.readFileSync(await file.path(), "utf8");
  }
  const table = files.CSV.trimEnd().split("\r\n");
  const array = JSON.parse(files.JSON);
  assert.match(table[0], /^at,outcome,status,/);
  assert.equal(table.length - 1, array.length);
  assert.ok(array.length > 0 && array.every((it) => it.url.startsWith("http://changing.test/") && it.prev_sha256), files.JSON);
  await page.getByLabel("Until (UTC)").fill("2020-01-02T00:00:01");
  await page.getByText("No decision of that time matches.").waitFor();
}

async function aUrlIsTriedInEveryDialect(page) {
  await visit(page, "try");
  await page.getByRole("textbox", { name: "URL" }).fill("http://museum.test/halls/west");
  await page.getByRole("textbox", { name: "User-Agent" }).fill("VisitorBot/1");
  await page.keyboard.press("Enter");
  const reading = (dialect) => page.locator(`tr[data-dialect="${dialect}"]`);
  await reading("strictest").waitFor();
  const verdicts = await text(page.locator("table.dialects tbody .badge"));
  assert.deepEqual(verdicts, ["allow", "allow", "disallow", "disallow", "disallow"]);
  assert.match(await page.locator(".robots .decides").innerText(), /Allow: \/halls\/west/);
  await reading("koster1996").getByRole("button").click();
  assert.match(await page.locator(".robots .decides").innerText(), /Disallow: \/halls/);
  await page.locator("select[name=dialect]").selectOption("strictest");
  await page.getByRole("button", { name: "Try it" }).click();
  await page.locator(".verdict.refused").waitFor();
  await page.locator("select[name=crawler]").selectOption("news");
  await page.getByRole("textbox", { name: "URL" }).fill("http://shop.test/internal/x");
  await page.getByRole("button", { name: "Try it" }).click();
  await page.getByText("[[rule]] 1").first().waitFor();
  await page.getByRole("textbox", { name: "URL" }).fill("gopher://shop.test/");
  await page.getByRole("button", { name: "Try it" }).click();
  await page.locator("#alert").waitFor();
}

async function onlyTheLastUrlIsTried(page) {
  await visit(page, "try");
  const ask = async (url) => {
    await page.getByRole("textbox", { name: "URL" }).fill(url);
    await page.getByRole("button", { name: "Try it" }).click();
  };
  const asked = nextRequest(page, "/v1/decision");
  await ask("http://shop.test/internal/first");
  const first = await asked;
  await ask("http://news.test/second");
  await page.locator(".verdict.forwarded").waitFor();
  // The page asks for the text of robots.txt once it has the decision.
  const text = page.waitForResponse((response) => response.url().endsWith(`/v1/robots/${encodeURIComponent("http://shop.test")}`));
  await first.continue();
  await (await text).finished();
  await page.evaluate(() => new Promise(requestAnimationFrame));
  assert.deepEqual(await page.locator(".verdict").evaluateAll((found) => found.map(({ className }) => className)), ["verdict forwarded"]);
}

async function theConfigurationIsShownAndReloaded(page) {
  await visit(page, "configuration");
  await page.locator("pre").waitFor();
  const toml = await page.locator("pre").innerText();
  assert.match(toml, /name = "news"/);
  assert.match(toml, /password_hash = "\(not shown\)"/);
  assert.doesNotMatch(toml, /argon2/);
  await page.getByText("version 1").waitFor();
  await page.getByRole("button", { name: "Reload the file" }).click();
  await page.getByText("Reloaded: version 2 is in use.").waitFor();
  const rules = await page.getByRole("group", { name: "Rules", exact: true }).innerText();
  for (const words of ["refusal", "exception", "data@example.com", "/internal/", "expired"]) assert.match(rules, new RegExp(words));
  const sound = fs.readFileSync(CONFIG, "utf8");
  fs.writeFileSync(CONFIG, `nonsense = 1\n${sound}`);
  await page.getByRole("button", { name: "Reload the file" }).click();
  await page.locator("#alert", { hasText: "nonsense: unknown key" }).waitFor();
  fs.writeFileSync(CONFIG, sound);
  await page.getByRole("button", { name: "Reload the file" }).click();
  await page.getByText(/Reloaded: version \d is in use/).waitFor();
}

async function aChangeIsReplayed(page) {
  await visit(page, "replay");
  await page.getByLabel("Hosts of the rule").fill("shop.test");
  await page.getByLabel("Paths of the rule").fill("/catalogue/");
  await page.getByRole("button", { name: "Replay", exact: true }).click();
  await page.getByText(/decisions: .* newly refused/).waitFor();
  const refused = await page.getByRole("group", { name: "Newly refused" }).innerText();
  assert.match(refused, /shop\.test/);
  assert.match(refused, /\[\[rule\]\] 1/);
  assert.match(refused, /http:\/\/shop\.test\/catalogue\//);
  await page.getByLabel("Hosts of the rule").fill("not a host");
  await page.getByRole("button", { name: "Replay", exact: true }).click();
  await page.locator("#alert", { hasText: "[[rule]] 1" }).waitFor();
}

async function theKeyboardReachesEverything(page) {
  await visit(page, "overview");
  await page.evaluate(() => document.activeElement.blur());
  const focused = () => page.evaluate(() => document.activeElement.textContent.trim());
  const press = async (key, until) => {
    for (let times = 0; (await focused()) !== until; times += 1) {
      assert.ok(times < 60, `${key} never leads to ${until}`);
      await page.keyboard.press(key);
    }
  };
  await press("Tab", "Skip to the content");
  await press("Tab", "Decisions");
  await page.keyboard.press("Enter");
  await page.locator("main h1", { hasText: "Decisions" }).waitFor();
  const last = page.locator(".stream .url a").first();
  await last.waitFor();
  await page.getByRole("button", { name: "Pause" }).focus();
  await page.keyboard.press("Enter");
  const url = await last.innerText();
  await press("Tab", url);
  await page.keyboard.press("Enter");
  await page.locator("main h1", { hasText: /^Decision$/ }).waitFor();
  await page.getByText(`GET ${url}`).first().waitFor();
}

async function theTokenIsRequested(page) {
  await page.goto(`${TOKEN_ADMIN}/#/overview`);
  await page.locator("dialog#token[open]").waitFor();
  await page.locator("dialog#token input").fill("wrong");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.locator("dialog#token[open]", { hasText: "This is not a token of this proxy: its SHA-256 is not in [admin]." }).waitFor();
  assert.equal(await page.locator("dialog#token input").inputValue(), "");
  await page.locator("dialog#token input").fill(TOKEN);
  await page.getByRole("button", { name: "Continue" }).click();
  await page.locator("#health.live").waitFor();
  await page.locator("main h1", { hasText: "Overview" }).waitFor();
  await page.getByText("No exception expires within 30 days.").waitFor();
}

async function theBasisOfADecisionIsShown(page) {
  assert.equal(await crawl("http://usage.test/page", "TrainerBot/1"), 403);
  await visit(page, "decisions?q=usage.test/page");
  const statement = /^Content-Usage: train-ai=n/;
  await rows(page).first().waitFor();
  assert.match(await page.locator(".stream .why .clamp").first().innerText(), statement);
  await page.locator(".stream .url a").first().click();
  await page.locator(".verdict").waitFor();
  assert.match((await page.locator(".verdict").innerText()).replace("Refused with 403: ", ""), statement);
  assert.match(await page.locator(".facts").nth(1).innerText(), /trainer, client 127/);
  assert.equal(await crawl("http://gone.test/page", "Visitor/1"), 200);
  await visit(page, "decisions?q=gone.test/page");
  await page.getByText("there is no robots.txt (4xx)").first().waitFor();
  await page.locator(".stream .url a").first().click();
  await page.getByText("unnamed: matches no [[crawler]], judged by its User-Agent").waitFor();
  await page.getByText("The origin answered that it has no robots.txt.").waitFor();
  assert.equal(await crawl("http://down.test/page", "Visitor/1"), 503);
  await visit(page, "decisions?q=down.test/page");
  await page.locator(".stream .url a").first().click();
  await page.getByText("This origin has never answered with a robots.txt.").waitFor();
  assert.match(await page.locator(".explained section").first().innerText(), /Reason\s+unreachable: robots.txt cannot be fetched, and there is no usable copy\. what this means\n/);
}

async function documentsAreListedBelowRobotsTxt(page) {
  assert.equal(await crawl("http://news.test/document", "TrainerBot/1"), 200);
  await visit(page, `origins/${encodeURIComponent("http://news.test")}`);
  const titles = page.locator("main .pair > section > h2");
  await titles.nth(2).waitFor();
  assert.deepEqual(await text(titles), ["Current state", "Robots.txt", "http://news.test/.well-known/tdmrep.json"]);
}

/** Cards on a phone: each value is beside its label and as wide as it needs, and the header scrolls away. */
async function assertCardsAreReadable(page) {
  const faults = await page.evaluate(() => {
    const pen = document.createElement("canvas").getContext("2d");
    const found = [];
    for (const cell of document.querySelectorAll(".crawlers tbody th, .crawlers tbody td")) {
      const { gridTemplateColumns: columns, font } = getComputedStyle(cell);
      pen.font = font;
      if (pen.measureText(cell.dataset.label).width > parseFloat(columns)) found.push(`${cell.dataset.label} runs into its value`);
      const left = cell.getBoundingClientRect().left + parseFloat(columns);
      for (const value of cell.children) if (value.getBoundingClientRect().left < left) found.push(`${value.textContent} is below its label`);
    }
    for (const badge of document.querySelectorAll(".crawlers .badge")) if (badge.offsetWidth > 120) found.push(`${badge.textContent} is stretched`);
    for (const line of document.querySelectorAll(".crawlers .line")) if (line.scrollWidth > line.clientWidth) found.push(`${line.textContent} is cut`);
    scrollTo(0, 400);
    if (document.querySelector("body > header").getBoundingClientRect().bottom > 0) found.push("the header does not scroll away");
    scrollTo(0, 0);
    return [...new Set(found)];
  });
  assert.deepEqual(faults, []);
}

/** Fails if axe-core finds a fault of the document, by all of its rules unless `options` say otherwise. */
async function assertAccessible(page, name, options = {}) {
  // Evaluated by the debugger, because the page's own policy blocks it; once for a document, whatever it shows.
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
  const { violations } = await page.evaluate((chosen) => window.axe.run(document, { resultTypes: ["violations"], ...chosen }), options);
  const faults = violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.target} ${node.failureSummary}`).join("; ")}`);
  assert.deepEqual(faults, [], name);
}

/** Returns the views to take screenshots of and to check with axe-core. */
async function places() {
  const answer = await (await fetch(`${ADMIN}/v1/decisions?q=private/streamed`)).json();
  const preference = await (await fetch(`${ADMIN}/v1/decisions?reason=preference`)).json();
  return {
    overview: "overview",
    crawlers: "crawlers",
    fleet: "fleet",
    changes: "changes",
    politeness: "politeness",
    preference: `decisions/${preference.decisions[0].id}`,
    connect: "connect",
    decisions: "decisions",
    decision: `decisions/${answer.decisions[0].id}`,
    origins: "origins",
    origin: `origins/${encodeURIComponent("http://shop.test")}`,
    try: "try?url=http%3A%2F%2Fmuseum.test%2Fhalls%2Fwest&user_agent=VisitorBot%2F1",
    configuration: "configuration",
    replay: "replay",
  };
}

async function settled(page, name) {
  const title = { connect: "Connect a crawler", decision: "Decision", preference: "Decision", origin: "http://shop.test", try: "Try a URL" }[name] ?? name;
  await page.locator("main h1", { hasText: new RegExp(`^${title}$`, "i") }).waitFor();
  await page.locator("main:not([aria-busy])").waitFor();
  await page.locator("#health.live").waitFor();
  // No colour is changing any more.
  await page.waitForFunction(() => document.getAnimations().length === 0);
}

async function picturesAndAccessibility(browser) {
  const kinds = {
    light: { colorScheme: "light" },
    // The same elements in the same places: only the colours are others.
    dark: { colorScheme: "dark" },
    phone: { colorScheme: "light", viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true },
  };
  for (const [kind, options] of Object.entries(kinds)) {
    const page = await open(browser, options);
    await page.goto(`${ADMIN}/`);
    for (const [name, place] of Object.entries(await places())) {
      await page.goto(`${ADMIN}/#/${place}`);
      await settled(page, name);
      if (SCREENSHOTS) await page.screenshot({ path: `${PICTURES}/${name}-${kind}.png`, fullPage: name !== "decisions" });
      if (kind === "phone" && name === "crawlers") await assertCardsAreReadable(page);
      if (kind === "phone" && name === "decisions") await assertVisible(rows(page).first().locator("td").first(), "the first decision");
      const isWide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
      assert.ok(!isWide, `${name} is wider than a ${kind} screen`);
      const cut = await page.evaluate(() => [...document.querySelectorAll(".scroll")].filter((box) => box.scrollWidth > box.clientWidth + 1).map((box) => box.getAttribute("aria-label")));
      const hidden = await page.evaluate(() => [...document.querySelectorAll(".robots .mark")].filter((mark) => mark.getBoundingClientRect().right > mark.closest(".robots").getBoundingClientRect().right).map((mark) => mark.textContent));
      assert.deepEqual(hidden, [], `marks of ${name} are cut on a ${kind} screen`);
      assert.deepEqual(cut, [], `tables of ${name} are cut on a ${kind} screen`);
      await assertAccessible(page, `${name}, ${kind}`, kind === "dark" ? { runOnly: ["color-contrast", "link-in-text-block"] } : {});
    }
    await page.context().close();
  }
}

(async () => {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-gpu", "--no-first-run"] });
  await sendTraffic(120);
  const steps = [
    overview, oneRangeHoldsForEveryView, aClickOnAHeadSorts, theNavigationIsNeverCut, theChartMoves, refusalsAreListedFirst, decisionsAreFilteredAndSearched, onlyTheLastChoiceIsListed, decisionsStream, markupIsShownAsText, aDecisionIsExplained,
    aMissingDecisionIsReported, originsAreFoundRefreshedAndForgotten, aUrlIsTriedInEveryDialect, onlyTheLastUrlIsTried, theConfigurationIsShownAndReloaded, aChangeIsReplayed,
    theKeyboardReachesEverything, theTokenIsRequested, theDecidingLineIsInView, everyCrawlerIsCounted, everyCrawlerIsListed, observedIsShown, reasonsLeadToDecisions,
    theListIsStableUnderThePointer, theListIsFetchedOnceTheStreamIsOpen, longUrlsAreClamped, aPartOfTheChartIsShown, aLostConnectionIsSeen, aCrawlerIsConnected, theFleetIsShown, theValueUnderThePointerRemains, foreignTextIsEscaped, changesOfRobotsTxtAreShown,
    enforcementIsKnownToBeSafe, unnamedCrawlersAreNamed, namesOfOthersAreNotOffered, problemsAreShownOnEveryView, decisionsReachBack, theBasisOfADecisionIsShown, documentsAreListedBelowRobotsTxt,
    ...require("./page_views.cjs")({ ADMIN, CONFIG, CURL, FRESH, FRESH_PROXY, SNIPPET, TEAM_TOKEN, TOKEN_ADMIN, assertAccessible, assertVisible, crawl, recorded, text, visit }),
  ];
  for (const step of steps.filter(({ name }) => !STEPS || STEPS.split(",").includes(name))) {
    const page = await open(browser);
    // Nothing that comes at all takes this long.
    page.setDefaultTimeout(STEPS ? 20_000 : 120_000);
    try {
      await step(page);
    } catch (error) {
      await page.screenshot({ path: `${PICTURES}/failed-${step.name}.png`, fullPage: true });
      throw new Error(`${step.name}: ${error.stack}\n${complaints.join("\n")}`);
    }
    await page.context().close();
    console.log(step.name);
  }
  if (!STEPS) {
    await sendTraffic(60);
    await picturesAndAccessibility(browser);
    console.log("picturesAndAccessibility");
  }
  assert.deepEqual(complaints, []);
  console.log("noComplaints");
  await browser.close();
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
