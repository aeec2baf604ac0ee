"""What do the recipes make of a message, and what do they show? Their own code answers wherever it can be called by itself."""

import asyncio
import json
import re
import sys
import types

from golden_code import CHECKOUTS, SOURCES, fake, load


class Recipe:
    """What the episodes need of a recipe."""

    role = "assistant"
    last = "extra-answer"
    budget = None
    marks = False
    """Whether a question without a question mark gets one."""
    asks, answers = "<search>{}</search>", "<answer> {} </answer>"

    def cut(self, message):
        return message

    def search(self, query):
        return f"<think>I need to look.</think> {self.asks.format(query)}"

    def answer(self, text):
        return f"<think>I know.</think> {self.answers.format(text)}"


def doc_lines(contents, form="Doc {}(Title: {}) {}\n"):
    pairs = [text.partition("\n") for text in contents]
    return [form.format(n + 1, title, rest) for n, (title, _, rest) in enumerate(pairs)]


class SearchR1(Recipe):
    """Search-R1 and what was made from it; the loop's functions are called."""

    turns, budget, tag, marks = 4, ("tokens", 500), "information", True

    def __init__(self, module, **changes):
        self.cls = load(*module).LLMGenerationManager
        vars(self).update(changes)

    def manager(self, found):
        tokenizer = types.SimpleNamespace(batch_decode=lambda texts, **_: texts)
        documents = [[{"document": {"contents": p["contents"]}} for p in passages] for passages in found]
        return fake(
            self.cls,
            tokenizer=tokenizer,
            config=types.SimpleNamespace(no_think_rl=False),
            _batch_tokenize=lambda texts: texts,
            _batch_search=lambda queries: {"result": documents[: len(queries)]},
        )

    def cut(self, message):
        return self.manager([])._postprocess_responses([message])[1][0]

    def step(self, message, found):
        manager = self.manager(found)
        actions, contents = manager.postprocess_predictions([message])
        observations, dones, _, _ = self.execute(manager, message, found)
        if actions[0] == "search":
            return "search", [contents[0]], observations[0]
        if actions[0] == "answer":
            assert dones == [1] and observations == [""]
            return "answer", contents[0], ""
        return "invalid", None, observations[0]

    def execute(self, manager, message, found):
        return manager.execute_predictions([message], "", [True])

    def lines(self, passages):
        return doc_lines(p["contents"] for p in passages)

    def frame(self, blocks):
        return f"\n\n<{self.tag}>{''.join(blocks[0]).strip()}</{self.tag}>\n\n"


class ZeroSearch(SearchR1):
    def execute(self, manager, message, found):
        module = sys.modules[self.cls.__module__]
        texts = [{"text": p["contents"]} for p in found[0]] if found else []
        module.requests = types.SimpleNamespace(post=lambda *_, **__: types.SimpleNamespace(json=lambda: texts))
        config = manager.config
        config.retriever_ip, config.topk = "", 5
        return manager.execute_predictions([message], [""], [[""]], "wiki", 0, [True])

    def lines(self, passages):
        # The line break between two passages belongs to the one before it, so that leaving out the last one takes it along.
        return [f"Doc {n + 1}: {p['contents']}" for n, p in enumerate(passages)]

    def frame(self, blocks):
        text = "\n".join(blocks[0])
        return f"\n\n<{self.tag}>{text.strip()}</{self.tag}>\n\n"


class Slime(Recipe):
    turns, last, marks = 2, "observe", True

    def __init__(self):
        self.module = load("slime", "examples/search-r1/generate_with_search.py")

    def step(self, message, found):
        documents = [{"document": {"contents": p["contents"]}} for p in found[0]] if found else []

        async def local_search(*_, **__):
            return documents

        sys.modules["local_search_server"] = types.SimpleNamespace(local_search=local_search)
        action, content = self.module.postprocess_predictions(message)
        observation, done = asyncio.run(self.module.execute_predictions(message))
        assert done == (action == "answer")
        return {"search": ("search", [content]), "answer": ("answer", content)}.get(action, ("invalid", None)) + (observation,)


