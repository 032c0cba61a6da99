"""Scrapy with the parser class, and no proxy: what is disallowed is not asked for."""

import http.server
import json
import subprocess
import sys
import threading
import unittest
from pathlib import Path

SPIDER = """
import json, sys
import scrapy
from scrapy.crawler import CrawlerProcess

class Spider(scrapy.Spider):
    name = "spider"
    async def start(self):
        for path in json.loads(sys.argv[2]):
            yield scrapy.Request(sys.argv[1] + path)
    def parse(self, response):
        pass

process = CrawlerProcess({
    "ROBOTSTXT_OBEY": True,
    "ROBOTSTXT_PARSER": "wayleave_robots.scrapy.WayleaveRobotParser",
    "USER_AGENT": "ExampleBot/1.0 (+https://crawler.example)",
    # Scrapy 2.19 itself lets pass what waits for a robots.txt that another request has begun to fetch.
    "CONCURRENT_REQUESTS": 1,
    "RETRY_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "LOG_LEVEL": "WARNING",
})
process.crawl(Spider)
process.start()
"""

ROBOTS = b"User-agent: ExampleBot\nDisallow: /private\nAllow: /private/open\n\nUser-agent: *\nDisallow: /\n"


class ScrapyTest(unittest.TestCase):
    def test_what_is_disallowed_is_not_asked_for(self):
        seen = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                seen.append(self.path)
                body = ROBOTS if self.path == "/robots.txt" else b"page"
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        paths = ["/", "/private", "/private/diary", "/private/open"]
        base = f"http://127.0.0.1:{server.server_port}"
        spider = subprocess.run([sys.executable, "-c", SPIDER, base, json.dumps(paths)], capture_output=True, text=True)
        server.shutdown()
        self.assertEqual(spider.returncode, 0, spider.stderr)
        self.assertEqual(sorted(set(seen)), ["/", "/private/open", "/robots.txt"], spider.stderr)
        self.assertEqual(seen[0], "/robots.txt")


if __name__ == "__main__":
    unittest.main()
