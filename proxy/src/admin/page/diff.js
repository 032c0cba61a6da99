// The difference between two texts, line by line.

import { h } from "./dom.js";

/** The size of the largest comparison. Texts that need a larger one are shown one after the other. */
const MOST_CELLS = 4_000_000;
/** The number of unchanged lines to show around a change. */
const AROUND = 3;

const linesOf = (text) => {
  const lines = (text ?? "").split(/\r\n|\n|\r/);
  if (lines.at(-1) === "") lines.pop();
  return lines;
};

/** Returns each line of both texts with "+", "-" or " ", with as few changes as possible. */
function compare(before, after) {
  let [start, end] = [0, 0];
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  while (end < before.length - start && end < after.length - start && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  const [old, young] = [before.slice(start, before.length - end), after.slice(start, after.length - end)];
  const same = (lines) => lines.map((text) => [" ", text]);
  return [...same(before.slice(0, start)), ...middle(old, young), ...same(before.slice(before.length - end))];
}

function middle(old, young) {
  if (old.length * young.length > MOST_CELLS) return [...old.map((text) => ["-", text]), ...young.map((text) => ["+", text])];
  // The table of longest common subsequences, filled from the end.
  const width = young.length + 1;
  const longest = new Uint32Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = young.length - 1; j >= 0; j -= 1) {
      longest[i * width + j] = old[i] === young[j] ? longest[(i + 1) * width + j + 1] + 1 : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  const changes = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < young.length) {
    if (i < old.length && j < young.length && old[i] === young[j]) {
      changes.push([" ", old[i]]);
      [i, j] = [i + 1, j + 1];
    } else if (j >= young.length || (i < old.length && longest[(i + 1) * width + j] >= longest[i * width + j + 1])) {
      changes.push(["-", old[i]]);
      i += 1;
    } else {
      changes.push(["+", young[j]]);
      j += 1;
    }
  }
  return changes;
}

/** Shows what changed from one text to the next, with some lines around each change. */
export function difference(before, after) {
  const all = compare(linesOf(before), linesOf(after));
  const isNear = all.map((_, at) => all.slice(Math.max(0, at - AROUND), at + AROUND + 1).some(([sign]) => sign !== " "));
  const words = { "+": "added", "-": "removed", " ": "same" };
  const items = [];
  for (const [at, [sign, text]] of all.entries()) {
    if (!isNear[at]) continue;
    if (at > 0 && !isNear[at - 1]) items.push(h("li", { class: "gap" }, "…"));
    items.push(h("li", { class: words[sign] }, h("span", { class: "at", "aria-label": words[sign] }, sign), h("code", {}, text || " ")));
  }
  if (!items.length) return h("p", { class: "empty" }, "The lines are the same.");
  return h("ol", { class: "robots diff", tabindex: "0", "aria-label": "Changes, line by line" }, items);
}
