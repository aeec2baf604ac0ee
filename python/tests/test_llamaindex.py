"""The LlamaIndex retriever, with the real package."""

import asyncio

import pytest

import hindsearch

core = pytest.importorskip("llama_index.core", reason="NOT RUN: llama-index-core is not installed")


def retriever(url, **options):
    from hindsearch.llamaindex import HindsearchRetriever

    return HindsearchRetriever(hindsearch.Client(url), **options)


def test_nodes_carry_text_id_title_and_score(service):
    [hit] = hindsearch.Client(service).search("Who discovered radium?", top_k=1)[0].hits
    [found] = retriever(service, top_k=1).retrieve("Who discovered radium?")
    assert (found.node.get_content(), found.node.node_id, found.score) == (hit.text, hit.id, hit.score)
    assert found.node.metadata == {"title": hit.title}


def test_a_servers_url_is_a_client(fake):
    from hindsearch.llamaindex import HindsearchRetriever

    assert HindsearchRetriever(fake.url).retrieve("radium") == retriever(fake.url).retrieve("radium")
    for wrong in (None, 8000, "127.0.0.1", hindsearch.Client):
        with pytest.raises(ValueError, match="expected a (`Client` or a server's )?URL"):
            HindsearchRetriever(wrong)


def test_sync_and_async_agree(service):
    it = retriever(service, top_k=2)
    nodes = asyncio.run(it.aretrieve("radium"))
    assert nodes == it.retrieve("radium") and len(nodes) == 2


def test_a_query_engine_answers_from_its_nodes(service):
    from llama_index.core.llms import MockLLM
    from llama_index.core.query_engine import RetrieverQueryEngine

    it = retriever(service, top_k=2)
    answer = RetrieverQueryEngine.from_args(it, llm=MockLLM()).query("Who discovered radium?")
    assert [source.node.node_id for source in answer.source_nodes] == [
        node.node_id for node in it.retrieve("Who discovered radium?")
    ]
    assert it.retrieve("Who discovered radium?")[0].text in str(answer)  # the mock model repeats its prompt


def test_options_reach_the_server(fake):
    retriever(fake.url, top_k=2, effort=99).retrieve("radium")
    assert fake.requests[0][2] == {"top_k": 2, "effort": 99, "queries": ["radium"]}


def test_failures_are_raised(fake):
    with pytest.raises(hindsearch.InvalidInput):
        retriever(fake.url, top_k=0).retrieve("radium")
