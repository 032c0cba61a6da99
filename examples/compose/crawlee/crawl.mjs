// Follows the links of some pages within their hosts, with Debian's Chromium.
import { PlaywrightCrawler, ProxyConfiguration } from "@crawlee/playwright";
import { chromium } from "playwright-core";

const crawler = new PlaywrightCrawler({
  proxyConfiguration: new ProxyConfiguration({ proxyUrls: [process.env.PROXY] }),
  launchContext: {
    launcher: chromium,
    userAgent: process.env.USER_AGENT,
    launchOptions: {
      executablePath: "/usr/bin/chromium",
      // A container without privileges has no sandbox of Chromium's; the container is one.
      args: ["--no-sandbox", "--disable-quic", "--disable-background-networking", "--disable-component-update"],
    },
  },
  // A browser's default fingerprint would hide the User-Agent by which wayleave knows the crawler.
  browserPoolOptions: { useFingerprints: false },
  // wayleave's refusals are pages, too, and not to be retried with another session.
  useSessionPool: false,
  maxRequestRetries: 0,
  maxRequestsPerCrawl: 100,
  maxConcurrency: 4,
  async requestHandler({ request, response, page, pushData, enqueueLinks }) {
    const refusal = (await response.headerValue("proxy-status")) ?? "";
    if (refusal.startsWith("wayleave;")) {
      await pushData({ url: request.url, status: response.status(), refused: refusal });
      return;
    }
    await pushData({ url: request.url, status: response.status(), title: await page.title() });
    await enqueueLinks({ strategy: "same-hostname" });
  },
  failedRequestHandler: ({ request, pushData }, error) => pushData({ url: request.url, error: error.message }),
});
await crawler.run(process.env.START_URLS.split(" "));
