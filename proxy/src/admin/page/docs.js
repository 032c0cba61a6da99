// Links to the documentation: to the copy that the configuration names, or else to the one that the proxy serves.

import { h } from "./dom.js";

let base = "/docs";

/** Uses the copy at a URL, if there is one. */
export function useDocs(url) {
  if (!url) return;
  base = url;
  document.getElementById("docs").href = `${url}/`;
}

/** The documents about reasons; for all others, refusals.md or metrics.md. */
const ABOUT = {
  "preference": "preferences", "payment": "refusals", "crawl-delay": "politeness", "origin-rests": "politeness",
  "concurrency": "politeness", "budget": "configuration", "https-refused": "clients", "bypass": "clients",
};

/** A link to one of the documents, such as `refusals`. It opens beside the page, which has live data. */
export const docsLink = (name, words, title = null) => h("a", { class: "docs", href: `${base}/${name}.md`, target: "_blank", rel: "noopener", title }, words);

/** A link to what the documentation says about a reason. */
export function reasonDocs(reason, outcome) {
  const passed = outcome === "forwarded" || outcome === "tunnelled";
  return docsLink(ABOUT[reason] ?? (passed ? "metrics" : "refusals"), "docs", `Documentation of ${reason}`);
}
