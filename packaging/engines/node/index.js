"use strict";

const { join } = require("node:path");

// glibc and musl builds differ; the report names the C library only for glibc.
const glibc = process.report?.getReport().header.glibcVersionRuntime;
const platform = `${process.platform}-${process.arch}${process.platform === "linux" ? (glibc ? "-gnu" : "-musl") : ""}`;
let engine;
try {
  engine = require(join(__dirname, `wayleave-robots.${platform}.node`));
} catch (error) {
  throw new Error(`wayleave-robots has no build for ${platform}`, { cause: error });
}

module.exports = { RobotsTxt: engine.RobotsTxt, CrawlerRules: engine.CrawlerRules };
