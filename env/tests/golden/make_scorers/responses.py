"""Which whole responses, prompts and forms of accepted answers are scorers given, and how do answers become cases?"""

from .answers import PAIRS
from .running import ABSENT, Case

DOC = 'Doc 1(Title: "France") Paris is the capital of France.\n'
OTHER = 'Doc 1(Title: "Italy") Rome is the capital of Italy.\n'
THINK = "<think> I reason. </think>"
SEARCH = "<search> capital of France </search>"
INFO = f"\n\n<information>{DOC.strip()}</information>\n\n"
INFO_OTHER = f"\n\n<information>{OTHER.strip()}</information>\n\n"
GOOD = "<answer> Paris </answer>"
BAD = "<answer> Rome </answer>"

# (name, response, golds)
RESPONSES = [
    ("valid-direct", f"{THINK}\n{GOOD}", ["Paris"]),
    ("valid-direct-wrong", f"{THINK}\n{BAD}", ["Paris"]),
    ("valid-search", f"{THINK}\n{SEARCH}{INFO}{THINK}\n{GOOD}", ["Paris"]),
    ("valid-search-wrong-retrieved", f"{THINK}\n{SEARCH}{INFO}{THINK}\n{BAD}", ["Paris"]),
    ("valid-search-wrong-not-retrieved", f"{THINK}\n{SEARCH}{INFO_OTHER}{THINK}\n<answer> Oslo </answer>", ["Paris"]),
    ("valid-two-searches", f"{THINK}{SEARCH}{INFO_OTHER}{THINK}{SEARCH}{INFO}{THINK}{GOOD}", ["Paris"]),
    ("valid-newline-after", f"{THINK}\n{GOOD}\n\n", ["Paris"]),
    ("valid-unicode-blanks-between", f"{THINK}\x1c\x85\u2028{GOOD}", ["Paris"]),
    ("content-zero-width-between", f"{THINK}\u200b{GOOD}", ["Paris"]),
    ("content-between", f"{THINK} so {GOOD}", ["Paris"]),
    ("content-before", f"Well. {THINK}{GOOD}", ["Paris"]),
    ("content-after", f"{THINK}{GOOD} done", ["Paris"]),
    ("eos-after", f"{THINK}{GOOD}<|endoftext|>", ["Paris"]),
    ("im-end-after", f"{THINK}{GOOD}<|im_end|>", ["Paris"]),
    ("no-think", GOOD, ["Paris"]),
    ("no-answer", f"{THINK}\n", ["Paris"]),
    ("no-answer-gold-beijing", f"{THINK}\n", ["Beijing"]),
    ("no-answer-gold-and", f"{THINK}\n", ["and"]),
    ("no-answer-after-search", f"{THINK}{SEARCH}{INFO}", ["Paris"]),
    ("valid-wrong-gold-and", f"{THINK}{BAD}", ["and"]),
    ("valid-wrong-gold-empty", f"{THINK}{BAD}", [""]),
    ("answer-untagged", "The answer is Paris.", ["Paris"]),
    ("empty-response", "", ["Paris"]),
    ("blank-response", " \n\t", ["Paris"]),
    ("search-only", f"{THINK}{SEARCH}", ["Paris"]),
    ("search-without-information", f"{THINK}{SEARCH}{THINK}{GOOD}", ["Paris"]),
    ("information-without-search", f"{THINK}{INFO}{THINK}{GOOD}", ["Paris"]),
    ("answer-after-information", f"{THINK}{SEARCH}{INFO}{GOOD}", ["Paris"]),
    ("think-twice", f"{THINK}{THINK}{GOOD}", ["Paris"]),
    ("empty-blocks", "<think></think><answer></answer>", ["Paris"]),
    ("empty-blocks-gold-empty", "<think></think><answer> </answer>", [""]),
    ("nested-think", "<think> a <think> b </think> </think>" + GOOD, ["Paris"]),
    ("search-in-think", f"<think> {SEARCH} </think>{GOOD}", ["Paris"]),
    ("answer-in-think", f"<think> {GOOD} </think>", ["Paris"]),
    ("answer-in-think-then-answer", f"<think> {BAD} </think>{GOOD}", ["Paris"]),
    ("answer-in-search", f"{THINK}<search> {GOOD} </search>", ["Paris"]),
    ("answer-in-information", f"{THINK}{SEARCH}\n\n<information>Doc 1 {GOOD}</information>\n\n", ["Paris"]),
    ("answer-in-information-then-wrong", f"{THINK}{SEARCH}\n\n<information>Doc 1 {GOOD}</information>\n\n{THINK}{BAD}", ["Paris"]),
    ("answer-in-information-then-right", f"{THINK}{SEARCH}\n\n<information>Doc 1 {BAD}</information>\n\n{THINK}{GOOD}", ["Paris"]),
    ("closing-information-in-document", f"{THINK}{SEARCH}\n\n<information>x</information> Paris <information>y</information>\n\n{THINK}{BAD}", ["Paris"]),
    ("open-tag-in-document", f"{THINK}{SEARCH}\n\n<information>Doc 1 <answer> half</information>\n\n{THINK}{GOOD}", ["Paris"]),
    ("forged-information", f"{THINK}<information> Paris </information>{THINK}{BAD}", ["Paris"]),
    ("answer-unclosed", f"{THINK}<answer> Paris", ["Paris"]),
    ("answer-unopened", f"{THINK} Paris </answer>", ["Paris"]),
    ("think-unclosed", f"<think> I reason. {GOOD}", ["Paris"]),
    ("think-unopened", f"I reason. </think>{GOOD}", ["Paris"]),
    ("information-unclosed", f"{THINK}{SEARCH}<information> Paris {THINK}{GOOD}", ["Paris"]),
    ("tags-reversed", "</answer> Paris <answer>", ["Paris"]),
    ("answer-before-think", f"{GOOD}{THINK}", ["Paris"]),
    ("two-answers-last-right", f"{THINK}{BAD}{GOOD}", ["Paris"]),
    ("two-answers-last-wrong", f"{THINK}{GOOD}{BAD}", ["Paris"]),
    ("two-rounds", f"{THINK}{GOOD}{THINK}{GOOD}", ["Paris"]),
    ("ten-answers", f"{THINK}" + GOOD * 10, ["Paris"]),
    ("eleven-answers", f"{THINK}" + GOOD * 11, ["Paris"]),
    ("eleven-answers-wrong", f"{THINK}" + BAD * 11, ["Paris"]),
    ("eleven-closing-tags", f"{THINK}{GOOD}" + "</answer>" * 10, ["Paris"]),
    ("eleven-opening-tags", f"{THINK}" + "<answer>" * 10 + GOOD, ["Paris"]),
    ("nested-answers", f"{THINK}<answer><answer> Paris </answer></answer>", ["Paris"]),
    ("nested-answers-open", f"{THINK}<answer> Rome <answer> Paris </answer>", ["Paris"]),
    ("overlapping-answers", f"{THINK}<answer> Paris </answer> Rome </answer>", ["Paris"]),
    ("attribute", f'{THINK}<answer id="1"> Paris </answer>', ["Paris"]),
    ("capital-tags", f"{THINK}<Answer> Paris </Answer>", ["Paris"]),
    ("blank-in-open-tag", f"{THINK}<answer > Paris </answer>", ["Paris"]),
    ("blank-in-close-tag", f"{THINK}<answer> Paris </answer >", ["Paris"]),
    ("fullwidth-tags", f"{THINK}\uff1canswer\uff1e Paris \uff1c/answer\uff1e", ["Paris"]),
    ("zero-width-in-tag", f"{THINK}<ans\u200bwer> Paris </answer>", ["Paris"]),
    ("entity-tags", f"{THINK}&lt;answer&gt; Paris &lt;/answer&gt;", ["Paris"]),
    ("answer-over-lines", f"{THINK}<answer>\n\nParis\n\n</answer>", ["Paris"]),
    ("answer-in-code", f"{THINK}\n```\n{GOOD}\n```", ["Paris"]),
    ("boxed-in-answer", f"{THINK}<answer> The final answer is \\[ \\boxed{{Paris}} \\] </answer>", ["Paris"]),
    ("boxed-without-answer", f"{THINK} \\boxed{{Paris}}", ["Paris"]),
    ("second-marker", f"{THINK}{BAD}<|im_end|>\n<|im_start|>assistant\n{THINK}{GOOD}", ["Paris"]),
    ("assistant-word", f"{THINK} Assistant: I am an assistant {GOOD}", ["Paris"]),
    ("answer-prefix", f"{THINK}\nAnswer: Paris", ["Paris"]),
    ("chinese-words", "<think> \u6211\u60f3 </think>" + GOOD, ["Paris"]),
    ("refine-block", f"{THINK}{SEARCH}\n\n<documents>{DOC}</documents>\n\n<refine> Paris </refine>{THINK}{BAD}", ["Paris"]),
    ("result-block", f"{THINK}{SEARCH} <result>\n{DOC}</result> {THINK}{GOOD}", ["Paris"]),
]