class SkyRL(Recipe):
    turns, last, marks = 4, "stop", True

    def __init__(self):
        sys.path.insert(0, str(CHECKOUTS / SOURCES["skyrl"] / "skyrl-gym"))
        import skyrl_gym.tools.search as tool
        from skyrl_gym.envs.search.env import SearchEnv, SearchEnvConfig

        self.tool, self.cls, self.config = tool, SearchEnv, SearchEnvConfig

    def step(self, message, found):
        asked = []

        def api(query, **_):
            asked.append(query)
            return {"result": [[{"document": {"contents": p["contents"]}} for p in found[0]]]}, None

        self.tool.call_search_api = api
        env = self.cls(self.config(), {"reward_spec": {"ground_truth": {"target": []}}, "max_turns": 99})
        output = env.step(message)
        if output["done"]:
            spans = re.findall(r"<answer>(.*?)</answer>", message, re.DOTALL)
            return "answer", spans[0].strip() if spans else "", ""
        return ("search", asked, output["observations"][0]["content"]) if asked else ("invalid", None, output["observations"][0]["content"])


class Calls(Recipe):
    """Recipes with function calls in `<tool_call>` tags, as Hermes and Qwen write them."""

    role = "tool"
    name, argument = "search", "query_list"
    unknown = arguments = None

    def search(self, *queries):
        given = list(queries) if self.argument == "query_list" else queries[0]
        call = {"name": self.name, "arguments": {self.argument: given}}
        return f"<think>I need to look.</think>\n<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>"

    def call(self, text):
        return f"<tool_call>{text}</tool_call>"

    def first_call(self, message):
        return re.search(r"<tool_call>(.*?)</tool_call>", message, re.DOTALL)

    def step(self, message, found):
        match = self.first_call(message)
        if not match:
            answer = re.search(r"<answer>(.*?)</answer>", message, re.DOTALL) if self.answers.startswith("<") else None
            return ("answer", answer.group(1).strip(), "") if answer else ("end", None, "")
        try:
            call = json.loads(match.group(1))
            name, arguments = call["name"], call["arguments"]
        except (ValueError, KeyError):
            return "invalid", None, None
        if name != self.name:
            return "invalid", None, self.unknown and self.unknown(name, arguments)
        queries = arguments.get(self.argument)
        queries = [queries] if isinstance(queries, str) else queries
        if not queries:
            return "invalid", None, self.arguments and self.arguments(arguments)
        return "search", queries, self.show(queries, found)


class Verl(Calls):
    turns, last, budget, marks = 2, "stop", ("characters", 256), True

    def __init__(self):
        self.tool = load("verl-tool", "verl/verl/tools/utils/search_r1_like_utils.py")
        self.loop = load("verl", "verl/experimental/agent_loop/tool_agent_loop.py")
        self.parser = load("verl", "verl/experimental/agent_loop/tool_parser.py")
        self.parser.get_event_loop = asyncio.get_event_loop
        self.unknown = lambda name, arguments: self.called(name, arguments, None, 256, "middle")

    def first_call(self, message):
        tokenizer = types.SimpleNamespace(decode=lambda text: text)
        parser = self.parser.HermesToolParser.__new__(self.parser.HermesToolParser)
        self.parser.HermesToolParser.__init__(parser, tokenizer)
        parser.tokenizer = tokenizer
        _, calls = asyncio.run(parser.extract_tool_calls(message))
        if not calls:
            match = super().first_call(message)
            assert match is None or not valid_call(match.group(1))
            return match
        call = calls[0]
        return re.search("(.*)", json.dumps({"name": call.name, "arguments": json.loads(call.arguments)}))

    def called(self, name, arguments, execute, most, side):
        async def create(**_):
            return "id", None

        async def run(*_, **__):
            return execute(), 0.0, {}

        async def release(_):
            pass

        tool = types.SimpleNamespace(create=create, execute=run, release=release)
        settings = {"max_tool_response_length": most, "tool_response_truncate_side": side, "tools": {self.name: tool}}
        data = types.SimpleNamespace(_active_tools={self.name: tool})
        self.loop.ToolResponse = Response
        call = types.SimpleNamespace(name=name, arguments=json.dumps(arguments, ensure_ascii=False))
        made = types.SimpleNamespace(**settings)
        response, _, _ = asyncio.run(self.loop.ToolAgentLoop._call_tool(made, call, {}, data))
        return response.text

    def arguments(self, arguments):
        text = "Error: 'query_list' is missing, empty, or not a list in parameters."
        source = CHECKOUTS / SOURCES["verl-tool"] / "verl/verl/tools/search_tool.py"
        assert text in source.read_text()
        return json.dumps({"result": text})

    def show(self, queries, found, most=10**9, side="middle"):
        documents = [[{"document": {"contents": p["contents"]}} for p in passages] for passages in found]
        self.tool.call_search_api = lambda **_: ({"result": documents}, None)
        text, _ = self.tool.perform_single_search_batch("", queries)
        return self.called(self.name, {self.argument: queries}, lambda: Response(text=text), most, side)

    def lines(self, passages):
        return doc_lines((p["contents"] for p in passages), "Doc {} (Title: {})\n{}\n\n")

    def frame(self, blocks):
        return json.dumps({"result": "\n---\n".join("".join(lines).strip() for lines in blocks)}, ensure_ascii=False)


