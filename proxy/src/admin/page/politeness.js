// Politeness: the servers that requests are slowed down for, what origins turn away, and what is left of daily budgets.

import { forAllTeams, get, query } from "./api.js";
import { attempt, bytes, count, crawlerName, h, inSeconds, newest, panel, rate, share, table, time, untold } from "./dom.js";
import { docsLink } from "./docs.js";

const REFRESH = 5_000;
const SHOWN = 100;

/** The reasons to slow down, in words. */
const CAUSES = { 429: "answered 429", 503: "answered 503", reset: "closed the connection", response_time: "answers slower than usual", ratelimit: "its RateLimit is used up" };
const KINDS = ["challenge", "forbidden", "rate", "payment", "unavailable"];
const BUDGETS = { requests: "requests", bytes: "bytes", new_origins: "new origins" };

export function politeness(parameters) {
  const wanted = { by: parameters.get("by") === "crawler" ? "crawler" : "host" };
  const counted = h("p", { class: "note" });
  const [costs, paces, edge, names, budgets] = [0, 1, 2, 3, 4].map(() => h("div", {}));
  const latest = newest();
  const load = () => attempt(() => latest(
    Promise.all([forAllTeams("/v1/pace"), forAllTeams(`/v1/edge${query({ by: wanted.by, limit: SHOWN })}`), get("/v1/crawlers"), forAllTeams(`/v1/edge${query({ by: "signed", limit: SHOWN })}`)]),
    ([slowed, turnedAway, { crawlers }, signed]) => {
      counted.replaceChildren(...(slowed?.since ? ["Since ", time(slowed.since), `, the last ${count(slowed.decisions)} decisions in memory.`] : []));
      costs.replaceChildren(slowed ? costTable(slowed.costs) : untold());
      paces.replaceChildren(slowed ? paceTable(slowed) : untold());
      edge.replaceChildren(turnedAway ? edgeTable(turnedAway.edge, wanted.by) : untold());
      names.replaceChildren(signed ? nameTables(signed) : untold());
      budgets.replaceChildren(budgetTable(crawlers));
    },
  ));
  const by = h("label", {}, "By ", h("select", { name: "by", change: ({ target }) => {
    wanted.by = target.value;
    history.replaceState(null, "", `#/politeness${query(wanted)}`);
    load();
  } }, ["host", "crawler"].map((value) => h("option", { value, selected: wanted.by === value }, value))));
  load();
  const timer = setInterval(() => document.hidden || load(), REFRESH);
  const view = h("div", { class: "view" }, h("h1", {}, "Politeness"),
    h("p", { class: "lead" }, "How origins bear the requests, and what crawlers may still send today. Documentation: ", docsLink("politeness", "pace and budgets"), ", ", docsLink("refusals", "refusals by origins"), "."),
    panel("What the pace costs", h("p", { class: "note" }, "The delays that crawlers keep, by robots.txt and the configuration, how long their requests waited, or would have if they are only observed, and the most pages that they leave for a day."), counted, costs),
    panel("Slowed down", h("p", { class: "note" }, "Servers that get fewer requests than they could, because of how they answer (politeness.adaptive)."), paces),
    h("section", { class: "panel", "aria-labelledby": "p-edge" }, h("div", { class: "bar" }, h("h2", { id: "p-edge" }, "Turned away by origins"), by),
      h("p", { class: "note" }, "Since the start: requests that robots.txt allows, but the origin, or the bot manager in front of it, does not."), edge),
    panel("What the name does", h("p", { class: "note" }, "Since the start: the hosts that answered a crawler's unsigned and its signed requests; and names for training and search against names with fewer purposes."), names),
    panel("Today's budgets", h("p", { class: "note" }, "Since midnight UTC, on all nodes as far as this one knows."), budgets));
  return { view, end: () => clearInterval(timer) };
}

function costTable(costs) {
  const rows = costs.slice(0, SHOWN).map((cost) => h("tr", {},
    h("th", { scope: "row" }, h("a", { href: `#/decisions${query({ crawler: cost.crawler })}` }, crawlerName(cost.crawler))),
    h("td", { class: "url" }, h("a", { href: `#/origins/${encodeURIComponent(cost.origin)}` }, cost.origin)),
    h("td", { class: "number" }, inSeconds(cost.delay_seconds)), h("td", { class: "number" }, count(cost.pages_a_day)),
    h("td", { class: "number" }, count(cost.requests)), h("td", { class: "number" }, inSeconds(cost.waited_seconds)), h("td", { class: "number" }, inSeconds(cost.would_wait_seconds)), h("td", { class: "number" }, count(cost.too_soon))));
  return table("Cost of the pace", ["Crawler", "Origin", "#Delay", "#Pages a day", "#Forwarded", "#Waited", "#Would wait", "#Too soon"], rows, "No request in memory, of the last hour at most, had to keep a delay.", "cards");
}