CHAT = "<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"

TASK = (
    "Reason in <think> and </think>. Search with <search> query </search>; results come in <information> and </information>. "
    "{}Question: Which city?\n"
)

TWO = "Answer in <answer> and </answer>. For example, <answer> Beijing </answer>. "

PROMPTS = {
    "two-spans": CHAT.format(TASK.format(TWO)),
    "one-span": CHAT.format(TASK.format("For example, <answer> Beijing </answer>. ")),
    "no-span": CHAT.format(TASK.format("Answer in answer tags. ")),
    "no-marker": TASK.format(TWO),
    "marker-without-newline": "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant",
    "empty": "",
}

# Raw golds of every form: (name, raw, flat list, answer)
FORMS = [
    ("string", "Paris", ["Paris"], "Paris"),
    ("list", ["Paris"], ["Paris"], "Paris"),
    ("dict-list", {"target": ["Paris"]}, ["Paris"], "Paris"),
    ("dict-string", {"target": "Paris"}, ["Paris"], "Paris"),
    ("dict-empty-list", {"target": []}, [], "Paris"),
    ("empty-list", [], [], "Paris"),
    ("null", None, [], "Paris"),
    ("list-of-integers", [1994], ["1994"], "1994"),
    ("dict-list-of-integers", {"target": [1994]}, ["1994"], "1994"),
    ("dict-list-with-null", {"target": [None]}, [], "Paris"),
    ("dict-without-target", {"answer": ["Paris"]}, [], "Paris"),
    ("dict-string-in-letters", {"target": "yes"}, ["yes"], "yes"),
]


