"""What do verl's and verl-tool's scorers answer?"""

import ast

from .loading import NoPrinting, load, source_path
from .responses import DICT_FORM, PROMPTS, forms, scored, searchr1_cases, single, structural, tagged, target
from .running import attempt, number, write


def make_verl():
    path = "verl/utils/reward_score/search_r1_like_qa_em.py"
    ref = load("verl", path)

    def run(case):
        text, gold, out = case.fields["response"], target(case), {}
        attempt(out, "answer", lambda: ref.extract_solution(text))
        attempt(out, "opening_tags", lambda: ref.count_answer_tags(text)[0])
        attempt(out, "closing_tags", lambda: ref.count_answer_tags(text)[1])
        attempt(out, "score", lambda: number(ref.compute_score(text, gold)))
        attempt(out, "score_with_format_score", lambda: number(ref.compute_score(text, gold, format_score=0.1)))
        attempt(out, "sub_em", lambda: number(ref.compute_score_subem(text, gold)))
        return out

    names = ("nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle")
    options = {
        "scored_text": "input.response",
        "data_sources": [f"searchR1_{name}" for name in names],
        "minimum_spans": 1,
        "score": 1.0,
        "format_score": 0.0,
        "score_with_format_score": "the same call with format_score = 0.1",
        "sub_em": "compute_score_subem of the same file; it has no division by four",
        "ground_truth": DICT_FORM,
    }
    how = "The functions of the reference were called on the response alone."
    write("verl-search-r1-like-qa-em", "verl", path, how, options, single(tagged) + structural() + forms(tagged), run)


def make_verl_tool():
    path = "verl_tool/workers/reward_manager/search_r1_qa_em.py"
    # The file imports a trainer; its functions stand on their own.
    tree = ast.parse(source_path("verl-tool", path).read_text(encoding="utf-8"))
    keep = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    import regex

    scope = {"re": regex, "random": NoPrinting}
    exec(compile(ast.Module(keep, []), path, "exec"), scope)

    def run(case):
        text, gold, out = scored(case), target(case), {}
        attempt(out, "answer", lambda: scope["extract_solution"](text))
        attempt(out, "score", lambda: number(scope["compute_score"](text, gold)))
        return out

    options = {
        "scored_text": "prompts[input.prompt] + input.response",
        "minimum_spans": 1,
        "score": 1.0,
        "format_score": 0.0,
        "ground_truth": DICT_FORM,
        "note": "the reference uses the third-party module regex in place of re, so its word boundary differs for some characters",
        "prompts": PROMPTS,
    }
    how = "The functions of the reference were called on the whole decoded text."
    write("verl-tool", "verl-tool", path, how, options, searchr1_cases(), run)
