// Connect a crawler: the settings that its machine needs, for each client, with the address of this proxy; and a test that
// waits for a request of that client.

import { get, query } from "./api.js";
import { attempt, badge, clockTime, copyButton, facts, h, newest, panel } from "./dom.js";
import { docsLink } from "./docs.js";
import { otherForms } from "./environment.js";

const POLL = 1_000;

export function connect(parameters) {
  // A link may choose the client, but not the address or the path: users would paste what an attacker put into the link.
  const chosen = { client: parameters.get("client") ?? "curl", proxy: "", ca: "" };
  const [about, tabs] = [h("div", {}), h("div", { role: "tablist", "aria-label": "Client", class: "tabs" })];
  const lines = h("pre", { class: "snippet", tabindex: "0", "aria-label": "What to do" });
  const tabPanel = h("div", { role: "tabpanel", id: "client", "aria-labelledby": "tab-curl" }, lines, h("p", { class: "actions" }, copyButton(() => lines.textContent)));
  const latest = newest();
  const load = () => attempt(() => latest(get(`/v1/connect${query({ proxy: chosen.proxy, ca: chosen.ca })}`), show));
  const show = (found) => {
    const forms = [...found.clients, ...otherForms(found)];
    const fingerprint = h("code", {}, found.ca_sha256);
    about.replaceChildren(facts([
      ["Proxy", h("code", {}, found.proxy)],
      ["CA's certificate", h("a", { href: "/ca.pem", download: "ca.pem", class: "button" }, "Download ca.pem")],
      ["SHA-256", h("span", {}, fingerprint, " ", copyButton(() => found.ca_sha256))],
      ["For browsers", h("a", { href: "/proxy.pac" }, "proxy.pac")],
    ]));
    document.querySelector("input[name=ca]")?.setAttribute("placeholder", found.ca);
    const select = (name) => {
      chosen.client = name;
      history.replaceState(null, "", `#/connect${query({ client: chosen.client })}`);
      for (const tab of tabs.children) {
        const isChosen = tab.dataset.client === name;
        tab.setAttribute("aria-selected", String(isChosen));
        tab.tabIndex = isChosen ? 0 : -1;
      }
      tabPanel.setAttribute("aria-labelledby", `tab-${name}`);
      lines.textContent = forms.find((client) => client.name === name).lines;
    };
    const names = forms.map((client) => client.name);
    tabs.replaceChildren(...forms.map((client, at) => h("button", {
      type: "button", role: "tab", id: `tab-${client.name}`, "aria-controls": "client", "data-client": client.name,
      click: () => select(client.name),
      keydown: ({ key }) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
        if (!step) return;
        const next = names[(at + step + names.length) % names.length];
        select(next);
        document.getElementById(`tab-${next}`).focus();
      },
    }, client.title)));
    select(names.includes(chosen.client) ? chosen.client : names[0]);
  };
  const field = (name, label, note, placeholder) => h("label", {}, label, h("input", {
    name, value: chosen[name], placeholder, autocomplete: "off", spellcheck: "false", change: ({ target }) => {
      chosen[name] = target.value.trim();
      load();
    },
  }), h("small", {}, note));
  const sought = h("label", {}, "Its address, User-Agent or crawler's name", h("input", { name: "sought", type: "search", autocomplete: "off", spellcheck: "false", input: () => again() }), h("small", {}, "If it has been seen before: only requests with this text count."));
  const [result, again, end] = firstRequest(() => sought.querySelector("input").value.trim().toLowerCase());
  load();
  const view = h("div", { class: "view" }, h("h1", {}, "Connect a crawler"),
    h("p", { class: "lead" }, "A crawler needs two things: this proxy's address, and trust in its CA's certificate. The lines are those of ", h("code", {}, "wayleave env"), ". ", docsLink("clients", "More clients")),
    panel("1. Address and certificate", about, h("form", { class: "form below", submit: (event) => event.preventDefault() },
      field("proxy", "Address as seen from the crawler", "Empty: as seen from this proxy's machine.", "http://proxy.example:3128"),
      field("ca", "Path of ca.pem on the crawler's machine", "Empty: as on this proxy's machine. Elsewhere: where you saved the download.", ""))),
    panel("2. Settings of the client", tabs, tabPanel),
    panel("3. Test", h("p", { class: "note" }, "Let the crawler fetch a page over HTTPS, such as ", h("code", {}, "https://example.com/"), ". This waits for the request of a client that has not been seen before."),
      h("form", { class: "form", submit: (event) => event.preventDefault() }, sought), result));
  return { view, end };
}

const isHttps = ({ url }) => url.startsWith("https:");

/** What a request says about its client's trust in the CA. */
function trust({ method, scope, url }) {
  if (isHttps({ url }) && scope !== "bypass") return "It trusts the CA.";
  const why = method === "CONNECT" || scope === "bypass" ? "the proxy did not look into this connection" : "this was not HTTPS";
  return `Whether it trusts the CA is not known yet: ${why}. Let it fetch a page over HTTPS.`;
}

