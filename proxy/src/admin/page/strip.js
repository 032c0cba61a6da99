// The strip above every view: problems of the proxy as a whole.

import { get } from "./api.js";
import { away, count, h } from "./dom.js";

const REFRESH = 5_000;

/** The view about a kind of problem, and whether it is urgent. A kind that is not here is shown all the same. */
const KINDS = {
  "reload-rejected": { href: "#/configuration", link: "Configuration", isUrgent: true },
  "decisions-lost": { isUrgent: true },
  "decisions-unsigned": { isUrgent: true },
  "state-unwritable": { isUrgent: true },
  "dns-fails": { isUrgent: true },
  "fleet": { href: "#/fleet", link: "Fleet", isUrgent: true },
  "ca-untrusted": { href: "#/connect", link: "Connect a crawler" },
  "clients-without-name": { href: "#/decisions?crawler=asserted", link: "Decisions" },
  "rules-expired": { href: "#/configuration", link: "Rules" },
  "purposes-mixed": { href: "#/configuration", link: "Configuration" },
};
/** The most details of a problem that are shown. */
const SHOWN = 10;

/** The problems that were hidden, until they change or the page is loaded again. */
const hidden = new Set();
const identity = ({ kind, text, details }) => JSON.stringify([kind, text, details]);
/** A problem that only happened again has not changed. */
const lasting = (problem) => identity(problem).replace(/\bonce\b|\d+ (times|requests)/g, "");

function part(problem, show) {
  const { href, link, isUrgent } = KINDS[problem.kind] ?? {};
  const { details } = problem;
  const left = details.length - SHOWN;
  const isSaid = (detail) => problem.text.includes(detail);
  return h("li", { class: isUrgent ? "bad" : "warn", "data-kind": problem.kind },
    h("div", {}, h("span", {}, [problem.text, problem.at && `, ${away(new Date(problem.at))}`, details.length === 1 && !isSaid(details[0]) && `: ${details[0]}`].filter(Boolean).join("")), " ",
      href && h("a", { href }, link),
      details.length > 1 && h("details", {}, h("summary", {}, `All ${count(details.length)}`),
        h("ul", {}, details.slice(0, SHOWN).map((detail) => h("li", {}, detail)), left > 0 && h("li", {}, `and ${count(left)} more`)))),
    h("button", { type: "button", "aria-label": `Hide: ${problem.text}`, click: () => (hidden.add(lasting(problem)), show()) }, "Hide"));
}

/** Shows the problems, and follows them as long as the page is open. Resolves once they are shown, so that nothing below moves. */
export async function watchProblems() {
  const strip = document.getElementById("strip");
  let [found, shown] = [[], ""];
  const show = () => {
    const now = found.filter((problem) => !hidden.has(lasting(problem)));
    strip.hidden = !now.length;
    const identities = now.map(identity).join();
    // Somebody may be reading the details.
    if (identities === shown) return;
    shown = identities;
    strip.replaceChildren(h("ul", {}, now.map((problem) => part(problem, show))));
  };
  const load = async () => {
    // Whether there is a connection is shown elsewhere.
    const answer = await get("/v1/problems").catch(() => null);
    if (answer) [found] = [answer.problems];
    show();
  };
  const first = load();
  setInterval(() => document.hidden || load(), REFRESH);
  addEventListener("hashchange", load);
  await first;
}
