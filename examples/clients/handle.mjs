import { EnvHttpProxyAgent, fetch } from "undici";

async function get(url, options) {
  for (let attempt = 1; ; attempt++) {
    const response = await fetch(url, options);
    const refusal = response.headers.get("proxy-status");
    if (!refusal?.startsWith("wayleave;")) {
      return response; // the origin's, whatever its status
    }
    const wait = Number(response.headers.get("retry-after"));
    if (!wait || attempt === 3) {
      throw new Error(`refused by wayleave: ${refusal}`);
    }
    await response.body?.cancel();
    await new Promise((resolve) => setTimeout(resolve, wait * 1000));
  }
}

const response = await get("https://example.com/", { dispatcher: new EnvHttpProxyAgent() });
console.log(response.status);
