"""mitmproxy addon: every name means this machine.

Where names are looked up, not at the connection: mitmproxy reuses one only for the address it was asked for, and
another address for every connection makes a new one for every request, all of which it then searches.
"""

import asyncio
import socket


async def getaddrinfo(_loop, _host, port, **_):
    return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", port))]


asyncio.BaseEventLoop.getaddrinfo = getaddrinfo
