"""Derives the statements of `wayleave publish --sites` again from decision logs, and tries to find files of unknown hosts.

    site_statements.py derive DIR KEYS LOG...   compares each file with the logs; KEYS is a key directory (JWKS)
    site_statements.py guess DIR HOST               serves DIR, as one who knows HOST, and makes 500 attempts to list or guess files

It shares no code with wayleave: it reads the lines of the logs, RFC 8785 and RFC 7515.
"""

import base64
import collections
import hashlib
import http.server
import json
import os
import random
import sys
import threading
import urllib.error
import urllib.request

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

SYNONYMS = {"ai-train": "train-ai", "ai-use": "ai-input"}
PURPOSES = ("search", "ai-input", "train-ai", "archive", "tdm", "other")
with open(os.path.join(os.path.dirname(__file__), "../../policy/decision/src/well_known.txt"), encoding="utf-8") as names:
    ROWS = [line.rstrip("\n").split("\t") for line in names if not line.startswith("#")]
    FOREIGN = {row[0].lower() for row in ROWS if row[1] != "-"}
OUTCOMES_OF_REFUSALS = ("refused", "observed")


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def unpadded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def host_of(origin):
    authority = origin.split("://", 1)[1]
    if authority.startswith("["):
        return authority[: authority.index("]") + 1]
    return authority.split(":")[0]


def cause(line):
    """The members that name the cause of a refusal."""
    found = {name: line[name] for name in ("crawler", "outcome", "reason")}
    if line["reason"] == "rule":
        found["robots_txt"] = line["origin"] + "/robots.txt"
        found |= {name: line[name] for name in ("line", "rule") if name in line}
    if line["reason"] == "preference":
        ranks = {"before": 0, "head": 1, "body": 2}
        rank = lambda it: ranks[it.get("stage", "before")] if it["preference"] == "refuse" else 3
        said = [it for it in line["preferences"] if it["preference"] in ("refuse", "unstated")]
        first = min(said, key=rank)
        found["purpose"] = first["purpose"]
        found |= {ours: first[its] for ours, its in (("carrier", "carrier"), ("rule", "statement")) if its in first}
    return canonical(found)


class Site:
    def __init__(self):
        self.requests = collections.defaultdict(lambda: {"outcomes": collections.Counter(), "withheld": 0})
        self.refusals = {}
        self.tokens = collections.defaultdict(set)

    def add(self, line):
        day = line["at"][:10]
        stated = {SYNONYMS.get(word, word) for word in line.get("stated_purposes", [])}
        stated = [word for word in PURPOSES if word in stated] if stated <= set(PURPOSES) else ["unknown"]
        purposes = stated or line.get("purposes") or [it["purpose"] for it in line.get("preferences", [])]
        key = canonical({"day": day, "crawler": line["crawler"], "purposes": purposes})
        self.requests[key]["outcomes"][line["outcome"]] += 1
        self.requests[key]["withheld"] += line.get("reached_origin", False)
        if line["outcome"] in OUTCOMES_OF_REFUSALS:
            count = self.refusals.setdefault(cause(line), {"count": 0, "first_day": day, "last_day": day})
            count["count"] += 1
            count["first_day"] = min(count["first_day"], day)
            count["last_day"] = max(count["last_day"], day)
        is_ours = line["crawler"] != "asserted" or line["outcome"] in ("forwarded", "observed", "tunnelled") and line.get("tokens", [""])[0].lower() not in FOREIGN
        self.tokens[line["crawler"]].update(line.get("tokens", [])[:1] if is_ours else [])


def read(logs):
    sites, last = collections.defaultdict(Site), ""
    for name in logs:
        with open(name, encoding="utf-8") as lines:
            for line in map(json.loads, lines):
                if "event" in line or "origin" not in line:
                    continue
                last = max(last, line["at"])
                sites[host_of(line["origin"])].add(line)
    return sites, last


