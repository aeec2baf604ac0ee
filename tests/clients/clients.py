"""The clients: for each, what it asks and what it then shows its model.

Each function gets the folder of the checkouts, the server's address and the questions, and returns one text a question.
"""

import asyncio
import copy
import json
import os
import re
import sys
import tempfile
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Callable
from urllib.parse import urlsplit

from loading import Redirected, StubModule, load, take, take_condition

K = 3
"""Passages a question, where the client leaves the choice."""


@dataclass
class Client:
    """One client: its files, the dialect it has to be told apart by, the passages it shows, and whether titles are shown."""

    name: str
    files: list[str]
    run: Callable
    dialect: str | None
    shown: int
    titles: bool


CLIENTS: list[Client] = []


def client(name, *files, dialect=None, shown=K, titles=True):
    def register(run):
        CLIENTS.append(Client(name, list(files), run, dialect, shown, titles))
        return run

    return register


@client("Search-R1, training loop", "Search-R1/search_r1/llm_agent/generation.py")
def search_r1(folder, server, questions):
    module = load(folder / "Search-R1/search_r1/llm_agent/generation.py", "search_r1.llm_agent.generation", ["torch", "verl", "search_r1.llm_agent.tensor_helper"],
                  {"search_r1": folder, "search_r1.llm_agent": folder / "nowhere"})
    manager = module.LLMGenerationManager.__new__(module.LLMGenerationManager)
    manager.config = types.SimpleNamespace(topk=K, search_url=f"{server}/retrieve")
    shown, *_ = manager.execute_predictions([f"<search>{q}</search>" for q in questions], "", [True] * len(questions))
    # A turn in which nobody searches sends an empty list.
    assert manager.execute_predictions(["<answer>x</answer>"], "", [True])[0] == [""]
    # An empty query is a query.
    assert manager.execute_predictions(["<search></search>"], "", [True])[0][0].startswith("\n\n<information>Doc 1")
    return shown


@client("Search-R1, inference script", "Search-R1/infer.py")
def search_r1_infer(folder, server, questions):
    scope = {"requests": Redirected(server)}
    take(folder / "Search-R1/infer.py", ["search"], scope)
    return [scope["search"](q) for q in questions]


@client("verl, search tool", "verl/verl/tools/utils/search_r1_like_utils.py")
def verl(folder, server, questions):
    module = load(folder / "verl/verl/tools/utils/search_r1_like_utils.py", "search_r1_like_utils")
    texts = []
    for question in questions:
        text, metadata = module.perform_single_search_batch(f"{server}/retrieve", [question], K)
        assert metadata["status"] == "success", metadata
        texts.append(json.loads(text)["result"])
    return texts


@client("verl-tool", "verl-tool/verl_tool/servers/tools/search_retrieval.py")
def verl_tool(folder, server, questions):
    path = folder / "verl-tool/verl_tool/servers/tools/search_retrieval.py"
    module = load(path, "verl_tool.servers.tools.search_retrieval", ["verl_tool.servers.tools.base", "regex"],
                  {"verl_tool": folder, "verl_tool.servers": folder, "verl_tool.servers.tools": folder / "nowhere"})
    module.re = re
    tool = module.SearchRetrievalTool.__new__(module.SearchRetrievalTool)
    tool.retriever_url, tool.topk = f"{server}/retrieve", K
    tool.load_env = tool.save_env = tool.update_env = lambda *_: None
    return [tool.conduct_action("0", f"<search>{q}</search>", {})[0] for q in questions]


