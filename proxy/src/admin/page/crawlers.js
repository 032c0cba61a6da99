// Crawlers: each crawler with its settings, and the outcomes of its requests in a time range.

import { getUnlessGivenUp, query } from "./api.js";
import { attempt, badge, count, crawlerName, h, newest, share, time } from "./dom.js";
import { ownerLink } from "./owner.js";
import { carry, inUrl, inWords, rangeControl, rangeOf } from "./range.js";
import { orderInUrl, orderOf, showSorted } from "./sortable.js";

const REFRESH = 5_000;

/** The daily budgets in words. */
const BUDGETS = { requests: "requests", bytes: "bytes", new_origins: "origins" };

/** The worst first: by what is refused or would be, then by requests. */
const worst = (one, other) => other.refused + other.observed - one.refused - one.observed || other.requests - one.requests;

export function crawlers(parameters) {
  const wanted = { q: parameters.get("q") ?? "" };
  let range = rangeOf(parameters);
  let order = orderOf(parameters.get("sort"));
  const list = h("div", { class: "panel flush" });
  const lead = h("p", { class: "lead" });
  const heading = h("div", { class: "bar heading" });
  const latest = newest();
  let [found, asking] = [[], null];
  const address = () => history.replaceState(null, "", `#/crawlers${query({ ...wanted, ...inUrl(range), sort: orderInUrl(order) })}`);
  const show = () => {
    const word = wanted.q.toLowerCase();
    const texts = (one) => [one.name, crawlerName(one.name), one.owner ?? "", one.mode, ...one.tokens];
    const shown = found.filter((one) => !word || texts(one).some((text) => text.toLowerCase().includes(word)));
    showSorted(list, {
      caption: "Crawlers", kind: "crawlers", columns: columns(range), items: shown.sort(worst), order, empty: "No crawler matches.",
      changed: (chosen) => {
        order = chosen;
        address();
        show();
      },
    });
  };
  const load = () => {
    asking?.abort();
    const own = asking = new AbortController();
    return attempt(() => latest(getUnlessGivenUp(`/v1/crawlers${query(range)}`, own), (listed) => {
      if (!listed) return;
      found = listed.crawlers;
      lead.textContent = `Requests, ${inWords(range)}. Those that match no [[crawler]] are unnamed: each is judged by its own User-Agent.`;
      show();
    })).finally(() => {
      if (asking === own) asking = null;
    });
  };
  const showHeading = () => heading.replaceChildren(h("h1", {}, "Crawlers"), rangeControl(range, (chosen) => {
    range = chosen;
    address();
    carry(range);
    showHeading();
    lead.textContent = "Reading the decision log …";
    load();
  }));
  const search = h("input", { name: "q", type: "search", value: wanted.q, autocomplete: "off", spellcheck: "false", input: ({ target }) => {
    wanted.q = target.value.trim();
    address();
    show();
  } });
  carry(range);
  showHeading();
  load();
  const timer = setInterval(() => document.hidden || asking || list.matches(":hover, :focus-within") || load(), REFRESH);
  const view = h("div", { class: "view" }, heading, lead,
    h("form", { class: "bar filters", role: "search", submit: (event) => event.preventDefault() }, h("label", {}, "Search", search)), list);
  return { view, end: () => (clearInterval(timer), asking?.abort()) };
}

function columns(range) {
  const decisions = (one, text, filter) => h("a", { href: `#/decisions${query({ crawler: one.name, ...filter, ...inUrl(range) })}` }, text);
  const number = (one, value, filter, kind) => (value ? h("span", { class: kind }, decisions(one, count(value), filter)) : "0");
  const withShare = (one, value, filter, kind) => h("td", { class: "number" }, h("span", {}, number(one, value, filter, kind), " ", h("small", {}, one.requests ? share(value, one.requests) : "")));
  const isSafe = (one) => one.mode === "observe" && one.requests > 0 && one.observed === 0;
  const numeric = (key, head, cell, note) => ({ key, head, kind: "number", value: (one) => one[key], cell, note });
  return [
    { key: "name", head: "Crawler", value: (one) => crawlerName(one.name), cell: (one) => h("th", { scope: "row" }, h("span", {}, decisions(one, crawlerName(one.name), {}), one.owner ? [" ", h("small", {}, ownerLink(one.owner, one.name))] : "")) },
    { key: "mode", head: "Mode", value: (one) => one.mode, cell: (one) => h("td", {}, h("span", {}, badge(one.mode), isSafe(one) ? [" ", h("span", { class: "badge forwarded" }, "safe to enforce")] : "")) },
    { head: "Tokens", cell: (one) => h("td", { class: "tokens" }, h("span", { class: "line", title: one.tokens.join(", ") }, one.tokens.join(", ") || "its own")) },
    numeric("requests", "Requests", (one) => h("td", { class: "number" }, h("span", {}, one.requests ? decisions(one, count(one.requests), {}) : "0",
      (one.budgets ?? []).flatMap((part) => [h("br"), h("small", {}, `${share(part.used, part.limit)} of today's ${BUDGETS[part.budget]}`)])))),
    numeric("refused", "Refused", (one) => withShare(one, one.refused, { outcome: "refused" })),
    numeric("observed", "Would be refused", (one) => withShare(one, one.observed, { outcome: "observed" }, "would-be")),
    numeric("failed", "Failed", (one) => h("td", { class: "number" }, number(one, one.failed, { outcome: "failed" }))),
    numeric("user_agent_mismatches", "Without its token", (one) => h("td", { class: "number" }, one.tokens.length ? count(one.user_agent_mismatches) : h("span", { class: "faint", title: "It has no token of its own: each request is judged by its User-Agent." }, "–")),
      "Requests since the start whose User-Agent has none of the crawler's tokens"),
    { key: "seen", head: "Last seen", value: (one) => one.last_seen_at, cell: (one) => h("td", {}, one.last_seen_at ? time(one.last_seen_at, true) : h("span", { class: "faint" }, "not since the start")) },
  ];
}
