"""Crawls an origin with a long Crawl-delay and a fast one with Scrapy, until the fast one is done.

Arguments: the number of pages of each, then settings as NAME=VALUE. Standard output: a line of JSON with the pages of
each that were crawled, and the most requests that Scrapy had under way at the slow one.
"""

import json
import os
import sys

import scrapy
from scrapy import signals
from scrapy.crawler import CrawlerProcess

slow, fast = int(sys.argv[1]), int(sys.argv[2])
settings = dict(argument.split("=", 1) for argument in sys.argv[3:])
crawled = {"slow.test": 0, "fast.test": 0, "held": 0, "failed": []}


class Spider(scrapy.Spider):
    name = "paced"

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.count_held, signals.request_reached_downloader)
        return spider

    async def start(self):
        for number in range(slow):
            yield scrapy.Request(f"http://slow.test/{number}", errback=self.failed)
        for number in range(fast):
            yield scrapy.Request(f"http://fast.test/{number}", errback=self.failed)

    def count_held(self, request, spider):
        active = self.crawler.engine.downloader.active
        held = sum("//slow.test/" in it.url for it in active)
        crawled["held"] = max(crawled["held"], held)

    def parse(self, response):
        host = response.url.split("/")[2]
        crawled[host] += 1
        if crawled["fast.test"] == fast:
            print(json.dumps(crawled), flush=True)
            # Not CloseSpider, which waits for the requests that wait for a slot.
            os._exit(0)

    def failed(self, failure):
        crawled["failed"].append(str(failure.value))


process = CrawlerProcess(
    {
        "USER_AGENT": "NewsBot/1.0",
        "ROBOTSTXT_OBEY": False,
        "RETRY_ENABLED": False,
        "CONCURRENT_REQUESTS": 8,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
        "DOWNLOAD_DELAY": 0,
        "DOWNLOAD_TIMEOUT": 600,
        "LOG_LEVEL": "ERROR",
        "TELNETCONSOLE_ENABLED": False,
        **settings,
    }
)
process.crawl(Spider)
process.start()
