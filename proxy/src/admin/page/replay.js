// Replay: what the configuration in use would have decided about the requests of the decision log if something were different.

import { get, query, send } from "./api.js";
import { DIALECTS } from "./attempt.js";
import { attempt, count, crawlerName, h, panel, table } from "./dom.js";

const SPANS = [["1h", "the last hour"], ["24h", "the last 24 hours"], ["7d", "the last 7 days"], ["30d", "the last 30 days"]];
const KINDS = [["newly_refused", "Newly refused", "Rule"], ["newly_forwarded", "Newly forwarded", "Refused by"], ["undecidable", "Not known", "Why"]];
/** An exception needs them. */
const OF_EXCEPTIONS = ["owner", "reason", "expires"];

export function replay() {
  const inside = h("div", { role: "region", "aria-live": "polite", "aria-label": "Result" });
  const enforced = h("fieldset", {}, h("legend", {}, "Enforce these crawlers"));
  const dialect = h("select", { name: "dialect" }, h("option", { value: "" }, "as configured"), DIALECTS.map((value) => h("option", { value }, value)));
  const action = h("select", { name: "action" }, ["refuse", "allow"].map((value) => h("option", { value }, value)));
  const text = (name, placeholder) => h("input", { name, placeholder, spellcheck: "false", autocomplete: "off" });
  const hosts = text("hosts", "shop.example, *.shop.example");
  const paths = text("paths", "/cart, /search");
  const exception = OF_EXCEPTIONS.map((name) => text(name, name === "expires" ? "2026-12-31" : ""));
  const span = h("select", { name: "since" }, SPANS.map(([value, word]) => h("option", { value, selected: value === "24h" }, word)));
  const button = h("button", { type: "submit", class: "primary" }, "Replay");
  const form = h("form", { class: "panel form" }, enforced,
    h("label", {}, "Read robots.txt in this dialect", dialect),
    h("label", {}, "Rule before all others", action),
    h("label", {}, "Hosts of the rule", hosts),
    h("label", {}, "Paths of the rule", paths),
    exception.map((input) => h("label", {}, `${input.name[0].toUpperCase()}${input.name.slice(1)} (to allow)`, input)),
    h("label", {}, "Decisions of", span),
    h("p", { class: "actions" }, button));
  attempt(() => get("/v1/crawlers")).then((listed) => {
    const observed = (listed?.crawlers ?? []).filter(({ mode }) => mode === "observe");
    enforced.append(...observed.map(({ name }) => h("label", { class: "check" }, h("input", { type: "checkbox", name: "enforce", value: name }), ` ${crawlerName(name)}`)));
    if (!observed.length) enforced.append(h("p", { class: "note" }, "All crawlers are enforced."));
  });
  const change = () => {
    const listed = (input) => input.value.split(",").map((word) => word.trim()).filter(Boolean);
    const rule = { action: action.value, hosts: listed(hosts) };
    if (listed(paths).length) rule.paths = listed(paths);
    if (action.value === "allow") for (const input of exception) if (input.value) rule[input.name] = input.value.trim();
    const changed = { enforce: [...enforced.querySelectorAll(":checked")].map((box) => box.value) };
    if (dialect.value) changed.dialect = dialect.value;
    if (rule.hosts.length || rule.paths) changed.rules = [rule];
    return JSON.stringify(changed);
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    inside.replaceChildren(h("p", { class: "empty" }, "Reading the decision log …"));
    const found = await attempt(() => send(`/v1/replay${query({ since: span.value })}`, change()));
    button.disabled = false;
    inside.replaceChildren(...(found ? result(found) : []));
  });
  const view = h("div", { class: "view" }, h("h1", {}, "Replay"),
    h("p", { class: "lead" }, "What if? Shows what the configuration in use would have decided about the requests of the decision log with these changes. Nothing is put into effect."),
    form, inside);
  return { view, end: () => {} };
}

function result(found) {
  const same = found.newly_refused.count + found.newly_forwarded.count === 0 && !found.missing.length;
  const counts = KINDS.map(([kind, name]) => `${count(found[kind].count)} ${name.toLowerCase()}`).join(", ");
  const head = h("p", { class: "verdict" }, h("strong", {}, same ? "No request would be decided differently. " : ""),
    `${count(found.decisions)} decisions: ${counts}, ${count(found.unchanged.count)} unchanged.`);
  const notes = [
    found.is_cut ? "Not all decisions were read: there are too many for one replay. Choose a shorter span, or use wayleave replay." : null,
    found.damaged_lines ? `${count(found.damaged_lines)} lines of the log cannot be read.` : null,
    found.missing.length ? `Not complete: ${found.missing.join("; ")}.` : null,
  ].filter(Boolean).map((note) => h("p", { class: "note" }, note));
  const panels = KINDS.filter(([kind]) => found[kind].count).map(([kind, name, rule]) => panel(name, groups(name, found[kind], rule)));
  return [head, ...notes, ...panels, panel("Not replayed", h("ul", {}, found.not_replayed.map((text) => h("li", {}, text))))];
}

function groups(name, { groups: found, groups_left_out: more }, rule) {
  const rows = found.map((group) => h("tr", {},
    h("td", { class: "number" }, count(group.count)),
    h("td", {}, crawlerName(group.crawler)),
    h("td", {}, group.host || "–"),
    h("td", {}, group.rule || "–"),
    h("td", { class: "url" }, h("details", {}, h("summary", {}, group.samples[0] ?? "–"), group.samples.slice(1).map((url) => h("div", {}, url))))));
  const shown = table(name, ["#Requests", "Crawler", "Host", rule, "Such as"], rows, "None.", "replayed");
  return more ? h("div", {}, shown, h("p", { class: "note" }, `${count(more)} more groups.`)) : shown;
}
