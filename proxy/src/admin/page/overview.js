// Overview: how much is refused, or would be, of a time range: by crawler, rule, host and reason.

import { get, getUnlessGivenUp, query } from "./api.js";
import { attempt, badge, bytes, clockTime, count, crawlerName, day, facts, h, inSeconds, newest, panel, rate, share, table, time } from "./dom.js";
import { draw, unitOf } from "./chart.js";
import { ownerLink } from "./owner.js";
import { carry, inUrl, inWords, isLive, rangeControl, rangeOf } from "./range.js";
import { meaning, reasonLink } from "./reasons.js";
import { orderInUrl, orderOf, showSorted } from "./sortable.js";
import { unnamedPanel } from "./unnamed.js";

const OUTCOMES = [["forwarded", "--forwarded"], ["observed", "--observed"], ["refused", "--refused"], ["failed", "--failed"], ["tunnelled", "--shade-6"]];
const OUTCOME_LABELS = { observed: "would be refused" };
const SHADES = ["--shade-1", "--shade-2", "--shade-3", "--shade-4", "--shade-5", "--shade-6"];
/** The time between two requests for counts. The proxy keeps those of a long range for longer. */
const REFRESH = 5_000;
/** The most rows of a table; the other crawlers are added up in one row. */
const SHOWN = 12;
const EXCEPTIONS = 20;

/** The choices that outlive the view; the range and the order are in the URL. */
const kept = { split: "outcome", unnamed: { by: "by_token", order: null } };

