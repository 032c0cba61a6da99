// An origin on Node's http that looks at no content. Prints its port, then a line for each request that it executes.

const http = require("node:http");

const ROBOTS = "User-agent: *\nDisallow: /private\n";

const server = http.createServer((request, response) => {
  console.log(request.method, request.url);
  const body = request.url === "/robots.txt" ? ROBOTS : request.url;
  response.writeHead(200, { "Content-Type": "text/plain", "Content-Length": body.length });
  response.end(body);
});

server.listen(0, "127.0.0.1", () => console.log(server.address().port));
