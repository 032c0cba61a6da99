"""What is measured: each scenario as options of bench-load."""

from dataclasses import dataclass, field

from origin import DOMAIN

REFUSED = "/private/a"


@dataclass(frozen=True)
class Scenario:
    """One row of the table."""

    name: str
    # What a proxy must be able to: "plain", "intercept", "http2", "refuse", "hosts".
    needs: frozenset
    load: dict = field(default_factory=dict)
    # "cpu": as fast as it goes; "rate": latencies at a fixed rate; "idle": memory; "storm": time.
    kind: str = "cpu"

    def is_fit(self, proxy):
        return self.needs <= proxy.abilities

    def opens_many(self):
        """Whether it leaves so many connections to the origin behind that the next one lacks them."""
        return self.kind == "idle" or self.load.get("fresh", False)


def scenario(name, needs, kind="cpu", **load):
    return Scenario(name, frozenset(needs.split()), load, kind)


def many(count):
    """Origins in turn, whose names no other scenario asks for."""
    return {"host": "o{}." + DOMAIN, "hosts": count}


def fresh(count):
    """Origins that nobody asked for before: each run takes the next `count` numbers."""
    return {"host": "c{}." + DOMAIN, "hosts": count, "requests": count, "fresh": True, "warm_up": 0}


ALL = [
    scenario("plain 1 KiB", "plain"),
    scenario("plain 64 KiB", "plain", path="/64k"),
    scenario("plain 1,000 origins", "plain hosts", first_warm_up=40, **many(1000)),
    scenario("plain, new connection every 10", "plain", renew_after=10),
    scenario("plain refused", "plain refuse", path=REFUSED, expect=403),
    scenario("https h1 1 KiB", "intercept", https=True),
    scenario("https h2 1 KiB", "intercept http2", https=True, http2=True, connections=8, streams=8),
    scenario("https 64 KiB", "intercept", https=True, path="/64k"),
    scenario("https, new connection every 10", "intercept", https=True, renew_after=10),
    scenario("https 1,000 origins, 10 each", "intercept hosts", https=True, renew_after=10, first_warm_up=330, **many(1000)),
    scenario("https cold host", "intercept hosts", https=True, renew_after=1, **fresh(2000)),
    scenario("https refused", "intercept refuse", https=True, path=REFUSED, expect=403),
    scenario("plain 2,000/s", "plain", "rate", rate=2000),
    scenario("https 2,000/s", "intercept", "rate", https=True, rate=2000),
    scenario("robots.txt storm", "plain robots hosts", "storm", connections=256, **fresh(2000)),
    scenario("idle plain", "plain", "idle", connections=5000, seconds=0, warm_up=1),
    scenario("idle https", "intercept", "idle", connections=5000, seconds=0, warm_up=1, https=True),
]
