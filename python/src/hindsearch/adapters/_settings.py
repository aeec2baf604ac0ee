"""Where an adapter's server and recipe are named, since every trainer passes settings in another way, or not at all."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from .._core import Preset, pick
from .._core import tasks as read_tasks
from ..client import Client
from ..env import Count, SearchEnv
from ..errors import HindsearchError, InvalidInput

URL = "http://127.0.0.1:8000"


def make_env(*sources: Any, count: Count = None, reward: bool = True) -> SearchEnv:
    """An environment by `url`, `preset`, `top_k`, `token`, `ca_file` and `timeout` (seconds).

    Each is taken from the first source that has it (dictionaries, dataclasses, namespaces), else from `SEARCH_ENV_URL` and so on
    (the program refuses names that begin with its own and are no settings of its own). Sources may hold a function `count`, too.
    """
    top_k = setting("top_k", *sources)
    if count is None:
        # A data set may have a column of that name.
        found = (source.get("count") for source in sources if isinstance(source, Mapping))
        count = next((function for function in found if callable(function)), None)
    top_k = int(top_k) if top_k else None
    return SearchEnv(make_retriever(*sources), make_preset(*sources), top_k=top_k, count=count, reward=reward)


def choose(tasks: Sequence[dict[str, Any]], seed: int) -> dict[str, Any]:
    """The task that a seed chooses, by the rule of the server. Tasks are made sure of by whoever reads them."""
    return tasks[pick(seed % 2**64, len(tasks)) or 0]


def read(tasks: str | Sequence[Any]) -> list[dict[str, Any]]:
    """The tasks of a file, of a built-in set, or those that are given."""
    given = read_tasks(tasks) if isinstance(tasks, str) else list(tasks)
    if not given:
        raise InvalidInput("`tasks`: expected at least one, found none")
    return given


def make_retriever(*sources: Any) -> Any:
    """The client that all environments of this process share; a `url` that is a retriever already is taken as it is."""
    url = setting("url", *sources, default=URL)
    if not isinstance(url, str):
        return url
    timeout = float(setting("timeout", *sources, default=30))
    return _client(url, setting("token", *sources), setting("ca_file", *sources), timeout)


def make_preset(*sources: Any) -> Preset:
    preset = setting("preset", *sources, default="hindsearch")
    return preset if isinstance(preset, Preset) else _preset(preset)


def setting(name: str, *sources: Any, default: Any = None) -> Any:
    for source in sources:
        value = source.get(name) if hasattr(source, "get") else getattr(source, name, None)
        if value is not None:
            return value
    return os.environ.get(f"SEARCH_ENV_{name.upper()}") or default


@functools.cache
def _client(url: str, token: str | None, ca_file: str | None, timeout: float) -> Client:
    # Recipes of Search-R1 name the path, too.
    base = url[: -len("/retrieve")] if url.endswith("/retrieve") else url
    return Client(base, token, ca_file=ca_file, timeout=timeout)


@functools.cache
def _preset(name: str) -> Preset:
    return Preset.load(name)


def chat_role(preset: Preset) -> str:
    """In which message a chat shows observations: where the recipe has running text, in one of the user's."""
    return "user" if preset.observation_role == "assistant" else preset.observation_role


class Fault(BaseException):
    """A fault outside, where the trainer would show any `Exception` to the policy as if it were an observation."""


@contextmanager
def faults_end_the_run() -> Iterator[None]:
    """Lets no fault of the retriever pass for what a tool answers."""
    try:
        yield
    except InvalidInput:
        raise
    except HindsearchError as error:
        raise Fault(str(error)) from error
