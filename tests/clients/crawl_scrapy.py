"""Crawls with a Scrapy spider whose own robots.txt middleware is off; the proxy comes from the environment.

Standard input: JSON lines {"url", "user_agent"}. Standard output: JSON lines {"url", "user_agent", "status"}.
"""

import json
import sys

import scrapy
from scrapy.crawler import CrawlerProcess

asks = [json.loads(line) for line in sys.stdin]


class Spider(scrapy.Spider):
    name = "crawl"
    handle_httpstatus_list = [403, 503]

    async def start(self):
        for ask in asks:
            yield scrapy.Request(
                ask["url"],
                headers={"User-Agent": ask["user_agent"]},
                cb_kwargs={"ask": ask},
                errback=self.failed,
                dont_filter=True,
            )

    def parse(self, response, ask):
        print(json.dumps({**ask, "status": response.status}), flush=True)

    def failed(self, failure):
        print(json.dumps({**failure.request.cb_kwargs["ask"], "status": 0, "error": str(failure.value)}), flush=True)


process = CrawlerProcess(
    {
        "ROBOTSTXT_OBEY": False,
        "RETRY_ENABLED": False,
        "COOKIES_ENABLED": False,
        "CONCURRENT_REQUESTS": 8,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
        "DOWNLOAD_DELAY": 0,
        "LOG_LEVEL": "ERROR",
        "TELNETCONSOLE_ENABLED": False,
    }
)
process.crawl(Spider)
process.start()
