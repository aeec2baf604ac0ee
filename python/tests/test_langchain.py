"""The LangChain retriever, with the real package."""

import asyncio
import pickle

import pytest

import hindsearch

core = pytest.importorskip("langchain_core", reason="NOT RUN: langchain-core is not installed")


def retriever(url, **options):
    from hindsearch.langchain import HindsearchRetriever

    return HindsearchRetriever(client=hindsearch.Client(url, token="s3cr3t"), **options)


def test_documents_carry_text_id_title_and_score(service):
    [hit] = hindsearch.Client(service).search("Who discovered radium?", top_k=1)[0].hits
    [document] = retriever(service, top_k=1).invoke("Who discovered radium?")
    assert (document.page_content, document.id) == (hit.text, hit.id)
    assert document.metadata == {"title": hit.title, "score": hit.score}


def test_a_servers_url_is_a_client(fake):
    from hindsearch.langchain import HindsearchRetriever

    assert HindsearchRetriever(client=fake.url).invoke("radium") == retriever(fake.url).invoke("radium")
    for wrong in (None, 8000, "127.0.0.1", hindsearch.Client):
        with pytest.raises(ValueError, match="expected a (`Client` or a server's )?URL"):
            HindsearchRetriever(client=wrong)


def test_sync_async_and_batch_agree(service):
    it = retriever(service, top_k=2)

    async def main():
        return await it.ainvoke("radium"), await it.abatch(["radium", "Warsaw"])

    one, many = asyncio.run(main())
    assert one == it.invoke("radium") and len(one) == 2
    assert many == it.batch(["radium", "Warsaw"])


def test_it_composes_with_runnables(service):
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import RunnablePassthrough

    chain = {"context": retriever(service, top_k=1), "question": RunnablePassthrough()} | ChatPromptTemplate.from_template(
        "{context}\n{question}"
    )
    assert "radium" in chain.invoke("radium?").to_string().lower()


def test_callbacks_see_its_documents(fake):
    from langchain_core.callbacks import BaseCallbackHandler

    class Seen(BaseCallbackHandler):
        documents = None

        def on_retriever_end(self, documents, **_):
            self.documents = documents

    seen = Seen()
    assert retriever(fake.url).invoke("radium", config={"callbacks": [seen]}) == seen.documents


def test_options_reach_the_server(fake):
    retriever(fake.url, top_k=2, effort=99).invoke("radium")
    assert fake.requests[0][2] == {"top_k": 2, "effort": 99, "queries": ["radium"]}


def test_it_is_copied_pickled_and_shown_without_its_token(fake):
    it = retriever(fake.url, top_k=1)
    copies = [pickle.loads(pickle.dumps(it)), it.model_copy()]
    assert [copy.invoke("radium") for copy in copies] == [it.invoke("radium")] * 2
    assert asyncio.run(copies[0].ainvoke("radium")) == it.invoke("radium")
    assert "s3cr3t" not in repr(it) + str(it)


def test_failures_are_raised(fake):
    with pytest.raises(hindsearch.InvalidInput):
        retriever(fake.url, top_k=0).invoke("radium")
