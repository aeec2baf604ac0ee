"""What the server answers, as dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Hit:
    """One passage found. A field that was not asked for (`fields=`) is `None`; so is the title of a passage without one."""

    id: str | None = None
    title: str | None = None
    text: str | None = None
    score: float | None = None
    """Inner product of unit vectors: higher is nearer."""
    row: int | None = None
    """Place in the corpus, from 0."""
    contents: str | None = None
    """Quoted title, line break, text, as in the wiki-18 corpus."""
    url: str | None = None


@dataclass(frozen=True)
class Result:
    """The hits of one query, best first."""

    hits: list[Hit]
    truncated: bool = False
    """True when the query was longer than the model reads, so that its end was not seen."""


@dataclass(frozen=True)
class Passage:
    """One passage of the corpus."""

    id: str
    text: str
    title: str | None = None
    row: int | None = None
    contents: str | None = None
    url: str | None = None


def read(kind: type[T], value: Mapping[str, Any]) -> T:
    """The dataclass `kind` from a JSON object; keys that it does not know are left aside, so that servers may add some."""
    return kind(**{field.name: value[field.name] for field in fields(kind) if field.name in value})  # type: ignore[arg-type]
