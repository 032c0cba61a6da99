// Links to the documentation: to the copy that the configuration names, or else to the one that the proxy serves.

import { h } from "./dom.js";

let base = "/docs";

/** Uses the copy at a URL, if there is one. */
export function useDocs(url) {
  if (!url) return;
  base = url;
  document.getElementById("docs").href = `${url}/`;
}

/** The reasons that refusals.md tells what to do about; metrics.md has all of them. */
const IN_REFUSALS = [
  "rule",
  "unreachable",
  "too-costly",
  "policy-rule",
  "preference",
  "subresource-type",
  "crawl-delay",
  "origin-rests",
  "unrecorded",
  "concurrency",
  "budget",
  "unidentified",
  "wrong-password",
  "wrong-certificate",
  "password-checks",
  "https-refused",
  "foreign-token",
  "token-missing",
  "destination_ip_prohibited",
  "malformed-request",
  "misdirected",
  "unsupported-scheme",
  "proxy_loop_detected",
  "proxy_configuration_error",
  "proxy_internal_error",
  "target-too-long",
  "head-too-large",
  "head-timeout",
  "unsupported-version",
  "connection_limit_reached",
  "proxy-protocol",
  "tls-required",
  "not-http",
  "not-redirected",
  "dns_error",
  "connection_refused",
  "tls_certificate_error",
];

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
