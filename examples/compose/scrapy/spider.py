"""Follows the links of some pages within their hosts. Proxy and CA come from the environment."""

import os
from urllib.parse import urlsplit

import scrapy


class Spider(scrapy.Spider):
    name = "example"
    start_urls = os.environ["START_URLS"].split()
    allowed_domains = [urlsplit(url).hostname for url in start_urls]
    # wayleave's refusals are kept as what they are, and not retried.
    handle_httpstatus_list = [403, 429, 451, 503]
    custom_settings = {
        "USER_AGENT": os.environ["USER_AGENT"],
        # wayleave decides, and waits for Crawl-delay.
        "ROBOTSTXT_OBEY": False,
        "RETRY_ENABLED": False,
        "DOWNLOAD_VERIFY_CERTIFICATES": True,
        "DEPTH_LIMIT": 2,
        "CLOSESPIDER_PAGECOUNT": 100,
    }

    def parse(self, response):
        refusal = response.headers.get("Proxy-Status", b"").decode()
        if refusal.startswith("wayleave;"):
            yield {"url": response.url, "status": response.status, "refused": refusal}
            return
        yield {"url": response.url, "status": response.status, "title": response.css("title::text").get()}
        if response.status == 200:
            yield from response.follow_all(css="a")
