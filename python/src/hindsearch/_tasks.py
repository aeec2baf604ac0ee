"""What trainers call questions and accepted answers, in their many shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .errors import InvalidInput

KEYS = ("target", "golds", "golden_answers", "answers", "answer", "ground_truth")
COLUMNS = ("reward_model", "reward_spec")
"""Of a row: what holds the accepted answers in `ground_truth`, in the forms of verl and SkyRL."""


def golds_of(value: Any, place: str = "golds") -> list[str]:
    """Accepted answers, of which there is at least one: without any every reward would be 0, and nobody would know why."""
    golds = texts_of(value, place)
    if not any(gold.strip() for gold in golds):
        found = "nothing" if value is None else f"`{value!r}`"
        raise InvalidInput(
            f"`{place}`: expected accepted answers (a text, a list of texts, or a dictionary with `target`), found {found}: "
            "give at least one, or make the environment with `reward=False` where no reward is wanted"
        )
    return golds


def texts_of(value: Any, place: str = "golds") -> list[str]:
    """Answers from a text, a list (numpy's too), or a dictionary that holds one of them; perhaps none."""
    if value is None:
        return []
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        key = next((key for key in KEYS if value.get(key) is not None), None)
        if key is None:
            raise InvalidInput(f"`{place}`: expected one of {_names(KEYS)} with the accepted answers, found {_names(value)}")
        return texts_of(value[key], place)
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


def task_of(row: Mapping[str, Any], messages: Any = None, golds: list[str] | None = None) -> dict[str, Any]:
    """The arguments of `SearchEnv.reset` from a row of a trainer's data set.

    A row that names its question gets the recipe's prompt; else `messages` stay as they are, and the user's last one is the
    question. `golds` are the accepted answers where they do not stand in the row.
    """
    extra = row.get("extra_info")
    extra = extra if isinstance(extra, Mapping) else {}
    source = row.get("data_source") or row.get("source") or ""
    task: dict[str, Any] = {"golds": row_golds(row) if golds is None else golds, "source": str(source)}
    question = row.get("question") or extra.get("question")
    if question:
        return {**task, "question": str(question)}
    messages = row.get("prompt") if messages is None else messages
    if messages is None:
        expected = "`question`, `extra_info` with `question`, or `prompt`"
        raise InvalidInput(f"a row: expected a column {expected}, found {_names(row)}")
    prompt = messages_of(messages)
    return {**task, "question": question_of(prompt), "prompt": prompt}


def row_golds(row: Mapping[str, Any]) -> list[str]:
    """The accepted answers of a row, as the forms of verl and SkyRL, and plain ones, have them."""
    for key in COLUMNS:
        column = row.get(key)
        if column is None:
            continue
        if not isinstance(column, Mapping):
            raise InvalidInput(f"column `{key}`: expected an object with `ground_truth`, found `{type(column).__name__}`")
        if column.get("ground_truth") is None:
            raise InvalidInput(
                f"column `{key}`: expected `ground_truth` with the accepted answers, found {_names(column)}: "
                "add it, or leave the column out and name the answers `golden_answers`"
            )
        return golds_of(column["ground_truth"], f"{key}.ground_truth")
    plain = next((key for key in KEYS if row.get(key) is not None), None)
    if plain is None:
        raise InvalidInput(
            f"a row: expected a column with the accepted answers, one of {_names(KEYS)}, or {_names(COLUMNS)} with "
            f"`ground_truth`, found {_names(row)}: rename the one that holds them"
        )
    return golds_of(row[plain], plain)


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "nothing"
