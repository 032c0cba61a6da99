"""Times decisions beside Protego, by the same loop, on the same files and questions, in turns.

Usage: speed.py CORPUS. Prints ratios; the absolute numbers are this machine's.
"""

import statistics
import sys
import time
from pathlib import Path

from parity import questions
from protego import Protego

from wayleave_robots import RobotsTxt

ROUNDS = 7


def time_wayleave(asked):
    start = time.process_time()
    for rules, url in asked:
        rules.allows(url)
    return time.process_time() - start


def time_protego(asked):
    start = time.process_time()
    for robots, url, name in asked:
        robots.can_fetch(url, name)
    return time.process_time() - start


def main():
    files = {str(path): path.read_bytes() for path in Path(sys.argv[1]).iterdir()}
    asked = [(path, name, url) for _, path, name, _, url in questions(files) if url.startswith("http")]
    robots = {path: RobotsTxt(body) for path, body in files.items()}
    protego = {path: Protego.parse(body.decode("utf-8", "ignore")) for path, body in files.items()}
    rules = {(path, name): robots[path].for_crawler(name) for path, name, _ in asked}
    for order, ordered in [("site by site", sorted(asked)), ("in random order", asked)]:
        ours = [(rules[path, name], url) for path, name, url in ordered]
        theirs = [(protego[path], url, name) for path, name, url in ordered]
        rounds = [(time_wayleave(ours), time_protego(theirs)) for _ in range(ROUNDS)]
        ratio = statistics.median(its / own for own, its in rounds)
        own, its = (statistics.median(column) / len(asked) * 1e9 for column in zip(*rounds))
        print(f"{order}: {own:.0f} ns, Protego {its:.0f} ns: {ratio:.1f} x ({len(files)} files, {len(asked)} questions)")


if __name__ == "__main__":
    main()
