// Crawlers: each crawler with its settings, and the outcomes of its requests since the start.

import { get, query } from "./api.js";
import { attempt, badge, count, h, newest, share, table, time } from "./dom.js";

const REFRESH = 5_000;

/** The daily budgets in words. */
const BUDGETS = { requests: "requests", bytes: "bytes", new_origins: "origins" };

export function crawlers(parameters) {
  const wanted = { q: parameters.get("q") ?? "" };
  const list = h("div", { class: "panel flush" });
  const lead = h("p", { class: "lead" });
  const latest = newest();
  let found = [];
  const show = () => {
    const word = wanted.q.toLowerCase();
    const shown = found.filter((one) => !word || [one.name, one.owner ?? "", one.mode, ...one.tokens].some((text) => text.toLowerCase().includes(word)));
    list.replaceChildren(table("Crawlers", ["Crawler", "Mode", "Tokens", "#Requests", "#Refused", "#Would be refused", "#Failed", "#Mismatches", "Last seen"],
      shown.map(row), "No crawler matches.", "crawlers"));
  };
  const load = () => attempt(() => latest(
    Promise.all([get("/v1/crawlers"), get("/v1/status")]),
    ([{ crawlers: listed }, status]) => {
      found = listed;
      lead.replaceChildren("Requests since the start, ", time(status.started_at, true), ". Requests that match no [[crawler]] count as asserted: each is judged by its own User-Agent. A mismatch is a request whose User-Agent has none of the crawler's tokens.");
      show();
    },
  ));
  const search = h("input", { name: "q", type: "search", value: wanted.q, autocomplete: "off", spellcheck: "false", input: ({ target }) => {
    wanted.q = target.value.trim();
    history.replaceState(null, "", `#/crawlers${query(wanted)}`);
    show();
  } });
  load();
  const timer = setInterval(() => document.hidden || list.matches(":hover") || load(), REFRESH);
  const view = h("div", { class: "view" }, h("h1", {}, "Crawlers"), lead,
    h("form", { class: "bar filters", role: "search", submit: (event) => event.preventDefault() }, h("label", {}, "Search", search)), list);
  return { view, end: () => clearInterval(timer) };
}

function row(one) {
  const decisions = (text, filter) => h("a", { href: `#/decisions${query({ crawler: one.name, ...filter })}` }, text);
  const number = (value, filter, kind) => h("td", { class: "number" }, value ? h("span", { class: kind }, decisions(count(value), filter)) : "0");
  return h("tr", {},
    h("th", { scope: "row" }, h("span", {}, decisions(one.name, {}), one.owner ? [" ", h("small", {}, one.owner)] : "")),
    h("td", {}, badge(one.mode)),
    h("td", { class: "tokens" }, h("span", { class: "line", title: one.tokens.join(", ") }, one.tokens.join(", ") || "its own")),
    h("td", { class: "number" }, one.requests ? decisions(count(one.requests), {}) : "0",
      (one.budgets ?? []).flatMap((part) => [h("br"), h("small", {}, `${share(part.used, part.limit)} of today's ${BUDGETS[part.budget]}`)])),
    h("td", { class: "number" }, h("span", {}, one.refused ? decisions(count(one.refused), { outcome: "refused" }) : "0", " ", h("small", {}, one.requests ? share(one.refused, one.requests) : ""))),
    number(one.observed, { outcome: "observed" }, "would-be"),
    number(one.failed, { outcome: "failed" }),
    h("td", { class: "number" }, count(one.user_agent_mismatches)),
    h("td", {}, one.last_seen_at ? time(one.last_seen_at, true) : h("span", { class: "faint" }, "not since the start")));
}
