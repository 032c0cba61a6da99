// Decisions: a live list.

import { download, get, getUnlessGivenUp, query } from "./api.js";
import { attempt, badge, count, crawlerName, h, newest, outcomeName, time } from "./dom.js";
import { reasonDocs } from "./docs.js";
import { carry, isSpan, rangeControl } from "./range.js";
import { REASONS, brief, meaning, reasonLink } from "./reasons.js";
import { head, orderInUrl, orderOf, sorted } from "./sortable.js";

const SHOWN = 100;
/** The length from which a URL is shown without its middle. */
const MAX_URL_LENGTH = 160;
const OUTCOMES = ["refused", "forwarded", "observed", "failed", "tunnelled"];
/** The outcomes with which the list begins: in them somebody may have to do something. */
const TURNED_DOWN = ["refused", "observed"];
/** The choices of outcomes, as the list has them, and their names. */
const CHOICES = [[TURNED_DOWN, "refused or would be"], ...OUTCOMES.map((outcome) => [[outcome], outcomeName(outcome)])];
/** The URL's word for all outcomes. */
const ALL = "all";

/** The columns of the list, by which those that are shown can be sorted. */
const COLUMNS = [
  { key: "time", head: "Time", kind: null, value: ({ at }) => at },
  { key: "outcome", head: "Outcome", value: ({ outcome }) => OUTCOMES.indexOf(outcome) },
  { key: "crawler", head: "Crawler", value: ({ crawler }) => crawlerName(crawler) },
  { key: "request", head: "Request", value: ({ url }) => url },
  { key: "why", head: "Why", value: (decision) => `${decision.reason} ${why(decision)}` },
];

/** The URL of the list when it was last shown, including its filters. */
let left = "#/decisions";
export const leftList = () => left;