def differences(name, text, host, site, keys, last):
    """Yields what is wrong with a file."""
    file = json.loads(text)
    if canonical(file) + "\n" != text:
        yield "it is not canonical"
    header = json.loads(unpadded(file["protected"]))
    payload = base64.urlsafe_b64encode(canonical(file["statement"]).encode()).rstrip(b"=").decode()
    try:
        key = Ed25519PublicKey.from_public_bytes(unpadded(keys[header["kid"]]))
        key.verify(unpadded(file["signature"]), f"{file['protected']}.{payload}".encode())
    except (InvalidSignature, KeyError) as error:
        yield f"its signature is wrong: {error!r}"
    statement = file["statement"]
    if statement["host"] != host or name != hashlib.sha256(host.encode()).hexdigest() + ".json":
        yield f"it is about {statement['host']}"
    if statement["to"] != last[:19] + "Z":
        yield f"it ends at {statement['to']}, not {last}"
    stated = {canonical({it: row[it] for it in ("day", "crawler", "purposes")}): {it: row[it] for it in ("outcomes", "withheld")} for row in statement["requests"]}
    if stated != {key: {"outcomes": dict(it["outcomes"]), "withheld": it["withheld"]} for key, it in site.requests.items()}:
        yield f"requests: {stated} and {site.requests}"
    counted = ("count", "first_day", "last_day")
    stated = {canonical({it: row[it] for it in row if it not in counted}): {it: row[it] for it in counted} for row in statement["refusals"]}
    if stated != site.refusals:
        yield f"refusals: {stated} and {site.refusals}"
    named = {it["name"]: set(it["tokens"]) for it in statement["crawlers"]}
    if named.keys() != site.tokens.keys() or any(not site.tokens[it] <= named[it] for it in named):
        yield f"crawlers: {named} and {site.tokens}"
    stop = {line.removeprefix("User-agent: ") for line in statement["stop"].splitlines() if line != "Disallow: /"}
    if stop != set().union(*named.values()):
        yield f"how to stop us: {statement['stop']!r}"


def derive(folder, keys, logs):
    keys = {key["kid"]: key["x"] for key in json.load(open(keys))["keys"]}
    sites, last = read(logs)
    files = {name for name in os.listdir(folder) if name != "index.html"}
    wrong = sorted(files ^ {hashlib.sha256(host.encode()).hexdigest() + ".json" for host in sites})
    for host, site in sites.items():
        name = hashlib.sha256(host.encode()).hexdigest() + ".json"
        if name in files:
            text = open(os.path.join(folder, name), encoding="utf-8").read()
            wrong += [f"{host}: {what}" for what in differences(name, text, host, site, keys, last)]
    print(json.dumps({"statements": len(files), "requests": sum(sum(row["outcomes"].values()) for site in sites.values() for row in site.requests.values()), "differences": wrong[:9]}))


def guesses(own):
    """Yields 500 paths that somebody who knows one host may try to find another's file."""
    digest = hashlib.sha256(own.encode()).hexdigest()
    yield from ("/", "/?", "/./", "//", "/%2e%2e/", "/../", "/.", "/index", "/index.json", "/index.txt", "/hosts", "/hosts.json", "/sites.json", "/list", "/all.json", "/sitemap.xml", "/robots.txt", "/.json", "/*.json", "/%2a.json", "/.listing", "/.DS_Store", "/.git/index", "/.wayleave-", "/manifest.json", "/feed", "/?C=M;O=D", "/?list", "/?format=json", "/" + digest, "/" + digest.upper() + ".json", "/" + digest + "/", "/" + digest[:8] + ".json", "/" + digest[:8] + "*.json")
    for name in ("md5", "sha1", "sha512", "sha3_256"):
        yield f"/{hashlib.new(name, own.encode()).hexdigest()}.json"
    for change in (1, -1, 16, 256, 1 << 128):
        yield f"/{(int(digest, 16) + change) % (1 << 256):064x}.json"
    dice, made = random.Random(7), 0
    for at in range(64):
        yield f"/{digest[:at]}{'0123456789abcdef'[(int(digest[at], 16) + 1) % 16]}{digest[at + 1:]}.json"
    while True:
        made += 1
        word = "".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=dice.randrange(2, 12)))
        host = (word, f"{word}.example", f"www.{own}", f"{own}.", f"https://{own}", f"{own}:443", f"{word}.{own}")[made % 7]
        host += f"#{made}" if made % 7 in (2, 3, 4, 5) else ""
        yield f"/{hashlib.sha256(host.encode()).hexdigest()}.json"


def guess(folder, own):
    handler = lambda *arguments: http.server.SimpleHTTPRequestHandler(*arguments, directory=folder)
    http.server.SimpleHTTPRequestHandler.log_message = lambda *_: None
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    page = open(os.path.join(folder, "index.html"), "rb").read()
    fetch = lambda path: urllib.request.urlopen(base + path).read()
    is_own = json.loads(fetch(f"/{hashlib.sha256(own.encode()).hexdigest()}.json"))["statement"]["host"] == own
    attempts, found = 0, []
    for path in guesses(own):
        if attempts == 500:
            break
        attempts += 1
        try:
            if fetch(path) != page:
                found.append(path)
        except urllib.error.HTTPError:
            pass
    server.shutdown()
    print(json.dumps({"own": is_own, "attempts": attempts, "found": found}))


if __name__ == "__main__":
    command, folder, *rest = sys.argv[1:]
    if command == "derive":
        derive(folder, rest[0], rest[1:])
    else:
        guess(folder, rest[0])
