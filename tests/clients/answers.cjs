// Fetches each URL of standard input once with Debian's Chromium, headless, checks no certificate, and prints JSON lines
// {"url", "status", "body"}, or {"url", "error"}.
//
// Environment: CHROMIUM (path), ADDRESS (of every host *.test). Origins answer "/" with a page.

const { readFileSync } = require("node:fs");
const { chromium } = require("playwright-core");

const urls = readFileSync(0, "utf8").split("\n").filter(Boolean);

const fetchOnce = (url) =>
  fetch(url, { cache: "no-store" })
    .then(async (answer) => ({ url, status: answer.status, body: await answer.text() }))
    .catch((error) => ({ url, error: String(error) }));

(async () => {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM,
    args: [`--host-resolver-rules=MAP *.test ${process.env.ADDRESS}`, "--ignore-certificate-errors", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update"],
  });
  const context = await browser.newContext();
  const page = await context.newPage();
  for (const url of urls) {
    const { origin } = new URL(url);
    if (new URL(page.url()).origin !== origin) {
      await page.goto(`${origin}/`);
    }
    console.log(JSON.stringify(await page.evaluate(fetchOnce, url)));
  }
  await browser.close();
})();
