"""What do ASearcher's scorers answer?"""

import asyncio
import types

from .loading import load, stub
from .responses import GOOD, LIST_FORM, SEARCH, THINK, as_list, forms, single, structural, tagged
from .running import Case, attempt, number, write


def make_asearcher():
    rewards = load("asearcher", "AReaL/ASearcher/utils/rewards.py")
    logger = types.SimpleNamespace(info=print, warning=print)
    stub("realhf.base", logging=types.SimpleNamespace(getLogger=lambda name: logger))
    stub("ASearcher.utils.rewards", compute_score_em=rewards.compute_score_em, compute_score_f1=rewards.compute_score_f1)
    stub("ASearcher.utils.search_utils", make_search_client=None)
    path = "AReaL/ASearcher/utils/search_tool.py"
    ref = load("asearcher", path)

    class Client:
        async def query_async(self, request):
            return [{"documents": [], "urls": []}]

        async def access_async(self, urls):
            return {"result": [None]}

    def reward(case, kind):
        box = ref.SearchToolBox.__new__(ref.SearchToolBox)
        row = {"answer": as_list(case)}
        if "aug_answer" in case.fields:
            row["aug_answer"] = case.fields["aug_answer"]
        box.id2info, box.reward_type, box.topk = {"q": row}, kind, 5
        box.use_jina, box.search_client_type, box.search_client = False, "async-search-access", Client()
        return number(asyncio.run(box.step(("q@0", [case.fields["response"]])))[0]["score"])

    def gold_of(case):
        raw = as_list(case)
        return [str(g) for g in raw] if isinstance(raw, (list, tuple)) else str(raw)

    def run(case):
        out = {}
        if "turns" in case.fields:
            # Re-created: last score times format of all turns; -0.5 for words of refusal.
            turns, gold = case.fields["turns"], gold_of(case)
            score = rewards.compute_score_f1(turns[-1], gold)[1] if turns else 0
            good = float(all(rewards.correct_format_fn(i, t) for i, t in enumerate(turns)))
            answer = case.fields["agent_answer"]
            refuses = answer is not None and any(w in answer for w in ("question", "invalid", "appropriate", "valid"))
            out["format"] = good
            out["score"] = -0.5 if case.fields["valid_instruction"] and refuses else number((score or 0) * good)
            return out
        text, gold = case.fields["response"], gold_of(case)
        attempt(out, "answer", lambda: rewards.extract_solution(text))
        attempt(out, "em", lambda: number(rewards.compute_score_em(text, gold)[1]))
        attempt(out, "f1", lambda: number(rewards.compute_score_f1(text, gold)[1]))
        attempt(out, "cover_em", lambda: number(rewards.cover_exact_match_score_1(text, gold)[1]))
        attempt(out, "score", lambda: reward(case, "F1"))
        attempt(out, "score_em", lambda: reward(case, "EM"))
        attempt(out, "format", lambda: bool(rewards.correct_format_fn(0, text)))
        return out

    cases = single(tagged) + structural() + forms(tagged)
    for name, response, golds, aug in [
        ("better", tagged("New York"), ["New York City"], ["New York"]),
        ("worse", tagged("New York City"), ["New York City"], ["Rome"]),
        ("string", tagged("New York"), ["New York City"], "New York"),
        ("empty-list", tagged("New York"), ["New York City"], []),
        ("integers", tagged("7"), ["seven"], [7]),
        ("no-answer", THINK, ["Paris"], ["Paris"]),
        ("em-only-in-aug", tagged("NYC"), ["New York City"], ["NYC", "Big Apple"]),
    ]:
        cases.append(Case(f"aug/{name}", golds, response=response, aug_answer=aug))
    for name, response in [
        ("one-search", THINK + SEARCH),
        ("search-and-answer", THINK + SEARCH + GOOD),
        ("access", THINK + "<access> u </access>"),
        ("search-and-access", SEARCH + "<access> u </access>"),
        ("access-unclosed", THINK + "<access> u"),
        ("two-think-ends", "</think></think>" + GOOD),
        ("word-assistant", "the assistant says " + GOOD),
        ("word-Assistant", "Assistant " + GOOD),
        ("plain", "nothing"),
        ("empty", ""),
    ]:
        cases.append(Case(f"format/{name}", ["Paris"], response=response))
    for name, turns, answer, valid in [
        ("good", [THINK + SEARCH, THINK + GOOD], "Paris", True),
        ("bad-format-in-first-turn", [SEARCH + SEARCH, THINK + GOOD], "Paris", True),
        ("refusal", [THINK + "<answer> the question is invalid </answer>"], "the question is invalid", True),
        ("refusal-not-asked", [THINK + "<answer> the question is invalid </answer>"], "the question is invalid", False),
        ("capital-word-is-no-refusal", [THINK + "<answer> Question </answer>"], "Question", True),
        ("word-inside-a-right-answer", [THINK + "<answer> Validus </answer>"], "Validus", True),
        ("no-answer", [THINK + SEARCH], None, True),
        ("no-turns", [], None, True),
    ]:
        cases.append(Case(f"trajectory/{name}", ["Paris"], turns=turns, agent_answer=answer, valid_instruction=valid))
    options = {
        "scored_text": "input.response, one turn",
        "minimum_spans": 1,
        "reward_type": "F1",
        "score": "what the tool box gives for reward_type F1, augmented answers included",
        "score_em": "the same for reward_type EM",
        "format": "correct_format_fn on the response; in trajectory cases the product over all turns",
        "trajectory": "cases named trajectory/... are re-created from the trainer's loop; the other cases run the real code",
        "ground_truth": LIST_FORM + "; the tool box turns every gold into a string first, and em, f1 and cover_em got it in that shape",
    }
    how = "The scorers were called on the response, and the tool box step ran with a search client that answers nothing."
    write("asearcher", "asearcher", path, how, options, cases, run)
