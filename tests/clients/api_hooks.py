"""Values for schemathesis, because most strings are neither an origin nor a URL."""

import re

import schemathesis
from hypothesis import strategies

MEANINGFUL = {
    "origin": ["https://shop.test", "http://shop.test", "https://shop.test:8443", "http://down.test", "http://nowhere.test"],
    "uri": ["http://shop.test/a", "https://shop.test/private?x=1", "http://down.test/"],
    "date-time": ["2026-11-21T08:00:00Z", "2100-01-01T00:00:00Z", "1999-12-31T23:59:59Z"],
    "crawler": ["news"],
    "purposes": ["search", "search,train-ai", "tdm, other"],
    "toml": ["[proxy]\nmode = \"observe\"\n", "[robots]\ndialect = \"google\"\n"],
    "ip-address": ["127.0.0.1", "::1", "10.1.2.3"],
}
for name, values in MEANINGFUL.items():
    schemathesis.openapi.format(name, strategies.sampled_from(values))

ABSOLUTE = re.compile(r"[\s\x00-\x1f]*[a-z]+:", re.IGNORECASE)
OWN = re.compile(r"https?://([a-z0-9-]+\.)*test(:\d+)?([/?#]|$)")


@schemathesis.hook
def filter_case(_context, case):
    """Drops cases that would make the proxy contact other names than the test's own."""
    values = [*(case.path_parameters or {}).values(), *(case.query or {}).values()]
    return not any(ABSOLUTE.match(str(value)) and not OWN.match(str(value)) for value in values)
