// Overview: the number of requests that are forwarded and refused, by crawler and by reason.

import { get, query } from "./api.js";
import { attempt, bytes, clockTime, count, day, h, newest, panel, rate, share, table } from "./dom.js";
import { draw } from "./chart.js";
import { meaning, reasonLink } from "./reasons.js";

const OUTCOMES = [["forwarded", "--forwarded"], ["observed", "--observed"], ["refused", "--refused"], ["failed", "--failed"]];
const SHADES = ["--shade-1", "--shade-2", "--shade-3", "--shade-4", "--shade-5", "--shade-6"];
const REFRESH = 15_000;
/** The most rows of a table; the others are added up in one row. */
const SHOWN = 12;
const EXCEPTIONS = 20;

/** The choices of the user, which outlive the view. */
const kept = { minutes: 5, split: "outcome", by: "host", range: null };

export function overview(live) {
  const tiles = h("div", { class: "tiles" });
  const figure = h("figure", { class: "chart" });
  const byCrawler = h("div", {});
  const byReason = h("div", {});
  const breaks = h("div", {});
  const top = h("div", {});
  const expiring = h("div", {});
  const choose = (name, label, options, changed) => h("label", {}, `${label} `, h("select", {
    name,
    change: ({ target }) => {
      kept[name] = name === "minutes" ? Number(target.value) : target.value;
      changed();
    },
  }, options.map(([value, text]) => h("option", { value, selected: String(kept[name]) === value }, text))));

  let chart = null;
  let status = null;
  let marks = [];
  const whole = h("button", { type: "button", click: () => zoom(null) }, "Show all");
  const zoom = (range) => {
    kept.range = range;
    show();
  };
  const show = () => {
    const points = chosen(live.points);
    whole.hidden = !kept.range;
    fill(tiles, points, live.points, status);
    const pointer = chart?.pointer();
    // Redrawing would cancel a selection that the user is dragging.
    if (figure.dataset.drag) return;
    chart?.destroy();
    chart = plot(figure, points, live.step, { pointer, marks, zoomed: zoom });
    byCrawler.replaceChildren(panel(`By crawler, ${windowText()}`, crawlerRanking(points)));
    byReason.replaceChildren(panel(`Refused and failed by reason, ${windowText()}`, reasonRanking(points)));
  };
  figure.addEventListener("pointerdown", () => (figure.dataset.drag = "yes"));
  const dragged = () => delete figure.dataset.drag;
  addEventListener("pointerup", dragged);
  const latest = newest();
  const refresh = () => attempt(() => latest(Promise.all([
    get("/v1/status"),
    get(`/v1/top${query({ by: kept.by, outcome: "refused", limit: 10 })}`),
    get("/v1/rules?action=allow&expires_within_days=30&limit=10000"),
    // A token of one team is not told.
    get("/v1/configuration").catch(() => null),
    get("/v1/top?by=host&outcome=observed&limit=10"),
  ]), ([now, ranked, rules, configuration, observed]) => {
    status = now;
    marks = [{ at: Date.parse(now.started_at) / 1000, label: "start" }];
    if (configuration?.configuration > 1) marks.push({ at: Date.parse(configuration.read_at) / 1000, label: "reload" });
    top.replaceChildren(mostRefused(ranked.top));
    breaks.replaceChildren(...wouldBreak(observed.top));
    expiring.replaceChildren(exceptions(rules.rules));
    show();
  }));
  live.onPoint = show;
  show();
  refresh();
  const timer = setInterval(() => document.hidden || refresh(), REFRESH);
  const view = h("div", { class: "view" },
    h("h1", {}, "Overview"),
    tiles,
    h("section", { class: "panel", "aria-labelledby": "p-time" },
      h("div", { class: "bar" }, h("h2", { id: "p-time" }, "Requests over time"),
        whole,
        choose("minutes", "Last", [["5", "5 minutes"], ["15", "15 minutes"], ["30", "30 minutes"]], () => zoom(null)),
        choose("split", "Show", [["outcome", "all, by outcome"], ["crawler", "refusals, by crawler"], ["reason", "refusals, by reason"]], show)),
      figure),
    h("div", { class: "columns" },
      h("div", {}, byCrawler,
        h("section", { class: "panel", "aria-labelledby": "p-top" },
          h("div", { class: "bar" }, h("h2", { id: "p-top" }, "Most refused, of the last 8,192 decisions"),
            choose("by", "By", [["host", "host"], ["rule", "rule"], ["crawler", "crawler"], ["reason", "reason"]], refresh)),
          top)),
      h("div", {}, byReason, breaks, panel("Exceptions about to expire", expiring))));
  return { view, end: () => (clearInterval(timer), removeEventListener("pointerup", dragged), chart?.destroy(), (live.onPoint = null)) };
}