@client("SkyRL-gym, SearchEnv", "SkyRL/skyrl-gym/skyrl_gym/envs/search/env.py", "SkyRL/skyrl-gym/skyrl_gym/tools/search.py")
def skyrl(folder, server, questions):
    gym = folder / "SkyRL/skyrl-gym/skyrl_gym"
    core = load(gym / "core.py", "skyrl_gym.core")
    tool_core = load(gym / "tools/core.py", "skyrl_gym.tools.core")
    packages = {"skyrl_gym": gym, "skyrl_gym.tools": gym / "tools", "skyrl_gym.envs": gym / "envs", "skyrl_gym.envs.search": gym / "envs/search"}
    sys.modules["skyrl_gym.tools.core"] = tool_core
    tools = load(gym / "tools/search.py", "skyrl_gym.tools.search", packages=packages)
    stub = StubModule("skyrl_gym")
    stub.Env, stub.__path__ = core.Env, [str(gym)]
    stub_tools = StubModule("skyrl_gym.tools")
    stub_tools.SearchToolGroup, stub_tools.ToolGroup = tools.SearchToolGroup, tool_core.ToolGroup
    sys.modules.update({"skyrl_gym": stub, "skyrl_gym.tools": stub_tools})
    module = load(gym / "envs/search/env.py", "skyrl_gym.envs.search.env", ["omegaconf"],
                  {name: path for name, path in packages.items() if "envs" in name})
    texts = []
    for question in questions:
        config = module.SearchEnvConfig(search_url=f"{server}/retrieve", topk=K)
        env = module.SearchEnv(config, {"reward_spec": {"ground_truth": {"target": ["x"]}}, "max_turns": 2})
        observation = env.step(f"<search>{question}</search>")["observations"][0]["content"]
        inside = re.fullmatch(r"\n<information>(.*)</information>\n", observation, re.DOTALL).group(1)
        texts.append(json.loads(inside)["result"])
    return texts


@client("SkyRL-agent, local search", "SkyRL/skyrl-agent/skyrl_agent/tools/local_search.py")
def skyrl_agent(folder, server, questions):
    os.environ |= {"LOCAL_SEARCH_URL": f"{server}/retrieve", "LOCAL_SEARCH_TOP_K": str(K)}
    module = load(folder / "SkyRL/skyrl-agent/skyrl_agent/tools/local_search.py", "local_search", ["skyrl_agent"])
    module.LocalSearchTool._verify_json_format_args = lambda self, params: params
    return [module.LocalSearchTool().call({"query": q}) for q in questions]


@client("GEM and ROLL, SearchTool", "gem/gem/tools/search_tool.py", "gem/gem/tools/base_tool.py")
def gem(folder, server, questions):
    tools = folder / "gem/gem/tools"
    module = load(tools / "search_tool.py", "gem.tools.search_tool", packages={"gem": folder / "gem/gem", "gem.tools": tools})
    tool = module.SearchTool(search_url=f"{server}/retrieve", topk=K)
    results = [tool.execute_action(f"<search>{q}</search>") for q in questions]
    assert all(valid and not error for valid, error, *_ in results), results
    return [observation for _, _, observation, _ in results]


@client("rLLM", "rllm/examples/fully_async/deepresearch/tool.py")
def rllm(folder, server, questions):
    module = load(folder / "rllm/examples/fully_async/deepresearch/tool.py", "rllm_tool")

    async def ask():
        tool = module.LocalRetrievalTool(server_url=server, url_file=None, max_results=K)
        return [await tool.run(q) for q in questions]

    return asyncio.run(ask())


@client("rLLM, older example", "rllm-c838218/examples/search/local_retrieval_tool.py", "rllm-c838218/rllm/tools/tool_base.py", dialect="rllm_documents")
def rllm_documents(folder, server, questions):
    tools = folder / "rllm-c838218/rllm/tools"
    module = load(folder / "rllm-c838218/examples/search/local_retrieval_tool.py", "local_retrieval_tool",
                  packages={"rllm": folder / "rllm-c838218/rllm", "rllm.tools": tools})
    outputs = [module.LocalRetrievalTool(server_url=server, max_results=K).forward(q) for q in questions]
    assert not any(output.error for output in outputs), outputs
    return [output.output for output in outputs]


@client("ZeroSearch, training loop", "ZeroSearch/llm_agent/generation.py", dialect="zerosearch")
def zerosearch(folder, server, questions):
    module = load(folder / "ZeroSearch/llm_agent/generation.py", "llm_agent.generation",
                  ["torch", "verl", "openai", "serpapi", "llm_agent.tensor_helper"], {"llm_agent": folder / "nowhere"})
    module.requests = Redirected(server)
    manager = module.LLMGenerationManager.__new__(module.LLMGenerationManager)
    manager.config = types.SimpleNamespace(topk=K, retriever_ip="127.0.0.1")
    actions = [f"<search>{q}</search>" for q in questions]
    return manager.execute_predictions(actions, questions, [["x"]] * len(questions), "wiki", 0.0, [True] * len(questions))[0]


