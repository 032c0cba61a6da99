// The view of one decision: the request, the decision, and the text that it is based on.

import { get, query } from "./api.js";
import { attempt, badge, copyButton, count, crawlerInWords, digest, duration, facts, h, panel, showError, time } from "./dom.js";
import { leftList, why } from "./decisions.js";
import { reasonDocs } from "./docs.js";
import { ownerLink } from "./owner.js";
import { meaning, reasonLink } from "./reasons.js";
import { fetchFacts, listing } from "./robots.js";
import { exceptionForm, mayHaveException } from "./rule.js";

export function decision(id) {
  const inside = h("div", { class: "explained" }, h("p", { class: "empty" }, "Loading …"));
  const view = h("div", { class: "view" }, h("p", { class: "back" }, h("a", { href: leftList() }, "← Decisions")), h("h1", {}, "Decision"), inside);
  attempt(async () => {
    let found;
    try {
      found = await get(`/v1/decisions/${encodeURIComponent(id)}`);
    } catch (error) {
      inside.replaceChildren(h("p", { class: "empty" }, `Decision ${id}: ${error.message}.`));
      throw error;
    }
    inside.replaceChildren(await explained(found));
  });
  return { view, end: () => showError(null) };
}

async function explained(found) {
  const isKnown = found.identity === "known";
  const asked = query({
    url: found.url,
    crawler: isKnown ? found.crawler : "",
    user_agent: isKnown ? "" : found.tokens?.[0],
  });
  const what = panel("Request", h("p", { class: `verdict ${found.outcome}` }, h("strong", {}, sentence(found))), ...groups(found),
    h("p", { class: "actions" }, h("a", { class: "button", href: `#/try${asked}` }, "Try this URL"),
      found.origin && h("a", { class: "button", href: `#/origins/${encodeURIComponent(found.origin)}` }, "Show the origin"),
      copyButton(() => location.href, "Copy link")),
    mayHaveException(found) && exceptionForm(found));
  return h("div", { class: "pair" }, what, await robotsPanel(found));
}

/** The facts, by the question that they answer. The banner above them has said the reason in words. */
function groups(found) {
  const said = sentence(found);
  const unless = (text) => (text && !said.includes(text) ? text : null);
  const group = (title, pairs) => [h("h3", {}, title), facts(pairs)];
  return [
    facts([
      ["Request", h("span", { class: "url" }, `${found.method} ${found.url}`)],
      ["Loaded by", found.subresource && h("a", { class: "url", href: `#/decisions/${found.subresource.decision}` }, found.subresource.page)],
      ["Answered", found.from && `from the ${found.from === "pinned" ? "pinned robots.txt" : "copy of robots.txt"}; the origin was not asked`],
      ["Asked by", found.via && `a ${found.via}, which sends the request itself`],
      ["Turned away", found.edge && [badge(found.edge), " by the origin, or by the bot manager in front of it"]],
      ["Body", found.body_bytes === undefined ? null : `${count(found.body_bytes)} bytes forwarded`],
      ["Body, SHA-256", found.body_sha256 && digest(found.body_sha256)],
      ["ID", h("span", {}, h("code", {}, found.id), " ", copyButton(() => found.id))],
      ["Trace", found.trace_id],
    ]),
    ...group("Who", [
      ["Crawler", `${crawlerInWords(found)}, client ${found.client}`],
      ["Owner", found.owner && ownerLink(found.owner, found.crawler, found.url)],
      ["Tokens", found.tokens?.join(", ")],
      ["User-Agent", found.user_agent],
      ["Signed as", found.agent],
      ["Purposes", found.purposes?.join(", ")],
      ["Stated by the client", found.stated_purposes?.join(", ")],
      ["Known by", found.proven_by],
    ]),
    ...group("Why", [
      ["Reason", [reasonLink(found.reason, `#/decisions${query({ reason: found.reason })}`, found.outcome, false), `: ${meaning(found.reason, found.outcome)}. `, reasonDocs(found.reason, found.outcome, "what this means")]],
      ["Details", found.reason === "rule" ? null : unless(found.details)],
      ...(found.preferences ?? []).map((it) => [`Use for ${it.purpose}`, `${it.preference}${it.statement ? `: ${it.statement} (${it.carrier}; ${it.clause})` : ""}${it.document ? `, ${it.document.url}` : ""}`]),
      ["Organisation's rule", found.policy && [h("a", { href: "#/configuration" }, `[[rule]] ${found.policy.number}`), `, ${found.policy.action}${found.policy.reason ? `: ${found.policy.reason}` : ""}`,
        ...(found.policy.owner ? [" (", ownerLink(found.policy.owner, `[[rule]] ${found.policy.number}`, found.crawler, found.url), ")"] : [])]],
      ["Mode", found.would_be ? `${found.mode}: would have been ${found.would_be}` : found.mode],
      ["Configuration", `version ${found.configuration}`],
    ]),
    ...group("Timing", [
      ["At", time(found.at, true)],
      ["Decided in", duration(found.decided_us)],
      ["Waited", duration(found.waited_us)],
      ["Took", duration(found.took_us)],
    ]),
  ].flat();
}