const within = (points, minutes) => points.filter((point) => point.at_ms > Date.now() - minutes * 60_000);
/** The points in the window that the whole view shows. */
const chosen = (points) => (kept.range ? points.filter(({ at_ms }) => at_ms / 1000 >= kept.range[0] && at_ms / 1000 <= kept.range[1]) : within(points, kept.minutes));
/** Describes that window. */
const windowText = () => (kept.range ? kept.range.map((at) => clockTime(new Date(at * 1000))).join(" to ") : `last ${kept.minutes} minutes`);
const total = (points, takes) => points.reduce((sum, point) => sum + point.counts.reduce((of, one) => of + (takes(one) ? one.requests : 0), 0), 0);
const isRefused = (one) => one.outcome === "refused";
const isObserved = (one) => one.outcome === "observed";

function fill(tiles, points, all, status) {
  const last = all.slice(-5);
  const now = total(last, () => true) / Math.max(last.length * 2, 1);
  const [requests, refused] = [total(points, () => true), total(points, isRefused)];
  const robots = status?.robots;
  const tile = (name, value, note) => h("div", { class: "tile" }, h("dt", {}, name), h("dd", {}, value, h("small", {}, note)));
  tiles.replaceChildren(h("dl", {},
    tile("Requests per second", rate(now), "over the last 10 s"),
    tile("Refused", share(refused, requests), `${count(refused)} of ${count(requests)}, ${windowText()}`),
    tile("Would be refused", count(total(points, isObserved)), `observed only, ${windowText()}`),
    tile("Failed", count(total(points, (one) => one.outcome === "failed")), `origin or network, ${windowText()}`),
    tile("Clients connected", status ? count(status.client_connections) : "–", status ? `at ${status.listeners.join(", ")}` : ""),
    tile("Robots.txt known", robots ? count(robots.fresh + robots.stale + robots.unavailable + robots.unreachable) : "–",
      robots ? `${count(robots.stale)} stale, ${count(robots.unreachable)} unreachable, ${bytes(robots.bytes)}` : "")));
}

function plot(figure, points, step, { pointer, marks, zoomed }) {
  const times = points.map((point) => point.at_ms / 1000);
  const layers = layersOf(points, step);
  const key = h("ul", { class: "key" }, layers.map((layer) => h("li", {},
    h("span", { class: "swatch", "data-colour": layer.colour.slice(2), "aria-hidden": "true" }), layer.label, h("span", { "data-value": "" }))), h("li", { "data-total": "" }));
  const canvas = h("div", { class: "canvas", "aria-hidden": "true" });
  const refusals = total(points, isRefused);
  figure.replaceChildren(canvas,
    h("figcaption", {}, key, h("p", { class: "unseen" }, `Requests per second, last ${kept.minutes} minutes: ${count(total(points, () => true))} requests, of which ${count(refusals)} were refused. ${marks.map(({ at, label }) => `${label} at ${clockTime(new Date(at * 1000))}`).join(", ")}`)));
  if (times.length < 2) {
    canvas.replaceChildren(h("p", { class: "empty" }, "The first data points arrive in a few seconds."));
    return null;
  }
  const drawn = layers.length ? layers : [{ label: "", colour: "--forwarded", values: times.map(() => 0) }];
  return draw(canvas, times, drawn, { seconds: kept.minutes * 60, range: kept.range, pointer, marks, zoomed });
}

function layersOf(points, step) {
  const series = (label, colour, takes) => ({
    label, colour, values: points.map((point) => total([point], takes) / step),
  });
  if (kept.split === "outcome") {
    return OUTCOMES.filter(([name], index) => index === 0 || name === "refused" || total(points, (one) => one.outcome === name))
      .map(([name, colour]) => series(name, colour, (one) => one.outcome === name));
  }
  const names = [...sums(points.flatMap((point) => point.counts).filter(isRefused), kept.split)].sort((one, other) => other[1] - one[1]).map(([name]) => name);
  const shown = names.slice(0, SHADES.length - 1).map((name, index) => series(name, SHADES[index], (one) => isRefused(one) && one[kept.split] === name));
  const others = new Set(names.slice(SHADES.length - 1));
  if (others.size) shown.push(series(`${others.size} others`, SHADES.at(-1), (one) => isRefused(one) && others.has(one[kept.split])));
  return shown;
}

function sums(counts, label) {
  const found = new Map();
  for (const one of counts) found.set(one[label], (found.get(one[label]) ?? 0) + one.requests);
  return found;
}

