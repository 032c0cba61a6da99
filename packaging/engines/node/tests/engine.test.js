"use strict";

const assert = require("node:assert/strict");
const test = require("node:test");

const { RobotsTxt } = require("wayleave-robots");

const PRIVATE =
  "User-agent: ExampleBot\nDisallow: /private\nCrawl-delay: 2.5\n\nUser-agent: *\nDisallow: /\n\nSitemap: /map\n";

test("a decision names rule, line and group", () => {
  const crawler = new RobotsTxt(PRIVATE).forCrawler("ExampleBot");
  assert.deepEqual(crawler.decide("https://example.com/private/diary"), {
    allowed: false,
    reason: "rule",
    rule: "Disallow: /private",
    line: 2,
    group: ["ExampleBot"],
    dialect: "rfc9309",
  });
  assert.equal(crawler.allows("https://example.com/page"), true);
  assert.equal(crawler.crawlDelay, 2.5);
});

test("names are in order of preference", () => {
  const robots = new RobotsTxt(Buffer.from(PRIVATE));
  assert.equal(robots.forCrawler(["ExampleBot-News", "ExampleBot"]).allows("/page"), true);
  assert.equal(robots.forCrawler("OtherBot").allows("/page"), false);
  assert.deepEqual(robots.sitemaps, ["/map"]);
});

test("dialects and spellings are options", () => {
  const robots = new RobotsTxt("User-agent: *\nDisallow: /a\nAllow: /a/b\n");
  assert.equal(robots.forCrawler("x").allows("/a/b"), true);
  assert.equal(robots.forCrawler("x", { dialect: "koster1996" }).allows("/a/b"), false);
  assert.equal(robots.forCrawler("x").allows("https://example.com//a"), true);
  assert.equal(robots.forCrawler("x", { allSpellings: true }).allows("https://example.com//a"), false);
});

test("what is not a URL gets no answer", () => {
  const rules = new RobotsTxt(PRIVATE).forCrawler("ExampleBot");
  for (const text of ["", "example.com", "mailto:a@example.com", "http://[::1", "//example.com/x"]) {
    assert.throws(() => rules.allows(text), /is not a URL/);
    assert.throws(() => rules.decide(text), /is not a URL/);
  }
});

test("the outcome of the fetch decides", () => {
  for (const [status, allowed] of [[404, true], [410, true], [206, false], [429, false], [500, false]]) {
    const robots = RobotsTxt.fromStatus(status, "User-agent: *\nDisallow:\n");
    assert.equal(robots.forCrawler("ExampleBot").allows("/page"), allowed, String(status));
  }
  assert.equal(RobotsTxt.unreachable().forCrawler("ExampleBot").allows("/page"), false);
});

test("mistakes are named", () => {
  const robots = new RobotsTxt(PRIVATE);
  assert.throws(() => robots.forCrawler("Mozilla/5.0 (compatible)"), /Mozilla/);
  assert.throws(() => robots.forCrawler([]), /a crawler needs a name/);
  assert.throws(() => robots.forCrawler("x", { dialect: "bing" }), /none of the dialects rfc9309/);
  assert.throws(() => RobotsTxt.fromStatus(301), /301/);
  assert.throws(() => RobotsTxt.fromStatus(200), /data/);
});
