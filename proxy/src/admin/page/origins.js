// Origins: shows, refreshes and forgets their robots.txt files.

import { get, post, query, remove } from "./api.js";
import { attempt, badge, count, h, newest, panel, table, time } from "./dom.js";
import { difference } from "./diff.js";
import { carry, inUrl, rangeControl, rangeOf } from "./range.js";
import { fetchFacts, listing } from "./robots.js";
import { orderInUrl, orderOf, showSorted } from "./sortable.js";

/** The states, the worst last. */
const STATES = ["fresh", "unavailable", "stale", "unreachable"];
/** The number of origins that are shown at first, and the number that is loaded at once. */
const [SHOWN, LOADED] = [100, 1000];
const path = (origin) => `/v1/robots/${encodeURIComponent(origin)}`;

/** Asks for confirmation before something is lost. */
function confirmed(title, text) {
  const dialog = document.getElementById("confirm");
  dialog.querySelector("h2").textContent = title;
  dialog.querySelector("p").textContent = text;
  dialog.returnValue = "no";
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
    dialog.showModal();
  });
}

async function refresh(origin, button) {
  button.disabled = true;
  button.textContent = "Fetching …";
  const known = await attempt(() => post(`${path(origin)}/refresh`));
  button.disabled = false;
  button.textContent = "Refresh";
  return known;
}

async function forget(origin) {
  const text = `The next request for ${origin} waits until its robots.txt has been fetched again. Its history is kept.`;
  if (!(await confirmed(`Forget ${origin}?`, text))) return false;
  return (await attempt(async () => (await remove(path(origin)), true))) ?? false;
}

/** The URL of the list when it was last shown, including its filters. */
let left = "#/origins";

/** Returns the origins with the worst first: unreachable, then those with most refusals, then the other states. */
const worst = (refused) => (one, other) =>
  (other.state === "unreachable") - (one.state === "unreachable")
  || refused(other) - refused(one)
  || STATES.indexOf(other.state) - STATES.indexOf(one.state)
  || one.origin.localeCompare(other.origin, "en");

export function origins(parameters) {
  const wanted = { q: parameters.get("q") ?? "", state: parameters.get("state") ?? "" };
  let range = rangeOf(parameters);
  let order = orderOf(parameters.get("sort"));
  const list = h("div", { class: "panel flush" });
  const more = h("button", { type: "button", hidden: true }, "Show more");
  const heading = h("div", { class: "bar heading" });
  let [found, refusals, cursor, most] = [[], new Map(), null, SHOWN];
  const refused = ({ origin }) => refusals.get(origin)?.refused ?? 0;
  const wouldBe = ({ origin }) => refusals.get(origin)?.would_be_refused ?? 0;
  const worstOf = (known) => refused(known) + wouldBe(known);
  const show = () => {
    const empty = wanted.q || wanted.state ? "No known origin matches." : "No robots.txt is known yet: the first request for an origin fetches it.";
    showSorted(list, {
      caption: "Known origins", kind: "origins", columns, items: [...found].sort(worst(worstOf)), order, most, empty,
      changed: (chosen) => {
        order = chosen;
        address();
        show();
      },
    });
    more.hidden = found.length <= most && !cursor;
  };
  more.addEventListener("click", () => {
    most += SHOWN;
    if (most > found.length && cursor) load(cursor);
    else show();
  });
  // Decisions are found by host; the URL tells the host's origins apart.
  const decided = ({ origin }, number, outcome) => h("td", { class: "number" },
    number ? h("a", { href: `#/decisions${query({ q: `${origin}/`, host: new URL(origin).hostname, outcome, ...inUrl(range) })}` }, count(number)) : "0");
  const columns = [
    { key: "origin", head: "Origin", value: (known) => known.origin, cell: (known) => h("th", { scope: "row", class: "url" }, h("a", { href: `#/origins/${encodeURIComponent(known.origin)}` }, known.origin)) },
    { key: "state", head: "State", kind: "state", value: (known) => STATES.indexOf(known.state), cell: (known) => h("td", {}, badge(known.state)) },
    { key: "refused", head: "Refused", kind: "number", value: refused, note: "Requests that were refused, in the time that is chosen", cell: (known) => decided(known, refused(known), "refused") },
    { key: "would", head: "Would be refused", kind: "number", value: wouldBe, note: "Requests that were forwarded only because refusals are observed, in the time that is chosen", cell: (known) => decided(known, wouldBe(known), "observed") },
    { key: "fetched", head: "Fetched", value: (known) => known.fetched_at, cell: (known) => h("td", {}, time(known.fetched_at)) },
    { key: "fresh", head: "Fresh until", value: (known) => known.fresh_until, cell: (known) => h("td", {}, time(known.fresh_until)) },
    { key: "failures", head: "Last error", value: (known) => known.failures, cell: (known) => h("td", {}, known.failures ? `${known.cause} (${known.failures}×)` : "–") },
  ];
  const latest = newest();
  const load = (after) => attempt(async () => {
    const ask = (filter) => get(`/v1/robots${query({ ...wanted, ...filter, limit: LOADED })}`);
    // Pages are in the order of names, so the worst may be on none that is loaded.
    const isFirst = !after && !wanted.state;
    await latest(Promise.all([ask({ cursor: after }), isFirst ? ask({ state: "unreachable" }) : { robots: [] }]), ([page, unreachable]) => {
      const known = new Map([...(after ? found : []), ...unreachable.robots, ...page.robots].map((one) => [one.origin, one]));
      found = [...known.values()];
      cursor = page.next_cursor;
      if (!after) most = SHOWN;
      show();
    });
  });
  const latestCounts = newest();
  // How often an origin is refused is no reason not to list it.
  const countRefusals = () => latestCounts(get(`/v1/overview${query({ ...range, limit: LOADED })}`).catch(() => null), (counted) => {
    refusals = new Map((counted?.by_origin ?? []).map((row) => [row.name, row]));
    show();
  });
  const address = () => {
    left = `#/origins${query({ ...wanted, ...inUrl(range), sort: orderInUrl(order) })}`;
    history.replaceState(null, "", left);
  };
  const change = () => {
    address();
    load();
  };
  const showHeading = () => heading.replaceChildren(h("h1", {}, "Origins"), rangeControl(range, (chosen) => {
    range = chosen;
    address();
    carry(range);
    showHeading();
    countRefusals();
  }));
  let typing = null;
  const search = h("input", { name: "q", type: "search", value: wanted.q, autocomplete: "off", spellcheck: "false", input: ({ target }) => {
    wanted.q = target.value.trim();
    clearTimeout(typing);
    typing = setTimeout(change, 250);
  } });
  const state = h("select", { name: "state", change: ({ target }) => {
    wanted.state = target.value;
    change();
  } }, h("option", { value: "" }, "all"), STATES.map((value) => h("option", { value, selected: wanted.state === value }, value)));
  left = `#/origins${query({ ...wanted, ...inUrl(range), sort: orderInUrl(order) })}`;
  carry(range);
  showHeading();
  load().then(countRefusals);
  const view = h("div", { class: "view" }, heading,
    h("form", { class: "bar filters", role: "search", submit: (event) => event.preventDefault() }, h("label", {}, "Search", search), h("label", {}, "State", state)),
    list, h("p", { class: "actions" }, more));
  return { view, end: () => clearTimeout(typing) };
}