@client("ZeroSearch, inference script", "ZeroSearch/inference.py", dialect="zerosearch")
def zerosearch_infer(folder, server, questions):
    scope = {"requests": Redirected(server)}
    take(folder / "ZeroSearch/inference.py", ["retrieve_from_wiki"], scope)
    return [scope["retrieve_from_wiki"](q, K) for q in questions]


async def ask_asearcher(search_client, questions):
    answers = [(await search_client.query_async({"queries": [q], "topk": K, "return_scores": False}))[0] for q in questions]
    pages = await search_client.access_async([answers[0]["urls"][0], "https://nowhere.invalid/page"])
    assert pages[0]["page"] and pages[1]["page"] == "", pages
    same = await search_client.access_async([f"https://host/w/index.php{form}Marie%20Curie" for form in ("/", "?title=")])
    assert same[0]["page"] and same[0]["page"] == same[1]["page"], same
    return answers


def asearcher_client(folder, server):
    module = load(folder / "ASearcher/tools/search_utils.py", "asearcher_search_utils", ["evaluation", "web_browser"])
    address = urlsplit(server)
    # It writes `http://{address}:{port}/retrieve`.
    return module.AsyncSearchBrowserClient(address.hostname, f"{address.port}{address.path}")


@client("ASearcher, agent", "ASearcher/tools/search_utils.py", "ASearcher/agent/asearcher.py", dialect="asearcher")
def asearcher(folder, server, questions):
    search_client = asearcher_client(folder, server)
    agents = load(folder / "ASearcher/agent/asearcher.py", "asearcher_agent")
    texts = []
    for answer in asyncio.run(ask_asearcher(search_client, questions)):
        agent = agents.AsearcherAgent("question")
        agent.consume_tool_response(answer | {"type": "search"}, topk=K)
        texts.append(agent.prepare_llm_query()[0])
    return texts


@client("ASearcher, Search-R1 agent", "ASearcher/tools/search_utils.py", "ASearcher/agent/search_r1.py", dialect="asearcher")
def asearcher_search_r1(folder, server, questions):
    search_client = asearcher_client(folder, server)
    agents = load(folder / "ASearcher/agent/search_r1.py", "asearcher_search_r1", ["tools"])
    texts = []
    for answer in asyncio.run(ask_asearcher(search_client, questions)):
        agent = agents.SearchR1Agent()
        agent.initialize_with_prompt("question")
        agent.consume_tool_response(answer | {"type": "search"}, topk=K)
        texts.append(agent.current_process["history"][-1]["text"])
    return texts


@client("ASearcher, AReaL trainer", "ASearcher/AReaL/ASearcher/utils/search_utils.py", dialect="asearcher")
def asearcher_areal(folder, server, questions):
    with tempfile.TemporaryDirectory() as addresses:
        Path(addresses, "Host127.0.0.1_IP0.txt").write_text(server.removeprefix("http://"))
        os.environ["RAG_SERVER_ADDR_DIR"] = addresses
        module = load(folder / "ASearcher/AReaL/ASearcher/utils/search_utils.py", "areal_search_utils", ["tools"])
        answers = asyncio.run(ask_asearcher(module.AsyncSearchBrowserClient(), questions))
    return ["\n\n".join(answer["documents"]) for answer in answers]


@client("slime, search-r1 example", "slime/examples/search-r1/generate_with_search.py", "slime/examples/search-r1/local_search_server.py")
def slime(folder, server, questions):
    example = folder / "slime/examples/search-r1"
    sys.path.insert(0, str(example))
    try:
        module = load(example / "generate_with_search.py", "generate_with_search", ["slime", "qa_em_format"])
        module.SEARCH_R1_CONFIGS["local"]["search_url"] = f"{server}/retrieve"
        module.SEARCH_R1_CONFIGS["topk"] = K
        return [asyncio.run(module.execute_predictions(f"<search>{q}</search>"))[0] for q in questions]
    finally:
        sys.path.remove(str(example))


@client("BrowseComp-Plus, Search-R1 client", "BrowseComp-Plus/search_agent/search_r1_client.py", dialect="browsecomp", shown=5)
def browsecomp(folder, server, questions):
    scope = {"requests": Redirected(server), "args": types.SimpleNamespace(port=8001)}
    take(folder / "BrowseComp-Plus/search_agent/search_r1_client.py", ["search"], scope)
    answers = [scope["search"](q) for q in questions]
    assert all(len(set(docids)) == text.count("(Title: ") for text, docids in answers), answers
    return [text for text, _ in answers]


