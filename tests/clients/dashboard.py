"""Reads a Grafana dashboard into the types of Grafana's own SDK and writes it again; prints what did not come back."""

import json
import re
import sys

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

# In use for long, and missing from the types: what a data source makes of an annotation or a variable is its own.
UNTYPED = [
    r"\.annotations\.list\[\]\.(useValueForTime|builtIn|titleFormat|textFormat)",
    r"\.templating\.list\[\]\.definition",
    # Of later versions.
    r"\.panels\[\]\.panels\[\]\.options\.tooltip\.(mode|showColorScale)",
]


def lost(before, after, place=""):
    """Where the two differ, as seen from the first."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if value is not None:
                yield from lost(value, after.get(key), f"{place}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for one, other in zip(before, after):
            yield from lost(one, other, f"{place}[]")
    elif before != after:
        yield place, before


register_default_plugins()
with open(sys.argv[1]) as file:
    dashboard = json.load(file)
again = json.loads(JSONEncoder().encode(Dashboard.from_json(dashboard)))
for place, value in lost(dashboard, again):
    if not any(re.fullmatch(pattern, place) for pattern in UNTYPED):
        print(f"{place}: {value!r}")
