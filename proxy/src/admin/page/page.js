// The page: chooses the view, and owns the one stream of events that all views share.

import { get, listen, query } from "./api.js";
import { attempt, clockTime, showError } from "./dom.js";
import { overview } from "./overview.js";
import { connect as connecting } from "./connect.js";
import { changes } from "./changes.js";
import { crawlers } from "./crawlers.js";
import { decision } from "./decision.js";
import { decisions } from "./decisions.js";
import { useDocs } from "./docs.js";
import { fleet } from "./fleet.js";
import { origin, origins } from "./origins.js";
import { politeness } from "./politeness.js";
import { replay } from "./replay.js";
import { trial } from "./attempt.js";
import { settings } from "./settings.js";
import { watchProblems } from "./strip.js";

const HALF_AN_HOUR = 30 * 60_000;
/** The most decisions to show in a quarter of a second: nobody can read more. */
const MAX_SHOWN = 5;

/** The data from the stream, and the callbacks of the view that is shown. */
const live = {
  points: [],
  step: 2,
  onPoint: null,
  onDecision: null,
  onSkipped: null,
  /** Called with whether there is a connection, whenever one is made, fails or breaks. */
  onConnection: null,
  isConnected: false,
  /** Sets the filter of the decisions to receive; null: none. */
  follow(wanted) {
    this.wanted = wanted;
    connect();
  },
  wanted: null,
};

let [stop, path] = [null, ""];

function connect() {
  const wanted = query({ traffic: true, most: live.wanted ? MAX_SHOWN : 0, ...(live.wanted ?? {}) });
  if (stop && path === wanted) return;
  stop?.();
  path = wanted;
  live.isConnected = false;
  stop = listen(`/v1/decisions/stream${wanted}`, receive, showConnection);
}

function disconnect() {
  stop?.();
  stop = null;
  live.isConnected = false;
}

function receive(name, data) {
  if (name === "traffic") {
    live.points = [...live.points, data].filter((point) => point.at_ms > Date.now() - HALF_AN_HOUR);
    live.onPoint?.();
  } else if (name === "decision") {
    live.onDecision?.(data);
  } else if (live.wanted) {
    live.onSkipped?.(data);
  }
}

let lostAt = null;

function showConnection(isLive) {
  const health = document.getElementById("health");
  health.className = isLive ? "live" : "lost";
  // Without a connection the data is stale, and must not look live.
  if (isLive) lostAt = null;
  else lostAt ??= clockTime(new Date());
  document.body.classList.toggle("lost", !isLive);
  const word = isLive ? "live" : `no connection since ${lostAt}`;
  const shown = health.querySelector(".word");
  if (shown.textContent !== word) shown.textContent = word;
  live.isConnected = isLive;
  live.onConnection?.(isLive);
  // Fills the gap since the last stream.
  if (isLive) loadTraffic();
}

async function loadTraffic() {
  // The user did not start this request, so it must not hide the error of an action.
  const traffic = await get("/v1/traffic").catch((error) => showError(error.message));
  if (!traffic) return;
  live.step = traffic.step_seconds;
  // The stream may have brought newer points than the answer has.
  const last = traffic.points.at(-1)?.at_ms ?? 0;
  live.points = [...traffic.points, ...live.points.filter((point) => point.at_ms > last)];
  live.onPoint?.();
}

const VIEWS = {
  overview: (_, parameters) => overview(live, parameters),
  crawlers: (_, parameters) => crawlers(parameters),
  fleet: () => fleet(),
  connect: (_, parameters) => connecting(parameters),
  decisions: (id, parameters) => (id ? decision(id) : decisions(live, parameters)),
  origins: (name, parameters) => (name ? origin(name, parameters) : origins(parameters)),
  try: (_, parameters) => trial(parameters),
  replay: () => replay(),
  configuration: () => settings(),
  changes: (_, parameters) => changes(parameters),
  politeness: (_, parameters) => politeness(parameters),
};

let shown = null;

function route(isFirst) {
  if (!location.hash.startsWith("#/") && !isFirst) return;
  const [place, search] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, rest] = place.split("/").map(decodeURIComponent);
  const view = VIEWS[name] ? name : "overview";
  shown?.end();
  showError(null);
  shown = VIEWS[view](rest, new URLSearchParams(search));
  const main = document.getElementById("main");
  main.replaceChildren(shown.view);
  // Until what it asked for has arrived, or takes long.
  main.classList.toggle("fresh", main.hasAttribute("aria-busy"));
  for (const link of document.querySelectorAll("nav a")) {
    const isCurrent = link.dataset.view === view;
    if (isCurrent) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  closeMenu();
  document.title = `${shown.view.querySelector("h1").textContent} · wayleave`;
  if (!isFirst) {
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

const menu = document.getElementById("menu");
/** On narrow screens the views are behind a button. */
function closeMenu() {
  menu.setAttribute("aria-expanded", "false");
}
menu.addEventListener("click", () => menu.setAttribute("aria-expanded", String(menu.getAttribute("aria-expanded") !== "true")));
// A slash leads to the search of the view, where there is one, as on many sites.
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, select, textarea, dialog")) return;
  const search = document.querySelector("main input[type=search]");
  if (!search) return;
  event.preventDefault();
  search.closest("details")?.setAttribute("open", "");
  search.focus();
});
document.querySelector("#alert button").addEventListener("click", () => showError(null));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
});
// A hidden page sends no requests.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) disconnect();
  else connect();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => live.onPoint?.());
addEventListener("hashchange", () => route(false));

/** Whether any request is known, of this process or in the decision log. */
async function hasTraffic() {
  const recent = await get("/v1/decisions?limit=1").catch(() => null);
  if (recent?.decisions.length !== 0) return true;
  const logged = await get("/v1/decisions?limit=1&since=3650d").catch(() => null);
  return Boolean(logged?.decisions.length);
}

await attempt(async () => {
  const { version, docs_url } = await get("/v1/status");
  document.getElementById("version").textContent = version;
  useDocs(docs_url);
});
await attempt(async () => {
  const { state } = await get("/v1/fleet");
  document.querySelector("nav a[href='#/fleet']").hidden = state === "alone";
});
await loadTraffic();
await watchProblems();
// Before the first request there is nothing to see but how to send one.
if (!location.hash && !(await hasTraffic())) history.replaceState(null, "", "#/connect");
route(true);
connect();