@client("ReSearch, rollout", "ReSearch-f228480/src/verl/workers/rollout/vllm_rollout/vllm_rollout.py", shown=5)
def research(folder, server, questions):
    module = load(folder / "ReSearch-f228480/src/verl/workers/rollout/vllm_rollout/vllm_rollout.py", "vllm_rollout",
                  ["omegaconf", "torch", "tensordict", "verl", "vllm"])
    rollout = module.vLLMRolloutWithSearch.__new__(module.vLLMRolloutWithSearch)
    rollout.config = types.SimpleNamespace(search_url=server)
    texts = rollout.batch_search(questions)
    assert texts == [rollout.search(q) for q in questions]
    # A rollout without a query between its tags sends an empty one in the batch, which must not spoil the others.
    assert rollout.batch_search([questions[0], ""])[0] == texts[0]
    return texts


@client("ReSearch, FlashRAG's remote retriever", "ReSearch-f228480/src/flashrag/retriever/retriever.py")
def research_flashrag(folder, server, questions):
    module = load(folder / "ReSearch-f228480/src/flashrag/retriever/retriever.py", "flashrag_retriever", ["flashrag", "faiss", "numpy", "tqdm"])
    retriever = module.RemoteRetriever.__new__(module.RemoteRetriever)
    retriever.remote_url, retriever.topk = server, K
    retriever.use_cache = retriever.save_cache = retriever.use_reranker = False
    results, scores = retriever.batch_search(questions, return_score=True)
    assert [len(row) for row in scores] == [K] * len(questions), scores
    assert results == [retriever.search(q) for q in questions]
    return ["\n\n".join(document["contents"] for document in row) for row in results]


@client("ReCall, wikipedia_search", "ReSearch/src/flashrag/pipeline/active_pipeline.py")
def recall(folder, server, questions):
    scope = {}
    take(folder / "ReSearch/src/flashrag/pipeline/active_pipeline.py", ["wikipedia_search_env"], scope)
    exec(scope["wikipedia_search_env"].replace("<search-url-placeholder>", server), scope)
    return [scope["wikipedia_search"](q, K) for q in questions]


@client("R1-Searcher, evaluation", "R1-Searcher/evaluation/eval_search_loacl.py")
def r1_searcher(folder, server, questions):
    scope = {"requests": Redirected(server), "re": re, "copy": copy, "topk": K, "url_wiki": "http://0.0.0.0:5004/queries", "query_list": questions,
             "continued_texts": [{"chat_prompt": "", "gen_text_store": "", "question": q, "answer": ""} for q in questions]}
    take_condition(folder / "R1-Searcher/evaluation/eval_search_loacl.py", "len(query_list) != 0", scope)
    return [text["chat_prompt"] for text in scope["continued_texts"]]


@client("R1-Searcher, training", "R1-Searcher/OpenRLHF-RAG/openrlhf/trainer/ppo_utils/experience_maker.py")
def r1_searcher_training(folder, server, questions):
    scope = {"requests": Redirected(server), "re": re, "copy": copy, "url_wiki": "http://0.0.0.0:5003/queries", "query_list": questions,
             "continued_texts": [{"prompt": q} for q in questions]}
    take_condition(folder / "R1-Searcher/OpenRLHF-RAG/openrlhf/trainer/ppo_utils/experience_maker.py", "len(query_list) != 0", scope)
    return [text["prompt"] for text in scope["continued_texts"]]


@client("Pyserini, REST benchmark", "pyserini/scripts/rest_concurrency_benchmark.py", shown=0, titles=False)
def pyserini(folder, server, questions):
    module = load(folder / "pyserini/scripts/rest_concurrency_benchmark.py", "rest_concurrency_benchmark")
    with tempfile.TemporaryDirectory() as work:
        topics = Path(work, "topics.tsv")
        topics.write_text("".join(f"{i}\t{' '.join(q.split())}\n" for i, q in enumerate(questions)), encoding="utf-8")
        sys.argv = ["benchmark", "--url", server, "--index", "sample", "--topics", str(topics), "--concurrency", "1,4", "--measured-runs", "1"]
        result = module.benchmark(module.parse_args())
    runs = [run for level in result["results"].values() for run in level["runs"]]
    assert all(run["ok"] == run["total"] == len(questions) for run in runs), runs
    return []
