"""The search tool in OpenAI's two forms, with dictionaries and with the SDK's own objects."""

import asyncio

import fake as faults
import pytest

import hindsearch
from hindsearch.tools import render, run_tool_call, run_tool_call_async, search_tool


def chat_call(arguments):
    return {"id": "call_1", "type": "function", "function": {"name": "search", "arguments": arguments}}


def responses_call(arguments):
    return {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "search", "arguments": arguments}


def test_the_schema_is_a_strict_function_of_one_query():
    chat, responses = search_tool(), search_tool("responses")
    assert {"type": "function", **chat["function"]} == responses
    assert responses["strict"] is True and responses["name"] == "search"
    assert responses["parameters"]["required"] == list(responses["parameters"]["properties"]) == ["query"]
    assert search_tool(name="wiki", description="Wikipedia")["function"]["name"] == "wiki"
    with pytest.raises(ValueError):
        search_tool("completions")


def test_a_call_is_answered_in_the_form_it_came_in(service):
    client = hindsearch.Client(service)
    text = render(client.search("Who discovered radium?", top_k=2)[0].hits)
    assert "adium" in text
    arguments = '{"query": "Who discovered radium?"}'
    chat = {"role": "tool", "tool_call_id": "call_1", "content": text}
    assert run_tool_call(client, chat_call(arguments), top_k=2) == chat
    assert asyncio.run(run_tool_call_async(client.asynchronous(), chat_call(arguments), top_k=2)) == chat
    responses = {"type": "function_call_output", "call_id": "call_1", "output": text}
    assert run_tool_call(client, responses_call(arguments), top_k=2) == responses


def test_passages_are_numbered_titled_and_set_apart():
    hits = [hindsearch.Hit(title="A\nB", text="first\nline"), hindsearch.Hit(title=None, text="zweite – 数学")]
    assert render(hits) == "Doc 1 (Title: A B)\nfirst\nline\n\nDoc 2\nzweite – 数学"
    assert render([]) == "No passages found."


@pytest.mark.parametrize(
    "arguments",
    ["", "{", "[]", "null", "7", '{"query": 7}', '{"q": "x"}', '{"query": "  "}', '{"query": "\\ud800"}', None, "[" * 99_999]
    + ['{"query": "%s"}' % ("x" * 65_537)],
)
@pytest.mark.parametrize("form", [chat_call, responses_call])
def test_wrong_arguments_are_told_to_the_model(fake, form, arguments):
    answer = run_tool_call(hindsearch.Client(fake.url), form(arguments))
    assert (answer.get("content") or answer["output"]).startswith("Error: ")
    assert fake.requests == []


def test_a_failing_server_is_raised_and_not_told(fake):
    fake.faults = [faults.status(500, b"secret stack trace")]
    with pytest.raises(hindsearch.ServerError):
        run_tool_call(hindsearch.Client(fake.url, retries=0), chat_call('{"query": "radium"}'))


def test_what_is_no_client_is_refused():
    with pytest.raises(
        hindsearch.InvalidInput, match=r"expected a `Client`, found `str`: make one for all calls, `Client\(url\)`"
    ):
        run_tool_call("http://127.0.0.1:8000", chat_call('{"query": "radium"}'))
    with pytest.raises(hindsearch.InvalidInput, match="expected a `AsyncClient`, found `str`"):
        asyncio.run(run_tool_call_async("http://127.0.0.1:8000", chat_call('{"query": "radium"}')))


def test_the_sdk_types_are_taken(fake):
    pytest.importorskip("openai", reason="NOT RUN: openai is not installed")
    from openai.types.chat import ChatCompletionMessageToolCall
    from openai.types.responses import ResponseFunctionToolCall

    client = hindsearch.Client(fake.url)
    arguments = '{"query": "radium"}'
    chat = ChatCompletionMessageToolCall.model_validate(chat_call(arguments))
    assert run_tool_call(client, chat) == run_tool_call(client, chat_call(arguments))
    responses = ResponseFunctionToolCall.model_validate(responses_call(arguments))
    assert run_tool_call(client, responses) == run_tool_call(client, responses_call(arguments))
