import asyncio

import aiohttp


async def get(session, url):
    for attempt in range(1, 4):
        response = await session.get(url)
        refusal, wait = (response.headers.get(name) for name in ("Proxy-Status", "Retry-After"))
        if refusal is None or not refusal.startswith("wayleave;"):
            return response  # the origin's, whatever its status
        if wait is None or attempt == 3:
            raise PermissionError(f"refused by wayleave: {refusal}")
        response.release()
        await asyncio.sleep(int(wait))


async def main():
    async with aiohttp.ClientSession(trust_env=True) as session:
        print((await get(session, "https://example.com/")).status)


asyncio.run(main())
