// Fetches URLs through a proxy that speaks TLS, and prints each status.
//
// Arguments: the proxy's URL, a file of roots, a certificate and its key (or two empty words), URLs.

const { readFileSync } = require("node:fs");
const { ProxyAgent, fetch } = require("undici");

const [uri, roots, certificate, key, ...urls] = process.argv.slice(2);
const ca = readFileSync(roots);
const own = certificate ? { cert: readFileSync(certificate), key: readFileSync(key) } : {};
const dispatcher = new ProxyAgent({ uri, proxyTls: { ca, ...own }, requestTls: { ca } });

(async () => {
  for (const url of urls) {
    const answer = await fetch(url, { dispatcher });
    await answer.arrayBuffer();
    console.log(answer.status);
  }
  process.exit(0);
})();
