// Origins: shows, refreshes and forgets their robots.txt files.

import { get, post, query, remove } from "./api.js";
import { attempt, badge, h, newest, panel, table, time } from "./dom.js";
import { difference } from "./diff.js";
import { fetchFacts, listing } from "./robots.js";

const STATES = ["fresh", "stale", "unavailable", "unreachable"];
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

export function origins(parameters) {
  const wanted = { q: parameters.get("q") ?? "", state: parameters.get("state") ?? "" };
  const list = h("div", { class: "panel flush" });
  const more = h("button", { type: "button", hidden: true }, "Show more");
  let found = [];
  const show = () => {
    const rows = found.map(row);
    const empty = wanted.q || wanted.state ? "No known origin matches." : "No robots.txt is known yet: the first request for an origin fetches it.";
    list.replaceChildren(table("Known origins", ["Origin", "State", "Fetched", "Fresh until", "Last error"], rows, empty, "origins"));
  };
  const row = (known) => h("tr", {},
    h("th", { scope: "row", class: "url" }, h("a", { href: `#/origins/${encodeURIComponent(known.origin)}` }, known.origin)),
    h("td", {}, badge(known.state)),
    h("td", {}, time(known.fetched_at)),
    h("td", {}, time(known.fresh_until)),
    h("td", {}, known.failures ? `${known.cause} (${known.failures}×)` : "–"));
  const latest = newest();
  const load = (cursor) => attempt(() => latest(get(`/v1/robots${query({ ...wanted, cursor, limit: 100 })}`), (answer) => {
    found = cursor ? [...found, ...answer.robots] : answer.robots;
    more.hidden = !answer.next_cursor;
    more.onclick = () => load(answer.next_cursor);
    show();
  }));
  left = `#/origins${query(wanted)}`;
  const change = () => {
    left = `#/origins${query(wanted)}`;
    history.replaceState(null, "", left);
    load();
  };
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
  load();
  const view = h("div", { class: "view" }, h("h1", {}, "Origins"),
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
    const showChange = async (at) => {
      changed.replaceChildren(await change(name, known.history[at - 1], known.history[at]));
      changed.querySelector("[tabindex]")?.focus();
    };
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
