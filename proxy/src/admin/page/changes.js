// Changes: the origins whose robots.txt changed, and whether that opens or closes what crawlers asked for.

import { forAllTeams, query } from "./api.js";
import { attempt, badge, count, h, newest, table, time, untold } from "./dom.js";

const SPANS = [["1h", "last hour"], ["1d", "last day"], ["7d", "last 7 days"], ["30d", "last 30 days"]];
const LIMIT = 500;

/** The effects in words. */
const EFFECTS = { closes: "closes", both: "opens and closes", opens: "opens", neutral: "neither", unknown: "unknown" };

export function changes(parameters) {
  const wanted = { since: parameters.get("since") ?? "1d", effect: parameters.get("effect") ?? "" };
  const list = h("div", { class: "panel flush" });
  const note = h("p", { class: "note", role: "status" });
  const latest = newest();
  let [found, isCut] = [[], false];
  const effectOf = (change) => change.effect ?? "unknown";
  const show = () => {
    const is = (change) => !wanted.effect || effectOf(change) === wanted.effect || (effectOf(change) === "both" && ["opens", "closes"].includes(wanted.effect));
    const shown = found.filter(is);
    const sum = (name) => found.reduce((all, change) => all + (change[name] ?? 0), 0);
    const origins = new Set(found.map(({ origin }) => origin)).size;
    note.textContent = found.length ? `${count(found.length)} ${found.length === 1 ? "change" : "changes"} at ${count(origins)} ${origins === 1 ? "origin" : "origins"}: of the URLs that crawlers had asked for, they closed ${count(sum("closed"))} and opened ${count(sum("opened"))}.${isCut ? ` Older ones of that time are not listed: these are the newest ${count(LIMIT)}.` : ""}` : "";
    const empty = found.length ? "No change had this effect." : "No robots.txt is known to have changed in this time.";
    list.replaceChildren(table("Changes of robots.txt", ["Origin", "When", "Effect", "#URLs closed", "#URLs opened", "#URLs compared", "Now disallowed or allowed"], shown.map(row), empty, "changes cards"));
  };
  const load = () => attempt(() => latest(forAllTeams(`/v1/changes${query({ since: wanted.since, limit: LIMIT })}`), (answer) => {
    if (!answer) {
      list.replaceChildren(untold());
      return;
    }
    [found, isCut] = [answer.changes, answer.is_cut];
    show();
  }));
  const select = (name, label, options, changed) => h("label", {}, `${label} `, h("select", { name, change: ({ target }) => {
    wanted[name] = target.value;
    history.replaceState(null, "", `#/changes${query(wanted)}`);
    changed();
  } }, options.map(([value, words]) => h("option", { value, selected: wanted[name] === value }, words))));
  // A link may have another span.
  const spans = SPANS.some(([value]) => value === wanted.since) ? SPANS : [[wanted.since, `since ${wanted.since}`], ...SPANS];
  load();
  const view = h("div", { class: "view" }, h("h1", {}, "Changes"),
    h("p", { class: "lead" }, "Origins whose robots.txt is not what it was, and whether that opens or closes what crawlers asked for lately. The first version of a file is no change."),
    h("form", { class: "bar", submit: (event) => event.preventDefault() },
      select("since", "Time", spans, load), select("effect", "Effect", [["", "all"], ["closes", "closes"], ["opens", "opens"], ["neutral", "neither"], ["unknown", "unknown"]], show)),
    note, list);
  return { view, end: () => {} };
}

function row(change) {
  const effect = change.effect ?? "unknown";
  const number = (value) => h("td", { class: "number" }, value === undefined ? "–" : count(value));
  const href = `#/origins/${encodeURIComponent(change.origin)}${query({ change: change.after.first_seen_at })}`;
  const urls = [["disallow", change.closed_urls], ["allow", change.opened_urls]].flatMap(([verdict, some]) => (some ?? []).map((url) => [verdict, url]));
  return h("tr", {},
    h("th", { scope: "row", class: "url" }, h("a", { href }, change.origin)),
    h("td", {}, time(change.at, true)),
    h("td", {}, badge(effect, EFFECTS[effect])),
    number(change.closed), number(change.opened), number(change.asked),
    h("td", { class: "url" }, urls.length ? h("details", {}, h("summary", {}, `${count(urls.length)} ${urls.length === 1 ? "URL" : "URLs"}`),
      h("ul", { class: "urls" }, urls.map(([verdict, url]) => h("li", {}, badge(verdict), " ", h("a", { href: `#/try${query({ url })}` }, url))))) : "–"));
}
