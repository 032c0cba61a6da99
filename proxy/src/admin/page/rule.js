// From a refusal to an exception: a [[rule]] to paste into the configuration, with what a person has to fill in.

import { get } from "./api.js";
import { copyButton, h } from "./dom.js";
import { docsLink } from "./docs.js";

/** The reasons that an exception sets aside. What the proxy itself demands, such as a pace, it does not. */
const OVERRIDDEN = ["rule", "unreachable", "unavailable", "redirect-lost", "too-costly", "preference", "subresource-type"];

export const mayHaveException = ({ outcome, reason }) => ["refused", "observed"].includes(outcome) && OVERRIDDEN.includes(reason);

/** Text as a string of TOML: those of JSON are also some, but for one character that TOML wants escaped. */
const toml = (text) => JSON.stringify(text).replaceAll("\u007f", "\\u007F");

/** A path as a pattern that matches nothing else. */
function pattern(url) {
  const { pathname, search } = new URL(url);
  return `${pathname}${search}`.replaceAll("*", "%2A").replaceAll("$", "%24") + "$";
}

/** The lines of an exception for this request. */
export function exception({ url, crawler, method }, { owner = "", reason = "", expires = "" } = {}) {
  const { hostname } = new URL(url);
  return [
    "[[rule]]",
    'action = "allow"',
    `hosts = [${toml(hostname)}]`,
    `paths = [${toml(pattern(url))}]`,
    `crawlers = [${toml(crawler)}]`,
    ...(["GET", "HEAD"].includes(method) ? [] : [`methods = [${toml(method)}]`]),
    `owner = ${toml(owner)}`,
    `reason = ${toml(reason)}`,
    `expires = ${toml(expires)}`,
    "",
  ].join("\n");
}

/** What the lines of an exception mean that may surprise. */
function remarks({ url, crawler }) {
  const query = new URL(url).search ? "with its query" : "without a query";
  return [`A path that ends in $ matches this URL only, exactly as it is, ${query}.`,
    ...(crawler === "asserted" ? [' In a rule, "asserted" stands for every unnamed crawler, which is one that matches no [[crawler]], not just for the one that sent this request.'] : [])];
}

/** A form that fills in the exception while a person types. */
export function exceptionForm(found) {
  const filled = {};
  let file = "the configuration";
  const lines = h("pre", { class: "snippet", tabindex: "0", "aria-label": "The exception as TOML" }, exception(found));
  const left = h("p", { class: "note", role: "status" });
  const names = { owner: "owner", reason: "reason", expires: "expiry" };
  const show = () => {
    lines.textContent = exception(found, filled);
    const missing = Object.keys(names).filter((name) => !filled[name]).map((name) => names[name]);
    left.textContent = missing.length ? `Still to fill in: ${missing.join(", ")}. Until then the configuration is not accepted.`
      : `Paste it into ${file} and save: the proxy reads it again by itself. If it has a mistake, the old configuration stays in effect; wayleave config check finds it.`;
  };
  const field = (name, label, attributes) => h("label", {}, label, h("input", { name, autocomplete: "off", ...attributes, input: ({ target }) => {
    filled[name] = target.value.trim();
    show();
  } }));
  show();
  get("/v1/configuration").then((now) => {
    file = now.file ?? file;
    show();
  }, () => {});
  return h("details", { class: "exception" }, h("summary", {}, "Make an exception"),
    h("p", { class: "note" }, "An exception is a rule of the configuration, which is where others can review it. It should rest on what the site's owner agreed to. ", docsLink("configuration", "docs", "Documentation of rules")),
    h("form", { class: "form", submit: (event) => event.preventDefault() },
      field("owner", "Owner", { placeholder: "data@example.com" }), field("reason", "Reason", { placeholder: "agreed by mail" }), field("expires", "Expires", { type: "date" })),
    left, lines, h("p", { class: "note" }, remarks(found)), h("p", { class: "actions" }, copyButton(() => lines.textContent, "Copy the rule")));
}
