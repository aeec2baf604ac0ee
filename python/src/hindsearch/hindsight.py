"""What a teacher may be told of an episode that its policy was not, and which tokens it teaches.

    block = sibling_block(episodes, 0, golds)
    aligned = align(episodes[0], block or "")

The student reads the episode as it was played, the teacher `aligned.messages` and then the same `aligned.response`; the loss is
of the tokens of `aligned.query_mask`.
"""

from ._core import Aligned, Critique, align, critique_by_rules, critiques_by_model, sibling_block

__all__ = ["Aligned", "Critique", "align", "critique_by_rules", "critiques_by_model", "sibling_block"]
