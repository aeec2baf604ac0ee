#!/usr/bin/env python3
"""Lets the Model Context Protocol's official Python client use the tools, over HTTP, over standard input and output, or both.

    pip install mcp
    python3 tests/mcp/check.py --server http://127.0.0.1:8000 [--token TOKEN]
    python3 tests/mcp/check.py --hindsearch target/debug/hindsearch --index DIR

Exit code 0: all passed; 1: something failed; 77: skipped, because the client is missing.
"""

import argparse
import asyncio
import json
import os
import sys
import urllib.error
import urllib.request

try:
    import httpx2
    from mcp import Client, MCPError, StdioServerParameters
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client
except ImportError as error:
    print(f"skipped: {error}; `pip install mcp` (2.3 or later)")
    sys.exit(77)

QUESTION = "Who discovered radium?"
MODES = ["auto", "legacy"]
"""The newest protocol, in which every request speaks for itself, and the older one, which begins with a greeting."""


def expect(what, good, found):
    if not good:
        raise AssertionError(f"{what}; found {found!r}")
    print(f"  ok  {what}")


def only_text(result):
    if [item.type for item in result.content] != ["text"]:
        raise AssertionError(f"expected one text; found {result.content!r}")
    return result.content[0].text


async def use(client):
    """All that an agent does. The client itself checks structured answers against the schemas of the tools."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    expect("the tools are `search` and `fetch`", sorted(tools) == ["fetch", "search"], sorted(tools))
    expect("each has a description", all(tool.description for tool in tools.values()), tools)
    found = await client.call_tool("search", {"query": QUESTION, "top_k": 2})
    results = json.loads(only_text(found))["results"]
    expect("`search` finds as many as wanted", len(results) == 2 and not found.is_error, found)
    expect("the text says what the structure says", found.structured_content == {"results": results}, found.structured_content)
    for key in ["id", "title", "text", "url"]:
        expect(f"each result has a `{key}` in words", all(isinstance(result[key], str) and result[key] for result in results), results)
    default = json.loads(only_text(await client.call_tool("search", {"query": QUESTION})))["results"]
    expect("a search without `top_k` begins the same", [hit["id"] for hit in default[:2]] == [hit["id"] for hit in results], default)
    document = json.loads(only_text(await client.call_tool("fetch", {"id": results[0]["id"]})))
    expect("`fetch` reads the passage", document == {key: value for key, value in results[0].items() if key != "score"}, document)
    for tool, arguments, words in [
        ("fetch", {"id": "no such passage"}, "no passage has the id"),
        ("search", {"query": QUESTION, "top_k": 0}, "expected 1 to 1000"),
        ("search", {"query": QUESTION, "limit": 3}, "unknown field `limit`"),
        ("search", {}, "missing field `query`"),
    ]:
        refused = await client.call_tool(tool, arguments)
        expect(f"`{tool}` of {arguments} is refused in words", refused.is_error and words in only_text(refused), refused)
    try:
        expect("no tool `serach`", False, await client.call_tool("serach", {}))
    except MCPError as error:
        expect("an unknown tool is an error of the protocol", error.error.code == -32602, error.error)
    many = await asyncio.gather(*(client.call_tool("search", {"query": f"{QUESTION} {number}"}) for number in range(64)))
    expect("64 searches at once are answered", not any(result.is_error for result in many), many)


async def over_http(server, token):
    def headers():
        return {"Authorization": f"Bearer {token}"} if token else {}

    for mode in MODES:
        async with httpx2.AsyncClient(timeout=60, headers=headers()) as http, Client(streamable_http_client(f"{server}/mcp", http_client=http), mode=mode) as client:
            print(f"over HTTP, mode {mode}, protocol {client.protocol_version}")
            await use(client)
    print("refusals over HTTP")
    for name, more in [("Host", {"Host": "rebound.example"}), ("Origin", {"Origin": "https://elsewhere.example"})]:
        status, body = ask(server, {**headers(), **more})
        expect(f"a foreign {name} is refused", status == 403 and body["code"] == "forbidden", (status, body))
        try:
            async with httpx2.AsyncClient(timeout=60, headers={**headers(), **more}) as http, Client(streamable_http_client(f"{server}/mcp", http_client=http)) as client:
                expect("the client gets nowhere", False, await client.list_tools())
        except* MCPError as group:
            expect(f"the client is told about {name}", name.lower() in str(group.exceptions).lower(), group.exceptions)
    if token:
        status, body = ask(server, {"Authorization": f"Bearer {token}x"})
        expect("a wrong token is refused", status == 401 and body["code"] == "unauthorized", (status, body))


def ask(server, headers):
    """The status and the answer to a ping."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    request = urllib.request.Request(f"{server}/mcp", body, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


async def over_stdio(hindsearch, index):
    # The client hands on little of its environment; where the model and its library lie may be said there.
    program = StdioServerParameters(command=hindsearch, args=["mcp", index], env=dict(os.environ))
    for mode in MODES:
        async with Client(stdio_client(program), mode=mode) as client:
            print(f"over standard input and output, mode {mode}, protocol {client.protocol_version}")
            await use(client)


async def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", help="address of a server that runs")
    parser.add_argument("--token", help="its token")
    parser.add_argument("--hindsearch", help="the program")
    parser.add_argument("--index", help="the index that it opens")
    args = parser.parse_args()
    if not args.server and not args.hindsearch or bool(args.hindsearch) != bool(args.index):
        parser.error("expected `--server`, or `--hindsearch` with `--index`, or all")
    if args.server:
        await over_http(args.server.rstrip("/"), args.token)
    if args.hindsearch:
        await over_stdio(args.hindsearch, args.index)
    print("all passed")


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except AssertionError as error:
        sys.exit(f"failed: {error}")
