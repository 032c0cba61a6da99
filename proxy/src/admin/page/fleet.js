// Fleet: the nodes that share robots.txt files and delays with this proxy, as in `wayleave fleet status`.

import { get } from "./api.js";
import { attempt, badge, bytes, count, facts, h, newest, panel, table } from "./dom.js";

const REFRESH = 5_000;
const STATES = {
  alone: "This proxy has no fleet: store.kind is \"embedded\". Several proxies can share robots.txt files and delays through Redis or Valkey (docs/fleet.md).",
  up: "The engine answers: robots.txt files and delays are shared.",
  lost: "The engine does not answer: this proxy works on its own.",
  "beats-failing": "The engine answers, but this proxy's beats fail: other nodes may consider it gone.",
  "clock-off": "This machine's clock differs too much from the engine's: entries of other nodes are ignored (store.key_file).",
};

export function fleet() {
  const inside = h("div", {}, h("p", { class: "empty" }, "Loading …"));
  const latest = newest();
  const load = () => attempt(() => latest(get("/v1/fleet"), (found) => inside.replaceChildren(...parts(found))));
  load();
  const timer = setInterval(() => document.hidden || load(), REFRESH);
  return { view: h("div", { class: "view" }, h("h1", {}, "Fleet"), inside), end: () => clearInterval(timer) };
}

function parts(found) {
  const { state, engine, last_error: error } = found;
  const kind = { alone: "", up: "forwarded", lost: "failed", "beats-failing": "failed", "clock-off": "failed" }[state] ?? "";
  const verdict = h("p", { class: `verdict ${kind}` }, h("strong", {}, STATES[state] ?? state));
  const status = panel("Status", verdict, facts([
    ["Lost for", found.lost_for_seconds === null ? null : `${count(found.lost_for_seconds)} s`],
    ["Last error", error && `${error.message} (${count(error.seconds_ago)} s ago)`],
    ["Engine", engine && `${engine.name}, ${bytes(engine.memory)}, ${engine.maxmemory_policy}`],
    ["Without the engine", state === "alone" ? null : { refuse: "origins with a delay are refused", home: "each origin with a delay is crawled by one node" }[found.on_loss] ?? found.on_loss],
    ["Slots held", state === "alone" ? null : count(found.turns)],
    ["Not sent yet", state === "alone" ? null : count(found.unsettled)],
  ]));
  if (state === "alone") return [status];
  const rows = found.members.map((member) => h("tr", {},
    h("th", { scope: "row" }, member.node), h("td", {}, member.version), h("td", {}, member.node === found.node ? badge("this one") : "")));
  const names = new Set(found.members.map((member) => member.node));
  const logs = found.logs.map((log) => h("tr", {},
    h("th", { scope: "row" }, log.node), h("td", { class: "number" }, count(log.decisions)), h("td", { class: "number" }, count(log.lost_decisions)),
    h("td", {}, log.head_at), h("td", {}, names.has(log.node) ? "" : badge("not here now"))));
  return [
    status,
    panel("Nodes", table("Nodes", ["Node", "Version", "Which"], rows, "No other node is known.")),
    panel("Decision logs", table("Decision logs", ["Node", "#Decisions", "#Lost", "Last head", "Which"], logs, "No log is known yet.")),
  ];
}
