// Crawls with Node's fetch; the proxy comes from the environment through undici's EnvHttpProxyAgent, the CA through NODE_EXTRA_CA_CERTS.
//
// Standard input: JSON lines {"url", "user_agent"}. Standard output: JSON lines {"url", "status"}.

const { readFileSync } = require("node:fs");
const { EnvHttpProxyAgent, setGlobalDispatcher } = require("undici");

setGlobalDispatcher(new EnvHttpProxyAgent());

const planned = readFileSync(0, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));

async function lane() {
  for (let request = planned.shift(); request; request = planned.shift()) {
    const answer = await fetch(request.url, { headers: { "user-agent": request.user_agent }, redirect: "manual" });
    await answer.arrayBuffer();
    console.log(JSON.stringify({ url: request.url, status: answer.status }));
  }
}

Promise.all([lane(), lane(), lane(), lane()]).then(() => process.exit(0));
