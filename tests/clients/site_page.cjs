// Reads statements in the page that `wayleave publish --sites` writes: good ones, changed ones, and one that is not there.

const assert = require("node:assert/strict");
const crypto = require("node:crypto");
const fs = require("node:fs");
const http = require("node:http");
const path = require("node:path");
const { chromium } = require("playwright-core");

const { FOLDER, HOST, CHROMIUM } = process.env;
const digest = crypto.createHash("sha256").update(HOST).digest("hex");
const original = fs.readFileSync(path.join(FOLDER, `${digest}.json`));

/** The bytes that are served instead of the file. */
let served = original;

const server = http.createServer((request, response) => {
  const name = request.url === "/" ? "index.html" : path.basename(request.url);
  const file = path.join(FOLDER, name);
  if (name === `${digest}.json`) return response.end(served);
  if (!fs.existsSync(file)) return response.writeHead(404).end();
  response.setHeader("Content-Type", name.endsWith(".html") ? "text/html; charset=utf-8" : "application/json");
  return response.end(fs.readFileSync(file));
});

(async () => {
  await new Promise((started) => server.listen(0, "127.0.0.1", started));
  const base = `http://127.0.0.1:${server.address().port}/`;
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu", "--no-first-run"] });
  const page = await browser.newPage();
  page.setDefaultTimeout(60_000);
  const complaints = [];
  const elsewhere = [];
  page.on("console", (message) => message.type() === "error" && !message.text().includes("404") && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(error.stack));
  page.on("request", (request) => request.url().startsWith(base) || elsewhere.push(request.url()));
  await page.goto(base);

  /** Asks for a host, and returns the verdict's class and text, and what is shown. */
  async function ask(host) {
    await page.locator("#host").fill(host);
    await page.getByRole("button", { name: "Show" }).click();
    await page.locator("#verdict.good, #verdict.bad, #verdict.none").waitFor();
    const kind = await page.locator("#verdict").getAttribute("class");
    const said = [kind, await page.locator("#verdict").innerText(), await page.locator("#shown").innerText()];
    await page.evaluate(() => { document.getElementById("verdict").className = "asked"; });
    return said;
  }

  for (const host of [HOST, ` HTTPS://${HOST.toUpperCase()}:8443/a?b `]) {
    const [kind, said, shown] = await ask(host);
    assert.equal(kind, "good", said);
    for (const text of ["Requests", "User-agent: NewsBot", "Disallow: /", "Disallow: /private", "news@bot.test", "search"]) assert.ok(shown.includes(text), `${text}: ${shown}`);
  }
  let [kind, said] = await ask("nobody.test");
  assert.equal(kind, "none");
  assert.match(said, /^There is no statement about nobody\.test: /);
  [kind] = await ask("[::");
  assert.equal(kind, "bad");

  const changes = [];
  const step = Math.max(1, Math.floor(original.length / 60));
  for (let at = 0; at < original.length; at += step) changes.push(Buffer.from(original).fill(original[at] ^ 1, at, at + 1));
  // The last character of a signature, white space, an ending, and a member that is there twice.
  const text = original.toString();
  changes.push(Buffer.from(` ${text}`), Buffer.from(text.trim()), Buffer.from(`\ufeff${text}`), Buffer.from(text.replace("{", "{\"statement\":{},")));
  const end = text.indexOf("\",\"statement\"") - 1;
  // A signature has 512 bits, and its text 516.
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  for (const bit of [1, 2, 4, 8, 16]) changes.push(Buffer.from(text.slice(0, end) + digits[digits.indexOf(text[end]) ^ bit] + text.slice(end + 1)));
  // A good file about another host.
  for (const name of fs.readdirSync(FOLDER)) if (name.endsWith(".json") && !name.startsWith(digest)) { changes.push(fs.readFileSync(path.join(FOLDER, name))); break; }
  for (served of changes) {
    const [changed, why, shown] = await ask(HOST);
    assert.equal(changed, "bad", `${why}: ${served}`);
    assert.match(why, /^BAD SIGNATURE: /);
    assert.equal(shown, "");
  }
  served = original;
  [kind] = await ask(HOST);
  assert.equal(kind, "good");
  assert.deepEqual([complaints, elsewhere], [[], []]);
  console.log(`${changes.length} changes seen`);
  await browser.close();
  server.close();
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
