// Elements, and how values are written. Text is only ever set as text, and what it is made of is seen.

/** What strangers wrote, without what a browser would obey: characters of control and of format are spelled out. */
const harmless = (text) => text.replace(/(?![\t\n])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

/** An element; attributes that are null or false are left out, functions become listeners. */
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(key, value);
    else if (key === "value") element.value = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  const shown = children.flat().filter((child) => child !== null && child !== undefined && child !== false);
  element.append(...shown.map((child) => (typeof child === "string" ? harmless(child) : child)));
  return element;
}

const whole = new Intl.NumberFormat("en");
const decimal = new Intl.NumberFormat("en", { maximumFractionDigits: 1, minimumFractionDigits: 1 });

export const count = (number) => whole.format(number);
export const rate = (number) => (number >= 100 ? whole.format(Math.round(number)) : decimal.format(number));
export const share = (part, all) => (all ? `${decimal.format((100 * part) / all)} %` : "–");

export function bytes(number) {
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (number >= size) return `${decimal.format(number / size)} ${unit}`;
  }
  return `${whole.format(number)} B`;
}

const two = (number) => String(number).padStart(2, "0");
export const clockTime = (date) => `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;

/** An instant: its time of day, or its date if it is another day; how far away; all of it on hover. */
export function time(text, relative = false) {
  if (!text) return "–";
  const date = new Date(text);
  const isToday = date.toDateString() === new Date().toDateString();
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const shown = isToday ? clockTime(date) : `${day} ${clockTime(date).slice(0, 5)}`;
  return h("time", { datetime: text, title: text }, relative ? `${shown} (${away(date)})` : shown);
}

/** A day, and how far away it is. */
export const day = (text) => [h("time", { datetime: text }, text.slice(0, 10)), h("br"), h("small", {}, away(new Date(text)))];

export function away(date) {
  const seconds = Math.round((date - Date.now()) / 1000);
  const size = Math.abs(seconds);
  const [number, unit] = size < 90 ? [size, "s"] : size < 5400 ? [Math.round(size / 60), "min"]
    : size < 172_800 ? [Math.round(size / 3600), "h"] : [Math.round(size / 86_400), "d"];
  return seconds <= 0 ? `${number} ${unit} ago` : `in ${number} ${unit}`;
}

/** Pairs of a name and a value; pairs without a value are left out. */
export function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", { class: "facts" }, known.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** Who asked, and what that name stands for if the configuration does not have it. */
export const crawlerInWords = ({ crawler, identity }) => (identity === "asserted" ? `${crawler}: matches no [[crawler]], judged by its User-Agent` : crawler);

/** A SHA-256, broken in its middle where it needs two lines. */
export const digest = (hex) => h("code", {}, hex.slice(0, 32), h("wbr"), hex.slice(32));

export const badge = (word) => h("span", { class: `badge ${word}` }, word);

/** Of several answers that are under way the newest question's wins: what an older one brings is dropped. */
export function newest() {
  let turn = 0;
  return async (answer, use) => {
    const mine = ++turn;
    const found = await answer;
    if (mine === turn) use(found);
  };
}

/** A button that copies what `text` says when it is pressed. */
export function copyButton(text) {
  const button = h("button", { type: "button", click: async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = "Copied";
    } catch {
      // A page that did not come over TLS may not write there.
      button.textContent = "Select the text and copy it";
    }
  } }, "Copy");
  return button;
}

/** A table with a caption for those who do not see it; `empty` stands for no rows. */
export function table(caption, heads, rows, empty, kindOfTable = null) {
  if (!rows.length) return h("p", { class: "empty" }, empty);
  const kind = (name) => (name === "" ? "wide" : name.startsWith("#") ? "number" : null);
  const head = heads.map((name) => h(name === "" ? "td" : "th", { scope: name === "" ? null : "col", class: kind(name) }, name.replace("#", "")));
  // Where columns have no room, each cell says its own.
  for (const row of rows) for (const [at, cell] of [...row.children].entries()) cell.dataset.label = heads[at]?.replace("#", "") ?? "";
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
    h("table", { class: kindOfTable }, h("caption", {}, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)));
}

/** A part of a view with a heading. */
export function panel(title, ...children) {
  const id = `p-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  return h("section", { class: "panel", "aria-labelledby": id }, h("h2", { id }, title), children);
}

let complaints = 0;

/** Shows what went wrong. */
export function complain(message) {
  if (message) complaints += 1;
  const alert = document.getElementById("alert");
  alert.hidden = !message;
  alert.querySelector("span").textContent = harmless(message ?? "");
}

let underWay = 0;

function busy(change) {
  underWay += change;
  const main = document.getElementById("main");
  if (underWay) main.setAttribute("aria-busy", "true");
  else main.removeAttribute("aria-busy");
}

/** Does something, and shows why it fails. Once it succeeds, what failed before it began is not shown any more. */
export async function attempt(work) {
  busy(1);
  const before = complaints;
  try {
    const result = await work();
    if (complaints === before) complain(null);
    return result;
  } catch (error) {
    complain([error.message, ...(error.mistakes ?? [])].join("\n"));
    return undefined;
  } finally {
    busy(-1);
  }
}
