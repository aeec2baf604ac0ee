"""Client of the hindsearch retrieval server: passages for queries, over HTTP.

`Client` blocks, `AsyncClient` is awaited; both have the same methods, results and errors. Adapters live in
`hindsearch.langchain`, `hindsearch.llamaindex` and `hindsearch.tools`.
"""

from ._settings import VERSION as __version__
from .aio import AsyncClient
from .client import Client
from .errors import (
    HindsearchError,
    InvalidInput,
    NotFound,
    Overloaded,
    ServerError,
    Timeout,
    Unauthorized,
    Unavailable,
)
from .types import Hit, Passage, Result

__all__ = [
    "AsyncClient",
    "Client",
    "HindsearchError",
    "Hit",
    "InvalidInput",
    "NotFound",
    "Overloaded",
    "Passage",
    "Result",
    "ServerError",
    "Timeout",
    "Unauthorized",
    "Unavailable",
    "__version__",
]
