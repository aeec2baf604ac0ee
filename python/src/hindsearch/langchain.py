"""A LangChain retriever."""

from __future__ import annotations

from typing import Annotated, Any, Optional

try:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import BeforeValidator, ConfigDict, PrivateAttr
except ImportError as error:
    raise ImportError("`hindsearch.langchain` needs LangChain: `pip install hindsearch[langchain]`") from error

from ._retrieval import client_of
from .aio import AsyncClient
from .client import Client
from .types import Hit


class HindsearchRetriever(BaseRetriever):
    """Documents with the passage's text, its `id`, and `title` and `score` in their metadata, best first.

    `client` may be given as the server's URL.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    client: Annotated[Client, BeforeValidator(client_of)]
    top_k: Optional[int] = None  # noqa: UP045 (pydantic reads it, also on Python 3.9)
    effort: Optional[int] = None  # noqa: UP045
    _async_client: AsyncClient = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        self._async_client = self.client.asynchronous()

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        results = self.client.search(query, top_k=self.top_k, effort=self.effort)
        return [_document(hit) for hit in results[0].hits]

    async def _aget_relevant_documents(self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun) -> list[Document]:
        results = await self._async_client.search(query, top_k=self.top_k, effort=self.effort)
        return [_document(hit) for hit in results[0].hits]


def _document(hit: Hit) -> Document:
    return Document(page_content=hit.text or "", id=hit.id, metadata={"title": hit.title, "score": hit.score})
