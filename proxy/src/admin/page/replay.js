// Replay: what another configuration would have decided about the requests of the decision log.

import { query, send } from "./api.js";
import { attempt, count, crawlerName, h, panel, table } from "./dom.js";

const SPANS = [["1h", "the last hour"], ["24h", "the last 24 hours"], ["7d", "the last 7 days"], ["30d", "the last 30 days"]];
const KINDS = [["newly_refused", "Newly refused", "Rule"], ["newly_forwarded", "Newly forwarded", "Refused by"], ["undecidable", "Not known", "Why"]];
/** As the proxy limits it. */
const MAX_BYTES = 1 << 20;

export function replay() {
  const inside = h("div", { role: "region", "aria-live": "polite", "aria-label": "Result" });
  const text = h("textarea", { name: "configuration", rows: "14", spellcheck: "false", required: true, placeholder: "[[rule]]\naction = \"refuse\"\nhosts = [\"example.com\"]" });
  const file = h("input", { type: "file", accept: ".toml,text/plain,application/toml" });
  const span = h("select", { name: "since" }, SPANS.map(([value, word]) => h("option", { value, selected: value === "24h" }, word)));
  const button = h("button", { type: "submit", class: "primary" }, "Replay");
  const form = h("form", { class: "panel form" },
    h("label", { class: "long" }, "Configuration (TOML): paste it, or drop a file", text),
    h("label", {}, "File", file),
    h("label", {}, "Decisions of", span),
    h("p", { class: "actions" }, button));
  const read = (chosen) => attempt(async () => {
    if (!chosen) return;
    if (chosen.size > MAX_BYTES) throw new Error(`${chosen.name} is longer than 1 MiB.`);
    text.value = await chosen.text();
  });
  file.addEventListener("change", () => read(file.files[0]));
  // Elsewhere, a browser would show the file instead of the page.
  form.addEventListener("dragover", (event) => event.preventDefault());
  form.addEventListener("drop", (event) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    read(event.dataTransfer.files[0]);
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    inside.replaceChildren(h("p", { class: "empty" }, "Reading the decision log …"));
    const found = await attempt(() => send(`/v1/replay${query({ since: span.value })}`, text.value));
    button.disabled = false;
    inside.replaceChildren(...(found ? result(found) : []));
  });
  const view = h("div", { class: "view" }, h("h1", {}, "Replay"),
    h("p", { class: "lead" }, "Shows what another configuration would have decided about the requests of the decision log. It is not put into effect, and no file that it names is read."),
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
    found.not_read.length ? `Not read, because it decides nothing or names files: ${found.not_read.join(", ")}.` : null,
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