class Response:
    def __init__(self, text=None, **_):
        self.text, self.image, self.video = text, None, None


def valid_call(text):
    try:
        call = json.loads(text)
        return "name" in call and "arguments" in call
    except ValueError:
        return False


class Rllm(Calls):
    turns, last, answers = 48, "stop", "\\boxed{{{}}}"
    name, argument = "local_search", "query"

    def __init__(self):
        module = load("rllm", "examples/fully_async/deepresearch/tool.py")
        self.tool = module.LocalRetrievalTool(url_file=None, server_url="")

    def show(self, queries, found):
        if not found[0]:
            return "No relevant documents found for the query."
        results = [{"id": f"doc_{n}", "content": p["contents"], "score": p["score"]} for n, p in enumerate(found[0], 1)]
        return self.tool._format_search_results(results)


class Tinker(Calls):
    turns, last, answers, marks = 5, "observe", "Answer: {}", True

    def __init__(self):
        path = "tinker_cookbook/recipes/search_tool/"
        self.module = load("tinker", path + "tools.py")
        self.module.simple_tool_result = lambda text: text
        # The one in tinker_cookbook/tool_use/tools.py, `handle_tool_call`.
        self.unknown = lambda name, _: json.dumps({"error": f"Tool '{name}' not found"})
        # The original adds what its validator says; ours has the beginning.
        self.arguments = lambda _: json.dumps({"error": "Parameter validation failed"})

    def show(self, queries, found):
        async def clients():
            return None, None

        async def embed(*_):
            return None

        async def query(*_):
            return {"documents": [[p["contents"] for p in passages] for passages in found]}

        made = types.SimpleNamespace(_ensure_clients=clients, _get_embeddings_with_retry=embed, _query_chroma_with_retry=query)
        return asyncio.run(self.module.ChromaTool.search(made, queries))


class Tags(Recipe):
    """Recipes in which a message without a search is the last one; their loops cannot be called by themselves."""

    last = "observe"
    open, close = "<search>", "</search>"

    def cut(self, message):
        # They have the engine stop there.
        return message[: message.index(self.close) + len(self.close)] if self.close in message else message

    def search(self, query):
        return f"I need to look. {self.open} {query} {self.close}"

    def read(self, message):
        """The query from the nearest opening tag."""
        end = message.rindex(self.close)
        return message[message.rindex(self.open, 0, end) + len(self.open) : end].strip()

    def step(self, message, found):
        if self.open in message and message.endswith(self.close):
            query = self.read(message)
            return "search", [query], self.show(query, found)
        spans = re.findall(r"<answer>(.*?)</answer>", message, re.DOTALL)
        return ("answer", spans[-1].strip(), "") if spans and self.answers.startswith("<") else ("end", None, "")


