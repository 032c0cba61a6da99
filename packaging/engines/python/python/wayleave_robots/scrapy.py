"""A robots.txt parser for Scrapy: ROBOTSTXT_PARSER = "wayleave_robots.scrapy.WayleaveRobotParser"."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scrapy.robotstxt import RobotParser
from scrapy.utils.python import to_unicode

from . import CrawlerRules, RobotsTxt

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from typing_extensions import Self

# What a product token may be made of (RFC 9309 section 2.2.1).
_TOKEN = re.compile(r"[A-Za-z_-]+")


class WayleaveRobotParser(RobotParser):
    def __init__(self, robotstxt_body: bytes) -> None:
        self._robots = RobotsTxt(robotstxt_body)
        self._rules: dict[str, CrawlerRules] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler, robotstxt_body: bytes) -> Self:
        return cls(robotstxt_body)

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:
        """Returns whether a URL may be fetched. Set ROBOTSTXT_USER_AGENT to the crawler's product token; of a whole
        User-Agent, its first token counts."""
        return self._rules_for(user_agent).allows(to_unicode(url))

    def crawl_delay(self, user_agent: str | bytes) -> float | None:
        return self._rules_for(user_agent).crawl_delay

    def _rules_for(self, user_agent: str | bytes) -> CrawlerRules:
        agent = to_unicode(user_agent)
        rules = self._rules.get(agent)
        if rules is None:
            token = _TOKEN.search(agent)
            rules = self._robots.for_crawler(token.group() if token else "unnamed")
            self._rules[agent] = rules
        return rules
