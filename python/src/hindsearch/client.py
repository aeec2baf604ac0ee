"""The blocking client, on `http.client`."""

from __future__ import annotations

import functools
import http.client
import io
import os
import threading
import time
from collections.abc import Iterable
from typing import Any, TypeVar

from . import _calls, _retry
from ._replicas import Replicas
from ._retry import Attempt, Outcome, Pause, Plan, Response
from ._settings import Base, Settings
from .aio import AsyncClient
from .types import Passage, Result

T = TypeVar("T")


class Client(Base):
    """A hindsearch server, or several replicas of one.

    One client serves all threads: connections are kept alive and shared. It can be pickled and forked; the copy opens connections
    of its own. Errors are those of `hindsearch.errors`.
    """

    def search(
        self,
        queries: str | Iterable[str],
        *,
        top_k: int | None = None,
        effort: int | None = None,
        fields: Iterable[str] | None = None,
        ids: Iterable[str] | None = None,
        exclude_ids: Iterable[str] | None = None,
    ) -> list[Result]:
        """One result a query, in their order; a single string is one query. More than 4,096 go out in several requests.

        Args:
            top_k: hits a query, 1 to 1,000; the server's default without it.
            effort: candidates that an approximate index walks; more finds more and takes longer. Exact indexes ignore it.
            fields: what hits hold: `id`, `row`, `score`, `title`, `text`, `contents`, `url`;
                `id`, `title`, `text` and `score` without it.
            ids: search among these passages only.
            exclude_ids: leave these passages out.
        """
        return self._run(_calls.search(queries, top_k=top_k, effort=effort, fields=fields, ids=ids, exclude_ids=exclude_ids))

    def search_vectors(
        self,
        vectors: Iterable[Iterable[float]],
        *,
        top_k: int | None = None,
        effort: int | None = None,
        fields: Iterable[str] | None = None,
        ids: Iterable[str] | None = None,
        exclude_ids: Iterable[str] | None = None,
    ) -> list[Result]:
        """As `search`, with query vectors instead of texts: lists of numbers, or a matrix of shape (queries, dimensions)."""
        return self._run(
            _calls.search_vectors(vectors, top_k=top_k, effort=effort, fields=fields, ids=ids, exclude_ids=exclude_ids)
        )

    def passage(self, id: str) -> Passage:
        """The passage with this id; `NotFound` when the corpus has none."""
        return self._run(_calls.passage(id))

    def embed(self, texts: str | Iterable[str], input_type: str = "query") -> list[list[float]]:
        """One unit vector a text, by the index's own model; `input_type` is `query` or `passage`."""
        return self._run(_calls.embed(texts, input_type))

    def hindsight(self, what: str, items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """What a teacher may be told of episodes: an answer of the server for each item, in order; `error` where it refused.

        Args:
            what: `critique`, `block` or `align`.
            items: as the server's `/docs` describes them; `trajectory` is `json.loads(episode.to_json())`.
        """
        return self._run(_calls.hindsight(what, items))

    def info(self) -> dict[str, Any]:
        """The server's description of its model and index."""
        return self._run(_calls.info())

    def ready(self) -> bool:
        """Whether a search would be answered now, asked once and without retries."""
        session = self._session()
        return self._drive(session, _retry.ready(session.replicas, self._settings))

    def asynchronous(self) -> AsyncClient:
        """An `AsyncClient` with the same settings."""
        copy = AsyncClient.__new__(AsyncClient)
        copy.__setstate__(self._settings)
        return copy

    def close(self) -> None:
        """Closes the connections kept alive. A later call opens new ones."""
        for replica in self._session().replicas.all:
            while replica.idle:
                replica.idle.pop().close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        self._current = _Session(self._settings)

    def _session(self) -> _Session:
        if self._current.process != os.getpid():
            # A forked child must not read answers from its parent's sockets.
            self._start()
        return self._current

    def _run(self, call: _calls.Call[T]) -> T:
        deadline = time.monotonic() + self._settings.timeout
        session = self._session()
        if not session.slots.acquire(timeout=self._settings.timeout):
            raise _retry.no_slot(self._settings)
        try:
            return self._drive(session, _retry.perform(call, session.replicas, self._settings, deadline))
        finally:
            session.slots.release()

    def _drive(self, session: _Session, plan: Plan[T]) -> T:
        outcome: Outcome = None
        while True:
            try:
                step = plan.send(outcome)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                outcome = None
                continue
            try:
                outcome = session.exchange(step, _retry.headers(step, self._settings))
            except (OSError, http.client.HTTPException) as error:
                outcome = error


class _Session:
    """What belongs to one process: connections, circuits and slots."""

    def __init__(self, settings: Settings) -> None:
        self.process = os.getpid()
        self.replicas = Replicas(settings.addresses)
        self.slots = threading.BoundedSemaphore(settings.max_connections)
        self.tls = settings.tls()

    def exchange(self, attempt: Attempt, headers: dict[str, str]) -> Response:
        deadline = time.monotonic() + attempt.timeout
        idle = attempt.replica.idle
        while True:
            try:
                connection, kept = idle.pop(), True
            except IndexError:
                connection, kept = self._connect(attempt, deadline), False
            try:
                response = _send(connection, attempt, headers, deadline)
            except BaseException as error:
                connection.close()
                if kept and isinstance(error, ConnectionError):
                    # The server closed it while it was idle. That is no failure; those as old are likely closed too.
                    while idle:
                        idle.pop().close()
                    continue
                raise
            if connection.sock is not None:
                idle.append(connection)
            return response

    def _connect(self, attempt: Attempt, deadline: float) -> http.client.HTTPConnection:
        address = attempt.replica.address
        timeout = min(_retry.CONNECT_TIMEOUT, _left(deadline))
        if address.tls:
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                address.host, address.port, timeout=timeout, context=self.tls
            )
        else:
            connection = http.client.HTTPConnection(address.host, address.port, timeout=timeout)
        try:
            connection.connect()
        except BaseException:
            connection.close()
            raise
        return connection


def _send(connection: http.client.HTTPConnection, attempt: Attempt, headers: dict[str, str], deadline: float) -> Response:
    request = attempt.request
    connection.sock.settimeout(_left(deadline))
    connection.response_class = functools.partial(_TimedResponse, deadline)  # type: ignore[assignment]
    connection.request(request.method, attempt.replica.address.prefix + request.path, body=request.body, headers=headers)
    answer = connection.getresponse()
    try:
        return Response(answer.status, answer.headers, answer.read())
    finally:
        answer.close()


class _TimedResponse(http.client.HTTPResponse):
    """A response whose reads together end by the deadline. A socket's own timeout starts anew at every byte."""

    def __init__(self, deadline: float, sock: Any, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp.close()
        self.fp = io.BufferedReader(_TimedReader(sock, deadline))


class _TimedReader(io.RawIOBase):
    def __init__(self, sock: Any, deadline: float) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)  # keeps the socket open until the body is read
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(_left(self._deadline))
        return self._raw.readinto(buffer)  # type: ignore[no-any-return]

    def close(self) -> None:
        self._raw.close()
        super().close()


def _left(deadline: float) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("the deadline has passed")
    return seconds
