"""The asyncio client, on the standard library's streams."""

from __future__ import annotations

import asyncio
import http.client
import time
from collections.abc import Iterable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from . import _calls, _retry
from ._replicas import Replicas
from ._retry import Attempt, Outcome, Pause, Plan, Response
from ._settings import Base, Settings
from ._streams import Connection
from .types import Passage, Result

T = TypeVar("T")


class AsyncClient(Base):
    """`Client` for asyncio: the same methods, to be awaited.

    Any number of tasks may share one; `max_connections` of their calls are in flight at once. Cancelling a call closes its
    connection, so that the server stops working on it. Each event loop has connections of its own, which `aclose` or
    `async with` close.
    """

    async def search(
        self,
        queries: str | Iterable[str],
        *,
        top_k: int | None = None,
        effort: int | None = None,
        fields: Iterable[str] | None = None,
        ids: Iterable[str] | None = None,
        exclude_ids: Iterable[str] | None = None,
    ) -> list[Result]:
        """See `Client.search`."""
        return await self._run(
            _calls.search(queries, top_k=top_k, effort=effort, fields=fields, ids=ids, exclude_ids=exclude_ids)
        )

    async def search_vectors(
        self,
        vectors: Iterable[Iterable[float]],
        *,
        top_k: int | None = None,
        effort: int | None = None,
        fields: Iterable[str] | None = None,
        ids: Iterable[str] | None = None,
        exclude_ids: Iterable[str] | None = None,
    ) -> list[Result]:
        """See `Client.search_vectors`."""
        return await self._run(
            _calls.search_vectors(vectors, top_k=top_k, effort=effort, fields=fields, ids=ids, exclude_ids=exclude_ids)
        )

    async def passage(self, id: str) -> Passage:
        """See `Client.passage`."""
        return await self._run(_calls.passage(id))

    async def embed(self, texts: str | Iterable[str], input_type: str = "query") -> list[list[float]]:
        """See `Client.embed`."""
        return await self._run(_calls.embed(texts, input_type))

    async def hindsight(self, what: str, items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """See `Client.hindsight`."""
        return await self._run(_calls.hindsight(what, items))

    async def info(self) -> dict[str, Any]:
        """See `Client.info`."""
        return await self._run(_calls.info())

    async def ready(self) -> bool:
        """See `Client.ready`."""
        session = self._session()
        return await self._drive(session, _retry.ready(session.replicas, self._settings))

    async def aclose(self) -> None:
        """Closes this loop's connections kept alive. A later call opens new ones."""
        for replica in self._session().replicas.all:
            while replica.idle:
                replica.idle.pop().close()
        await asyncio.sleep(0)  # lets the transports finish

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _start(self) -> None:
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, _Session] = WeakKeyDictionary()

    def _session(self) -> _Session:
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            session = self._sessions[loop] = _Session(self._settings)
        return session

    async def _run(self, call: _calls.Call[T]) -> T:
        deadline = time.monotonic() + self._settings.timeout
        session = self._session()
        try:
            await asyncio.wait_for(session.slots.acquire(), self._settings.timeout)
        except asyncio.TimeoutError:
            raise _retry.no_slot(self._settings) from None
        try:
            return await self._drive(session, _retry.perform(call, session.replicas, self._settings, deadline))
        finally:
            session.slots.release()

    async def _drive(self, session: _Session, plan: Plan[T]) -> T:
        outcome: Outcome = None
        while True:
            try:
                step = plan.send(outcome)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                outcome = None
                continue
            try:
                exchange = session.exchange(step, _retry.headers(step, self._settings))
                outcome = await asyncio.wait_for(exchange, step.timeout)
            except (OSError, http.client.HTTPException, asyncio.TimeoutError) as error:
                outcome = error


class _Session:
    """What belongs to one event loop: connections, circuits and slots."""

    def __init__(self, settings: Settings) -> None:
        self.replicas = Replicas(settings.addresses)
        self.slots = asyncio.Semaphore(settings.max_connections)
        self.tls = settings.tls()

    async def exchange(self, attempt: Attempt, headers: dict[str, str]) -> Response:
        idle = attempt.replica.idle
        while True:
            kept = bool(idle)
            connection = idle.pop() if kept else await Connection.open(attempt.replica.address, self.tls)
            try:
                response, keep = await connection.exchange(attempt, headers)
            except BaseException as error:
                connection.close()
                if kept and isinstance(error, ConnectionError):
                    # The server closed it while it was idle. That is no failure; those as old are likely closed too.
                    while idle:
                        idle.pop().close()
                    continue
                raise
            if keep:
                idle.append(connection)
            else:
                connection.close()
            return response
