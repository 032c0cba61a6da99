// Configuration: the one in use, the last reload, and the organisation's rules.

import { forAllTeams, get, post } from "./api.js";
import { attempt, badge, crawlerName, day, facts, h, panel, table, time, untold } from "./dom.js";
import { ownerLink } from "./owner.js";

export function settings() {
  const [status, text, rules] = [h("div", {}), h("div", {}), h("div", {})];
  let toml = { all: "", changed: "" };
  const isBrief = h("input", { type: "checkbox", name: "changed", checked: true, change: () => showText() });
  const showText = () => text.replaceChildren(h("pre", { tabindex: "0", "aria-label": "The configuration as TOML" },
    isBrief.checked ? toml.changed || "# Everything is left at its default.\n" : toml.all));
  const said = h("p", { class: "note", role: "status" });
  const load = () => attempt(async () => {
    const [now, listed] = await Promise.all([forAllTeams("/v1/configuration"), get("/v1/rules?limit=500")]);
    rules.replaceChildren(ruleTable(listed.rules));
    for (const part of [again.parentElement, isBrief.parentElement]) part.hidden = !now;
    if (!now) {
      for (const part of [status, text]) part.replaceChildren(untold());
      return;
    }
    const last = now.last_attempt;
    const tried = last && h("div", { class: last.mistakes.length ? "bad" : null }, time(last.at, true), `, ${last.cause}: `,
      last.mistakes.length ? "rejected" : "loaded", last.mistakes.map((mistake) => h("div", {}, h("code", {}, mistake))));
    status.replaceChildren(facts([
      ["In use", `version ${now.configuration}`],
      ["File", now.file ?? "none: the built-in defaults"],
      ["Includes", now.included.length ? now.included.map((file) => h("div", {}, h("code", {}, file))) : null],
      ["Read", time(now.read_at, true)],
      ["Last reload", tried ?? "none since the start"],
      ["Needs a restart", now.needs_restart.length ? h("span", { class: "warn" }, now.needs_restart.join(", ")) : null],
    ]));
    toml = { all: now.toml, changed: now.changed_toml };
    showText();
  });
  const again = h("button", { type: "button", click: async () => {
    again.disabled = true;
    said.textContent = "";
    const done = await attempt(() => post("/v1/reload"));
    again.disabled = false;
    if (done) {
      said.textContent = `Reloaded: version ${done.configuration} is in use.`;
      await load();
    } else {
      const now = await get("/v1/configuration").catch(() => null);
      if (now?.last_attempt) said.textContent = "The configuration is unchanged.";
    }
  } }, "Reload the file");
  load();
  const view = h("div", { class: "view" }, h("h1", {}, "Configuration"),
    h("div", { class: "pair" }, panel("Status", status, h("p", { class: "actions" }, again), said), panel("In use", h("label", { class: "check" }, isBrief, " only what differs from the defaults"), text)),
    panel("The organisation's rules", rules));
  return { view, end: () => {} };
}

function ruleTable(rules) {
  const rows = rules.map((rule) => h("tr", {},
    h("td", { class: "number" }, rule.number),
    h("td", {}, badge(rule.action === "allow" ? "exception" : "refusal"), rule.legal && h("span", {}, " 451")),
    h("td", { class: "url" }, rule.hosts.join(", "), h("br"), h("small", {}, rule.paths.join(", ") || "all paths")),
    h("td", {}, rule.crawlers.map(crawlerName).join(", ") || "all", rule.purposes.length ? ` for ${rule.purposes.join(", ")}` : "", rule.methods.length ? ` (${rule.methods.join(", ")})` : ""),
    h("td", {}, rule.owner ? ownerLink(rule.owner, `[[rule]] ${rule.number}`, rule.hosts.join(", ")) : "–", h("br"), h("small", {}, rule.reason ?? "")),
    h("td", { class: rule.has_expired ? "bad" : null }, rule.expires_at ? [rule.has_expired ? "expired " : "", day(rule.expires_at)].flat() : "never")));
  return table("Rules", ["#Rule", "Action", "Hosts and paths", "Crawlers", "Owner and reason", "Expires"], rows, "There are no rules. Add [[rule]] to the configuration.", "rules");
}
