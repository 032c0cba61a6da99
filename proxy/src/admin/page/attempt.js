// Try a URL: shows what the proxy would decide, and the verdict of each dialect.

import { get, query } from "./api.js";
import { attempt, badge, crawlerInWords, facts, h, newest, panel } from "./dom.js";
import { reasonDocs } from "./docs.js";
import { listing } from "./robots.js";
import { exceptionForm, mayHaveException } from "./rule.js";

export const DIALECTS = ["rfc9309", "google", "koster1996", "selfhtml", "strictest"];

/** A URL as people type it: without a scheme it is HTTPS. */
const completed = (url) => (/^[a-z][a-z0-9+.-]*:\/\//i.test(url) ? url : `https://${url}`);

export function trial(parameters) {
  const inside = h("div", { role: "region", "aria-live": "polite", "aria-label": "Answer" });
  const input = (name, type, attributes = {}) => h("input", { name, type, value: parameters.get(name) ?? "", autocomplete: "off", spellcheck: "false", ...attributes });
  const crawler = h("select", { name: "crawler" }, h("option", { value: "" }, "from User-Agent"));
  const dialect = h("select", { name: "dialect" }, h("option", { value: "" }, "the crawler's"), DIALECTS.map((value) => h("option", { value, selected: parameters.get("dialect") === value }, value)));
  const form = h("form", { class: "panel form" },
    h("label", { class: "long" }, "URL", input("url", "text", { required: true, inputmode: "url", placeholder: "https://example.com/a" })),
    h("label", {}, "Crawler", crawler),
    h("label", {}, "User-Agent", input("user_agent", "text", { placeholder: "ExampleBot/1.0" })),
    h("label", {}, "Dialect", dialect),
    h("p", { class: "actions" }, h("button", { type: "submit", class: "primary" }, "Try it")));
  const latest = newest();
  const ask = async () => {
    const asked = Object.fromEntries(new FormData(form));
    asked.url = completed(asked.url.trim());
    form.elements.url.value = asked.url;
    history.replaceState(null, "", `#/try${query(asked)}`);
    inside.replaceChildren(h("p", { class: "empty" }, "Loading …"));
    await latest(attempt(async () => {
      const preview = await get(`/v1/decision${query(asked)}`);
      const known = preview.origin ? await get(`/v1/robots/${encodeURIComponent(preview.origin)}`).catch(() => null) : null;
      return answer(preview, known?.answer?.body);
    }), (found) => inside.replaceChildren(...(found ? [found] : [])));
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  const view = h("div", { class: "view" }, h("h1", {}, "Try a URL"),
    h("p", { class: "lead" }, "Shows what the proxy would do. Only robots.txt is fetched, if it is not known yet."), form, inside);
  attempt(async () => {
    const { crawlers } = await get("/v1/status");
    crawler.append(...crawlers.map((value) => h("option", { value, selected: parameters.get("crawler") === value }, value)));
    if (parameters.get("url")) await ask();
  });
  return { view, end: () => {} };
}

function sentence({ outcome, status, would_be, policy, line, rule, reason, details }) {
  const by = policy?.action === "allow" ? `an exception, [[rule]] ${policy.number}` : line ? `line ${line} of robots.txt, ${rule}` : reason;
  if (outcome === "forwarded") return `Would be forwarded: ${by}`;
  if (outcome === "observed") return `Would be forwarded, because refusals are only observed; enforcement would answer ${would_be}: ${details}`;
  return `Would be refused with ${status}: ${details}`;
}

function answer(preview, body) {
  const text = h("div", {});
  const mark = (reading) => {
    for (const row of rows) row.setAttribute("aria-selected", String(row.dataset.dialect === reading.dialect));
    // In another dialect than the crawler's, the line is what would decide.
    const marks = reading.dialect === preview.read_as ? preview.marks
      : reading.line ? [{ line: reading.line, effect: reading.verdict, note: `in ${reading.dialect}: ${reading.verdict}` }] : [];
    text.replaceChildren(body === null || body === undefined ? h("p", { class: "empty" }, "There is no robots.txt text.")
      : listing(body, { marks, group: reading.group_lines }));
  };
  const rows = preview.dialects.map((reading) => h("tr", { "data-dialect": reading.dialect },
    h("th", { scope: "row" }, h("button", { type: "button", class: "plain", "aria-label": `Mark the deciding line in ${reading.dialect}`, click: () => mark(reading) }, reading.dialect)),
    h("td", {}, badge(reading.verdict)),
    h("td", {}, reading.line ? `line ${reading.line}: ${reading.rule}` : reading.basis),
    h("td", {}, reading.group.join(", ") || "–")));
  const used = preview.dialects.find((reading) => reading.dialect === preview.read_as) ?? preview.dialects[0];
  if (used) mark(used);
  const verdict = h("p", { class: `verdict ${preview.outcome}` }, h("strong", {}, sentence(preview)));
  const heads = ["Dialect", "Verdict", "Decided by", "Group"].map((name) => h("th", { scope: "col" }, name));
  return h("div", { class: "pair" },
    panel("Decision", verdict, facts([
      ["Crawler", crawlerInWords(preview)],
      ["Reason", [preview.reason, " ", reasonDocs(preview.reason, preview.outcome)]],
      ["Tokens", preview.tokens.join(", ") || "none: only the group * applies"],
      ["Organisation's rule", preview.policy && `[[rule]] ${preview.policy.number}, ${preview.policy.action}${preview.policy.reason ? `: ${preview.policy.reason}` : ""}`],
      ["Mode", preview.would_be ? `${preview.mode}: would have been ${preview.would_be}` : preview.mode],
    ]), mayHaveException(preview) && exceptionForm(preview), h("h3", {}, "In every dialect"),
    rows.length ? h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Verdicts by dialect" }, h("table", { class: "dialects" }, h("caption", {}, "Verdicts by dialect"), h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows)))
      : h("p", { class: "empty" }, "The robots.txt did not arrive in time.")),
    panel("Robots.txt", text));
}
