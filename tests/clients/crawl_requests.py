"""Crawls with Python requests; proxy and CA come from the environment.

Standard input: JSON lines {"url", "user_agent"}. Standard output: JSON lines {"url", "status"}.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import requests


def crawl(planned):
    with requests.Session() as session:
        for request in planned:
            answer = session.get(request["url"], headers={"User-Agent": request["user_agent"]}, timeout=60, allow_redirects=False)
            yield {"url": request["url"], "status": answer.status_code}


planned = [json.loads(line) for line in sys.stdin]
lanes = 4
with ThreadPoolExecutor(lanes) as pool:
    for results in pool.map(lambda lane: list(crawl(planned[lane::lanes])), range(lanes)):
        for result in results:
            print(json.dumps(result))