export function overview(live, parameters) {
  let range = rangeOf(parameters);
  let order = orderOf(parameters.get("sort"));
  const place = {};
  for (const name of ["tiles", "byCrawler", "breaks", "unnamed", "byHost", "byRule", "byReason", "expiring", "proxy", "well"]) place[name] = h("div", {});
  place.tiles.className = "tiles";
  const figure = h("figure", { class: "chart" });
  const control = h("div", { class: "bar heading" });
  const counted = h("p", { class: "note", role: "status" });
  let [chart, found, status, marks] = [null, null, null, []];

  const address = () => history.replaceState(null, "", `#/overview${query({ ...inUrl(range), sort: orderInUrl(order) })}`);
  const showControl = () => control.replaceChildren(h("h1", {}, "Overview"),
    range.until && h("button", { type: "button", click: () => choose({ since: "5m", until: "" }) }, "Show all"), rangeControl(range, choose));
  let asking = null;
  const choose = (wanted) => {
    range = wanted;
    address();
    carry(range);
    showControl();
    counted.textContent = "Reading the decision log …";
    load();
  };
  const showChart = () => {
    // Redrawing would cancel a selection that the user is dragging.
    if (figure.dataset.drag) return;
    const pointer = chart?.pointer();
    chart?.destroy();
    const points = isLive(range) ? livePoints(live) : pastPoints(found);
    chart = plot(figure, points, { range, pointer, marks, zoomed });
  };
  const zoomed = ([since, until]) => choose({ since: new Date(since * 1000).toISOString(), until: new Date(until * 1000).toISOString() });
  const showCrawlers = () => showSorted(place.byCrawlerTable, crawlerTable(found, range, order, (chosen) => {
    order = chosen;
    address();
    showCrawlers();
  }));
  place.byCrawlerTable = h("div", {});
  // Nothing moves while it loads: the tiles have their places, and what is below the chart is shown once all of it is there.
  tiles(place.tiles, null, inWords(range));
  place.well.replaceChildren(h("p", { class: "note" }, "\u00a0"));
  const below = h("div", { hidden: true });
  let isStateKnown = false;
  const reveal = () => (below.hidden = !found || !isStateKnown);
  const show = () => {
    const [words, filter] = [inWords(range), inUrl(range)];
    counted.textContent = notes(found);
    tiles(place.tiles, found, words);
    place.byCrawler.replaceChildren(panel(`By crawler, ${words}`, place.byCrawlerTable));
    showCrawlers();
    place.breaks.replaceChildren(...wouldBreak(found, words, filter));
    // Redrawing would take the button away that somebody is about to press.
    if (!place.unnamed.matches(":hover, :focus-within")) {
      const total = found.by_crawler.find(({ name }) => name === "asserted")?.requests ?? 0;
      place.unnamed.replaceChildren(...(total ? [unnamedPanel(found.unnamed, total, words, kept.unnamed, filter)] : []));
    }
    place.byHost.replaceChildren(panel(`Most refused hosts, ${words}`, ranking("Refusals by host", "Host", found.by_host, (name) => ({ host: name }), filter)));
    place.byRule.replaceChildren(panel(`Most refused by rule, ${words}`, ranking("Refusals by rule", "Rule", found.by_rule, (name) => ({ rule: name }), filter)));
    place.byReason.replaceChildren(panel(`By reason, ${words}`, reasonTable(found.by_reason, words, filter)));
    if (!isLive(range)) showChart();
  };
  const latest = newest();
  const load = () => {
    asking?.abort();
    const own = asking = new AbortController();
    return attempt(() => latest(getUnlessGivenUp(`/v1/overview${query(range)}`, own), (answer) => {
      if (!answer) return;
      found = answer;
      show();
      reveal();
    })).finally(() => {
      if (asking === own) asking = null;
    });
  };
  const latestState = newest();
  const loadState = () => attempt(() => latestState(Promise.all([
    get("/v1/status"),
    get("/v1/rules?action=allow&expires_within_days=30&limit=10000"),
    // A token of one team is not told.
    get("/v1/configuration").catch(() => null),
    get("/v1/problems"),
  ]), ([now, rules, configuration, health]) => {
    status = now;
    place.well.replaceChildren(h("p", { class: "note" }, wellInWords(health)));
    marks = [{ at: Date.parse(now.started_at) / 1000, label: "start" }];
    if (configuration?.configuration > 1) marks.push({ at: Date.parse(configuration.read_at) / 1000, label: "reload" });
    place.expiring.replaceChildren(panel("Exceptions: expired and expiring", exceptions(rules.rules)));
    showProxy();
  })).finally(() => {
    isStateKnown = true;
    reveal();
  });
  const showProxy = () => status && place.proxy.replaceChildren(panel("This proxy", proxyFacts(status, live.points)));
  figure.addEventListener("pointerdown", () => (figure.dataset.drag = "yes"));
  const dragged = () => delete figure.dataset.drag;
  addEventListener("pointerup", dragged);
  live.onPoint = () => {
    if (isLive(range)) showChart();
    showProxy();
  };
  const split = h("label", {}, "Show ", h("select", { name: "split", change: ({ target }) => {
    kept.split = target.value;
    showChart();
  } }, [["outcome", "all, by outcome"], ["crawler", "refusals, by crawler"], ["reason", "refusals, by reason"]].map(([value, text]) => h("option", { value, selected: kept.split === value }, text))));
  carry(range);
  showControl();
  if (isLive(range)) showChart();
  counted.textContent = isLive(range) ? "" : "Reading the decision log …";
  load();
  loadState();
  // A request that takes longer than the pause is not given up for the next.
  const timer = setInterval(() => document.hidden || (asking || range.until || load(), loadState()), REFRESH);
  below.append(place.byCrawler, place.breaks, place.unnamed,
    h("div", { class: "columns" }, h("div", {}, place.byRule, place.byHost), h("div", {}, place.byReason, place.expiring)), place.proxy);
  const view = h("div", { class: "view" }, control, h("div", { class: "bar" }, place.well, counted), place.tiles,
    h("section", { class: "panel", "aria-labelledby": "p-time" }, h("div", { class: "bar" }, h("h2", { id: "p-time" }, "Requests over time"), split), figure), below);
  return { view, end: () => (clearInterval(timer), asking?.abort(), removeEventListener("pointerup", dragged), chart?.destroy(), (live.onPoint = null)) };
}

