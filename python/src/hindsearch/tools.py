"""A search tool for models that call functions in OpenAI's manner: its schema, its execution and how passages are shown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from .aio import AsyncClient
from .client import Client
from .errors import InvalidInput
from .types import Hit

MAX_QUERY = 64 * 1024
"""The server's limit, in bytes."""
DESCRIPTION = "Searches a collection of passages and returns those nearest in meaning to the query."


def search_tool(api: str = "chat", *, name: str = "search", description: str = DESCRIPTION) -> dict[str, Any]:
    """The tool's schema, for `tools=` of the `chat` (completions) or the `responses` API."""
    function = {
        "name": name,
        "description": description,
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string", "description": "What to look for, as a question or a few words."}},
            "required": ["query"],
            "additionalProperties": False,
        },
        "strict": True,
    }
    if api == "chat":
        return {"type": "function", "function": function}
    if api == "responses":
        return {"type": "function", **function}
    raise InvalidInput(f"`api` must be `chat` or `responses`, found `{api}`")


def run_tool_call(client: Client, call: Any, *, top_k: int | None = None) -> dict[str, Any]:
    """Executes a model's call of the tool and returns the message that answers it, in the form of the API that it came from.

    `call` is an item of `message.tool_calls` (chat) or of `response.output` (responses), as the SDK's object or as a
    dictionary. Arguments that the model got wrong are told to the model; everything else raises, so that the text of a failure
    never passes for a passage.
    """
    _check(client, "Client")
    query, wrong = _query(call)
    return _reply(call, wrong or render(client.search(query, top_k=top_k)[0].hits))


async def run_tool_call_async(client: AsyncClient, call: Any, *, top_k: int | None = None) -> dict[str, Any]:
    """`run_tool_call` for asyncio."""
    _check(client, "AsyncClient")
    query, wrong = _query(call)
    return _reply(call, wrong or render((await client.search(query, top_k=top_k))[0].hits))


def render(hits: Iterable[Hit]) -> str:
    """Passages as text for a model: `Doc 1 (Title: T)`, line break, text, a blank line between passages."""
    passages = []
    for number, hit in enumerate(hits, 1):
        title = " ".join((hit.title or "").split())
        passages.append(f"Doc {number}{f' (Title: {title})' if title else ''}\n{hit.text or ''}")
    return "\n\n".join(passages) or "No passages found."


def _check(client: Any, kind: str) -> None:
    if not hasattr(client, "search"):
        found = type(client).__name__
        raise InvalidInput(f"`client`: expected a `{kind}`, found `{found}`: make one for all calls, `{kind}(url)`")


def _query(call: Any) -> tuple[str, str | None]:
    """The query, and what is wrong with the arguments, in words for the model."""
    function = _get(call, "function")
    try:
        arguments = json.loads(_get(call if function is None else function, "arguments"))
        query = arguments["query"]
        size = len(query.encode())
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return "", 'Error: the arguments must be JSON like {"query": "..."}'
    if not query.strip() or size > MAX_QUERY:
        return "", f"Error: `query` must hold 1 to {MAX_QUERY} bytes and more than blanks"
    return query, None


def _reply(call: Any, text: str) -> dict[str, Any]:
    if _get(call, "function") is None:
        return {"type": "function_call_output", "call_id": _get(call, "call_id"), "output": text}
    return {"role": "tool", "tool_call_id": _get(call, "id"), "content": text}


def _get(item: Any, key: str) -> Any:
    return item.get(key) if isinstance(item, Mapping) else getattr(item, key, None)
