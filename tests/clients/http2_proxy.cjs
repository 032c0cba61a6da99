// Uses HTTP/2 with a proxy: requests for any origin, and tunnels with HTTP/1 and HTTP/2 inside, side by side on one connection.
//
// Arguments: the proxy's URL, a file of roots, a certificate and its key (or two empty words), then tasks: "METHOD URL" is sent to
// the proxy, "h1 URL" and "h2 URL" through a tunnel. Prints for each, in their order: status, length, reason or trailer.

const { readFileSync } = require("node:fs");
const http2 = require("node:http2");
const https = require("node:https");
const tls = require("node:tls");

const [uri, roots, certificate, key, ...tasks] = process.argv.slice(2);
const ca = readFileSync(roots);
const own = certificate ? { cert: readFileSync(certificate), key: readFileSync(key) } : {};
const session = http2.connect(uri, { ca, ...own });
const AGENT = { "user-agent": "ExampleBot/1.0" };
const CONTENT = Buffer.alloc(1_000_000, "x");

function result(stream) {
  return new Promise((resolve, reject) => {
    let status;
    let trailer = "";
    const parts = [];
    stream.on("response", (head) => { status = head[":status"]; });
    stream.on("trailers", (fields) => { trailer = fields["x-sum"] ?? ""; });
    stream.on("data", (part) => parts.push(part));
    stream.on("end", () => resolve(summary(status, Buffer.concat(parts), trailer)));
    stream.on("error", reject);
  });
}

function summary(status, body, trailer = "") {
  const isProblem = body.length > 0 && body[0] === 0x7b;
  return `${status} ${isProblem ? JSON.parse(body).reason : body.length}${trailer && ` ${trailer}`}`;
}

function send(over, method, url) {
  const head = { ":method": method, ":scheme": url.protocol.slice(0, -1), ":authority": url.host, ":path": url.pathname + url.search };
  const stream = over.request({ ...head, ...AGENT }, { endStream: method === "GET" });
  const answer = result(stream);
  if (method !== "GET") stream.end(CONTENT);
  return answer;
}

function tunnel(url) {
  return new Promise((resolve, reject) => {
    const stream = session.request({ ":method": "CONNECT", ":authority": `${url.hostname}:${url.port || 443}`, ...AGENT }, { endStream: false });
    stream.on("error", reject);
    stream.on("response", (head) => {
      if (head[":status"] === 200) return resolve(stream);
      return result(stream).then((answer) => reject(new Error(`CONNECT ${head[":status"]} ${answer}`)));
    });
  });
}

async function inside(url, protocol) {
  const socket = tls.connect({ socket: await tunnel(url), servername: url.hostname, ca, ALPNProtocols: [protocol] });
  await new Promise((resolve, reject) => { socket.on("secureConnect", resolve); socket.on("error", reject); });
  if (protocol === "h2") return send(http2.connect(url, { createConnection: () => socket }), "GET", url);
  return new Promise((resolve, reject) => {
    const request = https.request(url, { createConnection: () => socket, defaultPort: 443, headers: AGENT }, (answer) => {
      const parts = [];
      answer.on("data", (part) => parts.push(part));
      answer.on("end", () => resolve(summary(answer.statusCode, Buffer.concat(parts))));
    });
    request.on("error", reject);
    request.end();
  });
}

(async () => {
  const answers = tasks.map((task) => {
    const [method, target] = task.split(" ");
    const url = new URL(target);
    if (method === "h1") return inside(url, "http/1.1");
    if (method === "h2") return inside(url, "h2");
    return send(session, method, url);
  });
  for (const answer of await Promise.allSettled(answers)) console.log(answer.value ?? answer.reason.message);
  process.exit(0);
})();