function paceTable({ paces, total }) {
  const millis = (number) => (number === null ? "–" : `${count(Math.round(number))} ms`);
  const host = (unit) => (unit.includes("://") ? new URL(unit).hostname : null);
  const rows = paces.slice(0, SHOWN).map((pace) => h("tr", {},
    h("th", { scope: "row", class: "url" }, host(pace.unit) ? h("a", { href: `#/origins/${encodeURIComponent(pace.unit)}` }, pace.unit) : pace.unit, pace.client !== undefined && `, requests of ${pace.client}`),
    h("td", { class: "number" }, pace.requests_per_second >= 1 ? `${rate(pace.requests_per_second)}/s` : `1 in ${rate(1 / pace.requests_per_second)} s`),
    h("td", {}, CAUSES[pace.cause] ?? pace.cause),
    h("td", { class: "number" }, millis(pace.response_ms)), h("td", { class: "number" }, millis(pace.usual_response_ms)),
    h("td", { class: "number" }, `${rate(pace.next_in_seconds)} s`)));
  const more = total - rows.length;
  return h("div", {}, table("Servers that are slowed down", ["Server", "#At most", "Because it", "#Answers in", "#Usually", "#Next in"], rows, "No server is slowed down.", "cards"),
    more > 0 && h("p", { class: "note" }, `${count(more)} more are slowed down less.`));
}

function edgeTable(counts, by) {
  const rows = counts.map((one) => h("tr", {},
    h("th", { scope: "row", class: "url" }, h("a", { href: `#/decisions${query({ [by]: one.name })}` }, by === "crawler" ? crawlerName(one.name) : one.name)),
    h("td", { class: "number" }, count(one.count)),
    KINDS.map((kind) => h("td", { class: "number" }, count(one[kind]))),
    h("td", { class: "number" }, count(one.signed)),
    h("td", {}, time(one.last_at, true))));
  return table("Turned away by origins", [by === "host" ? "Host" : "Crawler", "#All", "#Challenge", "#403 or 451", "#429", "#402", "#503", "#Signed", "Last"], rows, "No origin has turned away a request since the start.", "cards");
}

/** Says what signing, and splitting a name, changed, and lists the hosts behind it. */
function nameTables({ signed, split, names }) {
  const of = ({ let_in, refused }) => `${count(let_in)} of ${count(let_in + refused)}`;
  const change = (word, how, compared) => {
    const rows = [...compared.opened_hosts, ...compared.closed_hosts].map((one) => h("tr", {},
      h("th", { scope: "row", class: "url" }, h("a", { href: `#/decisions${query({ host: one.host })}` }, one.host)),
      h("td", { class: "number" }, of(one.before)), h("td", { class: "number" }, of(one.after))));
    const closed = compared.closed ? ` ${count(compared.closed)} no longer let you in.` : "";
    const more = compared.opened + compared.closed - rows.length;
    return [h("p", {}, `${word}: ${count(compared.opened)} of ${count(compared.hosts)} hosts let you in that did not before.${closed}`),
      rows.length > 0 && table(`Hosts that changed by ${how}`, ["Host", "#Let in before", "#Let in after"], rows, "", "cards"),
      more > 0 && h("p", { class: "note" }, `${count(more)} more changed.`)];
  };
  const rows = names.map((one) => h("tr", {},
    h("th", { scope: "row" }, h("a", { href: `#/decisions${query({ crawler: one.crawler })}` }, crawlerName(one.crawler))),
    h("td", { class: "url" }, one.agent ?? (one.signed ? "–" : "unsigned")), h("td", {}, (one.purposes ?? []).join(", ") || "–"),
    h("td", { class: "number" }, `${count(one.hosts_let_in)} of ${count(one.hosts)}`),
    h("td", { class: "number" }, count(one.let_in)), h("td", { class: "number" }, count(one.refused))));
  return h("div", {}, signed.hosts > 0 && change("Signed", "signing", signed), split.hosts > 0 && change("Split", "splitting", split),
    table("Answers by name", ["Crawler", "Agent", "Purposes", "#Hosts that let it in", "#Let in", "#Turned away"], rows, "No host has answered a request since the start.", "cards"));
}

function budgetTable(crawlers) {
  const rows = crawlers.flatMap((crawler) => (crawler.budgets ?? []).map((part) => {
    const [used, limit] = [part.used, part.limit].map(part.budget === "bytes" ? bytes : count);
    return h("tr", {},
      h("th", { scope: "row" }, h("a", { href: `#/decisions${query({ crawler: crawler.name, reason: "budget" })}` }, crawler.name)),
      h("td", {}, BUDGETS[part.budget] ?? part.budget),
      h("td", { class: "number" }, used), h("td", { class: "number" }, limit),
      h("td", { class: part.used >= part.limit ? "number bad" : "number" }, share(part.used, part.limit)));
  }));
  return table("Today's budgets", ["Crawler", "Budget", "#Used", "#Limit", "#Share"], rows, "No crawler has a daily budget. requests_per_day, bytes_per_day and new_origins_per_day set one.", "budgets");
}
