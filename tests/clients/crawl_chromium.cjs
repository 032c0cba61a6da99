// Crawls with Debian's Chromium, headless, driven by Playwright: every URL is a navigation. The CA is in the NSS database of $HOME.
//
// Environment: CHROMIUM (path), PROXY (URL). Standard input: JSON lines {"url", "user_agent"}.
// Standard output: JSON lines {"url", "user_agent", "status", "upgraded"}; upgraded: the browser used https, because the host is on its built-in
// HSTS list.

const { readFileSync } = require("node:fs");
const { chromium } = require("playwright-core");

const planned = readFileSync(0, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));

// One page serves a host and an agent: a navigation to another site costs the browser a process.
const hosts = new Map();
for (const request of planned) {
  const key = `${new URL(request.url).host} ${request.user_agent}`;
  hosts.set(key, [...(hosts.get(key) ?? []), request]);
}
const queue = [...hosts.values()];

async function lane(context) {
  const page = await context.newPage();
  const devtools = await context.newCDPSession(page);
  for (let host = queue.shift(); host; host = queue.shift()) {
    await devtools.send("Emulation.setUserAgentOverride", { userAgent: host[0].user_agent });
    for (const request of host) {
      const answer = await page.goto(request.url, { waitUntil: "commit" });
      const upgraded = new URL(answer.url()).protocol !== new URL(request.url).protocol;
      console.log(JSON.stringify({ ...request, status: answer.status(), upgraded }));
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
