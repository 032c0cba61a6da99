// Fetches each URL of standard input once, and prints lines: the URL, the status and the body in hexadecimal
// digits, or the URL alone.
//
// Usage: stacks.cjs LIBRARY. Environment: PROXY (none: directly), CHROMIUM (path), NPM (path of npm's program).
// Origins answer "/" with a page.

const { readFileSync, realpathSync } = require("node:fs");
const { createRequire } = require("node:module");

const urls = readFileSync(0, "utf8").split("\n").filter(Boolean);
const proxy = process.env.PROXY;

const clients = {
  undici() {
    const { Agent, ProxyAgent, fetch } = require("undici");
    return async (url) => {
      const dispatcher = proxy ? new ProxyAgent(proxy) : new Agent();
      const answer = await fetch(url, { dispatcher, redirect: "manual" });
      return { status: answer.status, body: await answer.arrayBuffer() };
    };
  },
  axios() {
    const axios = require("axios");
    const { hostname, port } = proxy ? new URL(proxy) : {};
    const options = { proxy: proxy ? { host: hostname, port: Number(port) } : false, responseType: "arraybuffer", validateStatus: () => true };
    return async (url) => {
      const answer = await axios.get(url, options);
      return { status: answer.status, body: answer.data };
    };
  },
  npm() {
    const fetch = createRequire(realpathSync(process.env.NPM))("make-fetch-happen");
    const options = { proxy: proxy ?? null, noProxy: "", retry: false, cache: "no-store" };
    return async (url) => {
      const answer = await fetch(url, options);
      return { status: answer.status, body: await answer.buffer() };
    };
  },
  async chromium() {
    const { chromium } = require("playwright-core");
    const browser = await chromium.launch({
      executablePath: process.env.CHROMIUM,
      proxy: proxy ? { server: proxy } : undefined,
      args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update"],
    });
    const page = await browser.newPage();
    await page.goto(new URL("/", urls[0]).href);
    const fetchOnce = async (url) => {
      const answer = await fetch(url, { cache: "no-store" });
      return { status: answer.status, body: Array.from(new Uint8Array(await answer.arrayBuffer())) };
    };
    return (url) => page.evaluate(fetchOnce, url);
  },
};

(async () => {
  const fetchOnce = await clients[process.argv[2]]();
  for (const url of urls) {
    try {
      const { status, body } = await fetchOnce(url);
      console.log(url, status, Buffer.from(body).toString("hex"));
    } catch (error) {
      console.log(url);
      console.error(url, error);
    }
  }
  process.exitCode = 0;
  setImmediate(() => process.exit());
})();