/** What an origin's robots.txt said before, beside what it said then. */
async function change(name, before, after) {
  const text = async ({ first_seen_at: at, sha256 }) => (sha256 ? (await get(`${path(name)}${query({ at })}`)).body : "");
  const [old, young] = await Promise.all([text(before), text(after)]);
  const title = h("h3", {}, "Changes of ", time(after.first_seen_at, true));
  if ([old, young].some((it) => it === null || it === undefined)) return h("div", {}, title, h("p", { class: "empty" }, "Its text at that time is no longer kept."));
  return h("div", {}, title, difference(old, young));
}

/** Shows one origin; with the parameter `change`, what changed at that time. */
export function origin(name, parameters) {
  const inside = h("div", {}, h("p", { class: "empty" }, "Loading …"));
  const view = h("div", { class: "view" }, h("p", { class: "back" }, h("a", { href: left }, "← Origins")), h("h1", { class: "url" }, name), inside);
  const load = () => attempt(async () => {
    let known;
    try {
      known = await get(path(name));
    } catch (error) {
      inside.replaceChildren(h("p", { class: "empty" }, `${name}: ${error.message}.`));
      if (error.status !== 404) throw error;
      return;
    }
    const body = known.answer?.body;
    const changed = h("div", {});
    const latest = newest();
    const showChange = (at) => latest(change(name, known.history[at - 1], known.history[at]), (shown) => {
      changed.replaceChildren(shown);
      changed.querySelector("[tabindex]")?.focus();
    });
    // A version is in force until the next one is seen; `last_seen_at` only says when it was last confirmed.
    const until = (at) => (at + 1 < known.history.length ? time(known.history[at + 1].first_seen_at) : "now");
    const history = known.history.map((version, at) => h("tr", {}, h("td", {}, time(version.first_seen_at)),
      h("td", {}, until(at), h("br"), h("small", {}, "confirmed ", time(version.last_seen_at))),
      h("td", { class: "number" }, version.status), h("td", {}, version.sha256 ? h("code", {}, version.sha256.slice(0, 12)) : "–"),
      h("td", {}, at > 0 && h("button", { type: "button", "aria-label": `Changes of ${version.first_seen_at}`, click: () => attempt(() => showChange(at)) }, "Changes")))).reverse();
    const again = h("button", { type: "button", click: async () => (await refresh(name, again)) && load() }, "Refresh");
    inside.replaceChildren(h("div", { class: "pair" },
      panel("Current state", fetchFacts(known), h("p", { class: "actions" }, again, " ",
        h("button", { type: "button", click: async () => (await forget(name)) && (location.hash = "#/origins") }, "Forget"), " ",
        h("a", { class: "button", href: `#/decisions${query({ host: new URL(name).hostname })}` }, "Decisions"), " ",
        h("a", { class: "button", href: `#/try${query({ url: `${name}/` })}` }, "Try a URL")),
      h("h3", {}, "History"), table("History of robots.txt", ["In force from", "Until", "#Status", "SHA-256", ""], history, "No history yet.", "history cards"), changed),
      panel("Robots.txt", body === null || body === undefined ? h("p", { class: "empty" }, "There is no robots.txt text.") : listing(body)),
      known.documents.map((document) => panel(document.url, fetchFacts(document), document.answer?.body ? listing(document.answer.body) : h("p", { class: "empty" }, "There is no text.")))));
    const at = known.history.findIndex((version, at) => at > 0 && version.first_seen_at === parameters.get("change"));
    if (at > 0) await showChange(at);
  });
  load();
  return { view, end: () => {} };
}
