"""verl: a recipe's reward, for `reward.custom_reward_function`:
`{path: pkg://hindsearch.adapters.verl_reward, name: compute_score}`.

It is for other loops than `hindsearch.adapters.verl.SearchAgentLoop`, which rewards by itself. A text is all that there is here:
what stands in a tool's response, or between the recipe's marks of an observation, is not scored.
"""

from __future__ import annotations

from typing import Any

from hindsearch._tasks import golds_of
from hindsearch.adapters._settings import make_preset
from hindsearch.env import score


def compute_score(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: dict[str, Any] | None = None, **settings: Any
) -> dict[str, float]:
    """`settings` are those of `reward_kwargs`: `preset`. The result holds `score` and the recipe's parts by name."""
    question = str((extra_info or {}).get("question") or "")
    golds = golds_of(ground_truth, "reward_model.ground_truth")
    reward = score(make_preset(settings), solution_str, golds, question=question, source=data_source)
    return {**reward.terms, "score": reward.total}
