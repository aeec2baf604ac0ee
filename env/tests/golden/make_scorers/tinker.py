"""What does the Tinker cookbook's search environment answer?"""

import asyncio

from .loading import load, load_function, stub
from .responses import LIST_FORM, as_list, forms, single, structural
from .running import Case, attempt, number, write


def make_tinker():
    for name in ("chromadb", "chromadb.api", "chromadb.api.types", "chromadb.config", "google", "google.genai"):
        stub(name)
    stub("chz", chz=lambda cls: cls)
    content = load_function("tinker", "tinker_cookbook/renderers/base.py", "get_text_content", Message=dict)
    stub("tinker_cookbook.recipes.search_tool.embedding")
    stub("tinker_cookbook.renderers", get_text_content=content)
    stub("tinker_cookbook.renderers.base", Message=dict)
    stub("tinker_cookbook.tool_use", tool=lambda f: f)
    path = "tinker_cookbook/recipes/search_tool/tools.py"
    ref = load("tinker", path)
    user = {"role": "user", "content": "Which city? Answer: Rome"}
    said = lambda text: {"role": "assistant", "content": text}
    wrap = lambda a: f"I reason.\nAnswer: {a}"
    native = [
        ("two-prefixes", [user, said("Answer: Rome\nAnswer: Paris")]),
        ("prefix-inside-a-word", [user, said("MyAnswer: Paris")]),
        ("lower-case-prefix", [user, said("answer: Paris")]),
        ("upper-case-prefix", [user, said("ANSWER: Paris")]),
        ("blank-before-colon", [user, said("Answer : Paris")]),
        ("bold-prefix", [user, said("**Answer:** Paris")]),
        ("final-prefix", [user, said("Final Answer: Paris")]),
        ("nothing-after", [user, said("Answer:")]),
        ("lines-after", [user, said("Answer: Paris\nBecause it is.")]),
        ("earlier-message-only", [user, said("Answer: Paris"), user, said("I am done")]),
        ("tool-message-last", [user, said("Answer: Paris"), {"role": "tool", "content": "Answer: Rome"}]),
        ("no-assistant", [user]),
        ("no-messages", []),
        ("parts", [user, said([{"type": "thinking", "thinking": "Answer: Rome"}, {"type": "text", "text": "Answer: "}, {"type": "text", "text": "Paris"}])]),
        ("parts-without-text", [user, said([{"type": "thinking", "thinking": "Answer: Paris"}])]),
        ("think-in-text", [user, said("<think>Answer: Rome</think> Answer: Paris")]),
        ("empty-content", [user, said("")]),
    ]

    def run(case):
        out, golds = {}, as_list(case)
        reward = ref.TextAnswerReward(gold_answers=golds)
        got = attempt(out, "score", lambda: asyncio.run(reward(case.fields["messages"])))
        if got is not None:
            score, parts = asyncio.run(reward(case.fields["messages"]))
            out.update(score=number(score), format=parts["format"], correct=parts["correct"])
        return out

    cases = []
    for case in single(wrap) + structural() + forms(wrap):
        cases.append(Case(case.name, case.golds, case.raw, messages=[user, said(case.fields["response"])]))
    cases += [Case(f"native/{n}", ["Paris"], messages=m) for n, m in native]
    options = {"scored_text": "the text parts of the last assistant message", "format_coef": 0.1, "ground_truth": LIST_FORM}
    write("tinker", "tinker", path, "The reward class was awaited with a history of messages.", options, cases, run)