export function decisions(live, parameters) {
  const wanted = Object.fromEntries(["q", "crawler", "reason", "host", "via", "since", "until"].map((name) => [name, parameters.get(name) ?? ""]));
  // The names of rules that links from counts bring; there is no field for them.
  wanted.rule = parameters.getAll("rule");
  /** Whether anything is filtered but outcomes and times. */
  const isFiltered = () => Boolean(wanted.q || wanted.crawler || wanted.reason || wanted.host || wanted.via || wanted.rule.length);
  wanted.outcome = parameters.getAll("outcome").filter((outcome) => OUTCOMES.includes(outcome));
  if (!parameters.has("outcome") && !isFiltered()) wanted.outcome = TURNED_DOWN;
  const isTurnedDown = () => String(wanted.outcome) === String(TURNED_DOWN);
  let order = orderOf(parameters.get("sort"));
  /** The decisions of the rows. */
  const shown = new WeakMap();
  const body = h("tbody", { click: open });
  const empty = h("p", { class: "empty" });
  const note = h("p", { class: "note", role: "status" });
  const pause = h("button", { type: "button", "aria-pressed": "false", click: () => hold(pause.getAttribute("aria-pressed") !== "true") }, "Pause");
  const fresh = h("button", { type: "button", class: "new", hidden: true, click: () => release() });
  let waiting = [];
  let [isPaused, skipped, isCut] = [false, 0, false];
  const isPast = () => Boolean(wanted.since || wanted.until);
  /** Whether somebody is reading the list: then rows must not move. */
  const isRead = () => order || list.matches(":hover") || list.contains(document.activeElement) || scrollY > list.offsetTop;

  const means = h("p", { class: "note" });
  const by = h("p", { class: "note" });
  const showRules = () => by.replaceChildren(...(wanted.rule.length ? ["Only by ", h("span", { class: "url" }, wanted.rule.join(" or ")), " ", h("button", { type: "button", click: () => {
    wanted.rule = [];
    showRules();
    change();
  } }, "By any rule")] : []));
  const showNotes = () => {
    const outcome = wanted.outcome.length === 1 ? wanted.outcome[0] : "";
    means.replaceChildren(...(wanted.reason ? [`${wanted.reason}: ${meaning(wanted.reason, outcome)} `, reasonDocs(wanted.reason, outcome)] : []));
    const parts = [];
    fresh.hidden = !waiting.length;
    fresh.textContent = `Show ${count(waiting.length)} new`;
    if (isPaused) parts.push(`paused; ${count(waiting.length)} new`);
    if (skipped) parts.push(`${count(skipped)} more arrived than the list can show; filter or pause`);
    if (isCut) parts.push(`the newest ${count(SHOWN)} of more`);
    if (order && !isPast()) parts.push("sorted: new ones wait");
    empty.hidden = body.childElementCount > 0;
    if (isPast()) parts.push("from the decision log; new ones are not added");
    note.textContent = parts.join(" · ");
    only.hidden = !isTurnedDown();
    const words = nothing();
    // Not each time: the button may have the focus.
    if (empty.firstChild?.textContent !== words) empty.replaceChildren(words, ...(wanted.outcome.length ? [" ", allButton("Show all outcomes")] : []));
  };
  const nothing = () => {
    if (isTurnedDown() && !isFiltered()) return `Nothing was refused, or would have been, ${isPast() ? "in that time" : "lately"}; other outcomes are not shown.`;
    if (isPast()) return "No decision of that time matches.";
    return isFiltered() || wanted.outcome.length ? "No recent decision matches. New ones appear here."
      : "No request has come through the proxy yet. Decisions appear here as they are made.";
  };
  const add = (found) => {
    const rows = [...found.map((decision) => {
      const made = row(decision);
      shown.set(made, decision);
      return made;
    }).reverse(), ...body.children];
    // The newest remain, in whatever order they are shown.
    if (order) rows.sort((one, other) => shown.get(other).at.localeCompare(shown.get(one).at));
    arrange(rows.slice(0, SHOWN));
    showNotes();
  };
  const arrange = (rows) => {
    const by = COLUMNS.map((column) => ({ ...column, value: (one) => column.value(shown.get(one)) }));
    body.replaceChildren(...sorted(rows, by, order));
  };
  const showHeads = () => heads.replaceChildren(...COLUMNS.map((column) => head(column, order, (chosen) => {
    // Without an order the newest come first, and more of them as they are made.
    order = chosen.key === "time" && chosen.isDown ? null : chosen;
    rename();
    showHeads();
    heads.querySelector(`[data-key="${chosen.key}"]`)?.focus();
    if (order) arrange([...body.children]);
    else load();
  })));
  const hold = (held) => {
    isPaused = held;
    pause.setAttribute("aria-pressed", String(held));
    pause.textContent = held ? "Resume" : "Pause";
    if (held) showNotes();
    else release();
  };
  const release = () => {
    const found = waiting;
    waiting = [];
    add(found);
  };
  const latest = newest();
  /** Whether the list has loaded, and the decisions that arrived before that. */
  let [isLoaded, early] = [false, []];
  /** What was asked for with an earlier filter is given up: its answer must not be listed. */
  let asking = new AbortController();
  const recent = () => getUnlessGivenUp(`/v1/decisions${query({ ...wanted, limit: SHOWN })}`, asking);
  const fill = () => attempt(() => latest(recent(), (answer) => {
    if (!answer) return;
    [isLoaded, isCut] = [true, Boolean(answer.is_cut)];
    body.replaceChildren();
    add(answer.decisions.reverse());
    early.splice(0).forEach((decision) => live.onDecision?.(decision));
  }));
  const load = () => {
    asking.abort();
    asking = new AbortController();
    [isLoaded, early] = [false, []];
    live.follow(isPast() ? null : wanted);
    if (isPast() || live.isConnected) fill();
  };
  // The list is requested after the stream has started, so that no decision is missed between them. Decisions that arrive twice
  // are shown once.
  live.onConnection = (isLive) => {
    if (isPast()) return;
    if (!isLoaded) fill();
    else if (isLive) attempt(async () => (await recent())?.decisions.reverse().forEach((decision) => live.onDecision?.(decision)));
  };
  live.onDecision = (decision) => {
    if (!isLoaded) {
      early = [...early, decision].slice(-SHOWN);
      return;
    }
    if (document.getElementById(`d-${decision.id}`) || waiting.some(({ id }) => id === decision.id)) return;
    if (isPaused || waiting.length || isRead()) waiting = [...waiting, decision].slice(-SHOWN);
    else add([decision]);
    showNotes();
  };
  live.onSkipped = (number) => {
    skipped += number;
    showNotes();
  };

  const rename = () => {
    left = `#/decisions${query({ ...wanted, outcome: wanted.outcome.length ? wanted.outcome : ALL, sort: orderInUrl(order) })}`;
    history.replaceState(null, "", left);
  };
  rename();
  /** The other views have the same time. */
  const carryRange = () => carry({ since: wanted.since || "5m", until: wanted.until });
  carryRange();
  const change = () => {
    carryRange();
    rename();
    [skipped, waiting] = [0, []];
    load();
  };
  let typing = null;
  const field = (name, label, type = "search") => h("label", {}, label, h("input", {
    name, type, value: wanted[name], autocomplete: "off", spellcheck: "false",
    input: ({ target }) => {
      wanted[name] = target.value.trim();
      clearTimeout(typing);
      typing = setTimeout(change, 250);
    },
  }));
  const select = (name, label, options, words = (value) => value) => h("label", {}, label, h("select", {
    name,
    change: ({ target }) => {
      wanted[name] = target.value;
      change();
    },
  }, h("option", { value: "" }, "all"), options.map((value) => h("option", { value, selected: wanted[name] === value }, words(value)))));
  const isListed = CHOICES.some(([those]) => String(those) === String(wanted.outcome));
  const choices = isListed || !wanted.outcome.length ? CHOICES : [...CHOICES, [wanted.outcome, wanted.outcome.join(" or ")]];
  const outcomes = h("select", { name: "outcome", change: ({ target }) => choose(target.value ? target.value.split(",") : []) },
    h("option", { value: "" }, "all"), choices.map(([those, words]) => h("option", { value: String(those), selected: String(wanted.outcome) === String(those) }, words)));
  const choose = (those) => {
    wanted.outcome = those;
    outcomes.value = String(those);
    change();
  };
  const allButton = (words) => h("button", { type: "button", click: () => (choose([]), outcomes.focus()) }, words);
  const only = h("p", { class: "note only" }, "Only what was refused, or would have been. ", allButton("Show all"));

  /** A field for a time, in UTC as all of them. */
  const moment = (name, label) => h("label", {}, label, h("input", {
    name, type: "datetime-local", step: "1", value: wanted[name] && !isSpan(wanted[name]) && new Date(wanted[name]).toISOString().slice(0, 19),
    change: ({ target }) => {
      wanted[name] = target.value && new Date(`${target.value}Z`).toISOString();
      change();
      showRange();
    },
  }));
  const [from, until] = [moment("since", "From (UTC)"), moment("until", "Until (UTC)")];
  const ranges = h("span", {});
  const showRange = () => ranges.replaceChildren(rangeControl(wanted, (range) => {
    Object.assign(wanted, range);
    for (const field of [from, until]) field.querySelector("input").value = "";
    change();
    showRange();
  }, [["", "live"]]));
  showRange();
  const save = (format) => h("button", { type: "button", click: () => attempt(() => download(`/v1/decisions/download${query({ ...wanted, format })}`, `decisions.${format}`)) }, format.toUpperCase());

  const crawlers = select("crawler", "Crawler", ["asserted"], crawlerName);
  attempt(async () => {
    const { crawlers: names } = await get("/v1/status");
    crawlers.querySelector("select").append(...names.map((value) => h("option", { value, selected: wanted.crawler === value }, value)));
  });
  load();
  const whenLeft = () => waiting.length && !isPaused && !isRead() && release();
  const heads = h("tr", {});
  showHeads();
  const list = h("div", { class: "panel flush", mouseleave: whenLeft },
    h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Recent decisions" },
      h("table", { class: "stream" }, h("caption", {}, "Recent decisions, newest first"), h("thead", {}, heads), body)),
    empty);
  const view = h("div", { class: "view" },
    h("h1", {}, "Decisions"),
    h("p", { class: "lead" }, "Live: the last 8,192 decisions, newest first. Choose a time range to search the decision log instead; CSV and JSON then download every match, not only those shown."),
    // On a phone they would be all of the first screen.
    h("details", { class: "fold", open: innerWidth > 640 || isFiltered() || isPast() || !isTurnedDown() }, h("summary", {}, "Filters"), h("form", { class: "bar filters", role: "search", submit: (event) => event.preventDefault() },
      field("q", "Search"), h("label", {}, "Outcome", outcomes), select("reason", "Reason", REASONS), crawlers, field("host", "Host"), select("via", "Asked by", ["gateway"], (via) => `a ${via}`),
      ranges, h("span", { class: "span" }, from, until), h("span", { class: "span" }, pause, save("csv"), save("json")))),
    only, by, means, note, fresh, list);
  showRules();
  showNotes();
  return { view, end: () => (clearTimeout(typing), asking.abort(), live.follow(null), (live.onDecision = live.onSkipped = live.onConnection = null)) };
}

