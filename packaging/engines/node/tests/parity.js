// Answers the questions of a file, as `wayleave-conformance` reads them, and wants the answers of that program.
"use strict";

const { spawnSync } = require("node:child_process");
const { readFileSync } = require("node:fs");
const { isDeepStrictEqual } = require("node:util");

const { RobotsTxt } = require("wayleave-robots");

const [, , program, file] = process.argv;
const input = readFileSync(file, "utf8");
const child = spawnSync(program, [], { input, encoding: "utf8", maxBuffer: 1 << 30 });
if (child.status !== 0) throw new Error(`the program ended with ${child.status}: ${child.stderr}`);
const answers = child.stdout.trimEnd().split("\n").map((line) => JSON.parse(line));
const parsed = new Map();
let different = 0;
const questions = input.trimEnd().split("\n").map((line) => JSON.parse(line));
questions.forEach(({ robots_base64: encoded, token, dialect, url }, number) => {
  if (!parsed.has(encoded)) parsed.set(encoded, new RobotsTxt(Buffer.from(encoded, "base64")));
  const { allowed, reason, line = null, rule = null } = parsed.get(encoded).forCrawler(token, { dialect }).decide(url);
  const ours = { verdict: allowed ? "allow" : "disallow", reason, line, rule };
  const { verdict, reason: why, line: at, rule: text } = answers[number];
  if (!isDeepStrictEqual(ours, { verdict, reason: why, line: at, rule: text })) {
    different += 1;
    console.error(token, dialect, url, ours, answers[number]);
  }
});
console.log(`${questions.length} questions: ${different} different answers`);
process.exitCode = different > 0 || questions.length !== answers.length ? 1 : 0;
