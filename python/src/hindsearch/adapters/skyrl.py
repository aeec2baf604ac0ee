"""SkyRL: an environment for `skyrl_gym.register`.

    skyrl_gym.register(id="hindsearch", entry_point="hindsearch.adapters.skyrl:SearchEnv", kwargs={"url": ..., "preset": "skyrl"})

Register in the process that trains. SkyRL's configuration has no place for the settings of other environments than its own, so
they come from `kwargs`, from the data set's columns, or from `SEARCH_ENV_URL` and so on.
"""

from __future__ import annotations

from typing import Any

try:
    from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput
except ImportError as error:
    raise ImportError("`hindsearch.adapters.skyrl` needs SkyRL's environments: `pip install skyrl-gym`") from error

from .._tasks import task_of
from ._settings import chat_role, make_env


class SearchEnv(BaseTextEnv):
    """A row that names its `question` gets the recipe's prompt; others keep the prompt of the data set."""

    def __init__(self, env_config: Any = None, extras: dict[str, Any] | None = None, **settings: Any) -> None:
        super().__init__()
        extras = extras or {}
        self._env = make_env(settings, env_config or {}, extras)
        self._row = extras
        # One message more than the recipe's turns: the answer.
        self.max_turns = int(extras.get("max_turns") or self._env.preset.turns + 1)

    def init(self, prompt: Any) -> tuple[Any, dict[str, Any]]:
        task = task_of(self._row, prompt)
        messages = self._env.reset(**task)
        self.turns = 0
        return (prompt if "prompt" in task else messages), {}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        self.turns += 1
        step = self._env.decide(action)
        if self.turns >= self.max_turns and not (step and step.done):
            # The trainer's own limit: nothing is searched that nobody would read.
            return BaseTextEnvStepOutput(observations=[], reward=self._env.score(), done=True, metadata={"stop": "turns"})
        step = step or self._env.resume()
        shown = step.observation and not step.done
        observations = [{"role": chat_role(self._env.preset), "content": step.observation}] if shown else []
        return BaseTextEnvStepOutput(observations=observations, reward=step.reward, done=step.done, metadata=step.info)

    def get_metrics(self) -> dict[str, Any]:
        episode = self._env.episode
        return {"searches": episode.searches, "turns": episode.turns, "answered": float(episode.stop == "answer")}