/** What tells clients apart: several crawlers may have one address, and several machines one User-Agent. */
const sender = ({ client, user_agent: agent, crawler }) => JSON.stringify([client, agent, crawler]);

/** The decisions among which known clients are, and those that are looked through each time. */
const [KNOWN, LOOKED_AT] = [1000, 200];

/**
  * Waits for the first request from now on of a client that is new, or that has the text that `sought` returns, and says what is
  * missing until then. Returns what it shows, how to look again for another text, and how to end it.
 */
function firstRequest(sought) {
  const result = h("div", { role: "region", "aria-live": "polite", "aria-label": "Test" });
  const began = new Date();
  let [shown, before, timer] = ["", null, null];
  /** Shows a state, unless it is shown already: screen readers would repeat it. */
  const say = (key, kind, ...words) => {
    if (shown === key) return;
    shown = key;
    result.replaceChildren(h("p", { class: `verdict ${kind}` }, words));
  };
  /** The client that does not trust the CA, if it came since then. Nothing but its address is known to have the text. */
  const untrustingOf = ({ untrusting_client: client }, text) =>
    (client && client.at !== before.untrusting && (!text || client.client.toLowerCase() === text) ? client : null);
  const missing = (untrusting, connections, others) => {
    if (untrusting) {
      const what = untrusting.has_alerted ? "but does not trust the CA." : "and closed its TLS connection without a request, as clients such as Node.js do that do not trust the CA.";
      say(`untrusting ${untrusting.at}`, "refused", h("strong", {}, `${untrusting.client} came, for ${untrusting.origin}, ${what}`),
        " The proxy's address is right. What is missing is ca.pem: see steps 1 and 2.");
    } else if (others) {
      say("others", "", h("strong", {}, "Requests come, but from clients that have been seen before."), " If yours is one of them, enter its address or User-Agent above.");
    } else if (connections) {
      say("connected", "", h("strong", {}, "A client is connected, but has sent no request yet."), " Let it fetch a page.");
    } else {
      say("none", "", h("strong", {}, `Waiting: no request has reached this proxy since ${clockTime(began)}.`),
        " If the crawler has fetched something meanwhile, it went around the proxy: what is missing is the proxy's address, see steps 1 and 2.");
    }
  };
  const ask = async () => {
    const text = sought();
    const [status, { decisions }] = await Promise.all([get("/v1/status"), get(`/v1/decisions?limit=${before ? LOOKED_AT : KNOWN}`)]);
    before ??= { untrusting: status.untrusting_client?.at, id: decisions[0]?.id ?? "", connections: status.client_connections, senders: new Set(decisions.map(sender)) };
    // The text has changed meanwhile.
    if (text !== sought()) return;
    // The ids sort by time.
    const later = decisions.filter(({ id }) => id > before.id);
    const isSought = ({ client, user_agent: agent, crawler, tokens }) => [client, agent, crawler, ...(tokens ?? [])].some((part) => part?.toLowerCase().includes(text));
    const arrived = later.filter((one) => (text ? isSought(one) : !before.senders.has(sender(one))));
    // Of what worked, HTTPS says most. A browser's own requests in the background may fail, which says nothing about others.
    const worked = arrived.filter(({ outcome }) => outcome !== "failed");
    const first = worked.find(isHttps) ?? worked[0];
    const untrusting = untrustingOf(status, text);
    if (first) received(first);
    else if (arrived.length && !untrusting) failed(arrived[0]);
    else missing(untrusting, status.client_connections > before.connections, later.length > 0);
  };
  const received = (found) => {
    const who = found.identity === "known" ? `as the crawler ${found.crawler}` : `matching no [[crawler]], so it is judged by its User-Agent (${found.tokens?.join(", ") || "none"})`;
    say(found.id, "forwarded", h("strong", {}, `It works: ${found.method} ${found.url} came from ${found.client}, ${who}. ${trust(found)}`), " ",
      badge(found.outcome), ` ${found.reason}, ${found.status}. `, h("a", { href: `#/decisions/${found.id}` }, "Why?"), " ", h("a", { href: "#/overview" }, "To the overview"));
    if (isHttps(found)) clearInterval(timer);
  };
  const failed = (found) => say(found.id, "failed", h("strong", {}, `${found.method} ${found.url} from ${found.client} reached the proxy, but failed: ${found.reason}, ${found.status}.`),
    " The proxy's address is right. Waiting for a request that succeeds. ", h("a", { href: `#/decisions/${found.id}` }, "Why?"));
  const poll = () => document.hidden || attempt(ask);
  const begin = () => {
    poll();
    timer = setInterval(poll, POLL);
  };
  const end = () => clearInterval(timer);
  begin();
  return [result, () => {
    end();
    say("again", "", "Looking again …");
    begin();
  }, end];
}
