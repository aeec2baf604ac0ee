"""What trainers call questions and accepted answers, in their many shapes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from .errors import InvalidInput

KEYS = ("target", "golds", "golden_answers", "answers", "answer", "ground_truth")


def golds_of(value: Any) -> list[str]:
    """Accepted answers from a text, a list (numpy's too), or a dictionary that holds one of them."""
    if value is None:
        return []
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        key = next((key for key in KEYS if value.get(key) is not None), None)
        if key is None:
            raise InvalidInput(f"accepted answers: expected one of {', '.join(KEYS)}, found {', '.join(map(str, value)) or 'nothing'}")
        return golds_of(value[key])
    if isinstance(value, (bytes, bytearray)) or not isinstance(value, Iterable):
        return [str(value)]
    return [gold if isinstance(gold, str) else str(gold) for gold in value]


def text_of(content: Any) -> str:
    """The text of a message's content, which may be a list of parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "".join(part if isinstance(part, str) else str(part.get("text") or "") for part in content)


def messages_of(prompt: Any) -> list[dict[str, str]]:
    """A prompt as messages of plain text; a prompt that is text already is one of the user's."""
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    return [{"role": message["role"], "content": text_of(message["content"])} for message in prompt]


def question_of(messages: Iterable[Mapping[str, Any]]) -> str:
    """The last message of the user, where a task does not name its question."""
    texts = [text_of(message["content"]) for message in messages if message["role"] == "user"]
    return texts[-1] if texts else ""


def setting(name: str, *sources: Any, default: Any = None) -> Any:
    """A setting from the first source that has it (dictionaries, dataclasses, namespaces), or from `HINDSEARCH_<NAME>`."""
    for source in sources:
        value = source.get(name) if hasattr(source, "get") else getattr(source, name, None)
        if value is not None:
            return value
    return os.environ.get(f"HINDSEARCH_{name.upper()}") or default
