"""What do Search-R1's scorers and those made from them (slime, AutoRefine, ZeroSearch) answer?"""

import asyncio

from .loading import load, stub
from .responses import BAD, CHAT, DICT_FORM, DOC, GOOD, OTHER, PROMPTS, SEARCH, THINK, forms, scored, searchr1_cases, single, structural, target, with_prompts
from .running import Case, attempt, number, write


def make_search_r1():
    path = "verl/utils/reward_score/qa_em.py"
    ref = load("search-r1", path)
    sources = ["nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle"]
    base = {
        "scored_text": "prompts[input.prompt] + input.response",
        "data_sources": sources,
        "minimum_spans": 2,
        "score": 1.0,
        "ground_truth": DICT_FORM,
        "score_with_format_score": "the same call with format_score = 0.1",
        "prompts": PROMPTS,
    }

    def expect(function):
        def run(case):
            text, gold, out = scored(case), target(case), {}
            attempt(out, "answer", lambda: ref.extract_solution(text))
            attempt(out, "score", lambda: number(function(text, gold, format_score=0.0)))
            attempt(out, "score_with_format_score", lambda: number(function(text, gold, format_score=0.1)))
            return out

        return run

    how = "The two functions of the reference were called on the whole decoded text, with and without a format score."
    write("search-r1-em", "search-r1", path, how, {**base, "format_score": 0.0}, searchr1_cases(), expect(ref.compute_score_em))
    write("search-r1-sub-em", "search-r1", path, how, {**base, "format_score": 0.0}, searchr1_cases(), expect(ref.compute_score_subem))

    path = "verl/utils/reward_score/qa_em_format.py"
    form = load("search-r1", path)

    def run(case):
        text, gold, out = scored(case), target(case), {}
        call = lambda **kw: number(form.compute_score_em(text, gold, **kw))
        attempt(out, "valid", lambda: form.is_valid_sequence(text)[0])
        attempt(out, "reason", lambda: form.is_valid_sequence(text)[1])
        attempt(out, "answer", lambda: form.extract_solution(text))
        attempt(out, "retrieved", lambda: form.is_retrieval_correct(text, gold["target"]))
        attempt(out, "score", lambda: call(structure_format_score=0.2, final_format_score=0.1, retrieval_score=0))
        attempt(out, "score_with_retrieval", lambda: call(structure_format_score=0.2, final_format_score=0.1, retrieval_score=0.1))
        attempt(out, "score_all_zero", lambda: call())
        return out

    options = {
        "scored_text": base["scored_text"],
        "data_sources": sources + ["web_questions", "strategyqa"],
        "minimum_spans": 2,
        "score": 1.0,
        "structure_format_score": 0.2,
        "final_format_score": 0.1,
        "retrieval_score": 0,
        "score_with_retrieval": "the same call with retrieval_score = 0.1",
        "score_all_zero": "the same call with every format score at its default, 0",
        "retrieved": "the retrieval check alone; the reference asks it only when the format is valid",
        "ground_truth": DICT_FORM,
        "prompts": PROMPTS,
    }
    how = "The score, the format check and the retrieval check of the reference were called on the whole decoded text."
    write("search-r1-v0.3-format", "search-r1", path, how, options, searchr1_cases(), run)


def make_slime():
    form = load("slime", "examples/search-r1/qa_em_format.py")
    stub("qa_em_format", compute_score_em=form.compute_score_em)

    class Sample:
        def __init__(self, prompt, response, label):
            self.prompt, self.response, self.label = prompt, response, label

    stub("slime.rollout.sglang_rollout")
    stub("slime.utils.http_utils")
    stub("slime.utils.types", Sample=Sample)
    path = "examples/search-r1/generate_with_search.py"
    ref = load("slime", path)

    def run(case):
        out, gold = {}, target(case)
        prompt = PROMPTS[case.fields["prompt"]]
        sample = Sample(prompt, case.fields["response"], {"ground_truth": gold})
        attempt(out, "valid", lambda: form.is_valid_sequence(scored(case))[0])
        attempt(out, "answer", lambda: form.extract_solution(scored(case)))
        attempt(out, "score", lambda: number(asyncio.run(ref.reward_func(None, sample))))
        return out

    options = {
        "scored_text": "prompts[input.prompt] + input.response",
        "minimum_spans": 2,
        "format_score": 0.2,
        "note": "format_score has no effect: the called function never reads it",
        "ground_truth": DICT_FORM,
        "prompts": PROMPTS,
    }
    write("slime", "slime", path, "The reward function of the example was awaited with a plain sample.", options, searchr1_cases(), run)


