"""The scenarios, as options of bench-load."""

from dataclasses import dataclass, field

from origin import DOMAIN

REFUSED = "/private/a"


@dataclass(frozen=True)
class Scenario:
    """One row of the table."""

    name: str
    # The features that a proxy needs: "plain", "intercept", "http2", "refuse", "hosts".
    needs: frozenset
    # The kind of origin, from origin.KINDS.
    origin: str
    load: dict = field(default_factory=dict)
    # "cpu": as fast as possible; "rate": latencies at a fixed rate; "idle": memory; "storm": time.
    kind: str = "cpu"

    def is_fit(self, proxy):
        return self.needs <= proxy.abilities

    def opens_many(self):
        """Whether it leaves so many connections to the origin that too few are left for the next one."""
        return self.kind == "idle" or self.load.get("fresh", False) or self.load.get("renew_after") == 1


def scenario(name, needs, origin, kind="cpu", **load):
    return Scenario(name, frozenset(needs.split()), origin, load, kind)


def plain(name, needs="", kind="cpu", **load):
    """For both kinds of origin: in some rows, handling a head whose body comes later is most of the cost."""
    needs = f"plain {needs}"
    return [
        scenario(f"plain {name}, whole responses", needs, "whole", kind, **load),
        scenario(f"plain {name}, head and body apart", needs, "split", kind, **load),
    ]


def https(name, needs="", kind="cpu", origin="h1", **load):
    return scenario(f"https {name}", f"intercept {needs}", origin, kind, https=True, **load)


def http2(name, origin):
    return https(name, "http2", origin=origin, http2=True, connections=8, streams=8)


def many(count):
    """Origins in turn, whose names no other scenario uses."""
    return {"host": "o{}." + DOMAIN, "hosts": count}


def fresh(count):
    """New origins: each run takes the next `count` numbers."""
    return {"host": "c{}." + DOMAIN, "hosts": count, "requests": count, "fresh": True, "warm_up": 0}


# Few at a time: memory for requests in progress is not that of idle connections.
IDLE = {"connections": 5000, "seconds": 0, "warm_up": 1, "warming": 8}

ALL = [
    *plain("1 KiB"),
    *plain("64 KiB", path="/64k"),
    *plain("64 KiB of HTML", path="/page.html"),
    *plain("1,000 origins", "hosts", first_warm_up=40, **many(1000)),
    *plain("new connection every 10", renew_after=10),
    *plain("new connection every time", renew_after=1),
    scenario("plain refused", "plain refuse", "whole", path=REFUSED, expect=403),
    https("h1 1 KiB"),
    http2("h2 1 KiB, origin with HTTP/2", "h2"),
    http2("h2 1 KiB, origin with HTTP/1.1", "h1"),
    https("64 KiB", path="/64k"),
    https("new connection every 10", renew_after=10),
    https("new connection every time", renew_after=1),
    https("1,000 origins, 10 each", "hosts", renew_after=10, first_warm_up=330, **many(1000)),
    https("cold host", "hosts", renew_after=1, **fresh(2000)),
    https("refused", "refuse", path=REFUSED, expect=403),
    *plain("2,000/s", kind="rate", rate=2000),
    https("2,000/s", kind="rate", rate=2000),
    scenario("robots.txt storm", "plain robots hosts", "whole", "storm", connections=256, **fresh(2000)),
    scenario("idle plain", "plain", "whole", "idle", **IDLE),
    https("idle", kind="idle", **IDLE),
]
