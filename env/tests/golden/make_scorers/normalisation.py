"""What do the recipes' normalisers make of each answer?"""

from .answers import LONG, PAIRS
from .loading import load
from .running import Case, attempt, write


def make_normalisation():
    """What each family of normalisers makes of one string."""
    qa = load("search-r1", "verl/utils/reward_score/qa_em.py")
    r1 = load("r1-searcher", "evaluation/metric_calc_rule.py")
    server = load("r1-searcher", "train/reward_server_qwen_zero.py")
    tokens = load("asearcher", "AReaL/ASearcher/utils/rewards.py")
    texts = []
    for name, answer, golds in PAIRS:
        texts.append((name, answer))
        texts += [(f"{name}-gold-{i}", gold) for i, gold in enumerate(golds[:2])]
    cases = [Case(name, [], text=text) for name, text in texts if text != LONG]

    def run(case):
        out, text = {}, case.fields["text"]
        attempt(out, "squad", lambda: qa.normalize_answer(text))
        attempt(out, "r1_searcher", lambda: r1.normalize_answer(text))
        attempt(out, "asearcher_f1", lambda: tokens.normalize_text(text))
        attempt(out, "r1_searcher_question", lambda: server.normalize_text(text))
        return out

    options = {
        "squad": "normalize_answer of Search-R1; the same in verl, SkyRL, slime, ReSearch, AutoRefine, ZeroSearch, Search-o1, rLLM, tinker, FlashRAG and the EM of ASearcher",
        "r1_searcher": "normalize_answer of evaluation/metric_calc_rule.py",
        "asearcher_f1": "normalize_text of AReaL/ASearcher/utils/rewards.py",
        "r1_searcher_question": "normalize_text of train/reward_server_qwen_zero.py, the key of its table of questions",
    }
    write("normalisation", "search-r1", "verl/utils/reward_score/qa_em.py", "Four normalisers were called on every answer and the first two golds; the options name their sources.", options, cases, run)