class ReSearch(Tags):
    turns = 1000

    def __init__(self):
        self.module = load("research", "src/verl/workers/rollout/vllm_rollout/vllm_rollout.py")

    def read(self, message):
        return self.module.vLLMRolloutWithSearch.extract_search_content(None, message)

    def show(self, query, found):
        post = lambda *_, **__: types.SimpleNamespace(json=lambda: found)
        self.module.requests = types.SimpleNamespace(post=post)
        made = types.SimpleNamespace(config=types.SimpleNamespace(search_url=""))
        result = self.module.vLLMRolloutWithSearch.batch_search(made, [query])[0]
        return f" <result>\n{result}\n</result>"


class R1Searcher(Tags):
    open, close = "<|begin_of_query|>", "<|end_of_query|>"
    turns, last = 9, "stop"

    def show(self, query, found):
        documents = "".join(f"({n}){p['contents']}\n" for n, p in enumerate(found[0], 1)) or "None"
        return f"\n\n<|begin_of_documents|>\n{documents}<|end_of_documents|>\n\n"


class SearchO1(Tags):
    open, close = "<|begin_search_query|>", "<|end_search_query|>"
    turns, answers = 15, "\\boxed{{{}}}"

    def show(self, query, found):
        documents = "".join(f"**Web Page {n}:**\n{p['contents']}\n" for n, p in enumerate(found[0], 1))
        return f"\n\n<|begin_search_result|>{documents}<|end_search_result|>\n\n"

    def refuse(self, query, searched):
        around = "\n<|begin_search_result|>\n{}\n<|end_search_result|>\n"
        if len(searched) >= 10:
            return around.format("No search is left; go on without.")
        if query in searched:
            return around.format("This was searched before; its results are above.")
        return None


class ASearcher(Recipe):
    turns, last = 16, "stop"

    def __init__(self):
        self.agent = load("asearcher", "AReaL/ASearcher/train/search_agent.py").SearchAgent

    def cut(self, message):
        # The engine stops at the first of these.
        ends = [message.index(tag) + len(tag) for tag in ("</search>", "</answer>") if tag in message]
        return message[: min(ends)] if ends else message

    def step(self, message, found):
        agent = self.agent("", [])
        lengths = dict.fromkeys(["output_tokens", "input_len", "input_tokens", "output_len", "output_logprobs", "output_versions"])
        lengths["output_tokens"] = []
        calls = agent.consume_llm_response(types.SimpleNamespace(**lengths), message)
        if agent.is_finished:
            return "answer", re.findall(r"<answer>(.*?)</answer>", message, re.DOTALL)[-1].strip(), ""
        if not calls:
            # The message has ended by itself, and so has the episode.
            return "invalid", None, None
        query = calls[0].split("<search>")[-1].split("</search>")[0].strip()
        documents = [p["contents"] for p in found[0]]
        agent.consume_tool_response({"type": "search", "documents": documents, "urls": [p["id"] for p in found[0]]})
        agent.prepare_llm_query(lambda texts, **_: {"input_ids": [[0]] * len(texts)})
        return "search", [query], agent.memory.memory[-1].text


class Hindsearch(Recipe):
    """Ours; its prompt is in no other place."""

    turns, budget, marks = 4, ("tokens", 600), True

    def cut(self, message):
        ends = [message.index(tag) + len(tag) for tag in ("</search>", "</answer>") if tag in message]
        return message[: min(ends)] if ends else message

    def step(self, message, found):
        match = re.search(r"<(search|answer)>(.*?)</\1>", message, re.DOTALL)
        if not match:
            reply = "\nThat was neither a search nor an answer. A query belongs between <search> and </search>, the final answer between <answer> and </answer>.\n"
            return "invalid", None, reply
        content = match.group(2).strip()
        if match.group(1) == "answer":
            return "answer", content, ""
        return "search", [content], self.frame([self.lines(found[0])] if found[0] else [["Nothing was found."]])

    def lines(self, passages):
        return doc_lines((p["contents"] for p in passages), "[{}] {}: {}\n")

    def frame(self, blocks):
        return f"\n\n<information>{''.join(blocks[0]).strip()}</information>\n\n"