/** One line that says which parts are well; the strip above has the problems. */
function wellInWords({ problems, well }) {
  const parts = well.join(", ");
  if (!problems.length) return `All well: ${parts}.`;
  return `${count(problems.length)} ${problems.length === 1 ? "problem" : "problems"}, see above. Well: ${parts || "nothing else is known"}.`;
}

/** What has to be known about the counts. */
function notes(found) {
  const age = Date.now() - Date.parse(found.counted_at);
  return [
    age > 30_000 && `counted at ${clockTime(new Date(found.counted_at))}`,
    !found.is_complete && (found.from === "memory" ? "there is no decision log: only recent decisions are counted" : "some of the decision log cannot be read"),
    found.left_out > 0 && "rare rows are left out; the totals are complete",
  ].filter(Boolean).join(" · ");
}

/** The two numbers that matter most, and those beside them; dashes as long as they are not known. */
function tiles(place, found, words) {
  const tile = (name, value, note, kind) => h("div", { class: `tile ${kind}` }, h("dt", {}, name), h("dd", {}, value, h("small", {}, note)));
  if (!found) {
    place.replaceChildren(h("dl", {}, [["Refused", "big refused"], ["Would be refused", "big observed"], ["Requests", ""], ["Failed", ""]].map(([name, kind]) => tile(name, "–", words, kind))));
    return;
  }
  const of = (number) => `${count(number)} of ${count(found.requests)}, ${words}`;
  place.replaceChildren(h("dl", {},
    tile("Refused", share(found.refused, found.requests), of(found.refused), "big refused"),
    tile("Would be refused", share(found.would_be_refused, found.requests), `${of(found.would_be_refused)}; only observed${found.would_wait ? `; ${count(found.would_wait)} would wait` : ""}`, "big observed"),
    tile("Requests", count(found.requests), words, ""),
    tile("Failed", count(found.failed), `origin or network, ${words}`, "")));
}

/** The points of the last minutes, from the stream. */
function livePoints(live) {
  const points = live.points.filter((point) => point.at_ms > Date.now() - 5 * 60_000);
  const sums = (counts, of, name) => counts.filter(of).reduce((sums, one) => sums.set(one[name], (sums.get(one[name]) ?? 0) + one.requests), new Map());
  const isRefused = ({ outcome }) => outcome === "refused";
  const converted = points.map(({ at_ms: at, counts }) => ({
    at: at / 1000, outcome: sums(counts, () => true, "outcome"), crawler: sums(counts, isRefused, "crawler"), reason: sums(counts, isRefused, "reason"),
  }));
  return { step: live.step, points: converted };
}

/** The points of a longer range, as the proxy counted them. */
function pastPoints(found) {
  const { step_seconds: step, points } = found.timeline;
  const sums = (object) => new Map(Object.entries(object));
  return { step, points: points.map((point) => ({
    at: point.at_ms / 1000, outcome: sums(point.outcomes), crawler: sums(point.refused_by_crawler), reason: sums(point.refused_by_reason),
  })) };
}

const total = (points, name) => points.reduce((sum, { outcome }) => sum + (name ? outcome.get(name) ?? 0 : [...outcome.values()].reduce((all, one) => all + one, 0)), 0);

function plot(figure, { step, points }, { range, pointer, marks, zoomed }) {
  const unit = unitOf(step);
  const layers = layersOf(points, unit.divisor);
  const key = h("ul", { class: "key" }, layers.map((layer) => h("li", {},
    h("span", { class: "swatch", "data-colour": layer.colour.slice(2), "aria-hidden": "true" }), layer.label, h("span", { "data-value": "" }))), h("li", { "data-total": "" }));
  const canvas = h("div", { class: "canvas", "aria-hidden": "true" });
  figure.replaceChildren(canvas,
    h("figcaption", {}, key, h("p", { class: "unseen" }, `${unit.label}, ${inWords(range)}: ${count(total(points))} requests, of which ${count(total(points, "refused"))} were refused. ${marks.map(({ at, label }) => `${label} at ${clockTime(new Date(at * 1000))}`).join(", ")}`)));
  const times = points.map(({ at }) => at);
  if (times.length < 2) {
    canvas.replaceChildren(h("p", { class: "empty" }, "The first data points arrive in a few seconds."));
    return null;
  }
  const drawn = layers.length ? layers : [{ label: "", colour: "--forwarded", values: times.map(() => 0) }];
  const shown = isLive(range) ? [times.at(-1) - 300, times.at(-1)] : [times[0] - step, times.at(-1)];
  return draw(canvas, times, drawn, { range: shown, unit, pointer, marks, zoomed });
}

