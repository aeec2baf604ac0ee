"""What do R1-Searcher's reward server and evaluation answer?"""

import json
import types

from .answers import PAIRS
from .loading import load, stub
from .responses import FORMS, LIST_FORM, RESPONSES, as_list, forms, single, structural
from .running import ABSENT, Case, attempt, number, write


def make_r1_searcher():
    for name in ("uvicorn", "datasets", "transformers", "fastapi", "fastapi.responses", "openrlhf.utils", "jsonlines"):
        stub(name)
    stub("openrlhf.utils.logging_utils", init_logger=lambda name: types.SimpleNamespace(info=lambda *a: None))
    stub("ujson", dumps=json.dumps)
    docs = "<|begin_of_documents|>\n(1)Paris is a city.\n(2)Rome.\n<|end_of_documents|>\n\n"
    query = "<|begin_of_query|>capital<|end_of_query|>"
    wrap = lambda a: f" I reason. {query}\n\n{docs}I see. </think>\n<answer> {a} </answer>"
    good, bad = wrap("Paris"), wrap("Rome")
    native = [
        ("valid", good),
        ("valid-wrong", bad),
        ("valid-without-search", " I reason. </think>\n<answer> Paris </answer>"),
        ("two-searches", f" a {query}\n\n{docs} b {query}\n\n{docs} c </think><answer>Paris</answer>"),
        ("documents-without-blank-line", good.replace("<|end_of_documents|>\n\n", "<|end_of_documents|>\n")),
        ("documents-without-newline", good.replace("<|begin_of_documents|>\n", "<|begin_of_documents|>")),
        ("documents-without-number", good.replace("(1)", "")),
        ("query-unclosed", good.replace("<|end_of_query|>", "")),
        ("query-without-documents", f" a {query} b </think><answer>Paris</answer>"),
        ("forged-documents", f" a {docs} b </think><answer>Paris</answer>"),
        ("think-again", good.replace(" I reason.", " <think> I reason.")),
        ("think-closed-twice", good + "</think>"),
        ("think-not-closed", good.replace("</think>", "")),
        ("two-answers", good + "<answer> Paris </answer>"),
        ("answer-unclosed", good.replace("</answer>", "")),
        ("answer-reversed", " x </think></answer> Paris <answer>"),
        ("answer-missing", " x </think> Paris"),
        ("query-word-in-answer", wrap("begin_of_query Paris")),
        ("documents-word-in-answer", wrap("begin_of_documents")),
        ("ten-words", wrap("one two three four five six seven eight nine Paris")),
        ("chinese-in-reasoning", good.replace("I see", "\u6211")),
        ("chinese-in-documents", good.replace("Rome", "\u7f57\u9a6c")),
        ("chinese-outside-the-block", good.replace("Rome", "\u3400")),
        ("kana-in-reasoning", good.replace("I see", "\u30bd")),
        ("word-assistant", good.replace("I see", "the assistant")),
        ("word-Assistant-in-documents", good.replace("Rome", "Assistant professor")),
        ("word-ASSISTANT", good.replace("I see", "ASSISTANT")),
        ("prompt-marker-again", good + "\nAssistant: <think> x </think><answer> Rome </answer>"),
        ("user-marker-again", good + "\n\nUser: next"),
        ("eos-several", good + "<|endoftext|><|endoftext|>"),
        ("eot-several", good + "<|eot_id|><|eot_id|>"),
        ("blank-after", good + "\n\n"),
        ("crlf-documents", good.replace("<|begin_of_documents|>\n", "<|begin_of_documents|>\r\n")),
        ("documents-nested", good.replace("Rome", "<|begin_of_documents|>\n(1)x")),
    ]
    question = "Which city?"
    qwen = f"The User asks, and the Assistant answers in <think> </think> and <answer> </answer>.\n\nUser:{question}\nAssistant: <think>"
    head = "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n"
    llama = f"{head}{question}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n<think>"
    for scorer, path, prompt, eos, pad, list_result in [
        ("r1-searcher-qwen-zero", "train/reward_server_qwen_zero.py", qwen, "<|endoftext|>", "<|endoftext|>", False),
        ("r1-searcher-llama-stage1", "train/reward_server_llama_stage1.py", llama, "<|eot_id|>", None, True),
        ("r1-searcher-llama-stage2", "train/reward_server_llama_stage2.py", llama, "<|eot_id|>", None, False),
    ]:
        ref = load("r1-searcher", path)

        def run(case, ref=ref, prompt=prompt, eos=eos, pad=pad, list_result=list_result):
            proxy = ref.MathRuleProxy.__new__(ref.MathRuleProxy)
            proxy.tokenizer = types.SimpleNamespace(eos_token=eos, pad_token=pad)
            gold = case.raw if case.raw is not ABSENT else case.golds[0]
            proxy.eval_data_dict = proxy.get_answer_dict([{"question": question, "answer": gold}])
            proxy.log_file, proxy.cnt = None, 0
            out = {}
            text = prompt + case.fields["response"]
            ended = ref.strip_sequence(text, proxy.tokenizer.pad_token or eos, eos) + eos
            attempt(out, "answer", lambda: proxy.get_query_pred(proxy.get_qa(ended)[1]))
            got = attempt(out, "score", lambda: proxy.get_reward([text])[0])
            if got is not None:
                out["score"] = number(got[0] if list_result else got)
            return out

        one_gold = [(n, a, g[:1] or [""]) for n, a, g in PAIRS]
        cases = single(wrap, one_gold) + structural([(n, r, g) for n, r, g in RESPONSES]) + structural([(n, r, ["Paris"]) for n, r in native], "native") + forms(wrap)
        options = {
            "scored_text": "prompt + input.response; the reference cuts it into question and solution itself",
            "prompt": prompt,
            "eos_token": eos,
            "ground_truth": "the reference takes one gold, a string: golds[0] unless input has a ground_truth",
        }
        how = "The reward server's class was built without its tokenizer and data set, and asked for the reward of one text."
        write(scorer, "r1-searcher", path, how, options, cases, run)

    path = "evaluation/metric_calc_rule.py"
    ref = load("r1-searcher", path)

    def run_metrics(case):
        out, answer, golds = {}, case.fields["answer"], as_list(case)
        golds = golds if isinstance(golds, list) else [golds]
        attempt(out, "normalized", lambda: ref.normalize_answer(ref.bool_mapping(answer)))
        best = lambda f: ref.metric_max_over_ground_truths(f, answer, golds)
        attempt(out, "em", lambda: number(best(ref.exact_match_score)))
        attempt(out, "cover_em_1", lambda: number(best(ref.cover_exact_match_score_1)))
        attempt(out, "cover_em_2", lambda: number(best(ref.cover_exact_match_score_2)))
        for i, key in enumerate(("f1", "precision", "recall")):
            attempt(out, key, lambda: number(best(ref.f1_score)[i]))
        return out

    cases = [Case(f"answer/{n}", g, answer=a) for n, a, g in PAIRS] + [Case(f"form/{n}", f, r, answer=a) for n, r, f, a in FORMS]
    options = {"scored_text": "input.answer", "ground_truth": LIST_FORM + "; a value that is no list was put into a list of one, as the reference does"}
    write("r1-searcher-metrics", "r1-searcher", path, "The metric functions of the evaluation were called on single answers.", options, cases, run_metrics)
