// A proxy in Node.js that asks wayleave about each request and each tunnel, and sends only what is allowed.
//
//     WAYLEAVE_GATE=http://127.0.0.1:3141 node proxy.mjs 8080

import { RequestError, Server } from "proxy-chain";

const GATE = process.env.WAYLEAVE_GATE ?? "http://127.0.0.1:3141";
// Longer than politeness.max_wait: the answer comes when the request may be sent.
const PATIENCE_MS = Number(process.env.WAYLEAVE_PATIENCE_MS ?? 60_000);
// About the connection, or stated otherwise.
const LEFT_OUT = new Set(["host", "connection", "proxy-connection", "keep-alive", "te", "trailer", "transfer-encoding",
  "content-length", "expect", "upgrade", "authorization", "x-forwarded-for"]);

/** Returns the fields as the client sent them, each line of its own. */
function fieldsOf(request) {
  const fields = new Headers();
  for (let at = 0; at < request.rawHeaders.length; at += 2) {
    const [name, value] = request.rawHeaders.slice(at, at + 2);
    if (!LEFT_OUT.has(name.toLowerCase())) fields.append(name, value);
  }
  fields.append("X-Forwarded-For", request.socket.remoteAddress.replace(/^::ffff:/, ""));
  return fields;
}

/** Returns the host that the client names in `Host`, which goes to the origin as it is. */
function hostOf(request) {
  try {
    return new URL(`http://${request.headers.host}`).host;
  } catch {
    return undefined;
  }
}

/** Lets a request pass, or throws the refusal that its client gets. */
async function ask({ request, hostname, port, isHttp }) {
  // What will be sent, which may be another spelling than the client's.
  const target = isHttp ? new URL(request.url) : undefined;
  const url = isHttp ? `${target.origin}${target.pathname}${target.search}` : `${hostname}:${port}`;
  if (isHttp && target.host !== hostOf(request)) throw new RequestError("Host names another origin than the target\n", 400);
  const asked = `method=${encodeURIComponent(request.method)}&url=${encodeURIComponent(url)}`;
  let answer;
  try {
    answer = await fetch(`${GATE}/check?${asked}`, { headers: fieldsOf(request), signal: AbortSignal.timeout(PATIENCE_MS) });
  } catch (error) {
    // Nothing leaves that was not allowed.
    throw new RequestError(`wayleave cannot be asked: ${error.cause ?? error}\n`, 503);
  }
  const content = await answer.text();
  if (answer.status === 200) return {};
  const told = ["content-type", "proxy-status", "retry-after"].filter((name) => answer.headers.has(name));
  throw new RequestError(content, answer.status, Object.fromEntries(told.map((name) => [name, answer.headers.get(name)])));
}

const server = new Server({ host: "127.0.0.1", port: Number(process.argv[2] ?? 8080), prepareRequestFunction: ask });
server.on("requestFailed", ({ error }) => console.error(error));
await server.listen();
console.log(`listening on http://127.0.0.1:${server.port}`);