function layersOf(points, divisor) {
  const series = (label, colour, value) => ({ label, colour, values: points.map((point) => value(point) / divisor) });
  if (kept.split === "outcome") {
    return OUTCOMES.filter(([name]) => name === "forwarded" || name === "refused" || total(points, name))
      .map(([name, colour]) => series(OUTCOME_LABELS[name] ?? name, colour, ({ outcome }) => outcome.get(name) ?? 0));
  }
  const sums = new Map();
  for (const point of points) for (const [name, requests] of point[kept.split]) sums.set(name, (sums.get(name) ?? 0) + requests);
  const names = [...sums].sort((one, other) => other[1] - one[1]).map(([name]) => name);
  const words = (name) => (kept.split === "crawler" ? crawlerName(name) : name);
  const shown = names.slice(0, SHADES.length - 1).map((name, index) => series(words(name), SHADES[index], (point) => point[kept.split].get(name) ?? 0));
  const others = names.slice(SHADES.length - 1);
  if (others.length) shown.push(series(`${others.length} others`, SHADES.at(-1), (point) => others.reduce((sum, name) => sum + (point[kept.split].get(name) ?? 0), 0)));
  return shown;
}

/** The bar of a crawler: as long as its requests, with the parts that are refused and would be. */
function bar(row, most) {
  const drawn = h("span", { class: "amount", "aria-hidden": "true" }, h("span", { class: "part" }), h("span", { class: "part would" }));
  drawn.style.setProperty("--all", `${(100 * row.requests) / most}%`);
  drawn.firstChild.style.setProperty("--part", `${100 * row.refused_share}%`);
  drawn.lastChild.style.setProperty("--part", `${100 * row.would_be_refused_share}%`);
  return drawn;
}

/** The crawler's name; the proxy's own requests, for what sites state about use, have its name. */
const named = (row) => (row.name === "wayleave" && !row.mode ? "wayleave itself" : crawlerName(row.name));

/** The requests that would wait, and for how long altogether. */
const waits = (requests, seconds) => (requests ? h("span", {}, count(requests), " ", h("small", {}, inSeconds(seconds))) : "0");

const isSafe = (row) => row.mode === "observe" && row.requests > 0 && row.would_be_refused === 0;

