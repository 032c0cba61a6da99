"""Times reading files and deciding beside Protego, by the same loop, on the same files and questions, in turns.

Usage: speed.py CORPUS, with `files` and `google_verdicts.jsonl`. The ratios are those of the least times of all rounds; the
absolute numbers are this machine's.
"""

import json
import re
import statistics
import sys
import time
from pathlib import Path

from protego import Protego

from wayleave_robots import RobotsTxt

ROUNDS = 15
PARSE, ASK, ASK_AGAIN, ASK_ALL = range(4)


def read_corpus(corpus):
    """Returns the files by name, and of each the crawlers with the URLs that each asks for."""
    files, asked = {}, {}
    for line in (corpus / "google_verdicts.jsonl").read_text().splitlines():
        entry = json.loads(line)
        name, crawler = entry["file"], entry["agent"]
        # Names that Protego finds a group for in the same way.
        if re.fullmatch("[A-Za-z_-]+", crawler):
            urls = [url if url.startswith("http") else f"https://example.com{url}" for url, *_ in entry["queries"]]
            asked.setdefault(name, []).append((crawler, urls))
            files[name] = (corpus / name).read_bytes()
    return files, asked


def time_wayleave(body, asked):
    start = time.perf_counter()
    robots = RobotsTxt(body)
    parsed = time.perf_counter()
    crawlers = [(robots.for_crawler(crawler), urls) for crawler, urls in asked]
    for rules, urls in crawlers:
        for url in urls:
            rules.allows(url)
    decided = time.perf_counter()
    for rules, urls in crawlers:
        for url in urls:
            rules.allows(url)
    again = time.perf_counter()
    for rules, urls in crawlers:
        rules.allows_all(urls)
    return parsed - start, decided - parsed, again - decided, time.perf_counter() - again


def time_protego(text, asked):
    start = time.perf_counter()
    robots = Protego.parse(text)
    parsed = time.perf_counter()
    for crawler, urls in asked:
        for url in urls:
            robots.can_fetch(url, crawler)
    decided = time.perf_counter()
    for crawler, urls in asked:
        for url in urls:
            robots.can_fetch(url, crawler)
    again = time.perf_counter() - decided
    # It has no call for several URLs.
    return parsed - start, decided - parsed, again, again


def least(rounds):
    """Returns the least time of each file and step: on a busy machine, what is nearest to the truth."""
    return {name: [min(times) for times in zip(*of_file)] for name, of_file in rounds.items()}


def main():
    files, asked = read_corpus(Path(sys.argv[1]))
    texts = {name: body.decode("utf-8", "ignore") for name, body in files.items()}
    own, its = {name: [] for name in files}, {name: [] for name in files}
    for _ in range(ROUNDS):
        for name, body in files.items():
            own[name].append(time_wayleave(body, asked[name]))
        for name, text in texts.items():
            its[name].append(time_protego(text, asked[name]))
    own, its = least(own), least(its)
    questions = sum(len(urls) for of_file in asked.values() for _, urls in of_file)
    print(f"{len(files)} files, {questions} questions; Protego's time as a multiple of ours")
    for title, steps in [
        ("read a file", [PARSE]),
        ("first questions", [ASK]),
        ("the same questions again", [ASK_AGAIN]),
        ("again, all URLs of a crawler in one call", [ASK_ALL]),
        ("read, and ask once", [PARSE, ASK]),
        ("read, and ask twice", [PARSE, ASK, ASK_AGAIN]),
    ]:
        sums = {name: [sum(times[name][step] for step in steps) for times in (own, its)] for name in files}
        ratios = [theirs / ours for ours, theirs in sums.values()]
        ours, theirs = (sum(column) for column in zip(*sums.values()))
        each = statistics.median(ratios)
        print(f"{title}: {theirs / ours:.1f} in total; by file, the median {each:.1f}, the least {min(ratios):.1f}")


if __name__ == "__main__":
    main()
