"""A search tool for models that call functions in OpenAI's manner: its schema, its execution and how passages are shown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from .aio import AsyncClient
from .client import Client
from .errors import InvalidInput
from .types import Hit

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
    """Executes a model's call of the tool and returns the message that answers it, in the form of the API that the call came from.

    `call` is an item of `message.tool_calls` (chat) or of `response.output` (responses), as the SDK's object or as a dictionary.
    What the model did wrong is told to the model; a failing server raises, and its message never reaches the model.
    """
    try:
        return _reply(call, render(client.search(_query(call), top_k=top_k)[0].hits))
    except InvalidInput as error:
        return _reply(call, f"Error: {error.message}")


async def run_tool_call_async(client: AsyncClient, call: Any, *, top_k: int | None = None) -> dict[str, Any]:
    """`run_tool_call` for asyncio."""
    try:
        return _reply(call, render((await client.search(_query(call), top_k=top_k))[0].hits))
    except InvalidInput as error:
        return _reply(call, f"Error: {error.message}")


def render(hits: Iterable[Hit]) -> str:
    """Passages as text for a model: `Doc 1 (Title: T)`, line break, text, a blank line between passages."""
    passages = []
    for number, hit in enumerate(hits, 1):
        title = " ".join((hit.title or "").split())
        passages.append(f"Doc {number}{f' (Title: {title})' if title else ''}\n{hit.text or ''}")
    return "\n\n".join(passages) or "No passages found."


def _query(call: Any) -> str:
    function = _get(call, "function")
    try:
        arguments = json.loads(_get(call if function is None else function, "arguments"))
    except (RecursionError, TypeError, ValueError):
        raise InvalidInput("the arguments are not JSON") from None
    query = arguments.get("query") if isinstance(arguments, dict) else None
    if not isinstance(query, str) or not query.strip():
        raise InvalidInput("`query` must be a string that is not empty")
    return query


def _reply(call: Any, text: str) -> dict[str, Any]:
    if _get(call, "function") is None:
        return {"type": "function_call_output", "call_id": _get(call, "call_id"), "output": text}
    return {"role": "tool", "tool_call_id": _get(call, "id"), "content": text}


def _get(item: Any, key: str) -> Any:
    return item.get(key) if isinstance(item, Mapping) else getattr(item, key, None)
