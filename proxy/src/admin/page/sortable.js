// Tables that a click on a column's head sorts.

import { h } from "./dom.js";

/** Reads an order from the URL: `-refused` is by the column `refused`, the largest first. */
export const orderOf = (text) => (text ? { key: text.replace(/^-/, ""), isDown: text.startsWith("-") } : null);
export const orderInUrl = (order) => (order ? `${order.isDown ? "-" : ""}${order.key}` : "");

const compare = (one, other) => (typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other), "en"));

/** Sorts a copy of `items`. Those without a value come last, and equal ones remain as they are: the worst first. */
export function sorted(items, columns, order) {
  const by = order && columns.find(({ key }) => key === order.key);
  if (!by) return [...items];
  const isMissing = (value) => value === null || value === undefined || value === "";
  return [...items].sort((one, other) => {
    const [a, b] = [by.value(one), by.value(other)];
    if (isMissing(a) || isMissing(b)) return isMissing(a) - isMissing(b);
    return order.isDown ? compare(b, a) : compare(a, b);
  });
}

/**
  * A table of `items`, one row each. A column has `head`, `cell` (the cell of an item), and if it sorts `key` and `value`;
  * `kind` is `number` or `wide`, `note` explains it. `more` are rows that remain last. `changed` is called with the order that a
  * click chooses.
 */
export function sortable({ caption, columns, items, order, changed, empty, kind = null, more = [] }) {
  if (!items.length && !more.length) return h("p", { class: "empty" }, empty);
  const rows = [...items.map((item) => h("tr", {}, columns.map((column) => column.cell(item)))), ...more];
  // On narrow screens, where rows are stacked, each cell shows the name of its column.
  for (const row of rows) for (const [at, cell] of [...row.children].entries()) cell.dataset.label = columns[at]?.head ?? "";
  const table = h("table", { class: kind }, h("caption", {}, caption),
    h("thead", {}, h("tr", {}, columns.map((column) => head(column, order, changed)))), h("tbody", {}, rows));
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption }, table);
}

/** The head of a column. */
export function head({ head: name, key, kind, value, note }, order, changed) {
  if (!name) return h("td", { class: kind ?? null });
  if (!value) return h("th", { scope: "col", class: kind ?? null, title: note }, name);
  const isChosen = order?.key === key;
  // Of numbers, the largest are looked for.
  const isDown = isChosen ? !order.isDown : kind === "number";
  return h("th", { scope: "col", class: kind ?? null, "aria-sort": isChosen ? (order.isDown ? "descending" : "ascending") : null },
    h("button", { type: "button", class: "sort", "data-key": key, title: note, click: () => changed({ key, isDown }) }, name,
      h("span", { "aria-hidden": "true" }, isChosen ? (order.isDown ? " ▾" : " ▴") : "")));
}

/** Shows a sorted table in `place`, and shows it again when another order is chosen, with the focus where it was. */
export function showSorted(place, options) {
  const focused = place.contains(document.activeElement) ? document.activeElement.closest("th")?.cellIndex : undefined;
  place.replaceChildren(sortable({ ...options, items: sorted(options.items, options.columns, options.order).slice(0, options.most ?? Infinity) }));
  if (focused !== undefined) place.querySelectorAll("thead tr > *")[focused]?.querySelector("button")?.focus();
}
