"""Gymnasium: `gymnasium.make("hindsearch/Search-v0", tasks="train.jsonl", url=...)` once this module is imported.

Texts may hold any character, which Gymnasium's own `Text` space does not allow. `info` holds nothing that differs between equal
episodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

try:
    import gymnasium
except ImportError as error:
    raise ImportError("`hindsearch.adapters.gymnasium` needs Gymnasium: `pip install gymnasium`") from error

from .._core import pick
from ..errors import InvalidInput
from ._settings import make_env, read

MAX_LENGTH = 1 << 20
"""Characters of a text, a limit that is only there because spaces have one."""


class AnyText(gymnasium.Space[str]):
    """All texts up to a length."""

    def __init__(self, max_length: int = MAX_LENGTH, seed: Any = None) -> None:
        super().__init__((), None, seed)
        self.max_length = max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        letters = self.np_random.integers(ord(" "), 0x3000, int(self.np_random.integers(0, 32)))
        return "".join(chr(int(letter)) for letter in letters)

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyText) and other.max_length == self.max_length

    def __repr__(self) -> str:
        return f"AnyText({self.max_length})"


class SearchEnv(gymnasium.Env[str, str]):
    """Observations are the prompt's texts, then what the recipe shows; actions are the policy's messages."""

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(self, tasks: str | Sequence[Any] = "sample", render_mode: None = None, **settings: Any) -> None:
        """Args:
        tasks: a file (see `hindsearch.env.tasks`), a built-in set, or dictionaries with the arguments of `SearchEnv.reset`.
        settings: `url`, `preset`, `top_k`, `count` and so on.
        """
        self._tasks = read(tasks)
        self._env = make_env(settings)
        self.render_mode = render_mode
        self.action_space = AnyText()
        self.observation_space = AnyText()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Args:
        seed: chooses the task by `hindsearch.env.pick`; without one, those that follow an earlier seed are always the same.
        options: `task`, the number of a task, in place of the seed's.
        """
        super().reset(seed=seed)
        number = (options or {}).get("task")
        if number is None:
            number = pick(int(self.np_random.integers(2**63)) if seed is None else seed % 2**64, len(self._tasks)) or 0
        elif not 0 <= int(number) < len(self._tasks):
            raise InvalidInput(f"`options`: expected a `task` from 0 to {len(self._tasks) - 1}, found `{number}`")
        number = int(number)
        messages = self._env.reset(**self._tasks[number])
        return "\n\n".join(message["content"] for message in messages), {"task": number, "messages": messages}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        step = self._env.step(action)
        stop = step.info.get("stop")
        step.info.pop("retrieval_seconds", None)
        # An answer, or none that will come, is the task's own end; limits are not.
        return step.observation, step.reward, stop in ("answer", "end"), stop in ("turns", "context"), step.info


if "hindsearch/Search-v0" not in gymnasium.registry:
    gymnasium.register(id="hindsearch/Search-v0", entry_point=SearchEnv)
