// Requests that match no [[crawler]]: who sends them, and the table that would name them.

import { query } from "./api.js";
import { copyButton, count, h, panel, share } from "./dom.js";
import { showSorted } from "./sortable.js";

const SHOWN = 10;
const VIEWS = [["by_token", "product token"], ["by_user_agent", "User-Agent"], ["by_client", "client"]];

/** The name of those that sent none. */
const NO_NAME = "-";

/** The text that decisions of a row have: User-Agents are not searched. */
function linkText(by, row) {
  const text = by === "by_user_agent" ? row.first_token : row.name;
  return text === NO_NAME ? "" : text;
}

/** What there is to do about a row: to name its crawler, but not if the name that it sends is somebody else's, or many programs'. */
function remedy(by, row, name) {
  if (row.name === NO_NAME) return "";
  if (row.naming?.table) return h("button", { type: "button", "aria-label": `Name this crawler: ${row.name}`, click: () => name(row.naming) }, "Name this crawler");
  if (!row.foreign_owner) return h("small", {}, row.naming?.advice[0] ?? "");
  return h("small", {}, by === "by_client" ? `It sends ${row.foreign_owner}'s name: give it a User-Agent of your own.`
    : `A client of yours sends ${row.foreign_owner}'s name: find it under "By client", and give it a User-Agent of your own.`);
}

/** The panel about requests without a name. `chosen` outlives the view. */
export function unnamedPanel(found, total, words, chosen, filter) {
  const place = h("div", {});
  const snippet = h("div", { "aria-live": "polite" });
  const tabs = h("div", { class: "tabs", role: "group", "aria-label": "Break down by" });
  const show = () => {
    tabs.replaceChildren(...VIEWS.map(([by, text]) => h("button", { type: "button", "aria-pressed": String(by === chosen.by), click: () => {
      chosen.by = by;
      snippet.replaceChildren();
      show();
    } }, `By ${text}`)));
    const [by, what] = VIEWS.find(([own]) => own === chosen.by) ?? VIEWS[0];
    showSorted(place, {
      caption: `Unnamed requests by ${what}`, kind: "unnamed", items: found[by], most: SHOWN,
      order: chosen.order, changed: (order) => ((chosen.order = order), show()),
      empty: `No request without a name, ${words}.`,
      columns: [
        { key: "name", head: what[0].toUpperCase() + what.slice(1), value: (row) => row.name, cell: (row) => h("th", { scope: "row", class: "url" }, h("a", { href: `#/decisions${query({ crawler: "asserted", q: linkText(by, row), ...filter })}` }, row.name === NO_NAME ? "none" : row.name)) },
        { key: "requests", head: "Requests", kind: "number", value: (row) => row.requests, cell: (row) => h("td", { class: "number" }, count(row.requests)) },
        { key: "refused", head: "Refused", kind: "number", value: (row) => row.refused, cell: (row) => h("td", { class: "number" }, h("span", {}, count(row.refused), " ", h("small", {}, share(row.refused, row.requests)))) },
        { key: "would", head: "Would be refused", kind: "number", value: (row) => row.would_be_refused, cell: (row) => h("td", { class: "number" }, h("span", {}, count(row.would_be_refused), " ", h("small", {}, share(row.would_be_refused, row.requests)))) },
        { head: "What to do", cell: (row) => h("td", { class: "do" }, remedy(by, row, name)) },
      ],
    });
  };
  const name = ({ table, advice }) => {
    snippet.replaceChildren(h("p", { class: "note below" }, "Add this to the configuration file, after all other [[crawler]] tables. Saving is enough: the proxy reads it again by itself."),
      ...advice.map((effect) => h("p", { class: "note" }, effect)),
      h("pre", { class: "snippet", tabindex: "0" }, table), h("p", { class: "actions" }, copyButton(() => table)));
    snippet.scrollIntoView({ block: "nearest" });
  };
  show();
  return panel("Unnamed requests", h("p", { class: "note" }, `${count(total)} requests match no [[crawler]], ${words}; each is judged by its own User-Agent. Name who they are, so that they count on their own.`), tabs, place, snippet);
}
