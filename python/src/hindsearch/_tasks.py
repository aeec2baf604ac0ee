"""What trainers call questions and accepted answers, in their many shapes."""

from __future__ import annotations

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
        # Without answers every reward would be 0, and nobody would know why.
        key = next((key for key in KEYS if value.get(key) is not None), None)
        if key is None:
            found = ", ".join(f"`{name}`" for name in value) or "nothing"
            raise InvalidInput(f"accepted answers: expected one of `{'`, `'.join(KEYS)}`, found {found}")
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


def task_of(row: Mapping[str, Any], messages: Any = None) -> dict[str, Any]:
    """The arguments of `SearchEnv.reset` from a row of a trainer's data set.

    A row that names its question gets the recipe's prompt; else `messages` stay as they are, and the user's last one is the
    question.
    """
    extra = row.get("extra_info") or {}
    source = row.get("data_source") or row.get("source") or ""
    task: dict[str, Any] = {"golds": row_golds(row), "source": str(source)}
    question = row.get("question") or extra.get("question")
    if question:
        return {**task, "question": str(question)}
    prompt = messages_of(row["prompt"] if messages is None else messages)
    return {**task, "question": question_of(prompt), "prompt": prompt}


def row_golds(row: Mapping[str, Any]) -> list[str]:
    """The accepted answers of a row, as the forms of verl and SkyRL, and plain ones, have them."""
    for key in ("reward_model", "reward_spec"):
        if row.get(key) is not None:
            return golds_of(row[key]["ground_truth"])
    return golds_of(row)
