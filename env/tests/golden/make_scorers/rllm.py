"""What does rLLM's search reward answer?"""

from .loading import load, stub
from .responses import LIST_FORM, as_list, forms, single, structural
from .running import Case, attempt, number, write


def make_rllm():
    kinds = load("rllm", "rllm/rewards/reward_types.py")
    stub("rllm.rewards")
    stub("rllm.rewards.reward_types", RewardConfig=kinds.RewardConfig, RewardInput=kinds.RewardInput, RewardOutput=kinds.RewardOutput)
    path = "rllm/rewards/search_reward.py"
    ref = load("rllm", path)
    function = ref.RewardSearchFn(kinds.RewardConfig())
    wrap = lambda a: f"<think>maybe \\boxed{{Rome}}</think>The answer is \\boxed{{{a}}}."
    g = ["Paris"]
    native = [
        ("boxed-first-of-two", "\\boxed{Paris} \\boxed{Rome}", g),
        ("boxed-without-backslash", "boxed{Paris}", g),
        ("boxed-nested", "\\boxed{\\text{Paris}}", g),
        ("boxed-unbalanced", "\\boxed{Paris and **Rome**", g),
        ("boxed-unbalanced-then-balanced", "\\boxed{Paris \\boxed{Rome}", g),
        ("boxed-empty", "\\boxed{} **Paris**", g),
        ("boxed-square", "\\boxed[Paris]", g),
        ("boxed-only-in-think", "<think>\\boxed{Paris}</think> nothing here", g),
        ("think-unclosed", "<think> \\boxed{Paris}", g),
        ("think-twice", "<think>a</think>x<think>b</think> \\boxed{Paris}", g),
        ("think-nested", "<think>a<think>b</think> \\boxed{Paris}</think>", g),
        ("only-think", "<think>Paris</think>", g),
        ("empty", "", g),
        ("bold", "It is **Paris** of course", g),
        ("bold-short-skipped", "It is **A** and **Paris**", g),
        ("bold-punctuation-skipped", "**...** then **Paris**", g),
        ("bold-over-lines", "**New\nYork**", ["New York"]),
        ("bold-cjk-short", "**\u5317\u4eac** is it", ["\u5317\u4eac"]),
        ("bold-cjk", "**\u5317\u4eac\u5e02** is it", ["\u5317\u4eac\u5e02"]),
        ("italic", "It is *Paris* of course", g),
        ("bold-wins-over-date", "In **Paris** on 14 July 1789", g),
        ("italic-between-bolds", "** * ** Paris ** x **", g),
        ("date-long", "born March 3, 1999 in Rome", ["March 3, 1999"]),
        ("date-without-comma", "born march 3 1999", ["march 3 1999"]),
        ("date-slashes", "on 03/04/1999 it ended", ["03/04/1999"]),
        ("date-month-year", "in May 1999 it ended", ["May 1999"]),
        ("date-january-year-falls-to-year", "in January 1999", ["1999"]),
        ("year", "it was 1999 and 2001", ["1999"]),
        ("year-arabic-digits", "\u0661\u0669\u0669\u0669 was it", ["\u0661\u0669\u0669\u0669"]),
        ("year-glued", "abc1999 is Paris", g),
        ("year-underscore", "_1999_ Paris", g),
        ("month-long-s", "Augu\u017ft 1999", ["Augu\u017ft 1999"]),
        ("name", "we think Marie Curie did it", ["Marie Curie"]),
        ("name-excluded", "in New York with Marie Curie", ["Marie Curie"]),
        ("name-only-excluded", "in New York", ["New York"]),
        ("name-starts-sentence", "The Eiffel Tower stands", ["Eiffel Tower"]),
        ("name-five-words", "so Aa Bb Cc Dd Ee said", ["Aa Bb Cc Dd Ee"]),
        ("name-accents", "\u00c9mile Zola and Andr\u00e9 Gide", ["Andr\u00e9 Gide"]),
        ("number-with-unit", "about 1,234.5 people and 7", ["1,234.5"]),
        ("number-plain", "about 42", ["42"]),
        ("number-percent-needs-boundary", "about 12 % of it, 7 votes", ["7"]),
        ("number-unit-wins", "3 or 50 votes", ["50"]),
        ("number-ungrouped", "about 123456 things", ["123456"]),
        ("pattern-answer-is", "I say the answer is: paris!", g),
        ("pattern-correct-answer", "the correct answer is paris, no doubt", g),
        ("pattern-therefore", "therefore, paris. yes", g),
        ("pattern-so-inside-word", "also paris", g),
        ("pattern-short", "the answer is no. it is paris", g),
        ("pattern-conclusion", "in conclusion, paris", g),
        ("pattern-declarative", "Capital city is paris", g),
        ("pattern-declarative-any-case", "my city is paris", g),
        ("pattern-it-was", "hmm it was paris", g),
        ("pattern-trims", "the answer is \u201cparis\u201d", g),
        ("sentence-best", "hello there friend. lovely weather were here today", ["lovely weather were here today"]),
        ("sentence-first", "wow. paris yes", ["paris yes"]),
        ("sentence-short", "paris", g),
        ("sentence-very-short", "oui", ["oui"]),
        ("last-resort", "a!b?c.d", ["abcd"]),
        ("hundred-characters", "abc! " * 40, ["abc"]),
        ("f1-below-threshold", "\\boxed{Paris one two three four five six}", g),
        ("f1-near-threshold", "\\boxed{k1 k2 k3 a1 a2 a3 a4 a5 a6 a7}", ["k1 k2 k3 b1 b2 b3 b4 b5 b6 b7"]),
        ("f1-near-threshold-uneven", "\\boxed{k1 k2 k3 a1 a2 a3 a4 a5 a6 a7 a8 a9 c1 c2 c3}", ["k1 k2 k3 b1 b2"]),
        ("f1-above-threshold", "\\boxed{Paris one two}", g),
        ("tagged-answer-ignored", "<answer> paris </answer>", g),
        ("unicode-blanks-collapse", "New\u2028\x1cYork", ["New York"]),
    ]

    def run(case):
        out = {}
        gold = as_list(case)
        info = {"answer": case.fields["answer_field"]} if "answer_field" in case.fields else {"ground_truth": gold}

        def call():
            return function(kinds.RewardInput(task_info=info, action=case.fields["response"]))

        try:
            got = call()
        except Exception:
            attempt(out, "score", call)
            return out
        out["answer"] = got.metadata.get("extracted_answer")
        out["score"] = number(got.reward)
        out["correct"] = bool(got.is_correct)
        for key in ("f1_score", "precision", "recall"):
            if key in got.metadata:
                out["f1" if key == "f1_score" else key] = number(got.metadata[key])
        if "exact_match" in got.metadata:
            out["em"] = bool(got.metadata["exact_match"])
        return out

    cases = single(wrap) + structural() + structural(native, "native") + forms(wrap)
    cases.append(Case("field/answer-in-place-of-ground-truth", ["Paris"], response="\\boxed{Paris}", answer_field="Paris"))
    options = {
        "scored_text": "input.response",
        "correct_reward": 1.0,
        "incorrect_reward": 0.0,
        "f1_threshold": 0.3,
        "ground_truth": LIST_FORM + "; with input.answer_field the reference got only a field named answer",
    }
    write("rllm-search", "rllm", path, "The reward class was called with its default configuration.", options, cases, run)
