"""NeMo RL: `register()` in the program that trains, then `env: {search: {url: ..., preset: ...}}` and the task's
`env_name: search`.

An episode's metadata is `{"question": ..., "golds": [...]}`. The record goes with it from step to step, so that any actor can go
on with it. (NeMo Gym reaches the server without this module.)
"""

from __future__ import annotations

from typing import Any

try:
    import ray
    import torch
    from nemo_rl.environments.interfaces import EnvironmentInterface, EnvironmentReturn
except ImportError as error:
    raise ImportError("`hindsearch.adapters.nemo_rl` needs NeMo RL (github.com/NVIDIA-NeMo/RL)") from error

from .._tasks import golds_of, messages_of
from ..env import SearchEnv as CoreEnv
from ..env import SearchEnvs
from ..errors import InvalidInput
from ._settings import make_env


class SearchEnvironment(EnvironmentInterface):
    """All episodes of a batch, whose searches go out in one call."""

    def __init__(self, cfg: dict[str, Any] | None = None) -> None:
        self._env = make_env(cfg or {})

    def step(self, message_log_batch: list[list[dict[str, Any]]], metadata: list[dict[str, Any]]) -> Any:
        batch = SearchEnvs(self._env.retriever, self._env.preset, top_k=self._env.top_k)
        batch.envs = [self._restored(log, state) for log, state in zip(message_log_batch, metadata)]
        steps = [step for step in batch.step([str(log[-1]["content"]) for log in message_log_batch]) if step]
        records = [env.episode.to_json() for env in batch.envs]
        return EnvironmentReturn(
            # The text is tokenised as it is, without a chat template.
            observations=[{"role": "environment", "content": step.observation} for step in steps],
            metadata=[{**state, "episode": record} for state, record in zip(metadata, records)],
            next_stop_strings=[self._env.preset.stop or None for _ in steps],
            rewards=torch.tensor([step.reward for step in steps], dtype=torch.float32),
            terminateds=torch.tensor([step.done for step in steps], dtype=torch.bool),
            answers=[env.episode.answer for env in batch.envs],
        )

    def global_post_process_and_metrics(self, batch: Any) -> tuple[Any, dict[str, float]]:
        rewards = batch.get("total_reward")
        return batch, {} if rewards is None or len(rewards) == 0 else {"search_reward": rewards.float().mean().item()}

    def shutdown(self) -> None:
        pass

    def _restored(self, log: list[dict[str, Any]], state: dict[str, Any]) -> CoreEnv:
        env = self._env.spawn()
        golds = golds_of({key: value for key, value in state.items() if key != "episode"}, "metadata")
        if state.get("episode"):
            env.restore(state["episode"], golds)
        elif "question" not in state:
            found = ", ".join(f"`{name}`" for name in state)
            raise InvalidInput(f"`metadata`: expected `question` and accepted answers, found {found}")
        else:
            env.reset(state["question"], golds, prompt=messages_of(log[:-1]))
        return env


SearchActor = ray.remote(SearchEnvironment)


def register(name: str = "search") -> None:
    """Makes the environment known to NeMo RL, in the Python that runs this."""
    from nemo_rl.distributed.ray_actor_environment_registry import ACTOR_ENVIRONMENT_REGISTRY
    from nemo_rl.distributed.virtual_cluster import PY_EXECUTABLES
    from nemo_rl.environments.utils import register_env

    path = f"{__name__}.SearchActor"
    ACTOR_ENVIRONMENT_REGISTRY[path] = PY_EXECUTABLES.SYSTEM
    register_env(name, path)