function sentence(found) {
  const by = found.reason === "rule" && found.line ? `line ${found.line} of robots.txt, ${found.rule}` : why(found);
  return { refused: `Refused with ${found.status}: ${by}`, forwarded: `Forwarded, answered with ${found.status}: ${by}`, observed: `Forwarded, though it would have been refused: ${by}` }[found.outcome] ?? `${found.outcome}: ${found.details ?? by}`;
}

/** Explains why the text of the robots.txt cannot be shown. */
function withoutText(found, said, origin) {
  if (said) return "What the origin served at that time is no longer kept.";
  if (found.reason === "unavailable") return "The origin answered that it has no robots.txt.";
  if (origin && !origin.answer && !origin.history.length) return "This origin has never answered with a robots.txt.";
  return "No robots.txt was available that says anything about this request.";
}

/** The panel with the robots.txt that the decision is based on, or that a rule of the organisation overruled. */
async function robotsPanel(found) {
  const nothing = () => panel("Robots.txt", h("p", { class: "empty" }, "This request was decided without robots.txt."));
  if (!found.verdict && !found.policy) return nothing();
  const [grounds, origin] = await Promise.all([
    get(`/v1/decisions/${found.id}/robots`).catch((error) => {
      if (found.verdict) throw error;
      return null;
    }),
    get(`/v1/robots/${encodeURIComponent(found.origin)}`).catch(() => null),
  ]);
  if (!grounds) return nothing();
  const said = grounds.said;
  const copy = facts([
    ["Verdict", found.verdict && `${found.verdict} (${found.basis}), read as ${found.dialect}`],
    ["Group used", grounds.group.join(", ")],
    ["From", found.robots_access === "pinned" ? `the configuration: pinned to try it out, in place of ${grounds.robots_url}` : grounds.robots_url],
    [found.robots_access === "pinned" ? "Read" : "Fetched or confirmed", found.robots_fetched_at && time(found.robots_fetched_at, true)],
    ["Fetched as", found.robots_fetched_as],
    ["First seen", said && time(said.first_seen_at, true)],
    ["Status", said?.status],
    ["SHA-256", said?.sha256 && digest(said.sha256)],
  ]);
  const overruled = !grounds.is_consulted && h("p", { class: "note" }, "robots.txt was not consulted. This is what the origin served then, as far as is known.");
  const differs = h("p", { class: "warn" }, "This copy is not exactly the one that decided: it reads differently.");
  const document = grounds.document && h("details", { open: "" }, h("summary", {}, grounds.document.url),
    grounds.document.is_same || !grounds.document.said.body ? "" : differs.cloneNode(true),
    grounds.document.said.body ? listing(grounds.document.said.body) : h("p", { class: "empty" }, "Its text at that time is no longer kept."));
  const text = said?.body === null || said?.body === undefined
    ? h("p", { class: "empty" }, withoutText(found, said, origin))
    : listing(said.body, { marks: grounds.marks, group: grounds.group_lines });
  return panel("Robots.txt", document, overruled, copy, said?.body && !grounds.is_same && differs, text,
    origin && h("details", {}, h("summary", {}, "The last fetch"), fetchFacts(origin)));
}
