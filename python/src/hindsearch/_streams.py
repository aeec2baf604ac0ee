"""HTTP/1.1 over asyncio streams: what one request and its answer need, and no more."""

from __future__ import annotations

import asyncio
import http.client
import io
import ssl

from ._retry import CONNECT_TIMEOUT, Attempt, Response
from ._settings import Address


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, address: Address, tls: ssl.SSLContext | None) -> Connection:
        opening = asyncio.open_connection(address.host, address.port, ssl=tls if address.tls else None)
        return cls(*await asyncio.wait_for(opening, CONNECT_TIMEOUT))

    def close(self) -> None:
        """At once, also in the middle of an answer."""
        self._writer.transport.abort()

    async def exchange(self, attempt: Attempt, headers: dict[str, str]) -> tuple[Response, bool]:
        """The answer, and whether the connection can be used again. Raises `OSError` or `http.client.HTTPException`."""
        request = attempt.request
        lines = [f"{request.method} {attempt.replica.address.prefix}{request.path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._writer.write("\r\n".join([*lines, "", ""]).encode("ascii") + (request.body or b""))
        await self._writer.drain()
        try:
            return await self._answer()
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise http.client.IncompleteRead(error.partial, error.expected) from None
            raise ConnectionResetError("the server closed the connection without an answer, or within one") from None
        except (asyncio.LimitOverrunError, ValueError) as error:
            raise http.client.HTTPException(f"the answer is not HTTP/1.1: {error}") from None

    async def _answer(self) -> tuple[Response, bool]:
        status, version, headers = await self._head()
        while 100 <= status < 200:
            status, version, headers = await self._head()
        keep = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
        if status in (204, 304):
            body = b""
        elif "chunked" in headers.get("transfer-encoding", "").lower():
            body = await self._chunks()
        elif "content-length" in headers:
            body = await self._reader.readexactly(_size(headers["content-length"], 10))
        else:
            body, keep = await self._reader.read(), False
        return Response(status, headers, body), keep

    async def _head(self) -> tuple[int, str, http.client.HTTPMessage]:
        head = io.BytesIO(await self._reader.readuntil(b"\r\n\r\n"))
        line = head.readline().decode("latin-1")
        version, status = (line.split(None, 2) + ["", ""])[:2]
        if not version.startswith("HTTP/1.") or not (status.isascii() and status.isdigit()):
            raise http.client.BadStatusLine(line[:80])
        return int(status), version, http.client.parse_headers(head)

    async def _chunks(self) -> bytes:
        chunks = []
        while size := _size((await self._reader.readuntil(b"\r\n")).split(b";")[0].decode("latin-1"), 16):
            chunks.append(await self._reader.readexactly(size))
            await self._reader.readexactly(2)
        while await self._reader.readuntil(b"\r\n") != b"\r\n":
            pass  # trailers
        return b"".join(chunks)


def _size(text: str, base: int) -> int:
    size = int(text.strip(), base)
    if size < 0:
        raise ValueError(f"a length of `{size}`")
    return size
