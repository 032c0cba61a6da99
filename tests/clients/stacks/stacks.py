"""Fetches each URL of standard input once with a Python library, and prints lines: the URL, the status and the body in
hexadecimal digits, or the URL alone. Each has a connection of its own: bytes that follow an answer are not read as the next one.

Usage: stacks.py LIBRARY. Environment: PROXY (none: directly). No certificate is checked.
"""

import asyncio
import os
import socket
import sys

PROXY = os.environ.get("PROXY")
TIMEOUT = 20


def requests():
    import requests

    def fetch(url):
        session = requests.Session()
        session.trust_env = False
        session.proxies = {"http": PROXY} if PROXY else {}
        answer = session.get(url, timeout=TIMEOUT)
        return answer.status_code, answer.content

    return fetch


def urllib3():
    import urllib3

    def fetch(url):
        pool = urllib3.ProxyManager(PROXY) if PROXY else urllib3.PoolManager()
        answer = pool.request("GET", url, retries=False, timeout=TIMEOUT)
        return answer.status, answer.data

    return fetch


def pip():
    from pip._internal.network.session import PipSession
    from pip._internal.network.utils import HEADERS, response_chunks

    def fetch(url):
        session = PipSession(retries=0)
        session.trust_env = False
        session.proxies = {"http": PROXY} if PROXY else {}
        answer = session.get(url, headers=HEADERS, stream=True, timeout=TIMEOUT)
        return answer.status_code, b"".join(response_chunks(answer))

    return fetch


def httpx(http2=False):
    import httpx

    if http2:
        # The host has no address but this machine's.
        resolve = socket.getaddrinfo
        socket.getaddrinfo = lambda host, *rest, **more: resolve("127.0.0.1", *rest, **more)

    def fetch(url):
        with httpx.Client(proxy=PROXY, http2=http2, verify=False, trust_env=False, timeout=TIMEOUT) as client:
            answer = client.get(url)
            return answer.status_code, answer.content

    return fetch


def pycurl():
    import pycurl

    def fetch(url):
        curl, body = pycurl.Curl(), []
        curl.setopt(pycurl.URL, url)
        curl.setopt(pycurl.TIMEOUT, TIMEOUT)
        curl.setopt(pycurl.ACCEPT_ENCODING, "")
        curl.setopt(pycurl.WRITEFUNCTION, body.append)
        if PROXY:
            curl.setopt(pycurl.PROXY, PROXY)
        curl.perform()
        return curl.getinfo(pycurl.RESPONSE_CODE), b"".join(body)

    return fetch


def failed(url, error):
    print(url, repr(error), file=sys.stderr)
    return url, None, None


def one_by_one(fetch, urls):
    for url in urls:
        try:
            yield url, *fetch(url)
        except Exception as error:  # Each library has errors of its own.
            yield failed(url, error)


def aiohttp(urls):
    import aiohttp

    async def run():
        timeout = aiohttp.ClientTimeout(total=TIMEOUT)
        results = []
        for url in urls:
            try:
                async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url, proxy=PROXY) as answer:
                    results.append((url, answer.status, await answer.read()))
            except Exception as error:
                results.append(failed(url, error))
        return results

    return asyncio.run(run())


def scrapy(urls):
    from scrapy import Request, Spider
    from scrapy.crawler import CrawlerProcess

    results = []

    class Once(Spider):
        name = "once"

        async def start(self):
            for url in urls:
                meta = {"proxy": PROXY} if PROXY else {}
                yield Request(url, meta=meta, callback=self.answered, errback=self.lost, dont_filter=True)

        def answered(self, response):
            results.append((response.request.url, response.status, response.body))

        def lost(self, failure):
            results.append(failed(failure.request.url, failure.value))

    process = CrawlerProcess({
        "LOG_ENABLED": False,
        "RETRY_ENABLED": False,
        "ROBOTSTXT_OBEY": False,
        "HTTPERROR_ALLOW_ALL": True,
        "REDIRECT_ENABLED": False,
        "DOWNLOAD_DELAY": 0,
        "DOWNLOAD_TIMEOUT": TIMEOUT,
        "TELNETCONSOLE_ENABLED": False,
    })
    process.crawl(Once)
    process.start()
    return results


library = sys.argv[1]
urls = sys.stdin.read().split()
if library in ("aiohttp", "scrapy"):
    results = globals()[library](urls)
else:
    fetch = httpx(http2=True) if library == "httpx-h2" else globals()[library]()
    results = one_by_one(fetch, urls)
for url, status, body in results:
    print(url if body is None else f"{url} {status} {body.hex()}")
