// Elements and the formats of values. Text is only ever inserted as text, never as HTML, with control characters escaped.

/** Escapes control and format characters in untrusted text, such as those that reverse its direction. */
export const harmless = (text) => text.replace(/(?![\t\n])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

/** Creates an element. Attributes that are null or false are left out; functions become listeners. */
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

/** A duration in microseconds as milliseconds, with three digits that count, or as seconds. */
export function duration(micros) {
  if (!micros) return null;
  const [number, unit] = micros < 1e6 ? [micros / 1e3, "ms"] : [micros / 1e6, "s"];
  return `${number < 100 ? Number(number.toPrecision(3)) : whole.format(Math.round(number))} ${unit}`;
}

/** Seconds, with three digits that count. */
export const inSeconds = (number) => `${number < 100 ? Number(number.toPrecision(3)) : whole.format(Math.round(number))} s`;

const isoDay = (date) => date.toISOString().slice(0, 10);

// All times are in UTC, as the log, the commands and the API have them; the page's foot says so.
export const clockTime = (date) => date.toISOString().slice(11, 19);

/** An instant as a clock shows it, after its day unless that is today; `day` shortens the day. */
export function instant(date, day = (text) => text) {
  const isToday = isoDay(date) === isoDay(new Date());
  return isToday ? clockTime(date) : `${day(isoDay(date))} ${clockTime(date).slice(0, 5)}`;
}

/** Shows an instant: the time of day, with the date unless it is today; with `relative`, the distance from now. */
export function time(text, relative = false) {
  if (!text) return "–";
  const date = new Date(text);
  const shown = instant(date);
  return h("time", { datetime: text, title: text }, relative ? `${shown} (${away(date)})` : shown);
}

/** Shows a day, and its distance from now. */
export const day = (text) => [h("time", { datetime: text }, text.slice(0, 10)), h("br"), h("small", {}, away(new Date(text)))];

export function away(date) {
  const seconds = Math.round((date - Date.now()) / 1000);
  const size = Math.abs(seconds);
  const [number, unit] = size < 90 ? [size, "s"] : size < 5400 ? [Math.round(size / 60), "min"]
    : size < 172_800 ? [Math.round(size / 3600), "h"] : [Math.round(size / 86_400), "d"];
  return seconds <= 0 ? `${number} ${unit} ago` : `in ${number} ${unit}`;
}

/** A list of names and values; pairs without a value are left out. */
export function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", { class: "facts" }, known.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** The crawler's name; for people, `asserted`, which stands for all that match no [[crawler]], is "unnamed". */
export const crawlerName = (name) => (name === "asserted" ? "unnamed (by User-Agent)" : name);

/** The crawler's name, with an explanation if no [[crawler]] has it. */
export const crawlerInWords = ({ crawler, identity }) => (identity === "asserted" ? "unnamed: matches no [[crawler]], judged by its User-Agent" : crawler);

/** An outcome in words. */
export const outcomeName = (outcome) => (outcome === "observed" ? "observed (would be refused)" : outcome);

/** A SHA-256 that may break in its middle. */
export const digest = (hex) => h("code", {}, hex.slice(0, 32), h("wbr"), hex.slice(32));

export const badge = (word, words = word) => h("span", { class: `badge ${word}` }, words);

/** Uses only the answer to the newest request: those to older ones, which may arrive later, are dropped. */
export function newest() {
  let turn = 0;
  return async (answer, use) => {
    const mine = ++turn;
    const found = await answer;
    if (mine === turn) use(found);
  };
}

/** A button that copies the result of `text`. */
export function copyButton(text, words = "Copy") {
  const button = h("button", { type: "button", click: async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = "Copied";
    } catch {
      // Browsers forbid access to the clipboard for pages without TLS.
      button.textContent = "Select the text and copy it";
    }
  } }, words);
  return button;
}

/** A table with a caption for screen readers; `empty` is shown if there are no rows. */
export function table(caption, heads, rows, empty, kindOfTable = null) {
  if (!rows.length) return h("p", { class: "empty" }, empty);
  const kind = (name) => (name === "" ? "wide" : name.startsWith("#") ? "number" : null);
  const head = heads.map((name) => h(name === "" ? "td" : "th", { scope: name === "" ? null : "col", class: kind(name) }, name.replace("#", "")));
  // On narrow screens, where rows are stacked, each cell shows the name of its column.
  for (const row of rows) for (const [at, cell] of [...row.children].entries()) cell.dataset.label = heads[at]?.replace("#", "") ?? "";
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
    h("table", { class: kindOfTable }, h("caption", {}, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)));
}

/** What is shown instead of what only tokens for all teams are told. */
export const untold = () => h("p", { class: "empty" }, "A token of one team is not told.");

/** A section of a view with a heading. */
export function panel(title, ...children) {
  const id = `p-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  return h("section", { class: "panel", "aria-labelledby": id }, h("h2", { id }, title), children);
}

let errors = 0;

/** Shows an error, or hides it if there is no message. */
export function showError(message) {
  if (message) errors += 1;
  const alert = document.getElementById("alert");
  alert.hidden = !message;
  alert.querySelector("span").textContent = harmless(message ?? "");
}

let underWay = 0;

function busy(change) {
  underWay += change;
  const main = document.getElementById("main");
  if (underWay) main.setAttribute("aria-busy", "true");
  else {
    main.removeAttribute("aria-busy");
    main.classList.remove("fresh");
  }
}

/** Runs `work` and shows its error. If it succeeds, an error from before it began is hidden. */
export async function attempt(work) {
  busy(1);
  const before = errors;
  try {
    const result = await work();
    if (errors === before) showError(null);
    return result;
  } catch (error) {
    showError([error.message, ...(error.mistakes ?? [])].join("\n"));
    return undefined;
  } finally {
    busy(-1);
  }
}
