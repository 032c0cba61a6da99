"""mitmproxy addon: obeys robots.txt with Protego, as one would write it in an afternoon."""

import asyncio
import ssl
import urllib.request

from mitmproxy import http
from protego import Protego

CONTEXT = ssl._create_unverified_context()


class Robots:
    """Fetches each robots.txt once, in a thread, and keeps the rules."""

    def __init__(self):
        self.rules = {}

    async def request(self, flow):
        request = flow.request
        origin = f"{request.scheme}://{request.pretty_host}:{request.port}"
        if origin not in self.rules:
            self.rules[origin] = asyncio.create_task(asyncio.to_thread(fetch, request))
        rules = await self.rules[origin]
        agent = request.headers.get("User-Agent", "*").split("/")[0]
        if not rules.can_fetch(request.pretty_url, agent):
            flow.response = http.Response.make(403, b"disallowed by robots.txt\n")


def fetch(request):
    """From this machine, whatever the host's name."""
    url = f"{request.scheme}://127.0.0.1:{request.port}/robots.txt"
    asked = urllib.request.Request(url, headers={"Host": request.pretty_host})
    with urllib.request.urlopen(asked, timeout=10, context=CONTEXT) as answer:
        return Protego.parse(answer.read().decode())


addons = [Robots()]
