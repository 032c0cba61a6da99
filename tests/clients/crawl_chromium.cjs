// Crawls with Debian's Chromium, headless, driven by Playwright: every URL is a navigation. The CA is in the NSS database of $HOME.
//
// Environment: CHROMIUM (path), PROXY (URL). Standard input: JSON lines {"url", "user_agent"}.
// Standard output: JSON lines {"url", "status", "upgraded"}; upgraded: the browser itself went to https, because the host is on its
// built-in HSTS list.

const { readFileSync } = require("node:fs");
const { chromium } = require("playwright-core");

const asks = readFileSync(0, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));
const byAgent = Map.groupBy ? Map.groupBy(asks, (ask) => ask.user_agent) : new Map();
if (!Map.groupBy) {
  for (const ask of asks) byAgent.set(ask.user_agent, [...(byAgent.get(ask.user_agent) ?? []), ask]);
}

async function lane(context, queue) {
  const page = await context.newPage();
  for (let ask = queue.shift(); ask; ask = queue.shift()) {
    const answer = await page.goto(ask.url, { waitUntil: "commit" });
    const upgraded = new URL(answer.url()).protocol !== new URL(ask.url).protocol;
    console.log(JSON.stringify({ url: ask.url, status: answer.status(), upgraded }));
  }
  await page.close();
}

(async () => {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM,
    proxy: { server: process.env.PROXY },
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--disable-features=HttpsUpgrades,HttpsFirstBalancedModeAutoEnable",
    ],
  });
  for (const [userAgent, queue] of byAgent) {
    const context = await browser.newContext({ userAgent });
    await Promise.all([lane(context, queue), lane(context, queue), lane(context, queue), lane(context, queue)]);
    await context.close();
  }
  await browser.close();
})();
