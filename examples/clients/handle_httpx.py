import time

import httpx


def get(client, url):
    for attempt in range(1, 4):
        response = client.get(url)
        refusal, wait = (response.headers.get(name) for name in ("Proxy-Status", "Retry-After"))
        if refusal is None or not refusal.startswith("wayleave;"):
            return response  # the origin's, whatever its status
        if wait is None or attempt == 3:
            raise PermissionError(f"refused by wayleave: {refusal}")
        time.sleep(int(wait))


print(get(httpx.Client(), "https://example.com/").status_code)
