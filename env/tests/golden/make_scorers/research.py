"""What do ReSearch's and ReCall's scorers answer?"""

import types

from .loading import load
from .responses import DOC, LIST_FORM, RESPONSES, SEARCH, THINK, as_list, forms, single, structural
from .running import Case, attempt, number, write


def make_research():
    def prompts(eos):
        return {
            "chat": "<|im_start|>system\nUse <think> </think> and <answer> \\boxed{answer here} </answer>.<|im_end|>\n<|im_start|>user\nWhich city?<|im_end|>\n<|im_start|>assistant\n",
            "base": "A conversation. The format is <answer> \\boxed{answer here} </answer>. User: Which city? Assistant:",
            "no-marker": "Which city? ",
        }

    end = "<|im_end|>"
    boxed = lambda a: f"<think> I reason. </think> <answer> The final answer is \\[ \\boxed{{{a}}} \\] </answer>{end}"
    native = [
        ("valid", boxed("Paris")),
        ("valid-wrong", boxed("Rome")),
        ("partial", boxed("Paris Texas")),
        ("no-eos", boxed("Paris")[: -len(end)]),
        ("blank-after-eos", boxed("Paris") + "\n"),
        ("other-eos", boxed("Paris")[: -len(end)] + "<|endoftext|>"),
        ("eos-twice", boxed("Paris") + end),
        ("search-result", f"{THINK} {SEARCH} <result>\n{DOC}</result> {boxed('Paris')}"),
        ("search-without-result", f"{THINK} {SEARCH} {boxed('Paris')}"),
        ("search-unclosed", f"{THINK} <search> q <result> d </result> {boxed('Paris')}"),
        ("result-unclosed", f"{THINK} {SEARCH} <result> d {boxed('Paris')}"),
        ("result-before-search", f"{THINK} <result> d </result> {SEARCH} {boxed('Paris')}"),
        ("result-without-search", f"{THINK} <result> d </result> {boxed('Paris')}"),
        ("result-inside-search", f"{THINK} <search> q <result> d </result> </search> {boxed('Paris')}"),
        ("two-searches", (f"{THINK} {SEARCH} <result> d </result> " * 2) + boxed("Paris")),
        ("second-search-open", f"{THINK} {SEARCH} <result> d </result> <search> q {boxed('Paris')}"),
        ("second-search-in-result", f"{THINK} {SEARCH} <result> <search> </result> {boxed('Paris')}"),
        ("think-missing", f"<answer> \\boxed{{Paris}} </answer>{end}"),
        ("think-unpaired", f"<think> x <answer> \\boxed{{Paris}} </answer>{end}"),
        ("think-reversed", f"</think> <think> <answer> \\boxed{{Paris}} </answer>{end}"),
        ("answer-first-then-think", f"<answer> \\boxed{{Paris}} </answer> {THINK}{end}"),
        ("two-answers", f"{THINK} <answer> \\boxed{{Rome}} </answer> <answer> \\boxed{{Paris}} </answer>{end}"),
        ("answer-reversed", f"{THINK} </answer> \\boxed{{Paris}} <answer>{end}"),
        ("answer-in-result", f"{THINK} {SEARCH} <result> <answer> </answer> </result> {boxed('Paris')}"),
        ("no-box", f"{THINK} <answer> Paris </answer>{end}"),
        ("box-outside-answer", f"{THINK} \\boxed{{Paris}} <answer> Paris </answer>{end}"),
        ("box-unclosed", f"{THINK} <answer> \\boxed{{Paris </answer>{end}"),
        ("box-closed-too-early", f"{THINK} <answer> }} \\boxed{{Paris </answer>{end}"),
        ("box-with-blank", f"{THINK} <answer> \\boxed Paris$ x \\boxed{{Rome}} </answer>{end}"),
        ("box-blank-and-brace", f"{THINK} <answer> \\boxed {{Paris}} \\boxed{{x}} </answer>{end}"),
        ("two-boxes", f"{THINK} <answer> \\boxed{{Rome}} \\boxed{{Paris}} </answer>{end}"),
        ("nested-braces", f"{THINK} <answer> \\boxed{{\\text{{Paris}}}} </answer>{end}"),
        ("nested-box", f"{THINK} <answer> \\boxed{{\\boxed{{Paris}}}} </answer>{end}"),
        ("empty-box", f"{THINK} <answer> \\boxed{{}} </answer>{end}"),
        ("fbox-after", f"{THINK} <answer> \\boxed{{Paris}} \\fbox{{Rome}} </answer>{end}"),
        ("capital-tags", f"<THINK> x </THINK> <answer> \\boxed{{Paris}} </answer>{end}"),
        ("attribute", f'{THINK} <answer id="1"> \\boxed{{Paris}} </answer>{end}'),
        ("second-marker", f"{THINK} x<|im_start|>assistant\n{boxed('Paris')}"),
        ("second-marker-after-valid", f"{boxed('Paris')}<|im_start|>assistant\n junk"),
    ]
    path = "src/verl/utils/reward_score/re_search.py"
    ref = load("research", path)
    tokenizer = types.SimpleNamespace(eos_token=end)
    table = prompts(end)

    def run(case):
        out, gold = {}, as_list(case)
        text = table[case.fields["prompt"]] + case.fields["response"]
        got = attempt(out, "score", lambda: ref.compute_score(tokenizer, text, gold))
        if got is not None:
            out["score"], out["reason"] = number(got[0]), got[1]
        return out

    cases = single(boxed) + structural() + structural([(n, r, ["Paris"]) for n, r in native], "native") + forms(boxed)
    picked = {"native/valid", "native/no-eos", "native/second-marker", "response/empty-response", "response/assistant-word"}
    for case in cases:
        case.fields = {"prompt": "chat", **case.fields}
    for prompt in ("base", "no-marker"):
        cases += [Case(f"{prompt}/{c.name.split('/')[1]}", c.golds, prompt=prompt, response=c.fields["response"]) for c in cases if c.name in picked]
    options = {
        "scored_text": "prompts[input.prompt] + input.response",
        "eos_token": end,
        "prompts": table,
        "ground_truth": LIST_FORM,
    }
    how = "The scorer of the reference was called on the whole decoded text with a tokenizer that only knows its end token."
    write("research", "research", path, how, options, cases, run)

    path = "src/verl/utils/reward_score/re_call.py"
    call_ref = load("recall", path)
    chat = {"chat": table["chat"]}
    boxed_call = lambda a: f"<think> I reason. </think> The final answer is \\[ \\boxed{{{a}}} \\]{end}"
    turn = "<|im_start|>assistant\n"
    tool = '<tool_call>\n{"name": "search", "arguments": {"q": "x"}}\n</tool_call>'
    user = f"\n<|im_start|>user\n<tool_response> d </tool_response>{end}\n{turn}"
    native = [
        ("valid", boxed_call("Paris")),
        ("no-eos", boxed_call("Paris")[: -len(end)]),
        ("tool-call", f"<think> x </think> {tool}{end}{user}{boxed_call('Paris')}"),
        ("tool-call-not-json", f'<think> x </think> <tool_call> "name" "arguments" {{ </tool_call>{end}{user}{boxed_call("Paris")}'),
        ("tool-call-without-name", f'<think> x </think> <tool_call> {{"arguments": 1}} </tool_call>{end}{user}{boxed_call("Paris")}'),
        ("tool-call-unpaired", f"<think> x </think> <tool_call>{end}{user}{boxed_call('Paris')}"),
        ("tool-call-json-list", f'<think> x </think> <tool_call> ["name", "arguments"] </tool_call>{end}{user}{boxed_call("Paris")}'),
        ("tool-call-nan", f'<think> x </think> <tool_call> {{"name": "s", "arguments": NaN}} </tool_call>{end}{user}{boxed_call("Paris")}'),
        ("second-turn-without-think", f"<think> x </think> {tool}{end}{user}\\boxed{{Paris}}{end}"),
        ("first-turn-boxes-only", f"<think> x </think> \\boxed{{Paris}}{end}{user}<think> y </think> Paris{end}"),
        ("box-word-only", f"<think> x </think> \\box Paris{end}"),
        ("boxed-with-blank", f"<think> x </think> \\boxed Paris $y{end}"),
        ("box-unclosed", f"<think> x </think> \\boxed{{Paris{end}"),
        ("fbox", f"<think> x </think> \\fbox{{Paris}} \\box{end}"),
        ("think-missing", f"\\boxed{{Paris}}{end}"),
        ("box-in-think", f"<think> \\boxed{{Paris}} </think>{end}"),
        ("text-after-end-token", boxed_call("Paris") + "\n" + end),
    ]

    def run_call(case):
        out, gold = {}, as_list(case)
        text = chat["chat"] + case.fields["response"]
        got = attempt(out, "score", lambda: call_ref.compute_score_with_format(tokenizer, text, gold))
        if got is not None:
            out["score"], out["reason"] = number(got[0]), got[1]
        return out

    cases = single(boxed_call) + structural([(n, r + end, g) for n, r, g in RESPONSES]) + structural([(n, r, ["Paris"]) for n, r in native], "native") + forms(boxed_call)
    for case in cases:
        case.fields = {"prompt": "chat", **case.fields}
    write("recall", "recall", path, how, {**options, "prompts": chat}, cases, run_call)
