"""What do FlashRAG's measures answer?"""

from .answers import PAIRS
from .loading import load, stub
from .responses import FORMS, LIST_FORM, as_list
from .running import Case, attempt, number, write


def make_f1():
    utils = load("flashrag", "flashrag/evaluator/utils.py")
    stub("flashrag.evaluator.utils", normalize_answer=utils.normalize_answer)
    path = "flashrag/evaluator/metrics.py"
    ref = load("flashrag", path)
    f1, em, sub = (c.__new__(c) for c in (ref.F1_Score, ref.ExactMatch, ref.Sub_ExactMatch))
    em.is_regex = sub.is_regex = False

    def run(case):
        out, answer, golds = {}, case.fields["answer"], as_list(case)
        attempt(out, "normalized", lambda: utils.normalize_answer(answer))
        for key in ("f1", "precision", "recall"):
            attempt(out, key, lambda: number(f1.token_level_scores(answer, golds)[key]))
        attempt(out, "em", lambda: number(em.calculate_em(answer, golds)))
        attempt(out, "sub_em", lambda: number(sub.calculate_sub_em(answer, golds)))
        return out

    cases = [Case(f"answer/{n}", g, answer=a) for n, a, g in PAIRS] + [Case(f"form/{n}", f, r, answer=a) for n, r, f, a in FORMS]
    options = {"scored_text": "input.answer", "ground_truth": LIST_FORM, "note": "precision and recall are maxima over the golds, each on its own"}
    write("f1-hotpotqa-style", "flashrag", path, "The metric classes were called on single answers.", options, cases, run)
