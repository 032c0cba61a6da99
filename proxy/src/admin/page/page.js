// The page: which view is shown, and the one stream that all of them hear.

import { get, listen, query } from "./api.js";
import { attempt, clockTime, complain } from "./dom.js";
import { overview } from "./overview.js";
import { connect as connecting } from "./connect.js";
import { crawlers } from "./crawlers.js";
import { decision, decisions } from "./decisions.js";
import { fleet } from "./fleet.js";
import { origin, origins } from "./origins.js";
import { trial } from "./attempt.js";
import { settings } from "./settings.js";

const HALF_AN_HOUR = 30 * 60_000;
/** Of each quarter of a second so many decisions are shown: nobody reads more. */
const MOST = 5;

/** What is heard, and who wants to know. */
const live = {
  points: [],
  step: 2,
  onPoint: null,
  onDecision: null,
  onSkipped: null,
  /** Told whether there is a connection, whenever one is made, fails or breaks. */
  onConnection: null,
  isConnected: false,
  /** Which decisions to hear; null: none. */
  follow(wanted) {
    this.wanted = wanted;
    connect();
  },
  wanted: null,
};

let [stop, path] = [null, ""];

function connect() {
  const wanted = query({ traffic: true, most: live.wanted ? MOST : 0, ...(live.wanted ?? {}) });
  if (stop && path === wanted) return;
  stop?.();
  path = wanted;
  live.isConnected = false;
  stop = listen(`/v1/decisions/stream${wanted}`, hear, tellHealth);
}

function disconnect() {
  stop?.();
  stop = null;
  live.isConnected = false;
}

function hear(name, data) {
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

function tellHealth(isLive) {
  const health = document.getElementById("health");
  health.className = isLive ? "live" : "lost";
  // What is shown is as old as the connection: it must not pass for live.
  if (isLive) lostAt = null;
  else lostAt ??= clockTime(new Date());
  document.body.classList.toggle("lost", !isLive);
  const word = isLive ? "live" : `no connection since ${lostAt}`;
  const shown = health.querySelector(".word");
  if (shown.textContent !== word) shown.textContent = word;
  live.isConnected = isLive;
  live.onConnection?.(isLive);
}

async function remember() {
  // Nobody asked for it: it says nothing of what failed before.
  const traffic = await get("/v1/traffic").catch((error) => complain(error.message));
  if (!traffic) return;
  live.step = traffic.step_seconds;
  live.points = traffic.points;
  live.onPoint?.();
}

const VIEWS = {
  overview: () => overview(live),
  crawlers: (_, parameters) => crawlers(parameters),
  fleet: () => fleet(),
  connect: (_, parameters) => connecting(parameters),
  decisions: (id, parameters) => (id ? decision(id) : decisions(live, parameters)),
  origins: (name, parameters) => (name ? origin(name) : origins(parameters)),
  try: (_, parameters) => trial(parameters),
  configuration: () => settings(),
};

let shown = null;

function route(isFirst) {
  if (!location.hash.startsWith("#/") && !isFirst) return;
  const [place, search] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, rest] = place.split("/").map(decodeURIComponent);
  const view = VIEWS[name] ? name : "overview";
  shown?.end();
  complain(null);
  shown = VIEWS[view](rest, new URLSearchParams(search));
  const main = document.getElementById("main");
  main.replaceChildren(shown.view);
  for (const link of document.querySelectorAll("nav a")) {
    const isCurrent = link.getAttribute("href") === `#/${view}`;
    if (isCurrent) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${shown.view.querySelector("h1").textContent} · wayleave`;
  if (!isFirst) {
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

document.querySelector("#alert button").addEventListener("click", () => complain(null));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
});
// A page that nobody sees asks for nothing.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) disconnect();
  else remember().then(connect);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => live.onPoint?.());
addEventListener("hashchange", () => route(false));

attempt(async () => {
  const { version } = await get("/v1/status");
  document.getElementById("version").textContent = version;
});
await remember();
route(true);
connect();
