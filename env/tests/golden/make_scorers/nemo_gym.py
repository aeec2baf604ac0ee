"""What does NeMo Gym's verifier answer?"""

import ast
import asyncio
import sys
import types
import typing

from .answers import PAIRS
from .loading import load, source_path, stub
from .responses import forms, single, structural
from .running import ABSENT, Case, attempt, write


def make_nemo_gym():
    from pydantic import BaseModel

    names = ("_GLOBAL_AIOHTTP_CLIENT_REQUEST_DEBUG", "MAX_NUM_TRIES", "ClientResponse", "get_response_json", "raise_for_status", "request")
    stub("nemo_gym.server_utils", **{n: 1 for n in names})
    sys.modules["nemo_gym.server_utils"].ClientResponse = typing.Any
    # Only the types of one message are needed, not those of all requests.
    tree = ast.parse(source_path("nemo-gym", "nemo_gym/openai_utils.py").read_text(encoding="utf-8"))
    wanted = {"NeMoGymResponseOutputText", "NeMoGymResponseOutputRefusal", "NeMoGymContent", "NeMoGymResponseOutputMessage", "NeMoGymResponseFunctionToolCall"}
    named = lambda n: getattr(n, "name", None) or getattr(getattr(n, "target", None), "id", None)
    from openai.types.responses.response_output_text_param import Annotation, Logprob

    # The types resolve their own names, so they live in a module of their own.
    types_module = types.ModuleType("nemo_types")
    sys.modules["nemo_types"] = types_module
    types_module.__dict__.update(vars(typing))
    types_module.__dict__.update(BaseModel=BaseModel, Annotation=Annotation, Logprob=Logprob, TypeAlias=typing.TypeAlias)
    exec(compile(ast.Module([n for n in tree.body if named(n) in wanted], []), "openai_utils.py", "exec"), types_module.__dict__)
    item = types_module

    class Response(BaseModel):
        output: list[typing.Union[item.NeMoGymResponseOutputMessage, item.NeMoGymResponseFunctionToolCall]]

    class Run(BaseModel):
        pass

    class Verify(Run):
        response: Response

    class VerifyResponse(Verify):
        reward: float

    for name in ("requests", "trafilatura", "fastapi"):
        stub(name)
    stub("nemo_gym.base_resources_server", BaseResourcesServerConfig=BaseModel, BaseRunRequest=Run, BaseVerifyRequest=Verify, BaseVerifyResponse=VerifyResponse, SimpleResourcesServer=object)
    path = "resources_servers/google_search/app.py"
    ref = load("nemo-gym", path)
    verify = ref.GoogleSearchResourcesServer.verify
    wrap = lambda a: f"I reason. \\boxed{{{a}}}"

    def message(*texts):
        parts = [item.NeMoGymResponseOutputText(annotations=[], text=t) for t in texts]
        return item.NeMoGymResponseOutputMessage(id="m", content=parts)

    native = [
        ("two-boxes-first-counts", ["\\boxed{Paris} \\boxed{Rome}"], "Paris"),
        ("two-parts", ["\\boxed{Pa", "ris}"], "Paris"),
        ("second-part", ["nothing", "\\boxed{Paris}"], "Paris"),
        ("no-box", ["Paris"], "Paris"),
        ("no-box-expected-None", ["Paris"], "None"),
        ("nested-braces", ["\\boxed{\\text{Paris}}"], "\\text{Paris"),
        ("newline", ["\\boxed{New\nYork}"], "New\nYork"),
        ("newline-as-repr", ["\\boxed{New\nYork}"], "New\\nYork"),
        ("quote", ["\\boxed{it's}"], "it's"),
        ("quotes-of-both-kinds", ["\\boxed{it's \"x\"}"], "it's \"x\""),
        ("quotes-of-both-kinds-as-repr", ["\\boxed{it's \"x\"}"], "it\\'s \"x\""),
        ("backslash", ["\\boxed{a\\b}"], "a\\b"),
        ("backslash-as-repr", ["\\boxed{a\\b}"], "a\\\\b"),
        ("blank-padding", ["\\boxed{ Paris }"], "Paris"),
        ("blank-before-brace", ["\\boxed {Paris}"], "Paris"),
        ("escaped-by-repr", ["\\boxed{New\u2028York}"], "New\u2028York"),
        ("escaped-by-repr-as-repr", ["\\boxed{New\u2028York}"], "New\\u2028York"),
        ("double-backslash", ["\\\\boxed{Paris}"], "Paris"),
        ("without-backslash", ["boxed{Paris}"], "Paris"),
        ("empty-box", ["\\boxed{}"], ""),
        ("no-parts", [], "Paris"),
    ]

    def run(case):
        out = {}
        if "last_item" in case.fields:
            last = item.NeMoGymResponseFunctionToolCall(arguments="\\boxed{Paris}", call_id="c", name="search")
        else:
            texts = case.fields["texts"] if "texts" in case.fields else [case.fields["response"]]
            last = message(*texts)
        gold = case.raw if case.raw is not ABSENT else (case.golds or [""])[0]
        attempt(out, "parsed", lambda: ref.box_parser(None if "last_item" in case.fields else last.content))

        def call():
            body = ref.GoogleSearchVerifyRequest(response=Response(output=[last]), expected_answer=gold, task_difficulty_qwen3_32b_avg_8=0.5)
            return asyncio.run(verify(None, body)).reward

        attempt(out, "score", call)
        return out

    cases = single(wrap, [(n, a, g[:1] or [""]) for n, a, g in PAIRS]) + structural() + forms(wrap)
    cases += [Case(f"native/{n}", [g], texts=t) for n, t, g in native]
    cases.append(Case("native/last-item-is-a-call", ["Paris"], last_item="function_call"))
    options = {
        "scored_text": "Python's text form of the list of content parts of the last output item; input.response is one part, input.texts several",
        "ground_truth": "golds[0] unless input has a ground_truth",
        "note": "base classes of the server are re-created in the smallest form; the message types and the verify method are the real ones",
    }
    write("nemo-gym-google-search", "nemo-gym", path, "The verify method was awaited with a response of one message.", options, cases, run)
