"""How a call reaches its answer, without any I/O: generators that ask for an `Attempt` or a `Pause` and are sent the outcome.

The blocking and the asyncio client each drive them with a loop of a few lines, so tries, failover and errors are the same.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import math
import random
import socket
import ssl
import time
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.client import HTTPMessage
from typing import Any, TypeVar, Union

from ._calls import READY, Call, Request
from ._replicas import OPENS_AFTER, Replica, Replicas
from ._settings import VERSION, Settings
from .errors import HindsearchError, ServerError, Timeout, Unavailable, kind_of

T = TypeVar("T")

RETRIED = (500, 502, 503, 504)
BACKOFF = 0.1
BACKOFF_CAP = 5.0
CONNECT_TIMEOUT = 5.0
"""Seconds for a connection, so that a host that drops packets does not use up a try."""


@dataclass(frozen=True)
class Attempt:
    replica: Replica
    request: Request
    timeout: float

    def url(self) -> str:
        return self.replica.address.url + self.request.path


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Response:
    status: int
    headers: HTTPMessage
    body: bytes


# An exception when no answer came, `None` after a pause.
Outcome = Union[Response, BaseException, None]
Plan = Generator[Union[Attempt, Pause], Outcome, T]


def perform(call: Call[T], replicas: Replicas, settings: Settings, deadline: float) -> Plan[T]:
    """All requests of a call, one after the other."""
    answers = []
    for request in call.requests:
        answers.append((yield from _attempts(request, replicas, settings, deadline)))
    try:
        return call.read(answers)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        message = f"the answer has not the shape expected of hindsearch: {error!r}"
        raise ServerError(_hide(message, settings), url=settings.addresses[0].url, request_id=call.requests[0].id) from error


def ready(replicas: Replicas, settings: Settings) -> Plan[bool]:
    """Whether some replica can answer now. Polling a service that starts leaves its circuits alone."""
    for replica in replicas.all:
        attempt = Attempt(replica, READY, settings.timeout / len(replicas.all))
        outcome = yield attempt
        if not isinstance(outcome, Response) or outcome.status in RETRIED:
            continue
        if outcome.status != 200:
            raise _refusal(outcome, attempt, settings)
        replicas.report(replica, time.monotonic(), failed=False)
        return True
    return False


def headers(attempt: Attempt, settings: Settings) -> dict[str, str]:
    """Every header of a request; nothing is left to the transport."""
    lines = {
        "Host": attempt.replica.address.netloc,
        "User-Agent": f"hindsearch-python/{VERSION}",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "X-Request-Id": attempt.request.id,
        "X-Request-Timeout-Ms": str(max(1, int(attempt.timeout * 1000))),
    }
    if settings.token:
        lines["Authorization"] = f"Bearer {settings.token.value}"
    if attempt.request.body is not None:
        lines["Content-Type"] = "application/json"
        lines["Content-Length"] = str(len(attempt.request.body))
    return lines


def no_slot(settings: Settings) -> Timeout:
    return Timeout(f"{settings.max_connections} requests were in flight for {settings.timeout:g} s: raise `max_connections`")


def _attempts(request: Request, replicas: Replicas, settings: Settings, deadline: float) -> Plan[Any]:
    """The JSON of the first answer that is not a passing failure, or the last failure."""
    resume: dict[Replica, float] = {}
    failed: Counter[Replica] = Counter()
    error: HindsearchError | None = None
    for left in reversed(range(settings.retries + len(replicas.all))):
        replica, wait = replicas.pick(time.monotonic(), resume)
        if wait and error is None:
            # An open circuit is a refusal that costs no request.
            error = Unavailable(f"failed {OPENS_AFTER} times in a row and is left alone", url=replica.address.url)
            error.retry_after = wait
            continue
        if wait:
            if time.monotonic() + wait >= deadline:
                break
            yield Pause(wait)
            replica, wait = replicas.pick(time.monotonic(), resume)
            if wait:
                continue  # another caller took the probe
        time_left = deadline - time.monotonic()
        if time_left <= 0:
            break
        share = settings.attempt_timeout or (time_left / 2 if left else time_left)
        attempt = Attempt(replica, request, min(share, time_left))
        outcome = yield attempt
        now = time.monotonic()
        if isinstance(outcome, Response) and outcome.status not in RETRIED:
            replicas.report(replica, now, failed=False)
            return _json(outcome, attempt, settings)
        error = _refusal(outcome, attempt, settings) if isinstance(outcome, Response) else _failure(outcome, attempt)
        if error.status != 503 or error.retry_after is None:  # a server that sheds load and says until when is well
            replicas.report(replica, now, failed=True)
        jitter = random.uniform(0, min(BACKOFF_CAP, BACKOFF * 2 ** failed[replica]))
        # Who shows a wrong certificate will show it again.
        hopeless = isinstance(outcome, ssl.SSLCertVerificationError)
        resume[replica] = math.inf if hopeless else now + (error.retry_after or 0.0) + jitter
        failed[replica] += 1
    if error is None:
        error = Timeout(f"no time left of {settings.timeout:g} s", request_id=request.id, url=settings.addresses[0].url)
    tries = sum(failed.values())
    if tries > 1:
        error.message += f", after {tries} tries"
    raise error


def _json(response: Response, attempt: Attempt, settings: Settings) -> Any:
    if response.status != 200:
        raise _refusal(response, attempt, settings)
    try:
        return json.loads(response.body)
    except (ValueError, RecursionError):
        found = response.body[:80].decode("utf-8", "replace")
        error = ServerError(_hide(f"expected JSON, found `{found}`: is this a hindsearch server?", settings))
        error.status, error.url = response.status, attempt.url()
        error.request_id = response.headers.get("x-request-id", attempt.request.id)
        raise error from None


def _refusal(response: Response, attempt: Attempt, settings: Settings) -> HindsearchError:
    """The error that an answer other than 200 tells."""
    try:
        told = json.loads(response.body)
    except (ValueError, RecursionError):
        told = None
    told = told if isinstance(told, dict) else {}
    told = {key: told[key] for key in ("code", "message", "request_id") if isinstance(told.get(key), str)}
    text = response.body[:200].decode("utf-8", "replace").strip() or "the answer has no body"
    return kind_of(told.get("code"), response.status)(
        _hide(told.get("message", text), settings),
        code=told.get("code"),
        status=response.status,
        request_id=told.get("request_id") or response.headers.get("x-request-id", attempt.request.id),
        url=attempt.url(),
        retry_after=_retry_after(response.headers.get("retry-after")),
    )


def _failure(cause: Outcome, attempt: Attempt) -> HindsearchError:
    """The error of an attempt without an answer; its cause is the transport's exception."""
    late = isinstance(cause, (TimeoutError, socket.timeout, asyncio.TimeoutError))  # three classes before Python 3.11
    kind, text = (Timeout, "no answer in time") if late else (Unavailable, f"{type(cause).__name__}: {cause}")
    if isinstance(cause, http.client.BadStatusLine):
        text = (
            f"the answer is not HTTP but {ascii(str(cause))[:80]}: is another program there, or does it speak TLS (`https://`)?"
        )
    error = kind(text, request_id=attempt.request.id, url=attempt.url())
    error.__cause__ = cause if isinstance(cause, BaseException) else None
    return error


def _retry_after(value: str | None) -> float | None:
    """Seconds, from a number or an HTTP date; `None` for anything else."""
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (OverflowError, TypeError, ValueError):
        return None


def _hide(text: str, settings: Settings) -> str:
    """A server, or what stands in its place, may echo the request's headers."""
    return text.replace(settings.token.value, "***") if settings.token else text