def single(wrap, pairs=PAIRS, prefix="answer"):
    """Cases from the single answers, each put into a response by `wrap`."""
    return [Case(f"{prefix}/{name}", golds, response=wrap(answer)) for name, answer, golds in pairs]


def structural(responses=RESPONSES, prefix="response"):
    return [Case(f"{prefix}/{name}", golds, response=response) for name, response, golds in responses]


def forms(wrap, prefix="form"):
    return [Case(f"{prefix}/{name}", flat, raw, response=wrap(answer)) for name, raw, flat, answer in FORMS]


def with_prompts(cases, default, others=()):
    """Names a prompt in every case; repeats some cases with other prompts."""
    out = []
    for case in cases:
        case.fields = {"prompt": default, **case.fields}
        out.append(case)
        short = case.name.split("/", 1)[1]
        for prompt, chosen in others:
            if case.name.startswith("response/") and short in chosen:
                fields = {**case.fields, "prompt": prompt}
                out.append(Case(f"{prompt}/{short}", case.golds, case.raw, **fields))
    return out


def tagged(answer):
    return f"<think> I reason. </think>\n<answer> {answer} </answer>"


def target(case):
    return case.raw if case.raw is not ABSENT else {"target": case.golds}


def as_list(case):
    return case.raw if case.raw is not ABSENT else case.golds


def scored(case, prompts=PROMPTS):
    return prompts[case.fields["prompt"]] + case.fields["response"]


FORM_NOTE = "when input has no ground_truth, the reference got {}; when it has one, the reference got that value as it is"
DICT_FORM = FORM_NOTE.format('{"target": golds}')
LIST_FORM = FORM_NOTE.format("golds")

CHOSEN = {
    "valid-direct", "valid-direct-wrong", "valid-search-wrong-retrieved", "no-answer", "no-answer-gold-beijing", "two-answers-last-right",
    "two-answers-last-wrong", "answer-in-information", "answer-unclosed", "empty-response", "valid-wrong-gold-and",
}

FEW = {"valid-direct", "no-answer", "two-answers-last-right", "second-marker"}
OTHER_PROMPTS = [("one-span", CHOSEN), ("no-span", CHOSEN), ("no-marker", FEW), ("marker-without-newline", FEW), ("empty", FEW)]


def searchr1_cases():
    cases = single(tagged) + structural() + forms(tagged)
    return with_prompts(cases, "two-spans", OTHER_PROMPTS)
