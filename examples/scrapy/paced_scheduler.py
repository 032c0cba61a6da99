"""A Scrapy scheduler that plans by the pace that wayleave tells: RateLimit and RateLimit-Policy.

Without it, Scrapy hands an origin with a Crawl-delay as many requests as CONCURRENT_REQUESTS_PER_DOMAIN allows. They
wait in the proxy, and take connections and a share of CONCURRENT_REQUESTS from the other origins. With it, a request to
such an origin leaves the scheduler only when the origin has a slot for it.

    SCHEDULER = "paced_scheduler.PacedScheduler"
    CONCURRENT_REQUESTS = 64

A request that waits is checked again at the next response of any origin, and every five seconds.
"""

import re
from collections import defaultdict, deque
from time import monotonic
from urllib.parse import urlsplit

from scrapy import signals
from scrapy.core.scheduler import Scheduler

# The parameters of the members of a list such as "default";r=0;t=10, "wayleave";r=0;t=30 (RFC 9651).
MEMBER = re.compile(r'(?:^|,)\s*"[^"]*"((?:\s*;[^;,]*)*)')
INTEGER = re.compile(r";\s*([a-z]+)=(\d+)(?=\s*(?:;|$))")


def members(value):
    """Returns the integer parameters of each member."""
    return [{name: int(number) for name, number in INTEGER.findall(found)} for found in MEMBER.findall(value)]


class Pace:
    """What the last response of an origin said."""

    def __init__(self, response):
        fields = {
            name: members(b", ".join(response.headers.getlist(name)).decode("latin-1"))
            for name in ("RateLimit", "RateLimit-Policy")
        }
        limits = [limit for limit in fields["RateLimit"] if "r" in limit]
        self.is_stated = bool(limits)
        # Of several limits the tightest counts, of exhausted ones the one that lasts longest.
        self.left = min((limit["r"] for limit in limits), default=0)
        wait = max((limit.get("t", 0) for limit in limits if limit["r"] == self.left), default=0)
        self.until = monotonic() + wait
        self.quota = min((policy["q"] for policy in fields["RateLimit-Policy"] if "q" in policy), default=1)

    def may_send(self, active):
        """Says whether another request may be sent while this many are under way."""
        if not self.is_stated:
            return True
        return active < (self.left if monotonic() < self.until else max(self.quota, 1))


def origin(url):
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()


class PacedScheduler(Scheduler):
    @classmethod
    def from_crawler(cls, crawler):
        scheduler = super().from_crawler(crawler)
        scheduler.paces = {}
        # Requests that came out of the queues before their origin had a slot.
        scheduler.aside = defaultdict(deque)
        # Unlike response_received, it is also sent for responses that are retried, such as 429.
        crawler.signals.connect(scheduler.response_downloaded, signals.response_downloaded)
        return scheduler

    def response_downloaded(self, response, request, spider):
        self.paces[origin(request.url)] = Pace(response)

    def may_send(self, where):
        active = sum(origin(request.url) == where for request in self.crawler.engine.downloader.active)
        pace = self.paces.get(where)
        # The first response of an origin says what its pace is.
        return active == 0 if pace is None else pace.may_send(active)

    def next_request(self):
        for where, waiting in self.aside.items():
            if waiting and self.may_send(where):
                return waiting.popleft()
        while (request := super().next_request()) is not None:
            where = origin(request.url)
            if not self.aside[where] and self.may_send(where):
                return request
            self.aside[where].append(request)
        return None

    def has_pending_requests(self):
        return any(self.aside.values()) or super().has_pending_requests()

    def __len__(self):
        return sum(map(len, self.aside.values())) + super().__len__()

    def close(self, reason):
        # Back into the queues, which JOBDIR keeps. They were seen before, and must not be dropped as duplicates.
        for waiting in self.aside.values():
            for request in waiting:
                self.enqueue_request(request.replace(dont_filter=True))
        self.aside.clear()
        return super().close(reason)