def make_autorefine():
    path = "verl/utils/reward_score/qa_em.py"
    ref = load("autorefine", path)
    prompts = {
        "refine": CHAT.format("Use <think> and </think>, <search> query </search>, <documents> and </documents>, <refine> and </refine>, <answer> and </answer>. For example, <answer> Donald Trump </answer>. Question: Which city?\n"),
        "no-refine": CHAT.format("Use <think> and </think>, <search> query </search>, <answer> and </answer>. Question: Which city?\n"),
    }
    docs = lambda t: f"\n\n<documents>{t}</documents>\n\n"
    wrap = lambda a: f"{THINK}{SEARCH}{docs(OTHER)}<refine> Rome </refine>{THINK}<answer> {a} </answer>"
    native = [
        ("valid", wrap("Paris"), ["Paris"]),
        ("wrong-refine-hit", wrap("Oslo"), ["Rome"]),
        ("wrong-refine-miss", wrap("Oslo"), ["Paris"]),
        ("no-answer-refine-hit", f"{THINK}{SEARCH}{docs(DOC)}<refine> Paris </refine>", ["Paris"]),
        ("refine-hit-across-blocks", f"<refine>New</refine>{THINK}<refine>York</refine>{BAD}", ["New York"]),
        ("refine-inside-a-word", f"<refine>party</refine>{BAD}", ["art"]),
        ("refine-unclosed", f"<refine> Paris {BAD}", ["Paris"]),
        ("refine-nested", f"<refine> a <refine> Paris </refine> b </refine>{BAD}", ["Paris"]),
        ("refine-empty-gold-empty", f"<refine></refine>{BAD}", [""]),
        ("refine-over-lines", f"<refine>\nParis\n</refine>{BAD}", ["Paris"]),
        ("refine-yes", f"<refine> yes </refine>{BAD}", ["yes"]),
        ("partial-f1", wrap("New York City"), ["New York"]),
        ("first-documents-skipped", f"{THINK}{SEARCH}{docs(DOC)}{THINK}{BAD}", ["Paris"]),
        ("second-documents-hit", f"{docs(OTHER)}{docs(DOC)}{BAD}", ["Paris"]),
        ("third-documents-hit", f"{docs(OTHER)}{docs(OTHER)}{docs(DOC)}{BAD}", ["Paris"]),
        ("both-documents-hit", f"{docs(OTHER)}{docs(DOC)}{docs(DOC)}{BAD}", ["Paris"]),
        ("documents-gold-yes", f"{docs(OTHER)}{docs(DOC)}{BAD}", ["yes"]),
        ("documents-gold-Yes", f"{docs(OTHER)}{docs(DOC)}{BAD}", ["Yes"]),
        ("two-answers", wrap("Rome") + GOOD, ["Paris"]),
        ("no-search", f"{THINK}<refine> x </refine>{BAD}", ["Paris"]),
        ("search-unpaired", f"{THINK}<search> q <refine> Paris </refine>{BAD}", ["Paris"]),
    ]

    def run(case):
        out, gold = {}, target(case)
        response = case.fields["response"]
        text = prompts[case.fields["prompt"]] + response
        call = lambda f, **kw: number(ref.compute_reward(text, response, gold, score_func=f, **kw))
        attempt(out, "answer", lambda: ref.extract_solution(response))
        attempt(out, "score", lambda: call(ref.compute_f1_scores, format_score=0.0, refine_score=0.1))
        attempt(out, "score_em", lambda: call(ref.em_check, format_score=0.0, refine_score=0.1))
        attempt(out, "score_cover_em", lambda: call(ref.cover_em_check, format_score=0.0, refine_score=0.1))
        attempt(out, "score_with_format", lambda: call(ref.compute_f1_scores, format_score=0.2, refine_score=0.1))
        attempt(out, "format_valid", lambda: int(ref.validate_format(text, response)))
        attempt(out, "refine_hit", lambda: number(ref.compute_refine_score_subem(response, gold)))
        attempt(out, "information_hit", lambda: number(ref.compute_information_score_subem(response, gold)))
        attempt(out, "reciprocal_rank", lambda: number(ref.compute_information_reverse_rank(response, gold)))
        return out

    cases = with_prompts(single(wrap) + structural() + structural(native, "native") + forms(wrap), "refine")
    two = docs(OTHER) + docs(DOC) + BAD
    for name, raw, flat in [
        ("documents-gold-string-yesterday", {"target": "yesterday"}, ["yesterday"]),
        ("documents-gold-string", {"target": "Paris"}, ["Paris"]),
        ("documents-gold-string-with-no-inside", {"target": "Casanova, nobleman"}, ["Casanova, nobleman"]),
        ("documents-gold-list-with-no", {"target": ["Paris", "no"]}, ["Paris", "no"]),
    ]:
        cases.append(Case(f"native/{name}", flat, raw, prompt="refine", response=two))
    cases += [Case(f"no-refine/{n}", g, prompt="no-refine", response=r) for n, r, g in native if n in ("valid", "wrong-refine-hit", "no-search", "search-unpaired")]
    options = {
        "scored_text": "input.response; the prompt only decides whether the format needs a refine block",
        "minimum_spans": 1,
        "reward_style": "F1",
        "refine_score": 0.1,
        "format_score": 0.0,
        "score_em": "the same with reward_style EM",
        "score_cover_em": "the same with reward_style CEM",
        "score_with_format": "reward_style F1 with format_score = 0.2",
        "ground_truth": DICT_FORM,
        "prompts": prompts,
    }
    write("autorefine", "autorefine", path, "The reward and the logged scores of the reference were called on prompt and response.", options, cases, run)


def make_zerosearch():
    path = "verl/utils/reward_score/qa_em.py"
    ref = load("zerosearch", path)

    def run(case):
        out, text, gold = {}, scored(case), target(case)
        attempt(out, "answer", lambda: ref.extract_solution(text))
        got = attempt(out, "score", lambda: ref.compute_score(text, gold))
        out["cover_em"] = number(got[0]) if got is not None else None
        out["score"] = number(got[1]) if got is not None else None
        return out

    options = {
        "scored_text": "prompts[input.prompt] + input.response",
        "minimum_spans": 2,
        "reward_function": "f1",
        "score": "the second value of the reference, used when reward_function is f1",
        "cover_em": "the first value, used when reward_function is em; it is a substring test",
        "ground_truth": DICT_FORM,
        "prompts": PROMPTS,
    }
    write("zerosearch", "zerosearch", path, "The scorer of the reference was called on the whole decoded text.", options, searchr1_cases(), run)
