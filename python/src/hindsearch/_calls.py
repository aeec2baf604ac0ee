"""The server's methods as pure data: which requests a call sends, and how its answers are read."""

from __future__ import annotations

import base64
import json
import sys
import uuid
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from .errors import InvalidInput
from .types import Hit, Passage, Result, read

T = TypeVar("T")

# The server's limits for one request.
MAX_ITEMS = 4096
MAX_PASSAGES = 100_000
MAX_BODY = 16 * 1024 * 1024

HINDSIGHT = ("critique", "block", "align")


@dataclass(frozen=True)
class Request:
    """One HTTP request. Every one is safe to repeat."""

    method: str
    path: str
    body: bytes | None = None
    id: str = field(default_factory=lambda: uuid.uuid4().hex)


@dataclass(frozen=True)
class Call(Generic[T]):
    """`read` turns the answers' JSON, in the order of the requests, into the call's result.

    It raises `LookupError`, `TypeError`, `ValueError` or `AttributeError` on an answer of another shape.
    """

    requests: list[Request]
    read: Callable[[list[Any]], T]


READY = Request("GET", "/readyz")


def search(queries: str | Iterable[str], **options: Any) -> Call[list[Result]]:
    return _search("queries", _texts("queries", queries), _options(**options))


def search_vectors(vectors: Iterable[Iterable[float]], **options: Any) -> Call[list[Result]]:
    try:
        # `float` also takes numpy's numbers, which JSON does not.
        rows = [[float(number) for number in row] for row in vectors]
    except (TypeError, ValueError):
        raise InvalidInput("`vectors` must be a list of lists of numbers, or a matrix") from None
    return _search("vectors", rows, _options(**options))


def passage(id: str) -> Call[Passage]:
    if not isinstance(id, str) or not id:
        raise InvalidInput(f"a passage id must be a string that is not empty, found `{id!r}`")
    try:
        path = "/v1/passages/" + quote(id, safe="")
    except UnicodeEncodeError:
        raise InvalidInput("a passage id holds half of a surrogate pair, which is not text") from None
    return Call([Request("GET", path)], lambda answers: read(Passage, answers[0]))


def embed(texts: str | Iterable[str], input_type: str) -> Call[list[list[float]]]:
    items = _texts("texts", texts)
    rest = {"input_type": input_type, "encoding_format": "base64"}
    return Call(
        [Request("POST", "/v1/embeddings", body) for body in _bodies("input", items, rest)],
        lambda answers: _counted([_floats(row["embedding"]) for row in _merged(answers, "data")], len(items)),
    )


def info() -> Call[dict[str, Any]]:
    return Call([Request("GET", "/info")], lambda answers: dict(answers[0]))


def hindsight(what: str, items: Iterable[dict[str, Any]]) -> Call[list[dict[str, Any]]]:
    if what not in HINDSIGHT:
        raise InvalidInput(f"expected one of {', '.join(HINDSIGHT)}, found `{what!r}`")
    given = list(items)
    return Call(
        [Request("POST", f"/hindsight/v1/{what}", body) for body in _bodies("items", given, {})],
        lambda answers: _counted([dict(item) for item in _merged(answers, "items")], len(given)),
    )


def _options(
    top_k: int | None,
    effort: int | None,
    fields: Iterable[str] | None,
    ids: Iterable[str] | None,
    exclude_ids: Iterable[str] | None,
) -> dict[str, Any]:
    """The part of a search beside its queries; what is `None` is left to the server."""
    filters = _given(ids=_strings("ids", ids), exclude_ids=_strings("exclude_ids", exclude_ids))
    return _given(top_k=top_k, effort=effort, fields=_strings("fields", fields), filter=filters or None)


def _search(key: str, items: list[Any], rest: dict[str, Any]) -> Call[list[Result]]:
    def results(answers: list[Any]) -> list[Result]:
        found = [
            Result([read(Hit, hit) for hit in result["hits"]], bool(result.get("truncated", False)))
            for result in _merged(answers, "results")
        ]
        return _counted(found, len(items))

    return Call([Request("POST", "/v1/search", body) for body in _bodies(key, items, rest)], results)


def _bodies(key: str, items: list[Any], rest: dict[str, Any]) -> Iterator[bytes]:
    """JSON bodies that hold all items in order, each within the server's limits. An item too long alone is left to the server."""
    head = b"{%s%s:[" % (b"".join(_json(name) + b":" + _json(value) + b"," for name, value in rest.items()), _json(key))
    top_k = rest.get("top_k") or 1
    most = max(1, min(MAX_ITEMS, MAX_PASSAGES // top_k)) if isinstance(top_k, int) and top_k > 0 else MAX_ITEMS
    batch: list[bytes] = []
    size = len(head) + 2
    for item in map(_json, items):
        if batch and (len(batch) == most or size + len(item) > MAX_BODY):
            yield head + b",".join(batch) + b"]}"
            batch, size = [], len(head) + 2
        batch.append(item)
        size += len(item) + 1
    if batch:
        yield head + b",".join(batch) + b"]}"


def _json(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise InvalidInput("a text holds half of a surrogate pair, which is not text") from None
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"cannot be sent as JSON: {error}") from None


def _texts(name: str, value: str | Iterable[str]) -> list[str]:
    texts = [value] if isinstance(value, str) else _strings(name, value)
    if texts is None:
        raise InvalidInput(f"`{name}` must be a string or a list of strings, found `None`")
    return texts


def _strings(name: str, value: Iterable[str] | None) -> list[str] | None:
    if value is None:
        return None
    # A string is iterable too, and its letters are never what was meant.
    items = None if isinstance(value, (str, bytes, dict)) or not hasattr(value, "__iter__") else list(value)
    if items is None or not all(isinstance(item, str) for item in items):
        wrong = value if items is None else next(item for item in items if not isinstance(item, str))
        raise InvalidInput(f"`{name}` must hold strings, found `{type(wrong).__name__}`")
    return items


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _merged(answers: list[Any], key: str) -> list[Any]:
    return [item for answer in answers for item in answer[key]]


def _counted(items: list[T], expected: int) -> list[T]:
    if len(items) != expected:
        raise ValueError(f"expected {expected} results, found {len(items)}")
    return items


def _floats(text: str) -> list[float]:
    """OpenAI's base64 embeddings: little-endian f32."""
    numbers = array("f", base64.b64decode(text, validate=True))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()
