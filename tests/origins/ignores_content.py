"""An origin on http.server that reads no content, as most handlers written with it do: what follows a head is the next request.

Prints its port, then a line for each request that it executes.
"""

import http.server

ROBOTS = b"User-agent: *\nDisallow: /private\n"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        print(self.command, self.path, flush=True)
        body = ROBOTS if self.path == "/robots.txt" else self.path.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


for method in "GET HEAD POST PUT PATCH DELETE OPTIONS TRACE BREW".split():
    setattr(Handler, "do_" + method, Handler.answer)

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
