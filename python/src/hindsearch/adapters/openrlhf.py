"""OpenRLHF: `--train.agent_func_path` wants the path of this very file:

    python -c "import importlib.util as u; print(u.find_spec('hindsearch.adapters.openrlhf').origin)"

Settings come from the environment: `SEARCH_ENV_URL`, `SEARCH_ENV_PRESET` and so on. The label holds the accepted answers: a text,
or JSON, either a list or an object with `golds` and perhaps `question`. Prompts are rendered already, so they stay as they are.
"""

from __future__ import annotations

import json
from typing import Any

try:
    from openrlhf.utils.agent import AgentInstanceBase, MultiTurnAgentExecutor
except ImportError as error:
    raise ImportError("`hindsearch.adapters.openrlhf` needs OpenRLHF: `pip install openrlhf`") from error

from hindsearch._tasks import golds_of
from hindsearch.adapters._settings import make_env, setting
from hindsearch.errors import InvalidInput


class AgentInstance(AgentInstanceBase):
    """One episode."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._env = make_env()
        # Feedback is text behind text here, so only recipes of running text need no template.
        self._turn = setting("turn", default="{observation}")
        if self._env.preset.observation_role != "assistant" and "{observation}" == self._turn:
            raise InvalidInput(
                f"preset `{self._env.preset.name}` shows observations in messages: set SEARCH_ENV_TURN to what stands between "
                "two messages of the policy in its chat template, with {observation} in it"
            )

    async def reset(self, states: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        prompt = states["observation"]
        label = _label(states.get("label"))
        question = label.get("question", prompt) if isinstance(label, dict) else prompt
        self._env.reset(question, golds_of(label, "label"), prompt=[{"role": "user", "content": prompt}])
        return {"observation": prompt}

    async def step(self, states: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        import torch

        step = await self._env.step_async(states["action_text"])
        shown = self._turn.replace("{observation}", step.observation) if step.observation else ""
        reward = torch.tensor(step.reward)
        return {
            "rewards": reward,
            "scores": reward,
            "environment_feedback": "" if step.done else shown,
            "done": step.done,
            "sampling_params": states.get("sampling_params"),
            "extra_logs": {"searches": torch.tensor(step.info["searches"]), "turns": torch.tensor(self._env.episode.turns)},
        }


class AgentExecutor(MultiTurnAgentExecutor):
    """What OpenRLHF looks for in the file."""

    def __init__(self) -> None:
        super().__init__(AgentInstance)


def _label(label: Any) -> Any:
    if isinstance(label, str) and label.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(label)
        except ValueError:
            return label
    return label
