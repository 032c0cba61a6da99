"""Prints which URLs of standard input their sites do not let NewsBot use for training now.

An independent reading of the few forms that the test's sites use: it shares no code with wayleave. The one argument is the
address at which all sites are.
"""

import http.client
import json
import re
import sys
import xml.etree.ElementTree
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

TOKEN = "newsbot"
ADDRESS = sys.argv[1]
RSL = "{https://rslstandard.org/rsl}"


def get(host, path):
    connection = http.client.HTTPConnection(ADDRESS, timeout=60)
    connection.request("GET", path, headers={"Host": host, "User-Agent": "NewsBot/1"})
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, response.headers, body


def group_of(robots):
    """The lines before all groups, and those of the group that names the crawler, else of the group for all."""
    groups, names, in_rules = {"": []}, [""], True
    for line in robots.splitlines():
        field, _, value = (part.strip() for part in line.partition(":"))
        if field.lower() == "user-agent":
            names = [] if in_rules else names
            in_rules = False
            names.append(value.lower())
            groups.setdefault(value.lower(), [])
        elif field:
            in_rules = True
            for name in names:
                groups[name].append((field.lower(), value))
    return groups[""] + groups.get(TOKEN, groups.get("*", []))


def matches(pattern, path):
    regex = re.escape(pattern.removesuffix("$")).replace(r"\*", ".*")
    return re.match(regex + ("$" if pattern.endswith("$") else ""), path) is not None


def disallowed(lines, path):
    rules = [(len(value), field == "allow") for field, value in lines
             if field in ("allow", "disallow") and value and matches(value, path)]
    return bool(rules) and not max(rules)[1]


def robots_refuses(lines):
    said = " ".join(value for field, value in lines if field in ("content-usage", "content-signal"))
    return "train-ai=n" in said or "ai-train=no" in said


def licence_refuses(host, lines):
    for field, value in lines:
        if field != "license":
            continue
        tree = xml.etree.ElementTree.fromstring(get(host, urlsplit(value).path)[2])
        for prohibits in tree.iter(f"{RSL}prohibits"):
            if "ai-train" in prohibits.text:
                return True
    return False


def reserved(host, path):
    status, fields, body = get(host, "/.well-known/tdmrep.json")
    return status == 200 and fields["Content-Type"] == "application/json" and any(
        path.startswith(entry["location"]) and entry["tdm-reservation"] == 1 for entry in json.loads(body))


def page_refuses(host, path):
    _, fields, body = get(host, path)
    said = f"{fields.get('X-Robots-Tag', '')} {fields.get('Content-Usage', '')}"
    meta = re.search(r'<meta name="?robots"? content="([^"]*)"', body)
    return "noai" in said or "train-ai=n" in said or (meta is not None and "noai" in meta.group(1))


def refused(urls):
    host = urlsplit(urls[0]).netloc
    status, _, robots = get(host, "/robots.txt")
    lines = group_of(robots) if status == 200 else []
    for url in urls:
        path = urlsplit(url).path
        if (disallowed(lines, path) or robots_refuses(lines) or licence_refuses(host, lines)
                or reserved(host, path) or page_refuses(host, path)):
            yield url


by_host = {}
for line in sys.stdin:
    by_host.setdefault(urlsplit(line.strip()).netloc, []).append(line.strip())
with ThreadPoolExecutor(16) as threads:
    for found in threads.map(lambda urls: list(refused(urls)), by_host.values()):
        for url in found:
            print(url)
