"""An origin that sends half of a response to GET /cut, and dies when it gets GET /die. Prints its port."""

import http.server
import os
import signal
import threading


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/die":
            os.kill(os.getpid(), signal.SIGKILL)
        is_cut = self.path == "/cut"
        self.send_response(203 if is_cut else 404)
        self.send_header("Content-Length", "1000" if is_cut else "0")
        self.end_headers()
        if is_cut:
            self.wfile.write(b"first half,")
            threading.Event().wait()

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
