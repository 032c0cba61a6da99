// Steps of page.cjs about single views: which line decided, what changed, exceptions, connecting, politeness, documentation.

const assert = require("node:assert/strict");
const fs = require("node:fs");
const net = require("node:net");
const path = require("node:path");
const tls = require("node:tls");
const { execFile } = require("node:child_process");

const count = (number) => number.toLocaleString("en");

/** Returns the steps; `tools` are functions of page.cjs. */
module.exports = ({ ADMIN, CONFIG, CURL, FRESH, FRESH_PROXY, SNIPPET, TEAM_TOKEN, TOKEN_ADMIN, assertAccessible, assertVisible, crawl, recorded, text, visit }) => {
  const lines = async (page, kind) => (await text(page.locator(`.robots .${kind}`))).map((line) => line.replace(/\s+/g, " ").trim());

  /** Opens the newest decision about a URL. */
  async function openDecision(page, url) {
    await visit(page, `decisions/${(await recorded(url))[0].id}`);
    await page.locator(".verdict").waitFor();
  }

  async function theLineThatDecidedIsMarked(page) {
    assert.equal(await crawl("http://usage.test/marked", "TrainerBot/1"), 403);
    await openDecision(page, "http://usage.test/marked");
    assert.deepEqual(await lines(page, "decides"), ["2 Content-Usage: train-ai=n decides: train-ai is refused"]);
    assert.deepEqual(await lines(page, "overridden"), ["3 Allow: / allow, but refused: preference"]);
    await visit(page, "try?url=http%3A%2F%2Fusage.test%2Fmarked&crawler=trainer");
    await page.locator(".robots .decides.disallow").waitFor();
    assert.deepEqual(await lines(page, "decides"), ["2 Content-Usage: train-ai=n decides: train-ai is refused"]);
    assert.doesNotMatch(await page.locator("main").innerText(), /decides: allow/);

    assert.equal(await crawl("http://slow.test/a", "Visitor/1"), 200);
    assert.equal(await crawl("http://slow.test/b", "Visitor/1"), 429);
    await openDecision(page, "http://slow.test/b");
    assert.deepEqual(await lines(page, "decides"), ["2 Crawl-delay: 300 decides: too soon after the last request"]);
    assert.deepEqual(await lines(page, "overridden"), ["3 Allow: / allow, but refused: crawl-delay"]);

    await visit(page, "try?url=http%3A%2F%2Ffeeds.partner.test%2F&user_agent=Visitor%2F1");
    const overridden = "2 Disallow: / would have decided: disallow; overridden by rule 3";
    await page.locator(".robots .overridden").waitFor();
    assert.deepEqual([await lines(page, "decides"), await lines(page, "overridden")], [[], [overridden]]);
    // Its robots.txt is known now.
    assert.equal(await crawl("http://feeds.partner.test/marked", "Visitor/1"), 200);
    await openDecision(page, "http://feeds.partner.test/marked");
    await page.getByText("robots.txt was not consulted.").waitFor();
    assert.deepEqual([await lines(page, "decides"), await lines(page, "overridden")], [[], [overridden]]);
  }

  async function aDecisionSaysItsReasonOnce(page) {
    assert.equal(await crawl("http://shop.test/private/once"), 403);
    await openDecision(page, "http://shop.test/private/once");
    const what = page.locator(".explained section").first();
    assert.deepEqual(await text(what.locator("h3")), ["Who", "Why", "Timing"]);
    const said = await what.innerText();
    assert.equal(said.split("Disallow: /private").length - 1, 1, said);
    const reason = what.locator(".facts > div", { hasText: /^Reason/ });
    assert.match(await reason.innerText(), /^Reason\s+rule: a rule of the crawler's group in robots\.txt\. what this means$/);
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.getByRole("button", { name: "Copy link" }).click();
    await page.waitForFunction(async () => (await navigator.clipboard.readText()) === location.href);
  }

  async function ownersAreWrittenTo(page) {
    /** The parts of the only link to write to somebody in it, or null. */
    const mail = async (place) => {
      const links = await place.locator("a[href^='mailto:' i]").evaluateAll((found) => found.map((link) => [link.textContent, link.getAttribute("href")]));
      if (!links.length) return null;
      assert.equal(links.length, 1);
      const [shown, href] = links[0];
      const { pathname, searchParams, hash } = new URL(href);
      assert.deepEqual([[...searchParams.keys()], hash], [["subject"], ""], href);
      return { shown, to: pathname, subject: searchParams.get("subject") };
    };
    await visit(page, "crawlers?since=1h");
    const row = (name) => page.locator("main tbody tr").filter({ has: page.getByRole("link", { name, exact: true }) });
    await row("news").waitFor();
    assert.deepEqual(await mail(row("news")), { shown: "desk+bots@example.com", to: "desk%2Bbots@example.com", subject: "wayleave news" });
    await row("team-3").getByText("data?bcc=x@example.org").waitFor();
    await row("team-9").getByText("data@example.com\\u{2028}bcc:x@example.org").waitFor();
    // The others are teams, or not plainly addresses.
    assert.equal(await page.locator("main a[href^='mailto:' i]").count(), 1);
    const url = "http://shop.test/private/%0D%0Abcc:x?a=1&bcc=x@example.org&body=%22";
    assert.equal(await crawl(url), 403);
    await openDecision(page, "body=%22");
    const { shown, subject } = await mail(page.locator(".facts > div", { hasText: /^Owner/ }));
    assert.deepEqual([shown, subject], ["desk+bots@example.com", `wayleave news ${url}`]);
    assert.equal(await crawl(`http://shop.test/internal/${"long_".repeat(600)}`), 403);
    await openDecision(page, "internal/long_long_");
    const rule = await mail(page.locator(".facts > div", { hasText: /^Organisation's rule/ }));
    assert.match(rule.subject, /^wayleave \[\[rule\]\] 1 news http:\/\/shop\.test\/internal\/(long_)+/);
    assert.equal([rule.to, rule.subject.length].join(), "legal@example.com,200");
    await visit(page, "configuration");
    const rules = page.getByRole("group", { name: "Rules", exact: true }).locator("tbody tr");
    await rules.first().waitFor();
    assert.deepEqual(await mail(rules.nth(1)), { shown: "data@example.com", to: "data@example.com", subject: "wayleave [[rule]] 2 shop.test" });
    await visit(page, "overview");
    const exceptions = page.getByRole("group", { name: /Exceptions that expire/ }).locator("tbody tr", { hasText: "shop.test" });
    await exceptions.waitFor();
    assert.equal((await mail(exceptions)).subject, "wayleave [[rule]] 2 shop.test");
  }

  async function aRefusalBecomesAnException(page) {
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    assert.equal(await crawl("http://shop.test/private/$a*?q=\"1"), 403);
    await openDecision(page, "/private/$a*");
    await page.getByText("Make an exception").click();
    await page.getByText("Still to fill in: owner, reason, expiry.").waitFor();
    const unfilled = await page.locator(".exception pre").textContent();
    await page.getByLabel("Owner").fill("data@example.com");
    await page.getByLabel("Reason", { exact: true }).fill("agreed \"by\" mail");
    await page.getByLabel("Expires").fill("2100-01-31");
    await page.getByText(/Paste it into \/.+\.toml and save: the proxy reads it again by itself\./).waitFor();
    await page.getByText(/A path that ends in \$ matches this URL only, exactly as it is, with its query\./).waitFor();
    assert.equal(await page.getByText(/"asserted" stands for every unnamed crawler/).count(), 0);
    await page.getByRole("button", { name: "Copy the rule" }).click();
    const filled = await page.locator(".exception pre").textContent();
    await page.waitForFunction(async (wanted) => (await navigator.clipboard.readText()) === wanted, filled);
    assert.match(filled, /^paths = \["\/private\/%24a%2A\?q=(%22|\\")1\$"\]$/m);
    // The test runs `wayleave config check` on both.
    fs.writeFileSync(SNIPPET, filled);
    fs.writeFileSync(`${SNIPPET}.unfilled`, unfilled);
    // What is no matter of robots.txt has no exception.
    assert.equal(await crawl("http://shop.test/internal/none"), 403);
    await openDecision(page, "http://shop.test/internal/none");
    assert.equal(await page.getByText("Make an exception").count(), 0);
  }

  async function changesOfAllOriginsAreListed(page) {
    await visit(page, "changes");
    const row = page.locator("table.changes tbody tr", { hasText: "http://changing.test" });
    await row.first().waitFor();
    assert.match((await row.first().innerText()).replace(/\s+/g, " "), /^http:\/\/changing\.test \S+ \(.* ago\) opens and closes 1 1 2 2 URLs$/);
    await row.first().getByText("2 URLs").click();
    assert.deepEqual(await text(row.first().locator("li")), ["disallow http://changing.test/new", "allow http://changing.test/old"]);
    await page.locator("select[name=effect]").selectOption("neutral");
    await page.getByText("No change had this effect.").waitFor();
    await page.locator("select[name=effect]").selectOption("closes");
    await page.locator("select[name=since]").selectOption("7d");
    await row.first().waitFor();
    assert.match(page.url(), /#\/changes\?since=7d&effect=closes$/);
    await row.first().getByRole("link", { name: "http://changing.test", exact: true }).click();
    // The link opens the difference.
    await page.locator(".diff .removed", { hasText: "Disallow: /old" }).waitFor();
  }

  async function reasonsLeadToDocuments(page) {
    // That of earlier steps may be older than what is shown.
    assert.equal(await crawl("http://down.test/documents"), 503);
    await visit(page, "overview");
    const link = page.getByTitle("Documentation of unreachable");
    await link.waitFor();
    assert.equal(await link.getAttribute("href"), "/docs/refusals.md#unreachable");
    await visit(page, "decisions?reason=crawl-delay");
    assert.equal(await page.getByTitle("Documentation of crawl-delay").getAttribute("href"), "/docs/refusals.md#crawl-delay");
    // Each reason, for each outcome that it can have, has a paragraph of its own.
    const links = await page.evaluate(async () => {
      const [{ REASONS }, { reasonDocs }] = await Promise.all([import("/assets/reasons.js"), import("/assets/docs.js")]);
      const both = (reason) => ["refused", "forwarded"].map((outcome) => [reason, reasonDocs(reason, outcome).getAttribute("href")]);
      return REASONS.flatMap(both);
    });
    assert.ok(links.length > 100, `${links.length}`);
    const documents = new Map();
    for (const [reason, link] of links) {
      const [path, anchor] = link.split("#");
      if (!documents.has(path)) documents.set(path, await (await fetch(`${ADMIN}${path}`)).text());
      assert.equal(anchor, reason);
      assert.ok(documents.get(path).includes(` id="${anchor}"`), link);
    }
    const all = page.getByRole("link", { name: "Documentation", exact: true });
    assert.equal(await all.getAttribute("href"), "/docs/");
    // This proxy has a copy of the documentation elsewhere.
    await page.goto(`${FRESH}/#/decisions?reason=rule`);
    const elsewhere = page.getByTitle("Documentation of rule");
    await elsewhere.waitFor();
    assert.equal(await elsewhere.getAttribute("href"), "https://wiki.example/wayleave/docs/refusals.md#rule");
    assert.equal(await all.getAttribute("href"), "https://wiki.example/wayleave/docs/");
  }

  /** They are read at any width, also without a mouse. */
  async function documentsAreReadAsPages(page) {
    await page.goto(`${ADMIN}/docs/`);
    const rows = page.locator("main tbody tr");
    assert.deepEqual(await text(page.locator("thead th")), ["for", "read"]);
    assert.ok((await rows.count()) > 5);
    const found = await page.locator("main a").evaluateAll((links) => links.map((link) => link.href));
    assert.ok(found.length > 15, `${found}`);
    for (const link of [page.url(), `${ADMIN}/docs/config.toml`, ...found]) {
      await page.goto(link);
      await assertAccessible(page, link);
      for (const width of [320, 360, 640, 900, 1280, 1920]) {
        await page.setViewportSize({ width, height: 900 });
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${link} is wider than ${width} px`);
        const cut = await page.evaluate(() => [...document.querySelectorAll(".document .scroll")].filter((box) => box.scrollWidth > box.clientWidth).map((box) => box.getAttribute("aria-label")));
        if (width < 640) assert.deepEqual(cut, [], `tables of ${link} at ${width} px`);
      }
    }
    await page.setViewportSize({ width: 1280, height: 900 });
    await page.goto(`${ADMIN}/docs/`);
    await page.getByRole("link", { name: "refusals", exact: true }).click();
    await page.getByRole("heading", { name: "Refusals", exact: true }).waitFor();
    await page.goto(`${ADMIN}/docs/refusals.md#foreign-token`);
    await assertVisible(page.locator("[id='foreign-token']"), "the reason");
  }

  /** The numbers of an origin are its own, not those of its host, and they are those of the log. */
  async function originsAreCountedOneByOne(page) {
    for (let number = 0; number < 5; number += 1) await crawl(`http://shop.test:8080/private/${number}`, number < 3 ? "NewsBot/2" : "ImageBot/1");
    await crawl("http://shop.test/private/one-by-one");
    await recorded("shop.test/private/one-by-one");
    await visit(page, "origins?since=1h");
    const logged = (origin, outcome) => fs.readFileSync(`${path.dirname(CONFIG)}/state/decisions.jsonl`, "utf8").split("\n")
      .filter((line) => line.includes(`"origin":"${origin}"`) && line.includes(`"outcome":"${outcome}"`)).length;
    for (const origin of ["http://shop.test:8080", "http://shop.test"]) {
      const row = page.locator("main tbody tr").filter({ has: page.getByRole("link", { name: origin, exact: true }) });
      // Counts are kept for two seconds at least.
      for (;;) {
        await row.waitFor();
        const wanted = ["refused", "observed"].map((outcome) => count(logged(origin, outcome)));
        if (String((await text(row.locator("td.number"))).slice(0, 2)) === String(wanted)) break;
        await page.reload();
      }
      assert.ok(logged(origin, "refused") > 0 && logged(origin, "observed") > 0, origin);
      const links = await row.locator("td.number a").evaluateAll((found) => found.map((link) => link.hash));
      for (const hash of links) {
        const listed = await (await fetch(`${ADMIN}/v1/decisions${hash.slice(hash.indexOf("?"))}&limit=1000`)).json();
        assert.deepEqual([...new Set(listed.decisions.map((one) => one.origin))], [origin], hash);
      }
    }
    assert.equal(logged("http://shop.test:8080", "refused"), 3);
  }

  /** What a count links to is what it counts, also where another rule has the same text or another host the same rule. */
  async function aCountOfARuleOpensItsDecisions(page) {
    for (const url of ["http://shop.test/private/counted", "http://shop.test/images/counted", "http://shop.test/internal/counted", "http://changing.test/both"]) {
      await crawl(url, "ImageBot/1");
      await crawl(url, "NewsBot/2");
    }
    assert.equal(await crawl("http://usage.test/counted", "TrainerBot/1"), 403);
    const [{ id }] = await recorded("http://usage.test/counted");
    const isLogged = () => fs.readFileSync(`${path.dirname(CONFIG)}/state/decisions.jsonl`, "utf8").includes(id);
    while (!isLogged()) await new Promise(setImmediate);
    // Counts are kept for two seconds at least.
    const logged = new Date().toISOString();
    for (let counted = ""; counted <= logged;) counted = (await (await fetch(`${ADMIN}/v1/overview?since=1h`)).json()).counted_at;
    await visit(page, "overview?since=1h");
    const rules = page.getByRole("region", { name: /Most refused by rule/ });
    const breaks = page.getByRole("region", { name: "What would break" });
    await breaks.locator("tbody tr").first().waitFor();
    const cells = await rules.or(breaks).locator("td.number").evaluateAll((found) => found.map((cell) => [cell.innerText, cell.querySelector("a")?.hash ?? ""]));
    const counted = cells.filter(([, hash]) => hash);
    assert.ok(counted.length >= 6, `${cells}`);
    for (const [number, hash] of counted) {
      const { decisions } = await (await fetch(`${ADMIN}/v1/decisions${hash.slice(hash.indexOf("?"))}&limit=8192`)).json();
      assert.equal(count(decisions.length), number, hash);
    }
    const [, hash] = counted[0];
    await page.goto(`${ADMIN}/${hash}`);
    await page.locator(".stream tbody tr").first().waitFor();
    const only = page.locator(".note", { hasText: /^Only by / });
    await only.getByRole("button", { name: "By any rule" }).click();
    await only.getByRole("button").waitFor({ state: "detached" });
    assert.doesNotMatch(page.url(), /rule=/);
  }

  /** Who is about to press something presses that, and not what has just taken its place. */
  async function nothingMovesWhileItLoads(page) {
    await page.addInitScript(() => {
      // However long it takes here.
      addEventListener("DOMContentLoaded", () => document.documentElement.style.setProperty("--patience", "3600s"));
      window.shifts = [];
      new PerformanceObserver((list) => {
        for (const { value, sources } of list.getEntries()) {
          const moved = sources.map(({ node, previousRect, currentRect }) => `${node?.nodeName}.${node?.className ?? ""} ${node?.id ?? ""} from ${JSON.stringify(previousRect)} to ${JSON.stringify(currentRect)}`);
          // Less is a word in the header.
          if (value > 0.0005) window.shifts.push([value, ...moved].join("; "));
        }
      }).observe({ type: "layout-shift", buffered: true });
    });
    const shifts = {};
    for (const place of ["overview", "overview?since=1h", "politeness", "crawlers", "decisions", "origins", "changes", "configuration", "connect", "try", "replay", "fleet"]) {
      await page.goto("about:blank");
      await visit(page, place);
      await page.locator("main:not([aria-busy])").waitFor();
      await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
      const found = await page.evaluate(() => window.shifts);
      if (found.length) shifts[place] = found;
    }
    assert.deepEqual(shifts, {});
  }

  async function columnsSayWhatTheyCount(page) {
    const heads = (name) => text(page.getByRole("group", { name, exact: true }).locator("thead th"));
    await crawl("http://shop.test/private/columns", "ImageBot/1");
    await crawl("http://shop.test/private/columns", "StrangeBot/4");
    await visit(page, "overview?since=1h");
    await page.getByRole("group", { name: "Requests by crawler" }).waitFor();
    assert.deepEqual(await heads("Requests by crawler"), ["Crawler", "Requests", "Refused", "Refused %", "Would be refused", "Would be %", "Would wait", "Top rule", "At host"]);
    assert.deepEqual(await heads("Unnamed requests by product token"), ["Product token", "Requests", "Refused", "Would be refused", "What to do"]);
    await visit(page, "changes");
    await page.locator("table.changes").waitFor();
    assert.deepEqual(await heads("Changes of robots.txt"), ["Origin", "When", "Effect", "URLs closed", "URLs opened", "URLs compared", "Now disallowed or allowed"]);
    await visit(page, "crawlers?since=1h");
    const row = page.locator("main tbody tr").filter({ has: page.getByRole("link", { name: "unnamed (by User-Agent)", exact: true }) });
    await row.waitFor();
    assert.equal((await heads("Crawlers"))[7], "Without its token");
    assert.equal(await row.locator("td").nth(6).innerText(), "–");
    await openDecision(page, "http://shop.test/private/columns");
    assert.match(await page.locator(".facts > div", { hasText: /^Took/ }).innerText(), /^Took\s+[\d.,]+ m?s$/);
  }

  /** The log and the commands are in UTC; so is the page, wherever its reader is. */
  async function timesAreInUtc(page) {
    assert.equal(await crawl("http://shop.test/private/utc"), 403);
    const [{ id, at }] = await recorded("http://shop.test/private/utc");
    const context = await page.context().browser().newContext({ timezoneId: "Asia/Tokyo" });
    const inTokyo = await context.newPage();
    await visit(inTokyo, "decisions?q=private/utc");
    const shown = inTokyo.locator(`#d-${id} time`);
    await shown.waitFor();
    assert.equal(await shown.innerText(), at.slice(11, 19));
    await inTokyo.getByText("Times are in UTC.").waitFor();
    await visit(inTokyo, `decisions?since=${at.slice(0, 19)}Z`);
    await inTokyo.locator(`#d-${id}`).waitFor();
    assert.equal(await inTokyo.getByLabel("From (UTC)").inputValue(), at.slice(0, 19));
    await inTokyo.getByLabel("From (UTC)").fill(at.slice(0, 16));
    await inTokyo.waitForFunction((since) => location.hash.includes(encodeURIComponent(since)), `${at.slice(0, 16)}:00.000Z`);
    await context.close();
  }

  async function aHostCanBeTried(page) {
    await visit(page, "try");
    const url = page.getByRole("textbox", { name: "URL" });
    await url.fill("http://shop.test/private/x");
    await page.getByRole("button", { name: "Try it" }).click();
    await page.locator(".verdict").waitFor();
    await url.fill("shop.test/bare");
    await page.getByRole("button", { name: "Try it" }).click();
    await page.locator(".verdict", { hasText: "forwarded" }).waitFor();
    assert.equal(await url.inputValue(), "https://shop.test/bare");
    await url.fill("http://:80/");
    await page.getByRole("button", { name: "Try it" }).click();
    await page.locator("#alert", { hasText: "url" }).waitFor();
    assert.equal(await page.locator(".verdict").count(), 0);
  }

  async function politenessIsShown(page) {
    await crawl("http://edge.test/a", "Visitor/1");
    await visit(page, "politeness");
    const edge = page.getByRole("group", { name: "Turned away by origins" });
    await edge.getByRole("link", { name: "edge.test" }).waitFor();
    assert.deepEqual((await text(edge.locator("tbody tr").first().locator("th, td"))).slice(0, 4), ["edge.test", "1", "0", "1"]);
    await page.locator("select[name=by]").selectOption("crawler");
    await edge.getByRole("link", { name: "unnamed (by User-Agent)" }).waitFor();
    assert.match(page.url(), /by=crawler$/);
    const budget = page.getByRole("group", { name: "Today's budgets" }).locator("tbody tr");
    assert.deepEqual((await text(budget.locator("th, td"))).filter((_, at) => at !== 2 && at !== 4), ["guest", "requests", "5,000"]);
    await page.getByText("No server is slowed down.").waitFor();
    await page.getByText(/^Since \d\d:\d\d:\d\d, the last [\d,]+ decisions in memory\.$/).waitFor();
    await crawl("http://slow.test/cost", "CostBot/1");
    await crawl("http://slow.test/cost", "CostBot/1");
    await recorded("http://slow.test/cost");
    await visit(page, "politeness");
    const cost = page.getByRole("group", { name: "Cost of the pace" }).locator("tbody tr", { hasText: "http://slow.test" });
    await cost.first().waitFor();
    const cells = await text(cost.first().locator("th, td"));
    assert.deepEqual(cells.slice(0, 4), ["unnamed (by User-Agent)", "http://slow.test", "300 s", "288"]);
    assert.ok(Number(cells[7]) >= 1, `${cells}`);
  }

  async function whatTheNameDoesIsASentence(page) {
    const unsigned = page.getByRole("group", { name: "Answers by name" }).locator("tbody tr");
    await crawl("http://edge.test/a", "Visitor/1");
    await visit(page, "politeness");
    await unsigned.first().waitFor();
    assert.equal((await text(unsigned.first().locator("th, td")))[1], "unsigned");
    const answers = (let_in, refused) => ({ let_in, refused });
    const opened_hosts = ["a.test", "b.test", "c.test"].map((host) => ({ host, before: answers(0, 5), after: answers(4, 1) }));
    const compared = { hosts: 0, opened: 0, closed: 0, before: answers(0, 0), after: answers(0, 0), opened_hosts: [], closed_hosts: [] };
    const signed = { ...compared, hosts: 40, opened: 3, closed: 1, opened_hosts, closed_hosts: [{ host: "d.test", before: answers(1, 0), after: answers(0, 2) }] };
    const name = { crawler: "news", agent: "https://bot.test", purposes: ["search"], signed: true, ...answers(1234, 1), hosts: 40, hosts_let_in: 39 };
    await page.route(/\/v1\/edge\?by=signed/, (route) => route.fulfill({ json: { signed, split: compared, names: [name], edge: [] } }));
    await visit(page, "overview");
    await visit(page, "politeness");
    await page.getByText("Signed: 3 of 40 hosts let you in that did not before. 1 no longer let you in.").waitFor();
    const hosts = page.getByRole("group", { name: "Hosts that changed by signing" }).locator("tbody tr");
    assert.deepEqual(await text(hosts.first().locator("th, td")), ["a.test", "0 of 5", "4 of 5"]);
    assert.deepEqual(await text(hosts.nth(3).locator("th, td")), ["d.test", "1 of 1", "0 of 2"]);
    assert.equal(await page.getByText(/^Split:/).count(), 0);
    assert.deepEqual(await text(unsigned.first().locator("th, td")), ["news", "https://bot.test", "search", "39 of 40", "1,234", "1"]);
  }

  async function onlyWhatDiffersFromTheDefaultsIsShown(page) {
    await visit(page, "configuration");
    await page.locator("pre", { hasText: 'name = "news"' }).waitFor();
    const brief = await page.locator("pre").innerText();
    assert.doesNotMatch(brief, /idle_timeout/);
    await page.getByLabel("only what differs from the defaults").uncheck();
    await page.locator("pre", { hasText: "idle_timeout" }).waitFor();
    assert.equal(await page.getByRole("navigation").getByRole("link", { name: "Fleet", includeHidden: true }).isVisible(), false);
  }

  async function variablesAreQuotedForEachForm(page) {
    await visit(page, "connect?client=docker");
    await page.locator("input[name=proxy]").fill("http://proxy.example:3128");
    await page.locator("input[name=ca]").fill("/it's $HOME \"x\" \\ ca.pem");
    await page.locator("input[name=ca]").press("Enter");
    const snippet = page.locator("pre.snippet");
    await snippet.getByText("proxy.example").waitFor();
    await snippet.getByText("ca.pem").waitFor();
    for (const [title, line] of [
      ["Dockerfile", 'ENV SSL_CERT_FILE="/it\'s \\$HOME \\"x\\" \\\\ ca.pem"'],
      ["Kubernetes", '  - name: SSL_CERT_FILE\n    value: "/it\'s $HOME \\"x\\" \\\\ ca.pem"'],
      ["fish", "set -gx SSL_CERT_FILE '/it\\'s $HOME \"x\" \\\\ ca.pem'"],
      ["PowerShell", "$env:SSL_CERT_FILE = '/it''s $HOME \"x\" \\ ca.pem'"],
      ["git, .NET, others", "export GIT_SSL_CAINFO='/it'\\''s $HOME \"x\" \\ ca.pem'"],
    ]) {
      await page.getByRole("tab", { name: title, exact: true }).click();
      const lines = await snippet.textContent();
      assert.ok(lines.includes(`${line}\n`), `${line} in ${lines}`);
      assert.ok(lines.includes("http://proxy.example:3128") && !lines.includes("127.0.0.1 is the container"), lines);
    }
  }

  /** Requests a page over HTTPS from a client that does not trust the proxy's CA. */
  const distrust = (url) => new Promise((resolve) => {
    execFile(CURL, ["--silent", "--proxy", FRESH_PROXY, url], (error) => resolve(error.code));
  });

  /** Begins TLS for a host through the proxy as Node.js does, which closes the connection if it does not trust the CA. */
  function closeSilently(host) {
    const { hostname, port } = new URL(FRESH_PROXY);
    return new Promise((resolve) => {
      const socket = net.connect(Number(port), hostname, () => socket.write(`CONNECT ${host}:443 HTTP/1.1\r\nHost: ${host}:443\r\n\r\n`));
      socket.once("data", () => tls.connect({ socket, servername: host }).on("error", () => (socket.destroy(), resolve())));
    });
  }

  async function theFirstRequestIsAwaited(page) {
    // Nobody has used this proxy: its page is about how to.
    await page.goto(`${FRESH}/`);
    await page.locator("main h1", { hasText: "Connect a crawler" }).waitFor();
    const result = page.getByRole("region", { name: "Test", exact: true });
    await result.getByText(/Waiting: no request has reached this proxy since/).waitFor();
    // Browsers send requests of their own in the background, which may fail. That is no proof, and does not end the waiting.
    await crawl("http://nowhere.invalid/", "NewsBot/2", FRESH_PROXY);
    await result.getByText(/GET http:\/\/nowhere\.invalid\/ from 127\.0\.0\.1 reached the proxy, but failed: \S+, 50\d\./).waitFor();
    assert.equal(await distrust("https://shop.test/"), 60);
    await result.getByText("127.0.0.1 came, for https://shop.test, but does not trust the CA.").waitFor();
    // Its User-Agent is not known: only its address is.
    const sought = page.getByLabel(/^Its address, User-Agent/);
    await sought.fill("other");
    await result.getByText("Requests come, but from clients that have been seen before.").waitFor();
    await sought.fill("127.0.0.1");
    await result.getByText("127.0.0.1 came, for https://shop.test, but does not trust the CA.").waitFor();
    await sought.fill("");
    await closeSilently("news.test");
    await result.getByText("127.0.0.1 came, for https://news.test, and closed its TLS connection without a request").waitFor();
    await crawl("http://shop.test/first", "NewsBot/2", FRESH_PROXY);
    await result.getByText(/It works: GET http:\/\/shop\.test\/first came from 127\.0\.0\.1, matching no \[\[crawler\]\].* Whether it trusts the CA is not known yet/).waitFor();
    await result.getByRole("link", { name: "To the overview" }).click();
    await page.locator("main h1", { hasText: "Overview" }).waitFor();
    // Nothing was refused yet.
    await page.goto(`${FRESH}/#/decisions`);
    await page.getByText("Nothing was refused, or would have been, lately; other outcomes are not shown.").waitFor();
    await page.getByRole("button", { name: "Show all outcomes" }).click();
    await page.locator(".stream .url a", { hasText: "http://shop.test/first" }).waitFor();
    // From now on it begins with the overview.
    await page.goto("about:blank");
    await page.goto(`${FRESH}/`);
    await page.locator("main h1", { hasText: "Overview" }).waitFor();
  }

  /** Others crawl meanwhile: the page waits for the client that is being connected. */
  async function onlyANewClientIsAwaited(page) {
    await crawl("http://shop.test/seen-before", "NewsBot/2");
    await recorded("http://shop.test/seen-before");
    await visit(page, "connect");
    const result = page.getByRole("region", { name: "Test", exact: true });
    await result.getByText(/Waiting: no request/).waitFor();
    await crawl("http://shop.test/again", "NewsBot/2");
    await result.getByText("Requests come, but from clients that have been seen before.").waitFor();
    await crawl("http://shop.test/new", "NewcomerBot/1");
    await result.getByText(/It works: GET http:\/\/shop\.test\/new came from 127\.0\.0\.1/).waitFor();
    await page.getByLabel(/^Its address, User-Agent/).fill("newsbot/2");
    await result.getByText(/It works: GET http:\/\/shop\.test\/again came/).waitFor();
    await page.getByLabel(/^Its address, User-Agent/).fill("nobody's");
    await result.getByText("Requests come, but from clients that have been seen before.").waitFor();
  }

  async function rowsAndSearchAreOneStepAway(page) {
    assert.equal(await crawl("http://shop.test/private/one-step"), 403);
    await recorded("http://shop.test/private/one-step");
    await visit(page, "decisions?q=private/one-step");
    const row = page.locator(".stream tbody tr").first();
    await row.waitFor();
    await row.locator("td").first().click();
    await page.locator("main h1", { hasText: /^Decision$/ }).waitFor();
    await page.getByText("http://shop.test/private/one-step").first().waitFor();
    for (const view of ["decisions", "crawlers", "origins"]) {
      await visit(page, view);
      await page.keyboard.press("/");
      assert.equal(await page.evaluate(() => document.activeElement.name), "q", view);
      await page.keyboard.type("a/b");
      assert.equal(await page.evaluate(() => document.activeElement.value), "a/b", view);
    }
  }

  async function aTeamIsNotOfferedWhatItMayNot(page) {
    await page.goto(`${TOKEN_ADMIN}/#/configuration`);
    await page.locator("dialog#token input").fill(TEAM_TOKEN);
    await page.getByRole("button", { name: "Continue" }).click();
    const untold = page.locator("main").getByText("A token of one team is not told.");
    await untold.first().waitFor();
    assert.equal(await untold.count(), 2);
    assert.equal(await page.getByRole("button", { name: "Reload the file" }).count(), 0);
    await page.goto(`${TOKEN_ADMIN}/#/changes`);
    await page.locator("main h1", { hasText: "Changes" }).waitFor();
    await untold.waitFor();
    assert.equal(await page.locator("#alert").isVisible(), false);
  }

  async function whatIsWellIsSaidInALine(page) {
    await page.goto(`${FRESH}/#/overview`);
    const line = page.getByText(/^(All well|\d+ problems?, see above\. Well): /);
    await line.waitFor();
    assert.match(await line.innerText(), /decision log written, CA until 20\d\d-\d\d-\d\d, store/);
    assert.equal(await distrust("https://shop.test/"), 60);
    const strip = page.locator("#strip li[data-kind='ca-untrusted']");
    await strip.getByText(/^1 client does not trust the CA: 127\.0\.0\.1, (once|\d+ times) in 5 minutes, last for https:\/\/shop\.test(?!; it closed)/).waitFor();
    await page.getByText(/^1 problem, see above\. Well: /).waitFor();
    await strip.getByRole("button", { name: /^Hide/ }).click();
    assert.equal(await distrust("https://shop.test/"), 60);
    // It only happened again.
    const told = page.waitForResponse(async (response) => response.url().endsWith("/v1/problems") && /[2-9] times/.test(await response.text()));
    await page.evaluate(() => dispatchEvent(new HashChangeEvent("hashchange")));
    await told;
    assert.equal(await strip.count(), 0);
  }

  return [theLineThatDecidedIsMarked, aDecisionSaysItsReasonOnce, ownersAreWrittenTo, aRefusalBecomesAnException, changesOfAllOriginsAreListed,
    reasonsLeadToDocuments, documentsAreReadAsPages, originsAreCountedOneByOne, aCountOfARuleOpensItsDecisions, nothingMovesWhileItLoads, columnsSayWhatTheyCount, timesAreInUtc, onlyANewClientIsAwaited, rowsAndSearchAreOneStepAway, aTeamIsNotOfferedWhatItMayNot, aHostCanBeTried, politenessIsShown, whatTheNameDoesIsASentence, onlyWhatDiffersFromTheDefaultsIsShown, variablesAreQuotedForEachForm, theFirstRequestIsAwaited, whatIsWellIsSaidInALine];
};
