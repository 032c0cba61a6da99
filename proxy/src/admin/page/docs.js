// Links to the documentation: to the copy that the configuration names, or else to the one that the proxy serves.

import { h } from "./dom.js";
// Made from docs/refusals.md while the proxy is built: the reasons that it tells what to do about. metrics.md has all of them.
import { IN_REFUSALS } from "./refusals.js";

let base = "/docs";

/** Uses the copy at a URL, if there is one. */
export function useDocs(url) {
  if (!url) return;
  base = url;
  document.getElementById("docs").href = `${url}/`;
}

/** A link to one of the documents, such as `refusals`, or to an anchor of it. It opens beside the page, which has live data. */
export function docsLink(name, words, title = null, anchor = "") {
  const href = `${base}/${name}.md${anchor && `#${anchor}`}`;
  return h("a", { class: "docs", href, target: "_blank", rel: "noopener", title }, words);
}

/** A link to the paragraph about a reason. */
export function reasonDocs(reason, outcome, words = "docs") {
  const passed = outcome === "forwarded" || outcome === "tunnelled";
  const name = !passed && IN_REFUSALS.includes(reason) ? "refusals" : "metrics";
  return docsLink(name, words, `Documentation of ${reason}`, reason);
}
