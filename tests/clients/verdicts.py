"""The independent judge: what Protego says.

Standard input: JSON lines {"file", "agent", "paths"}. Standard output: for each line the list of its paths' verdicts, true for allowed.
"""

import json
import sys

from protego import Protego

for line in sys.stdin:
    ask = json.loads(line)
    with open(ask["file"], "rb") as file:
        robots = Protego.parse(file.read().decode("utf-8-sig", "replace"))
    print(json.dumps([robots.can_fetch("http://host.invalid" + path, ask["agent"]) for path in ask["paths"]]))
