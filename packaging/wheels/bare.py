"""Serves with the program `wayleave` on PATH, and fetches through it from a site of its own, with nothing but Python."""

import http.server
import json
import pathlib
import re
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request

CONFIG = """
[proxy]
listen = ["127.0.0.1:0"]
[admin]
listen = "127.0.0.1:0"
[state]
dir = "{state}"
[upstream]
allow_private = ["127.0.0.1/32"]
[dns.overrides]
"shop.test" = "127.0.0.1"
"""


class Origin(http.server.BaseHTTPRequestHandler):
    """A site whose robots.txt disallows /private."""

    seen = []

    def do_GET(self):
        self.seen.append(self.path)
        body = b"User-agent: *\nDisallow: /private\n" if self.path == "/robots.txt" else b"page\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def proxy_of(program):
    """The address that the program prints once it serves."""
    printed = []
    for line in program.stdout:
        printed.append(line)
        if found := re.match(r" *proxy +(http://\S+)", line):
            # Read to its end, so that the program never waits for a reader.
            threading.Thread(target=program.stdout.read, daemon=True).start()
            return found[1]
    raise SystemExit(f"it ended with {program.wait()}: {''.join(printed)}")


def use(proxy, site):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": proxy}))
    with opener.open(f"{site}/page", timeout=60) as page:
        assert (page.status, page.read()) == (200, b"page\n"), page
    try:
        raise SystemExit(f"not refused: {opener.open(f'{site}/private', timeout=60).status}")
    except urllib.error.HTTPError as refusal:
        problem = json.load(refusal)
    assert (problem["status"], problem["rule"], problem["line"]) == (403, "Disallow: /private", 2), problem
    assert Origin.seen == ["/robots.txt", "/page"], Origin.seen


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as directory:
        config = pathlib.Path(directory, "config.toml")
        config.write_text(CONFIG.format(state=pathlib.Path(directory, "state")))
        command = ["wayleave", "--config", str(config)]
        program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            use(proxy_of(program), f"http://shop.test:{server.server_port}")
        finally:
            program.terminate()
            program.wait(60)


if __name__ == "__main__":
    main()
