"""ROLL, and GEM, whose environments it plays: `gem.make("hindsearch/Search-v0", tasks="train.jsonl", url=...)`.

In ROLL's YAML, `env_manager_cls: hindsearch.adapters.roll.TrajEnvManager` makes the workers import this module, and
`env_type: hindsearch/Search-v0` with `env_config` does the rest.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

try:
    import gem
    from gem.envs.registration import ENV_REGISTRY
except ImportError as error:
    raise ImportError("`hindsearch.adapters.roll` needs GEM: `pip install gem-llm`") from error

from ..errors import InvalidInput
from ._settings import choose, make_env, read

ID = "hindsearch/Search-v0"
END = re.compile(r"(<\|(im_end|eot_id|endoftext|end_of_text)\|>|</s>|\s)+\Z")
"""What ROLL leaves of the end of a message."""
AGGREGATION = {"searches": "last", "answered": "last"}


class SearchEnv(gem.Env):
    """Members of a group get the same seed, and so the same question."""

    def __init__(self, tasks: str | Sequence[Any] = "sample", **settings: Any) -> None:
        super().__init__()
        self._given = {"tasks": tasks, **settings}
        self._tasks = read(tasks)
        self._env = make_env(settings)
        self._random = random.Random()

    def reset(self, seed: int | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed)
        seed = self._random.getrandbits(64) if seed is None else seed
        messages = self._env.reset(**choose(self._tasks, seed))
        return "\n\n".join(message["content"] for message in messages), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        step = self._env.step(END.sub("", action))
        stop = step.info.get("stop")
        metrics = {"searches": step.info["searches"], "answered": float(stop == "answer")}
        info = {**step.info, "metrics": metrics, "metrics_agg_mode": AGGREGATION}
        # ROLL looks at `terminated` alone, so limits terminate, too.
        return step.observation, step.reward, step.done, stop in ("turns", "context"), info

    def spawn(self, same_state: bool = False, **kwargs: Any) -> SearchEnv:
        if same_state:
            raise InvalidInput("`same_state` is not supported: an episode's passages are its own")
        return type(self)(**{**self._given, **kwargs})


def __getattr__(name: str) -> Any:
    """ROLL's own manager, so that naming it here imports this module in its workers."""
    if name == "TrajEnvManager":
        from roll.pipeline.agentic.env_manager.traj_env_manager import TrajEnvManager

        return TrajEnvManager
    raise AttributeError(f"module `{__name__}` has no attribute `{name}`")


if ID not in ENV_REGISTRY:
    gem.register(ID, SearchEnv)
