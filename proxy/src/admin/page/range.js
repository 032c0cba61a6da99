// The time range of the views that count: one for all of them, kept in the URL.

import { h, instant } from "./dom.js";

/** The spans that can be chosen, as the API writes them. */
export const RANGES = [["5m", "5 minutes"], ["1h", "1 hour"], ["24h", "24 hours"], ["7d", "7 days"], ["30d", "30 days"]];
/** The span of a URL that names none. */
const DEFAULT = "5m";

/** The views whose links in the navigation carry the range. */
const VIEWS = ["overview", "crawlers", "decisions", "origins"];

/** Reads the range from the parameters of the URL: a span before now, or two instants. */
export const rangeOf = (parameters) => ({ since: parameters.get("since") || DEFAULT, until: parameters.get("until") || "" });

/** The range as parameters of a URL, without the default. */
export const inUrl = ({ since, until }) => (since === DEFAULT && !until ? {} : { since, until });

export const isSpan = (since) => RANGES.some(([span]) => span === since);

/** Whether only the last minutes are shown, of which the stream brings news. */
export const isLive = ({ since, until }) => since === DEFAULT && !until;

/** The beginning or the end of the range, without its year. */
function bound(text) {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? text : instant(at, (day) => day.slice(5));
}

/** Describes the range. */
export function inWords({ since, until }) {
  const named = RANGES.find(([span]) => span === since);
  if (named && !until) return `last ${named[1].replace(/^1 /, "")}`;
  return `${bound(since)} to ${until ? bound(until) : "now"}`;
}

/** Makes the navigation keep the range. */
export function carry(range) {
  const search = new URLSearchParams(inUrl(range)).toString();
  for (const view of VIEWS) {
    for (const link of document.querySelectorAll(`nav a[data-view="${view}"]`)) link.setAttribute("href", `#/${view}${search && `?${search}`}`);
  }
}

/** The choice of a range. One that is not in the list, such as a part of the chart, is shown as a further one. */
export function rangeControl(range, changed, first = []) {
  const value = range.until || !isSpan(range.since) ? (first.some(([own]) => own === range.since) ? range.since : "other") : range.since;
  const options = [...first, ...RANGES, ...(value === "other" ? [["other", inWords(range)]] : [])];
  return h("label", { class: "range" }, "Time ", h("select", {
    name: "since",
    change: ({ target }) => target.value !== "other" && changed({ since: target.value, until: "" }),
  }, options.map(([own, text]) => h("option", { value: own, selected: own === value }, text[0].toUpperCase() + text.slice(1)))));
}
