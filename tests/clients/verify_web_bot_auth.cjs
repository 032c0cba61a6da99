// Verifies requests with Cloudflare's web-bot-auth, as an origin would.
//
// Reads {"requests": [{"method", "url", "headers": [[name, value], ...]}], "keys": JWKS} on standard input; prints for each request
// the thumbprint of the key that signed it, or why it is not verified.

const { readFileSync } = require("node:fs");
const { jwkToKeyID, verify, helpers } = require("web-bot-auth");
const { verifierFromJWK } = require("web-bot-auth/crypto");

const { requests, keys } = JSON.parse(readFileSync(0, "utf8"));

async function signer(request) {
  let id;
  const message = { ...request, headers: Object.fromEntries(request.headers) };
  await verify(message, async (data, signature, parameters) => {
    id = parameters.keyid;
    const key = keys.keys.find((known) => known.kid === id);
    if (!key) throw new Error("unknown key");
    if (id !== await jwkToKeyID(key, helpers.WEBCRYPTO_SHA256, helpers.BASE64URL_DECODE)) throw new Error("not the thumbprint");
    return (await verifierFromJWK(key))(data, signature, parameters);
  });
  return id;
}

(async () => {
  for (const request of requests) {
    console.log(await signer(request).catch((error) => `not verified: ${error.message}`));
  }
})();
