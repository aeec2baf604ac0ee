"""Every error that the clients raise.

Each carries `code` (the server's word, or the client's own where no answer came), `message`, `request_id` (find it in the
server's log), `status` (HTTP, `None` without an answer), `url` and `retry_after` (seconds, when the server or an open circuit
named them).
"""

from __future__ import annotations

from typing import Any


class HindsearchError(Exception):
    """The base of all errors here."""

    code = "error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        request_id: str | None = None,
        status: int | None = None,
        url: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.request_id = request_id
        self.status = status
        self.url = url
        self.retry_after = retry_after

    def __str__(self) -> str:  # KeyError would print the representation
        facts = [self.code]
        facts += [f"HTTP {self.status}"] if self.status else []
        facts += [self.url] if self.url else []
        facts += [f"request {self.request_id}"] if self.request_id else []
        return f"{self.message} ({', '.join(facts)})"

    def __reduce__(self) -> Any:  # errors cross process borders too
        facts = {key: getattr(self, key) for key in ("code", "request_id", "status", "url", "retry_after")}
        return _rebuild, (type(self), self.message, facts)


def _rebuild(kind: type[HindsearchError], message: str, facts: dict[str, Any]) -> HindsearchError:
    return kind(message, **facts)


class InvalidInput(HindsearchError, ValueError):
    """The request cannot be answered as it is."""

    code = "invalid_input"


class NotFound(HindsearchError, KeyError):
    """No such passage or path."""

    code = "not_found"


class Unauthorized(HindsearchError):
    """The token is missing or wrong, or the server refuses this client."""

    code = "unauthorized"


class Overloaded(HindsearchError):
    """The server has more work than it takes on; `retry_after` says when to come back."""

    code = "overloaded"


class Timeout(HindsearchError, TimeoutError):
    """No answer in time."""

    code = "timeout"


class Unavailable(HindsearchError, ConnectionError):
    """No server answered, or it is not ready."""

    code = "unavailable"


class ServerError(HindsearchError):
    """The server failed, or what answered does not speak the protocol."""

    code = "internal"


BY_CODE: dict[str, type[HindsearchError]] = {
    kind.code: kind for kind in (InvalidInput, NotFound, Unauthorized, Overloaded, Timeout, Unavailable, ServerError)
}


def kind_of(code: str | None, status: int) -> type[HindsearchError]:
    """The class for a server's code, or for the status where the code is unknown or missing."""
    if code in BY_CODE:
        return BY_CODE[code]
    if status in (401, 403):
        return Unauthorized
    if status == 404:
        return NotFound
    if status in (408, 504):
        return Timeout
    if status == 503:
        return Unavailable
    return InvalidInput if 400 <= status < 500 else ServerError
