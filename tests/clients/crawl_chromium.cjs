// Crawls with Debian's Chromium, headless, driven by Playwright: every URL is a navigation. The CA is in the NSS database of $HOME.
//
// Environment: CHROMIUM (path), PROXY (URL). Standard input: JSON lines {"url", "user_agent"}.
// Standard output: JSON lines {"url", "user_agent", "status", "upgraded"}; upgraded: the browser itself went to https, because the host is on its
// built-in HSTS list.

const { readFileSync } = require("node:fs");
const { chromium } = require("playwright-core");

const asks = readFileSync(0, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));

// Whole hosts go to one page, one for each agent: going from site to site costs the browser a process.
const hosts = new Map();
for (const ask of asks) {
  const key = `${new URL(ask.url).host} ${ask.user_agent}`;
  hosts.set(key, [...(hosts.get(key) ?? []), ask]);
}
const queue = [...hosts.values()];

async function lane(context) {
  const page = await context.newPage();
  const devtools = await context.newCDPSession(page);
  for (let host = queue.shift(); host; host = queue.shift()) {
    await devtools.send("Emulation.setUserAgentOverride", { userAgent: host[0].user_agent });
    for (const ask of host) {
      const answer = await page.goto(ask.url, { waitUntil: "commit" });
      const upgraded = new URL(answer.url()).protocol !== new URL(ask.url).protocol;
      console.log(JSON.stringify({ ...ask, status: answer.status(), upgraded }));
    }
  }
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
  const context = await browser.newContext();
  await Promise.all([lane(context), lane(context), lane(context)]);
  await browser.close();
})();
