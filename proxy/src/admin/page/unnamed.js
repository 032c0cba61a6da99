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

/** A string of TOML. */
const quoted = (text) => JSON.stringify(text).replaceAll("\u007f", "\\u007f");

/** A name that a [[crawler]] can have. */
const nameFrom = (text) => text.toLowerCase().replace(/[^a-z0-9._-]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 64) || "crawler";

/** The [[crawler]] that would match requests like these. */
export function tableFor(by, row) {
  const first = by === "by_token" ? row.name : row.first_token;
  const token = first === NO_NAME ? null : first;
  const isAddress = by === "by_client";
  const name = nameFrom(token ?? row.name);
  return [
    "[[crawler]]",
    `name = ${quoted(name === "asserted" ? "crawler" : name)}`,
    `tokens = [${quoted(token ?? "NAME-IN-ROBOTS-TXT")}]`,
    isAddress ? `match = { addresses = [${quoted(row.name)}] }` : `match = { user_agent = ${quoted(token ?? row.name)} }`,
    "# owner = \"team@example.com\"",
    "mode = \"observe\"  # for a start: nothing is refused yet",
    "",
  ].join("\n");
}

/** What there is to do about a row: to name its crawler, but not if the name that it sends is somebody else's. */
function remedy(by, row, name) {
  if (row.name === NO_NAME) return "";
  if (!row.foreign_owner) return h("button", { type: "button", "aria-label": `Name this crawler: ${row.name}`, click: () => name(by, row) }, "Name this crawler");
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
        { head: "What to do", cell: (row) => h("td", { class: "do" }, remedy(by, row, name)) },
      ],
    });
  };
  const name = (by, row) => {
    const text = tableFor(by, row);
    snippet.replaceChildren(h("p", { class: "note below" }, "Add this to the configuration file. Saving is enough: the proxy reads it again by itself."),
      h("pre", { class: "snippet", tabindex: "0" }, text), h("p", { class: "actions" }, copyButton(() => text)));
    snippet.scrollIntoView({ block: "nearest" });
  };
  show();
  return panel("Unnamed requests", h("p", { class: "note" }, `${count(total)} requests match no [[crawler]], ${words}; each is judged by its own User-Agent. Name who they are, so that they count on their own.`), tabs, place, snippet);
}