/** Opens the decision of the row that was clicked, unless it was a link, or text is being selected. */
function open(event) {
  if (event.target.closest("a, button") || !getSelection().isCollapsed) return;
  const link = event.target.closest("tr")?.querySelector(".url a");
  if (link) location.hash = link.hash;
}

/** Describes what decided. A request that robots.txt allows may still be refused, or fail: then its line is not the reason. */
export function why(decision) {
  const { reason, policy } = decision;
  if (policy && reason.startsWith("policy-")) return `[[rule]] ${policy.number}${policy.reason ? `: ${policy.reason}` : ""}`;
  if (reason === "rule" && decision.line) return `line ${decision.line}: ${decision.rule}`;
  return (decision.outcome === "forwarded" ? null : decision.details) ?? brief(reason, decision.outcome);
}

/** Shortens a long URL in its middle, because its host and its end say most. */
const middle = (url) => (url.length > MAX_URL_LENGTH ? `${url.slice(0, MAX_URL_LENGTH - 40)} … ${url.slice(-37)}` : url);

function row(decision) {
  return h("tr", { id: `d-${decision.id}` },
    h("td", {}, time(decision.at)),
    h("td", {}, badge(decision.outcome), " ", h("span", { class: "status" }, decision.status), decision.outcome === "observed" && h("small", { class: "line" }, "would be refused")),
    h("td", {}, h("a", { class: "quiet", href: `#/decisions${query({ crawler: decision.crawler })}` }, crawlerName(decision.crawler)), h("small", { class: "line", title: decision.tokens?.join(", ") }, decision.tokens?.join(", ") ?? ""), decision.via && h("small", { class: "line" }, h("a", { class: "quiet", href: `#/decisions${query({ via: decision.via })}` }, `asked by a ${decision.via}`))),
    h("td", { class: "url" }, h("span", { class: "clamp", title: decision.url }, h("span", { class: "method" }, decision.method), " ", h("a", { href: `#/decisions/${decision.id}` }, middle(decision.url)))),
    h("td", { class: "why" }, why(decision) !== decision.reason && h("span", { class: "clamp" }, why(decision)), reasonLink(decision.reason, `#/decisions${query({ reason: decision.reason })}`, decision.outcome, false)));
}
