"""Crawls with a Scrapy spider with its own robots.txt middleware off; the proxy comes from the environment.

Standard input: JSON lines {"url", "user_agent"}. Standard output: JSON lines {"url", "user_agent", "status"}.
"""

import json
import sys

import scrapy
from scrapy.crawler import CrawlerProcess

planned = [json.loads(line) for line in sys.stdin]


class Spider(scrapy.Spider):
    name = "crawl"
    handle_httpstatus_list = [403, 503]

    async def start(self):
        for request in planned:
            yield scrapy.Request(
                request["url"],
                headers={"User-Agent": request["user_agent"]},
                cb_kwargs={"request": request},
                errback=self.failed,
                dont_filter=True,
            )

    def parse(self, response, request):
        print(json.dumps({**request, "status": response.status}), flush=True)

    def failed(self, failure):
        print(json.dumps({**failure.request.cb_kwargs["request"], "status": 0, "error": str(failure.value)}), flush=True)


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
