"""A LlamaIndex retriever."""

from __future__ import annotations

from typing import Any

try:
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ImportError as error:
    raise ImportError("`hindsearch.llamaindex` needs LlamaIndex: `pip install hindsearch[llamaindex]`") from error

from ._retrieval import client_of
from .client import Client
from .types import Hit


class HindsearchRetriever(BaseRetriever):
    """Nodes with the passage's text, its id as `node_id`, and the `title` in their metadata, best first."""

    def __init__(self, client: Client | str, *, top_k: int | None = None, effort: int | None = None, **options: Any) -> None:
        """`client` may be given as the server's URL; `options` go to LlamaIndex's own `BaseRetriever`."""
        self._client = client_of(client)
        self._async_client = self._client.asynchronous()
        self._search: dict[str, Any] = {"top_k": top_k, "effort": effort}
        super().__init__(**options)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        results = self._client.search(query_bundle.query_str, **self._search)
        return [_node(hit) for hit in results[0].hits]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        results = await self._async_client.search(query_bundle.query_str, **self._search)
        return [_node(hit) for hit in results[0].hits]


def _node(hit: Hit) -> NodeWithScore:
    # The score stays beside the node: a model is not to read it as text.
    node = TextNode(id_=hit.id or "", text=hit.text or "", metadata={"title": hit.title} if hit.title else {})
    return NodeWithScore(node=node, score=hit.score)
