"""Asks the Python package and `wayleave-conformance` the same generated questions, and wants the same answers.

Usage: parity.py PROGRAM CORPUS QUESTIONS, where CORPUS has robots.txt files; QUESTIONS is written, for others to answer.
"""

import base64
import json
import random
import subprocess
import sys
from pathlib import Path

from wayleave_robots import RobotsTxt

QUESTIONS = 60_000
NAMES = ["Googlebot", "bingbot", "GPTBot", "CCBot", "ExampleBot", "example-bot", "Yandex", "a"]
DIALECTS = ["rfc9309", "google", "koster1996", "selfhtml", "strictest"]
SUFFIXES = ["", "/", "?page=2", "/index.html", ".php", "/%7Euser", "/../x", "//y", ";id=1", "%", "/\u00e9", "$", "*"]


def questions(files):
    """Yields files, crawlers and URLs, most of which some rule of the file is about."""
    chosen = random.Random(9309)
    beginnings = {}
    for path, body in files.items():
        lines = body.decode("utf-8", "replace").splitlines()
        values = [line.partition(":")[2].strip() for line in lines if ":" in line]
        beginnings[path] = [value.rstrip("$") for value in values if value.startswith("/")] or ["/"]
    paths = sorted(files)
    for number in range(QUESTIONS):
        path = chosen.choice(paths)
        url = chosen.choice(beginnings[path]).replace("*", "star") + chosen.choice(SUFFIXES)
        # Two slashes may name a host, so only a whole URL with them is answered.
        host = "https://example.com" if url.startswith("//") else chosen.choice(["", "https://example.com"])
        yield number, path, chosen.choice(NAMES), chosen.choice(DIALECTS), host + url


def ask_program(program, files, asked, kept):
    """Returns the answers of the program. The questions go into the file `kept`."""
    encoded = {path: base64.b64encode(body).decode() for path, body in files.items()}
    with open(kept, "w") as lines:
        for number, path, name, dialect, url in asked:
            question = {"id": number, "robots_base64": encoded[path], "token": name, "dialect": dialect, "url": url}
            lines.write(json.dumps(question) + "\n")
    with open(kept) as lines:
        child = subprocess.run([program], stdin=lines, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in child.stdout.splitlines()]


def main():
    program, corpus, kept = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    files = {str(path): path.read_bytes() for path in corpus.iterdir() if path.stat().st_size < 20_000}
    parsed = {path: RobotsTxt(body) for path, body in files.items()}
    asked = list(questions(files))
    disallowed = different = 0
    for (number, path, name, dialect, url), answer in zip(asked, ask_program(program, files, asked, kept), strict=True):
        decision = parsed[path].for_crawler(name, dialect=dialect).decide(url)
        ours = ("allow" if decision.allowed else "disallow", decision.reason, decision.line, decision.rule)
        theirs = (answer["verdict"], answer["reason"], answer["line"], answer["rule"])
        disallowed += not decision.allowed
        if ours != theirs:
            different += 1
            print(f"{path} {name} {dialect} {url}: {ours}, the program: {theirs}", file=sys.stderr)
    print(f"{len(asked)} questions about {len(files)} files, {disallowed} disallowed: {different} different answers")
    # Questions that are all answered alike would show nothing.
    sys.exit(different != 0 or not QUESTIONS // 10 < disallowed < QUESTIONS * 9 // 10)


if __name__ == "__main__":
    main()
