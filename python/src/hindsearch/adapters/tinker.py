"""Tinker: environments, groups and a data set for the cookbook's training loops.

    dataset = SearchDataset("train.jsonl", renderer, group_size=8, batch_size=64, url=...)

`renderer` makes a renderer: `functools.partial(get_renderer, name, tokenizer)`. It is pickled with the groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

try:
    from tinker_cookbook.rl.message_env import EnvFromMessageEnv, MessageEnv, MessageStepResult
    from tinker_cookbook.rl.types import Env, EnvGroupBuilder, RLDataset
except ImportError as error:
    raise ImportError("`hindsearch.adapters.tinker` needs the cookbook: `pip install tinker-cookbook`") from error

from .._tasks import text_of
from ._settings import chat_role, make_env, make_preset, read


class SearchMessageEnv(MessageEnv):
    """One episode, in messages."""

    def __init__(self, task: dict[str, Any], **settings: Any) -> None:
        self._task = task
        self._env = make_env(settings)
        self._messages: list[Any] = []

    async def initial_observation(self) -> list[Any]:
        self._messages = list(self._env.reset(**self._task))
        return self._messages

    async def step(self, message: Any) -> Any:
        step = await self._env.step_async(_text(message["content"]))
        self._messages = [*self._messages, message]
        if step.observation and not step.done:
            self._messages.append({"role": chat_role(self._env.preset), "content": step.observation})
        metrics = {"searches": step.info["searches"], **step.info.get("terms", {})} if step.done else {}
        return MessageStepResult(reward=step.reward, episode_done=step.done, next_messages=self._messages, metrics=metrics)


def _text(content: Any) -> str:
    """What the policy wrote. Renderers take thoughts out of the text."""
    if isinstance(content, str):
        return content
    return "".join(f"<think>{part['thinking']}</think>" if part["type"] == "thinking" else text_of([part]) for part in content)


class SearchGroup(EnvGroupBuilder):
    """Several plays of one task. It can be pickled."""

    def __init__(
        self, task: dict[str, Any], renderer: Callable[[], Any], group_size: int, max_trajectory_tokens: int, **settings: Any
    ) -> None:
        self._task = task
        self._limit = max_trajectory_tokens
        self._renderer = renderer
        self._size = group_size
        self._settings = settings

    async def make_envs(self) -> Sequence[Env]:
        renderer = self._renderer()
        envs = [SearchMessageEnv({**self._task, "sample": sample}, **self._settings) for sample in range(self._size)]
        return [EnvFromMessageEnv(renderer=renderer, message_env=env, max_trajectory_tokens=self._limit) for env in envs]

    def logging_tags(self) -> list[str]:
        return [self._task.get("source") or "search"]


class SearchDataset(RLDataset):
    """Groups of the tasks in order, batch by batch; a last batch that is not full is left out."""

    def __init__(
        self,
        tasks: str | Sequence[Any],
        renderer: Callable[[], Any],
        *,
        group_size: int,
        batch_size: int,
        max_trajectory_tokens: int | None = None,
        **settings: Any,
    ) -> None:
        """Args:
        tasks: a file (see `hindsearch.env.tasks`), a built-in set, or dictionaries with the arguments of `SearchEnv.reset`.
        max_trajectory_tokens: tokens of prompt and episode; the recipe's limit without it.
        settings: `url`, `preset`, `top_k` and so on.
        """
        self._tasks = read(tasks)
        self._renderer = renderer
        self._group_size = group_size
        self._batch_size = batch_size
        self._limit = max_trajectory_tokens or make_preset(settings).context_tokens
        self._settings = settings

    def get_batch(self, index: int) -> list[SearchGroup]:
        start = index * self._batch_size
        chosen = self._tasks[start : start + self._batch_size]
        return [SearchGroup(task, self._renderer, self._group_size, self._limit, **self._settings) for task in chosen]

    def __len__(self) -> int:
        return len(self._tasks) // self._batch_size
