"""Reads a Grafana dashboard into the types of Grafana's own SDK and writes it again; prints what was lost."""

import json
import re
import sys

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

# Missing from the types: members of annotations and variables that belong to the data source.
UNTYPED = [
    r"\.annotations\.list\[\]\.(useValueForTime|builtIn|titleFormat|textFormat)",
    r"\.templating\.list\[\]\.definition",
    # Newer than the types.
    r"\.panels\[\]\.panels\[\]\.options\.tooltip\.(mode|showColorScale)",
]


def lost(before, after, place=""):
    """Yields what `after` lacks of `before`."""
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
