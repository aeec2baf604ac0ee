"""What does Search-o1's evaluation answer?"""

from .loading import load, stub
from .responses import LIST_FORM, as_list, forms, single, structural
from .running import attempt, number, write


def make_search_o1():
    equivalence = load("search-o1", "scripts/utils/math_equivalence.py")
    stub("lcb_runner.evaluation", codegen_metrics=None)
    stub("utils.math_equivalence", is_equiv=equivalence.is_equiv)
    path = "scripts/evaluate.py"
    ref = load("search-o1", path)
    wrap = lambda a: f"I reason.\n\n**Final Answer**\n\\boxed{{{a}}}"
    native = [
        ("two-boxes-two-lines", "\\boxed{Rome}\n\\boxed{Paris}", ["Paris"]),
        ("two-boxes-one-line", "\\boxed{Rome} or \\boxed{Paris}", ["Paris"]),
        ("brace-later-in-the-line", "\\boxed{Paris} (see {x})", ["Paris"]),
        ("brace-over-two-lines", "\\boxed{Pa\nris}", ["Paris"]),
        ("box-with-blank", "\\boxed {Paris}", ["Paris"]),
        ("box-unclosed", "\\boxed{Paris", ["Paris"]),
        ("text", "\\boxed{\\text{Paris}}", ["Paris"]),
        ("two-texts", "\\boxed{\\text{Rome} \\text{Paris}}", ["Paris"]),
        ("text-and-more", "\\boxed{\\text{Paris} x}", ["Paris"]),
        ("parentheses", "\\boxed{((Paris)}", ["Paris"]),
        ("parentheses-inside", "\\boxed{Paris (France)}", ["Paris France"]),
        ("empty-box", "\\boxed{}", ["Paris"]),
        ("empty-box-gold-empty", "\\boxed{}", [""]),
        ("no-overlap-but-contained", "\\boxed{party}", ["art"]),
        ("nested-box", "\\boxed{\\boxed{Paris}}", ["Paris"]),
        ("carriage-return", "\\boxed{Pa\rris}", ["Paris"]),
        ("line-separator", "\\boxed{New\u2028York}", ["New York"]),
        ("search-markers", "<|begin_search_query|>q<|end_search_query|><|begin_search_result|>\\boxed{Rome}<|end_search_result|> \\boxed{Paris}", ["Paris"]),
        ("only-in-result", "<|begin_search_result|>\\boxed{Paris}<|end_search_result|>", ["Paris"]),
        ("box-in-the-prompt-words", "Put it in \\boxed{YOUR_ANSWER}.\n\\boxed{Paris}", ["Paris"]),
        ("capital", "\\Boxed{Paris}", ["Paris"]),
        ("without-backslash", "boxed{Paris}", ["Paris"]),
    ]

    def run(case):
        out, text, golds = {}, case.fields["response"], as_list(case)
        got = attempt(out, "answer", lambda: ref.evaluate_predictions(text, golds, mode="qa"))
        if got is not None:
            metric, out["answer"] = got
            for key in ("is_valid_answer", "em", "acc", "f1"):
                out[key] = metric[key] if key == "is_valid_answer" else number(metric[key])
        return out

    cases = single(wrap) + structural() + structural(native, "native") + forms(wrap)
    options = {"scored_text": "input.response", "mode": "qa", "ground_truth": LIST_FORM}
    write("search-o1", "search-o1", path, "The evaluation of one prediction was called in its mode for question answering.", options, cases, run)
