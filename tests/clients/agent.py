"""Calls wayleave's tools by the official client. Prints what it got as JSON.

Usage: agent.py CALLS COMMAND... over standard input and output, or agent.py CALLS URL [TOKEN]. CALLS is a JSON list of names and
arguments.
"""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client import streamable_http


async def talk(streams, calls):
    async with ClientSession(streams[0], streams[1]) as session:
        server = await session.initialize()
        tools = await session.list_tools()
        answers = []
        for name, arguments in calls:
            result = await session.call_tool(name, arguments)
            answers.append({"is_error": result.is_error, "texts": [block.text for block in result.content]})
        listed = {tool.name: tool.input_schema for tool in tools.tools}
        print(json.dumps({"server": server.server_info.name, "tools": listed, "answers": answers}))


async def main():
    calls, *to = json.loads(sys.argv[1]), *sys.argv[2:]
    if not to[0].startswith("http"):
        async with stdio_client(StdioServerParameters(command=to[0], args=to[1:])) as streams:
            await talk(streams, calls)
        return
    headers = {"Authorization": f"Bearer {to[1]}"} if len(to) > 1 else {}
    async with streamable_http.create_mcp_http_client(headers=headers) as client:
        async with streamable_http.streamable_http_client(to[0], http_client=client) as streams:
            await talk(streams, calls)


asyncio.run(main())
