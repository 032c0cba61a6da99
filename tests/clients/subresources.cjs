// Renders pages in Debian's Chromium, headless, driven by Playwright. The CA is in the NSS database of $HOME.
//
// Environment: CHROMIUM (path), PROXY (URL), USER_AGENT. Standard input: a URL a line.
// Standard output: a JSON line for each: {"url", "rendered", "responses": {URL: status}}; rendered: what the page itself says of its style sheets,
// scripts and images.

const { readFileSync } = require("node:fs");
const { chromium } = require("playwright-core");

const urls = readFileSync(0, "utf8").split("\n").filter(Boolean);

(async () => {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM,
    proxy: { server: process.env.PROXY },
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  for (const url of urls) {
    const context = await browser.newContext({ userAgent: process.env.USER_AGENT });
    const page = await context.newPage();
    const responses = {};
    page.on("response", (response) => {
      responses[response.url()] = response.status();
    });
    await page.goto(url, { waitUntil: "load" });
    // Set by the page once all that it loads has come, or has failed.
    const rendered = await page.waitForFunction(() => window.rendered).then((handle) => handle.jsonValue());
    console.log(JSON.stringify({ url, rendered, responses }));
    await context.close();
  }
  await browser.close();
})();