function crawlerRanking(points) {
  const counts = points.flatMap((point) => point.counts);
  const [all, refused, observed] = [() => true, isRefused, isObserved].map((takes) => sums(counts.filter(takes), "crawler"));
  const of = (sums, name) => sums.get(name) ?? 0;
  const most = Math.max(...all.values(), 1);
  const names = [...all.keys()].sort((one, other) => of(refused, other) + of(observed, other) - of(refused, one) - of(observed, one) || of(all, other) - of(all, one));
  const bar = ([requests, refusals]) => {
    const drawn = h("span", { class: "amount", "aria-hidden": "true" }, h("span", { class: "part" }));
    drawn.style.setProperty("--all", `${(100 * requests) / most}%`);
    drawn.firstChild.style.setProperty("--part", `${(100 * refusals) / requests}%`);
    return drawn;
  };
  const row = (name, numbers, drawn) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "wide" }, drawn),
    ...numbers.map((number) => h("td", { class: "number" }, count(number))), h("td", { class: "number" }, share(numbers[1], numbers[0])));
  const link = (name) => h("a", { href: `#/decisions${query({ crawler: name })}` }, name);
  const numbers = (name) => [all, refused, observed].map((sums) => of(sums, name));
  const rows = names.slice(0, SHOWN).map((name) => row(link(name), numbers(name), bar(numbers(name))));
  const others = names.slice(SHOWN);
  const sum = (sums) => others.reduce((sum, name) => sum + of(sums, name), 0);
  // The row of all others has no bar: the scale ends at the largest single crawler, and it could exceed that.
  if (others.length) rows.push(row(h("a", { href: "#/crawlers" }, `${count(others.length)} others`), [all, refused, observed].map(sum), null));
  return table("Requests by crawler", ["Crawler", "", "#Requests", "#Refused", "#Would be", "#Share"], rows, `No requests, ${windowText()}.`);
}

/** The reasons for which requests failed, were refused, or would have been refused. */
function reasonRanking(points) {
  const counts = points.flatMap((point) => point.counts);
  const columns = ["refused", "observed", "failed"].map((outcome) => [outcome, sums(counts.filter((one) => one.outcome === outcome), "reason")]);
  const names = [...new Set(columns.flatMap(([, sums]) => [...sums.keys()]))];
  const all = (name) => columns.reduce((sum, [, sums]) => sum + (sums.get(name) ?? 0), 0);
  /** The outcome, if the reason had only one. */
  const outcome = (name) => columns.filter(([, sums]) => sums.get(name)).map(([outcome]) => outcome).find((_, at, those) => those.length === 1);
  const rows = names.sort((one, other) => all(other) - all(one)).map((name) => h("tr", {},
    h("th", { scope: "row" }, reasonLink(name, `#/decisions${query({ reason: name })}`, outcome(name)), h("small", { class: "clamp" }, meaning(name, outcome(name)))),
    columns.map(([outcome, sums]) => h("td", { class: "number" }, sums.get(name) ? h("a", { href: `#/decisions${query({ reason: name, outcome })}` }, count(sums.get(name))) : "0"))));
  return table("Requests by reason", ["Reason", "#Refused", "#Would be", "#Failed"], rows, `Nothing was refused, ${windowText()}.`);
}

/** The hosts whose requests enforcement would refuse, where refusals are only observed. */
function wouldBreak(ranked) {
  if (!ranked.length) return [];
  const rows = ranked.map(({ name, count: times }) => h("tr", {},
    h("th", { scope: "row" }, h("a", { href: `#/decisions${query({ host: name, outcome: "observed" })}` }, name)), h("td", { class: "number" }, count(times))));
  return [panel("What would break, of the last 8,192 decisions", h("p", { class: "note" }, "Forwarded only because refusals are observed; with mode = \"enforce\" these requests would be refused."),
    table("Would be refused", ["Host", "#Requests"], rows, ""))];
}

function mostRefused(ranked) {
  const rows = ranked.map(({ name, count: times }) => h("tr", {},
    h("th", { scope: "row" }, kept.by === "rule" ? name : h("a", { href: `#/decisions${query({ [kept.by]: name, outcome: "refused" })}` }, name)),
    h("td", { class: "number" }, count(times))));
  return table("Most refused, of the last 8,192 decisions", [kept.by[0].toUpperCase() + kept.by.slice(1), "#Refusals"], rows, "No recent refusals.");
}

function exceptions(rules) {
  const rows = rules.slice(0, EXCEPTIONS).map((rule) => h("tr", {},
    h("td", { class: "number" }, rule.number),
    h("td", {}, `${rule.hosts.join(", ")} ${rule.paths.join(", ")}`),
    h("td", {}, rule.owner ?? "–", h("br"), h("small", {}, rule.reason ?? "")),
    h("td", { class: rule.has_expired ? "bad" : "warn" }, day(rule.expires_at))));
  const more = rules.length - rows.length;
  return h("div", {},
    table("Exceptions that expire within 30 days", ["#Rule", "For", "Owner", "Expires"], rows, "No exception expires within 30 days.", "rules"),
    more > 0 && h("p", { class: "note" }, `${count(more)} more expire within 30 days.`));
}
