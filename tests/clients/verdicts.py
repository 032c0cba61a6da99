"""Protego's verdicts, independent of ours.

Standard input: JSON lines {"file", "agent", "paths"}. Standard output: for each line the list of its paths' verdicts, true for allowed.
"""

import json
import sys

from protego import Protego

for line in sys.stdin:
    question = json.loads(line)
    with open(question["file"], "rb") as file:
        robots = Protego.parse(file.read().decode("utf-8-sig", "replace"))
    print(json.dumps([robots.can_fetch("http://host.invalid" + path, question["agent"]) for path in question["paths"]]))
