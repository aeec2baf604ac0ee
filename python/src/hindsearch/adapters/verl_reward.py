"""verl: a recipe's reward, for `reward.custom_reward_function`:
`{path: pkg://hindsearch.adapters.verl_reward, name: compute_score}`.

It is for other loops than `hindsearch.adapters.verl.SearchAgentLoop`, which rewards by itself. A text is all that there is here:
what stands in a tool's response, or between the recipe's marks of an observation, is not scored.
"""

from __future__ import annotations

from typing import Any

from hindsearch._core import Rules, score
from hindsearch._tasks import golds_of
from hindsearch.adapters._settings import make_preset


def compute_score(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: dict[str, Any] | None = None, **settings: Any
) -> dict[str, float]:
    """`settings` are those of `reward_kwargs`: `preset`. The result holds `score` and the recipe's parts by name."""
    rules = Rules(make_preset(settings))
    question = str((extra_info or {}).get("question") or "")
    reward = score(rules, rules.read(solution_str, question, data_source), golds_of(ground_truth))
    return {**reward.terms, "score": reward.total}
