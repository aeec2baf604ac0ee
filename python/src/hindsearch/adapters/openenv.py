"""OpenEnv: a typed client of the server's own environment, and that environment in Python for what loads one by its class.

with SearchClient(base_url="http://127.0.0.1:8000/openenv").sync() as client:
    client.reset(task={"question": ..., "golden_answers": [...]})
    client.step(SearchAction(text=...))
"""

from __future__ import annotations

import random
import uuid
from typing import Any

try:
    from openenv.core.client_types import StepResult
    from openenv.core.env_client import EnvClient
    from openenv.core.env_server import Action, Environment, Observation, State
except ImportError as error:
    raise ImportError("`hindsearch.adapters.openenv` needs OpenEnv: `pip install openenv`") from error

from .._tasks import task_of
from ._settings import choose, make_env, read


class SearchAction(Action):
    """A message of the policy. One required field, so that adapters can take plain text for it."""

    text: str


class SearchObservation(Observation):
    """The prompt; after a step what it brought."""

    text: str = ""


class SearchClient(EnvClient[SearchAction, SearchObservation, State]):
    """A session with one episode at a time. `reset` takes `task_id`, `task`, `preset`, `overrides`, `sample` and `seed`."""

    def _step_payload(self, action: SearchAction) -> dict[str, Any]:
        return {"text": action.text}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[SearchObservation]:
        given = payload["observation"]
        done, reward = bool(payload.get("done", False)), payload.get("reward")
        observation = SearchObservation(text=given["text"], done=done, reward=reward, metadata=given.get("metadata") or {})
        return StepResult(observation=observation, reward=reward, done=done)

    def _parse_state(self, payload: dict[str, Any]) -> State:
        return State(**payload)


class SearchEnvironment(Environment[SearchAction, SearchObservation, State]):
    """Settings come from the environment: `SEARCH_ENV_URL`, `SEARCH_ENV_PRESET` and so on."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, tasks: str = "sample", **settings: Any) -> None:
        super().__init__()
        self._tasks = tasks
        self._env = make_env(settings)
        self._state = State(episode_id=None, step_count=0)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **row: Any) -> SearchObservation:
        """Begins the episode of a row (`task`, or its fields), or of the task that the seed chooses, or else chance."""
        task = row.get("task") or row
        if task.get("question") or task.get("prompt"):
            chosen = task_of(task)
        else:
            chosen = choose(read(self._tasks), random.getrandbits(64) if seed is None else seed)
        messages = self._env.reset(**chosen)
        self._state = State(episode_id=episode_id or uuid.uuid4().hex, step_count=0)
        text = "\n\n".join(message["content"] for message in messages)
        return SearchObservation(text=text, metadata={"episode_id": self._state.episode_id, "task_id": self._env.episode.task})

    def step(self, action: SearchAction, timeout_s: float | None = None, **kwargs: Any) -> SearchObservation:
        step = self._env.step(action.text)
        self._state.step_count += 1
        metadata = {"action": step.info["action"], "searches": step.info["searches"], "stop": step.info.get("stop")}
        return SearchObservation(text=step.observation, done=step.done, reward=step.reward, metadata=metadata)

    @property
    def state(self) -> State:
        return self._state
