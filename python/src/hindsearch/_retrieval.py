"""From queries to passages, by whatever looks them up."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, Union

from .aio import AsyncClient
from .client import Client
from .errors import InvalidInput
from .types import Hit, read

FIELDS = ("id", "row", "score", "title", "contents")
"""What rendering and the record need of a hit."""
MAX_QUERY = 64 * 1024
"""The server's limit, in bytes."""


class Searches(Protocol):
    """Anything that looks up passages as `Client.search` does."""

    def search(self, queries: Sequence[str], *, top_k: int) -> Any: ...


Retriever = Union[Client, AsyncClient, Searches, Callable[[list[str], int], Any]]
"""A client; an object with `search(queries, top_k=k)`; or a function of queries and `top_k`, which may be a coroutine.

It answers with one result a query, best passage first: a `Result`, or a list of `Hit`s, of dictionaries with their fields or
with a `document`, or of texts.
"""


def retriever_of(given: Retriever | str) -> Retriever:
    """What a constructor was given: a retriever, or the URL of a server."""
    if isinstance(given, str):
        return Client(given)
    # A class can be called, too, but looks up nothing.
    if isinstance(given, type) or not (callable(given) or callable(getattr(given, "search", None))):
        found = f"the class `{given.__name__}`" if isinstance(given, type) else f"`{type(given).__name__}`"
        expected = "a server's URL, a `Client`, an object with `search`, or a function of queries and `top_k`"
        raise InvalidInput(f"the retriever: expected {expected}, found {found}")
    return given


def client_of(given: Client | str) -> Client:
    """What a constructor was given: a client, or the URL of a server."""
    if isinstance(given, str):
        return Client(given)
    if not isinstance(given, Client):
        raise InvalidInput(f"`client`: expected a `Client` or a server's URL, found `{type(given).__name__}`")
    return given


def search(retriever: Retriever, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
    """The hits of each query. Each is asked for once; those that no server takes find nothing, since the policy is to blame."""
    asked = _asked(queries)
    found = _call(retriever, asked, top_k) if asked else []
    if inspect.isawaitable(found):
        found = asyncio.run(_awaited(found))
    return _dealt(queries, asked, found)


async def search_async(retriever: Retriever, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
    """`search` for asyncio; what blocks runs in a thread."""
    asked = _asked(queries)
    found: Any = []
    if asked and isinstance(retriever, AsyncClient):
        found = await _call(retriever, asked, top_k)
    elif asked:
        found = await asyncio.to_thread(_call, retriever, asked, top_k)
        if inspect.isawaitable(found):
            found = await found
    return _dealt(queries, asked, found)


async def _awaited(found: Any) -> Any:
    return await found


def _call(retriever: Retriever, queries: list[str], top_k: int) -> Any:
    if isinstance(retriever, (Client, AsyncClient)):
        return retriever.search(queries, top_k=top_k, fields=FIELDS)
    if callable(retriever):
        return retriever(queries, top_k)
    return retriever.search(queries, top_k=top_k)


def _asked(queries: Sequence[str]) -> list[str]:
    return [query for query in dict.fromkeys(queries) if query.strip() and len(query.encode()) <= MAX_QUERY]


def _dealt(queries: Sequence[str], asked: list[str], found: Any) -> list[list[Hit]]:
    results = list(found)
    if len(results) != len(asked):
        raise InvalidInput(f"the retriever: expected results of {len(asked)} queries, found {len(results)}")
    hits = {query: [_hit(hit) for hit in getattr(result, "hits", result)] for query, result in zip(asked, results)}
    return [hits.get(query, []) for query in queries]


def _hit(passage: Any) -> Hit:
    if isinstance(passage, Hit):
        return passage
    if isinstance(passage, str):
        return Hit(contents=passage)
    if isinstance(passage, Mapping):
        document = passage.get("document", passage)
        if isinstance(document, str):
            return Hit(contents=document, score=passage.get("score"))
        if isinstance(document, Mapping):
            hit = read(Hit, {**document, "score": passage.get("score")})
            if hit.contents is not None or hit.text is not None:
                return hit
    found = type(passage).__name__
    raise InvalidInput(f"a passage: expected a `Hit`, or a dictionary with `contents` or `text`, found `{found}`")
