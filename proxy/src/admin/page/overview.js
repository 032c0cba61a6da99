// Overview: what goes through, what is refused, for whom and why.

import { get, query } from "./api.js";
import { attempt, bytes, count, day, h, panel, rate, share, table } from "./dom.js";
import { draw } from "./chart.js";

const OUTCOMES = [["forwarded", "--forwarded"], ["observed", "--observed"], ["refused", "--refused"], ["failed", "--failed"]];
const SHADES = ["--shade-1", "--shade-2", "--shade-3", "--shade-4", "--shade-5", "--shade-6"];
const REFRESH = 15_000;
/** Rows of a table; what comes after them is summed up in one. */
const SHOWN = 12;
const EXCEPTIONS = 20;

/** What the view shows; kept while others are shown, so that it comes back as it was left. */
const kept = { minutes: 5, split: "outcome", by: "host" };

export function overview(live) {
  const tiles = h("div", { class: "tiles" });
  const figure = h("figure", { class: "chart" });
  const tables = h("div", { class: "columns" });
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
  const show = () => {
    const points = within(live.points, kept.minutes);
    fill(tiles, points, live.points, status);
    const pointer = chart?.pointer();
    chart?.destroy();
    chart = plot(figure, points, live.step, pointer);
    tables.replaceChildren(
      panel("By crawler", ranking("Requests by crawler", points, "crawler")),
      panel("By reason", ranking("Requests by reason", points, "reason")),
    );
  };
  const refresh = () => attempt(async () => {
    const [now, ranked, rules] = await Promise.all([
      get("/v1/status"),
      get(`/v1/top${query({ by: kept.by, outcome: "refused", limit: 10 })}`),
      get("/v1/rules?action=allow&expires_within_days=30&limit=10000"),
    ]);
    status = now;
    top.replaceChildren(mostRefused(ranked.top));
    expiring.replaceChildren(exceptions(rules.rules));
    fill(tiles, within(live.points, kept.minutes), live.points, status);
  });
  live.onPoint = show;
  show();
  refresh();
  const timer = setInterval(() => document.hidden || refresh(), REFRESH);
  const view = h("div", { class: "view" },
    h("h1", {}, "Overview"),
    tiles,
    h("section", { class: "panel", "aria-labelledby": "p-time" },
      h("div", { class: "bar" }, h("h2", { id: "p-time" }, "Requests over time"),
        choose("minutes", "Last", [["5", "5 minutes"], ["15", "15 minutes"], ["30", "30 minutes"]], show),
        choose("split", "Show", [["outcome", "all, by outcome"], ["crawler", "refusals, by crawler"], ["reason", "refusals, by reason"]], show)),
      figure),
    tables,
    h("div", { class: "columns" },
      h("section", { class: "panel", "aria-labelledby": "p-top" },
        h("div", { class: "bar" }, h("h2", { id: "p-top" }, "Most refused"),
          choose("by", "By", [["host", "host"], ["rule", "rule"], ["crawler", "crawler"]], refresh)),
        top),
      panel("Exceptions about to expire", expiring)));
  return { view, end: () => (clearInterval(timer), chart?.destroy(), (live.onPoint = null)) };
}

const within = (points, minutes) => points.filter((point) => point.at_ms > Date.now() - minutes * 60_000);
const total = (points, takes) => points.reduce((sum, point) => sum + point.counts.reduce((of, one) => of + (takes(one) ? one.requests : 0), 0), 0);
const isRefused = (one) => one.outcome === "refused";

function fill(tiles, points, all, status) {
  const last = all.slice(-5);
  const now = total(last, () => true) / Math.max(last.length * 2, 1);
  const [requests, refused] = [total(points, () => true), total(points, isRefused)];
  const robots = status?.robots;
  const tile = (name, value, note) => h("div", { class: "tile" }, h("dt", {}, name), h("dd", {}, value, h("small", {}, note)));
  tiles.replaceChildren(h("dl", {},
    tile("Requests per second", rate(now), "over the last 10 s"),
    tile("Refused", share(refused, requests), `${count(refused)} of ${count(requests)} in ${kept.minutes} min`),
    tile("Failed", count(total(points, (one) => one.outcome === "failed")), `origin or network, in ${kept.minutes} min`),
    tile("Clients connected", status ? count(status.client_connections) : "–", status ? `at ${status.listeners.join(", ")}` : ""),
    tile("Robots.txt known", robots ? count(robots.fresh + robots.stale + robots.unavailable + robots.unreachable) : "–",
      robots ? `${count(robots.stale)} stale, ${count(robots.unreachable)} unreachable, ${bytes(robots.bytes)}` : "")));
}

function plot(figure, points, step, pointer) {
  const times = points.map((point) => point.at_ms / 1000);
  const layers = layersOf(points, step);
  const key = h("ul", { class: "key" }, layers.map((layer) => h("li", {},
    h("span", { class: "swatch", "data-colour": layer.colour.slice(2), "aria-hidden": "true" }), layer.label, h("span", { "data-value": "" }))));
  const canvas = h("div", { class: "canvas", "aria-hidden": "true" });
  const refusals = total(points, isRefused);
  figure.replaceChildren(canvas,
    h("figcaption", {}, key, h("p", { class: "unseen" }, `Requests per second, last ${kept.minutes} minutes: ${count(total(points, () => true))} requests, of which ${count(refusals)} were refused.`)));
  if (times.length < 2) {
    canvas.replaceChildren(h("p", { class: "empty" }, "The first data points arrive in a few seconds."));
    return null;
  }
  const drawn = layers.length ? layers : [{ label: "", colour: "--forwarded", values: times.map(() => 0) }];
  return draw(canvas, times, drawn, { seconds: kept.minutes * 60, pointer });
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

function ranking(caption, points, label) {
  const counts = points.flatMap((point) => point.counts);
  const [all, refused] = [sums(counts, label), sums(counts.filter(isRefused), label)];
  const most = Math.max(...all.values(), 1);
  const names = [...all.keys()].sort((one, other) => (refused.get(other) ?? 0) - (refused.get(one) ?? 0) || all.get(other) - all.get(one));
  const row = (name, requests, refusals) => {
    const bar = h("span", { class: "amount", "aria-hidden": "true" }, h("span", { class: "part" }));
    bar.style.setProperty("--all", `${(100 * requests) / most}%`);
    bar.firstChild.style.setProperty("--part", `${(100 * refusals) / requests}%`);
    return h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "wide" }, bar),
      h("td", { class: "number" }, count(requests)), h("td", { class: "number" }, count(refusals)), h("td", { class: "number" }, share(refusals, requests)));
  };
  const rows = names.slice(0, SHOWN).map((name) => row(name, all.get(name), refused.get(name) ?? 0));
  const others = names.slice(SHOWN);
  const sum = (of) => others.reduce((sum, name) => sum + (of.get(name) ?? 0), 0);
  if (others.length) rows.push(row(`${count(others.length)} others`, sum(all), sum(refused)));
  return table(caption, [label === "crawler" ? "Crawler" : "Reason", "", "#Requests", "#Refused", "#Share"], rows, `No requests in the last ${kept.minutes} minutes.`);
}

function mostRefused(ranked) {
  const rows = ranked.map(({ name, count: times }) => h("tr", {},
    h("th", { scope: "row" }, kept.by === "host" ? h("a", { href: `#/decisions${query({ host: name, outcome: "refused" })}` }, name) : name),
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
    table("Exceptions that expire within 30 days", ["#Rule", "For", "Owner", "Expires"], rows, "No exception expires within 30 days."),
    more > 0 && h("p", { class: "note" }, `${count(more)} more expire within 30 days.`));
}
