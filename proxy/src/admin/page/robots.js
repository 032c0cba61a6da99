// A robots.txt line by line, and the facts of its last fetch.

import { bytes, facts, h, time } from "./dom.js";

const MAX_LINES = 3000;

/** Lists the lines of a file. Those of the group used are tinted, and those that count are marked with what they did. */
export function listing(body, { marks = [], group = [] } = {}) {
  const lines = body.split(/\r\n|\n|\r/);
  if (lines.at(-1) === "") lines.pop();
  if (!lines.length) return h("p", { class: "empty" }, "The file is empty: everything is allowed.");
  const used = new Set(group);
  const effects = new Map(marks.map((mark) => [mark.line, mark]));
  // What decided comes first: it may be far from what it overruled.
  const line = (marks.find(({ effect }) => effect !== "overridden") ?? marks[0])?.line ?? null;
  // Of a very long file only the part around the deciding line is shown.
  const first = line && line > MAX_LINES ? line - MAX_LINES / 2 : 1;
  const shown = lines.slice(first - 1, first - 1 + MAX_LINES);
  const items = shown.map((text, at) => {
    const number = first + at;
    const mark = effects.get(number);
    const kind = mark && (mark.effect === "overridden" ? "overridden" : `decides ${mark.effect}`);
    return h("li", {
      class: [used.has(number) && "used", kind].filter(Boolean).join(" ") || null,
      "aria-current": number === line ? "true" : null,
    }, h("span", { class: "at" }, number), h("code", {}, text || " "), mark && h("span", { class: "mark" }, mark.note));
  });
  const list = h("ol", { class: "robots", tabindex: "0", "aria-label": "robots.txt, line by line" }, items);
  const marked = list.querySelector("[aria-current]");
  if (marked) requestAnimationFrame(() => (list.scrollTop = marked.offsetTop - list.clientHeight / 3));
  const left = lines.length - shown.length;
  return h("div", {}, list, left > 0 && h("p", { class: "note" }, `${left} more lines are not shown.`));
}

/** Lists the facts of an origin's fetches. */
export function fetchFacts(known) {
  const answer = known.answer;
  const redirects = (answer?.redirects ?? []).map((hop) => h("div", {}, `${hop.status} ${hop.uri}`));
  return facts([
    ["State", known.is_fetching ? `${known.state}, being fetched` : known.state],
    ["Address", known.robots_url],
    ["Fetched", known.fetched_at && time(known.fetched_at, true)],
    ["Fresh until", known.fresh_until && time(known.fresh_until, true)],
    ["Usable until", known.usable_until && time(known.usable_until, true)],
    ["Redirects", redirects.length ? redirects : null],
    ["Response", answer && `${answer.status ?? "–"} from ${answer.uri} (${answer.result})`],
    ["Body", answer?.body_bytes !== null && answer?.body_bytes !== undefined ? `${bytes(answer.body_bytes)}${answer.is_cut ? ", truncated" : ""}${answer.looks_like_a_page ? ", looks like HTML" : ""}` : null],
    ["Content-Type", answer?.fields?.content_type],
    ["Cache-Control", answer?.fields?.cache_control],
    ["ETag", answer?.fields?.etag],
    ["Unreachable since", known.unreachable_since && time(known.unreachable_since, true)],
    ["Failures", known.failures || null],
    ["Last failure", known.cause],
    ["Next attempt", known.retry_at && (Date.parse(known.retry_at) > Date.now() ? time(known.retry_at, true) : "with the next request")],
  ]);
}
