// Connect a crawler: the settings that its machine needs, for each client, with the address of this proxy.

import { get, query } from "./api.js";
import { attempt, badge, copyButton, facts, h, newest, panel } from "./dom.js";

const TRIED = "https://www.example.com/";

export function connect(parameters) {
  // A link may choose the client, but not the address or the path: users would paste what an attacker put into the link.
  const chosen = { client: parameters.get("client") ?? "curl", proxy: "", ca: "ca.pem" };
  const [about, tabs] = [h("div", {}), h("div", { role: "tablist", "aria-label": "Client", class: "tabs" })];
  const lines = h("pre", { class: "snippet", tabindex: "0", "aria-label": "What to do" });
  const tabPanel = h("div", { role: "tabpanel", id: "client", "aria-labelledby": "tab-curl" }, lines, h("p", { class: "actions" }, copyButton(() => lines.textContent)));
  const latest = newest();
  const load = () => attempt(() => latest(get(`/v1/connect${query({ proxy: chosen.proxy, ca: chosen.ca })}`), show));
  const show = (found) => {
    const fingerprint = h("code", {}, found.ca_sha256);
    about.replaceChildren(facts([
      ["Proxy", h("code", {}, found.proxy)],
      ["CA's certificate", h("a", { href: "/ca.pem", download: "ca.pem", class: "button" }, "Download ca.pem")],
      ["SHA-256", h("span", {}, fingerprint, " ", copyButton(() => found.ca_sha256))],
      ["For browsers", h("a", { href: "/proxy.pac" }, "proxy.pac")],
    ]));
    const select = (name) => {
      chosen.client = name;
      history.replaceState(null, "", `#/connect${query({ client: chosen.client })}`);
      for (const tab of tabs.children) {
        const isChosen = tab.dataset.client === name;
        tab.setAttribute("aria-selected", String(isChosen));
        tab.tabIndex = isChosen ? 0 : -1;
      }
      tabPanel.setAttribute("aria-labelledby", `tab-${name}`);
      lines.textContent = found.clients.find((client) => client.name === name).lines;
    };
    const names = found.clients.map((client) => client.name);
    tabs.replaceChildren(...found.clients.map((client, at) => h("button", {
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
  const result = h("div", { role: "region", "aria-live": "polite", "aria-label": "Test" });
  const tried = h("input", { name: "url", type: "url", value: TRIED, required: true, autocomplete: "off" });
  const test = h("form", { class: "form", submit: (event) => {
    event.preventDefault();
    attempt(async () => {
      const asked = query({ url: tried.value });
      const { outcome, reason, status } = await get(`/v1/decision${asked}`);
      result.replaceChildren(h("p", { class: `verdict ${outcome}` }, badge(outcome), ` ${tried.value}: ${reason}${status ? `, ${status}` : ""} `,
        h("a", { href: `#/try${asked}` }, "Why?")));
    });
  } }, h("label", { class: "long" }, "URL", tried), h("p", { class: "actions" }, h("button", { type: "submit", class: "primary" }, "Test")));
  load();
  const view = h("div", { class: "view" }, h("h1", {}, "Connect a crawler"),
    h("p", { class: "lead" }, "A crawler needs two things: this proxy's address, and trust in its CA's certificate. The lines are those of ", h("code", {}, "wayleave env"), "."),
    panel("1. Address and certificate", about, h("form", { class: "form below", submit: (event) => event.preventDefault() },
      field("proxy", "Address as seen from the crawler", "Empty: as seen from this proxy's machine.", "http://proxy.example:3128"),
      field("ca", "Path of ca.pem on the crawler's machine", "Where you saved the download there.", "/etc/ssl/wayleave.pem"))),
    panel("2. Settings of the client", tabs, tabPanel),
    panel("3. Test", h("p", { class: "note" }, "Shows what this proxy would decide; only robots.txt is fetched, if it is not cached."), test, result));
  return { view, end: () => {} };
}