function crawlerTable(found, range, order, changed) {
  const filter = inUrl(range);
  const rows = found.by_crawler;
  const most = Math.max(...rows.map(({ requests }) => requests), 1);
  const decisions = (row, text, more = {}) => h("a", { href: `#/decisions${query({ crawler: row.name, ...more, ...filter })}` }, text);
  const number = (row, value, more, kind) => h("td", { class: "number" }, value ? h("span", { class: kind }, decisions(row, count(value), more)) : "0");
  const part = (key, head) => ({ key: `${key}_share`, head, kind: "number", value: (row) => row[`${key}_share`], cell: (row) => h("td", { class: "number" }, share(row[key], row.requests)) });
  const columns = [
    { key: "crawler", head: "Crawler", value: (row) => named(row), cell: (row) => h("th", { scope: "row" }, h("span", {}, decisions(row, named(row)),
      isSafe(row) ? [" ", h("span", { class: "badge forwarded", title: `None of its requests would be refused, ${inWords(range)}.` }, "safe to enforce")]
        : row.mode === "observe" ? [" ", badge("observe")] : "")) },
    { head: "", kind: "wide", cell: (row) => h("td", { class: "wide" }, bar(row, most)) },
    { key: "requests", head: "Requests", kind: "number", value: (row) => row.requests, cell: (row) => number(row, row.requests, {}) },
    { key: "refused", head: "Refused", kind: "number", value: (row) => row.refused, cell: (row) => number(row, row.refused, { outcome: "refused" }) },
    part("refused", "Refused %"),
    { key: "would", head: "Would be refused", kind: "number", value: (row) => row.would_be_refused, cell: (row) => number(row, row.would_be_refused, { outcome: "observed" }, "would-be") },
    part("would_be_refused", "Would be %"),
    { key: "wait", head: "Would wait", kind: "number", value: (row) => row.would_wait, cell: (row) => h("td", { class: "number" }, waits(row.would_wait, row.would_wait_seconds)) },
    { key: "rule", head: "Top rule", value: (row) => row.first_rule, cell: (row) => h("td", { class: "named" }, row.first_rule ? h("a", { class: "quiet clamp", title: row.first_rule, href: `#/decisions${query({ crawler: row.name, rule: row.first_rule, host: row.first_host, ...filter })}` }, shortRule(row.first_rule)) : "–") },
    { key: "host", head: "At host", note: "The host of the top rule: the most frequent pair", value: (row) => row.first_host, cell: (row) => h("td", { class: "named" }, row.first_host ? decisions(row, row.first_host, { host: row.first_host }) : "–") },
  ];
  // Sorted, all of them are looked at; the rest has no order.
  const others = order ? [] : rows.slice(SHOWN);
  const sum = (key) => others.reduce((sum, row) => sum + row[key], 0);
  const all = sum("requests");
  // The row of all others has no bar: the scale ends at the largest single crawler, and it could exceed that.
  const rest = h("tr", {}, h("th", { scope: "row" }, h("a", { href: `#/crawlers${query(filter)}` }, `${count(others.length)} others`)), h("td", { class: "wide" }),
    ...[count(all), count(sum("refused")), share(sum("refused"), all), count(sum("would_be_refused")), share(sum("would_be_refused"), all), waits(sum("would_wait"), sum("would_wait_seconds"))].map((text) => h("td", { class: "number" }, text)), h("td", {}), h("td", {}));
  return { caption: "Requests by crawler", kind: "ranking", columns, items: rows, order, changed, most: order ? Infinity : SHOWN, more: others.length ? [rest] : [], empty: `No requests, ${inWords(range)}.` };
}

/** The part of a rule that says most: the line, without the URL of its file. */
const shortRule = (name) => name.match(/^(.*) \([a-z]+:\/\/[^ ]*\/robots\.txt:\d+\)$/)?.[1] ?? name;

/** The requests that enforcement would refuse, where refusals are only observed. */
function wouldBreak(found, words, filter) {
  if (!found.observed.length) return [];
  const groups = new Map();
  for (const row of found.observed) {
    // The same text may be in several lines and files of a host.
    const key = JSON.stringify([row.crawler, row.host, shortRule(row.rule ?? row.reason)]);
    const group = groups.get(key);
    const rule = row.rule ?? row.reason;
    if (group) {
      group.count += row.count;
      if (!group.rules.includes(rule)) group.rules.push(rule);
    } else groups.set(key, { ...row, rules: [rule] });
  }
  const most = [...groups.values()].sort((one, other) => other.count - one.count);
  const rows = most.slice(0, SHOWN).map((row) => h("tr", {},
    h("th", { scope: "row" }, h("a", { href: `#/decisions${query({ crawler: row.crawler, outcome: "observed", ...filter })}` }, crawlerName(row.crawler))),
    h("td", {}, row.host ? h("a", { href: `#/decisions${query({ host: row.host, outcome: "observed", ...filter })}` }, row.host) : "–"),
    h("td", { class: "named" }, h("span", { class: "clamp", title: row.rule ?? row.reason }, shortRule(row.rule ?? row.reason))),
    h("td", { class: "url" }, h("span", { class: "clamp", title: row.example }, row.example)),
    h("td", { class: "number" }, h("a", { href: `#/decisions${query({ crawler: row.crawler, host: row.host, rule: row.rules, outcome: "observed", ...filter })}` }, count(row.count)))));
  return [panel(`What would break, ${words}`, h("p", { class: "note" }, "Forwarded only because refusals are observed; with mode = \"enforce\" these requests would be refused."),
    table("Would be refused", ["Crawler", "Host", "Rule", "For example", "#Requests"], rows, "", "ranking"))];
}

