import { readFileSync } from "node:fs";
import { ProxyAgent, fetch } from "undici";

const dispatcher = new ProxyAgent({
  uri: "http://127.0.0.1:3128",
  requestTls: { ca: readFileSync("wayleave-state/ca/ca.crt") },
});

const response = await fetch("https://example.com/", {
  dispatcher,
  headers: { "user-agent": "ExampleBot/1.0" },
});
console.log(response.status, response.statusText);
