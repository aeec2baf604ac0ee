"""What a client is told once, checked once; both clients start here."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from .errors import InvalidInput

VERSION = "0.1.0"


class Token:
    """A bearer token that no representation, log line or traceback shows."""

    def __init__(self, value: str) -> None:
        # http.client would print a token that cannot be a header.
        if not value or not _visible(value):
            raise InvalidInput("`token` must be visible ASCII characters without blanks")
        self.value = value

    def __repr__(self) -> str:
        return "***"


@dataclass(frozen=True)
class Address:
    """A replica's base URL, taken apart."""

    url: str
    tls: bool
    host: str
    port: int
    netloc: str
    prefix: str

    @classmethod
    def parse(cls, url: str) -> Address:
        try:
            parts = urlsplit(url.rstrip("/"))
            port = parts.port
        except (AttributeError, TypeError, ValueError):
            raise InvalidInput(f"expected a URL like `http://127.0.0.1:8000`, found `{url}`") from None
        if parts.username is not None or parts.password is not None:
            raise InvalidInput("the URL holds a user name or password: pass `token=` instead")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or not _visible(url):
            raise InvalidInput(f"expected a URL like `http://127.0.0.1:8000`, found `{url}`")
        tls = parts.scheme == "https"
        return cls(parts.geturl(), tls, parts.hostname, port or (443 if tls else 80), parts.netloc, parts.path)


@dataclass(frozen=True)
class Settings:
    addresses: tuple[Address, ...]
    token: Token | None
    timeout: float
    retries: int
    attempt_timeout: float | None
    max_connections: int
    ca_file: str | None

    def tls(self) -> ssl.SSLContext | None:
        """The context for `https` addresses, `None` when there are none."""
        return ssl.create_default_context(cafile=self.ca_file) if any(address.tls for address in self.addresses) else None


class Base:
    """The constructor, representation and pickling of both clients. Connections and circuits stay out of pickles."""

    def __init__(
        self,
        url: str | Sequence[str],
        token: str | None = None,
        *,
        timeout: float = 30.0,
        retries: int = 4,
        attempt_timeout: float | None = None,
        max_connections: int = 100,
        ca_file: str | None = None,
    ) -> None:
        """Args:
        url: the server, or several replicas of it.
        token: the server's bearer token.
        timeout: seconds for a whole call: all its tries, pauses and batches.
        retries: tries after the first of each replica, on connection errors, timeouts and HTTP 500, 502, 503, 504.
        attempt_timeout: seconds for one try; without it, half of the time left, and all of it on the last try.
        max_connections: requests in flight at once; further ones wait within their timeout.
        ca_file: PEM file of the certificates to trust, instead of the system's.
        """
        if not url or not isinstance(url, (str, Sequence)):
            raise InvalidInput(f"`url` must be a URL or a list of them, found `{url}`")
        addresses = tuple(Address.parse(one) for one in ([url] if isinstance(url, str) else url))
        _positive(timeout=timeout, max_connections=max_connections)
        if attempt_timeout is not None:
            _positive(attempt_timeout=attempt_timeout)
        if retries < 0:
            raise InvalidInput(f"`retries` must be 0 or more, found `{retries}`")
        secret = None if token is None else Token(token)
        self._settings = Settings(addresses, secret, timeout, retries, attempt_timeout, max_connections, ca_file)
        self._start()

    def _start(self) -> None:
        raise NotImplementedError

    def __repr__(self) -> str:
        urls = [address.url for address in self._settings.addresses]
        return f"{type(self).__name__}({urls[0] if len(urls) == 1 else urls!r}, timeout={self._settings.timeout:g})"

    def __getstate__(self) -> Settings:
        return self._settings

    def __setstate__(self, settings: Settings) -> None:
        self._settings = settings
        self._start()


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not 0 < value <= 1e6:
            raise InvalidInput(f"`{name}` must be above 0 and at most 1,000,000, found `{value}`")


def _visible(text: str) -> bool:
    return all("!" <= letter <= "~" for letter in text)