/** Those with most refusals, each linked to its decisions. */
function ranking(caption, head, rows, filterOf, filter) {
  const linked = (row, text, outcome) => (text === 0 ? "0" : h("a", { href: `#/decisions${query({ ...filterOf(row.name), outcome, ...filter })}` }, typeof text === "number" ? count(text) : text));
  const refused = rows.filter((row) => row.refused || row.would_be_refused).slice(0, SHOWN);
  return table(caption, [head, "#Refused", "#Would be refused"], refused.map((row) => h("tr", {},
    h("th", { scope: "row", class: "named" }, linked(row, row.name, row.refused ? "refused" : "observed")),
    h("td", { class: "number" }, linked(row, row.refused, "refused")), h("td", { class: "number" }, linked(row, row.would_be_refused, "observed")))), "No refusals.", "ranking");
}

/** The reasons for which requests failed, were refused, or would have been refused. */
function reasonTable(rows, words, filter) {
  const columns = [["refused", "refused"], ["would_be_refused", "observed"], ["failed", "failed"]];
  /** The outcome that most of them had. What it means then is explained. */
  const main = (row) => columns.reduce((one, other) => (row[other[0]] > row[one[0]] ? other : one))[1];
  const shown = rows.filter((row) => columns.some(([key]) => row[key]));
  return table("Requests by reason", ["Reason", "#Refused", "#Would be refused", "#Failed"], shown.map((row) => h("tr", {},
    h("th", { scope: "row" }, reasonLink(row.name, `#/decisions${query({ reason: row.name, ...filter })}`, main(row)), h("small", { class: "clamp" }, meaning(row.name, main(row)))),
    columns.map(([key, outcome]) => h("td", { class: "number" }, row[key] ? h("a", { href: `#/decisions${query({ reason: row.name, outcome, ...filter })}` }, count(row[key])) : "0")))),
  `Nothing was refused, ${words}.`);
}

function exceptions(rules) {
  const rows = rules.slice(0, EXCEPTIONS).map((rule) => h("tr", {},
    h("td", { class: "number" }, rule.number),
    h("td", {}, `${rule.hosts.join(", ")} ${rule.paths.join(", ")}`),
    h("td", {}, rule.owner ? ownerLink(rule.owner, `[[rule]] ${rule.number}`, rule.hosts.join(", ")) : "–", h("br"), h("small", {}, rule.reason ?? "")),
    h("td", { class: rule.has_expired ? "bad" : "warn" }, day(rule.expires_at))));
  const more = rules.length - rows.length;
  return h("div", {},
    table("Exceptions that expire within 30 days", ["#Rule", "For", "Owner", "Expires"], rows, "No exception expires within 30 days.", "rules"),
    more > 0 && h("p", { class: "note" }, `${count(more)} more expire within 30 days.`));
}

/** What only those who run the proxy need. */
function proxyFacts(status, points) {
  const last = points.slice(-5);
  const requests = last.reduce((sum, point) => sum + point.counts.reduce((of, one) => of + one.requests, 0), 0);
  const { robots } = status;
  return facts([
    ["Requests per second", `${rate(requests / Math.max(last.length * 2, 1))}, over the last 10 s`],
    ["Clients connected", `${count(status.client_connections)}, at ${status.listeners.join(", ")}`],
    ["Robots.txt known", `${count(robots.fresh + robots.stale + robots.unavailable + robots.unreachable)}: ${count(robots.stale)} stale, ${count(robots.unreachable)} unreachable, ${bytes(robots.bytes)}`],
    ["Started", time(status.started_at, true)],
  ]);
}
