"""A server of hindsearch's HTTP contract over a few passages, which fails as it is told.

`faults` is a list of functions; each request takes the first of them in place of its answer, until none are left.
"""

import base64
import json
import socket
import struct
import threading
from array import array
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

PASSAGES = [
    {"id": "0", "title": "Marie Curie", "text": "Marie Curie was a physicist and chemist born in Warsaw."},
    {"id": "1", "title": "Radium", "text": "Radium was discovered by Marie and Pierre Curie in 1898."},
    {"id": "ü/2", "title": None, "text": "Zürich – 数学 – Ελλάδα: a passage without a title."},
]


class FakeServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, tls=None):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.server_port}"
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.token = None
        self.faults = []
        self.requests = []  # (path, headers, parsed body) in order of arrival
        self.connections = Counter()  # requests by the client's port
        self.open = []
        self.stopping = threading.Event()
        self.disconnected = threading.Event()
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self):
        """As a killed process: the port refuses, and open connections are reset."""
        self.stopping.set()
        self.shutdown()
        self.server_close()
        for connection in self.open:
            abort(connection)

    def handle_error(self, request, client_address):
        pass  # clients hang up on purpose


def abort(connection):
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    connection.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self):
        super().setup()
        self.server.open.append(self.connection)

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.take(None)

    def do_POST(self):
        self.take(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def take(self, body):
        self.server.connections[self.client_address] += 1
        self.server.requests.append((self.path, self.headers, body))
        try:
            fault = self.server.faults.pop(0)
        except IndexError:
            self.reply(*self.answer(body))
        else:
            fault(self, body)

    def answer(self, body):
        if self.server.token and self.headers["Authorization"] != f"Bearer {self.server.token}":
            return 401, problem("unauthorized", "the token is missing or wrong")
        if self.path == "/readyz":
            return 200, {"ready": True}
        if self.path == "/info":
            return 200, {"model_id": "fake", "version": "0.1.0"}
        if self.path.startswith("/hindsight/v1/"):
            return 200, {"items": [{"route": self.path.rsplit("/", 1)[-1], "item": item} for item in body["items"]]}
        if self.path == "/v1/search":
            return search(body)
        if self.path == "/v1/embeddings":
            vectors = [array("f", [len(text), -0.5]) for text in body["input"]]
            return 200, {"data": [{"embedding": base64.b64encode(vector).decode()} for vector in vectors]}
        if self.path.startswith("/v1/passages/"):
            wanted = unquote(self.path[len("/v1/passages/") :])
            for row in range(len(PASSAGES)):
                if PASSAGES[row]["id"] == wanted:
                    return 200, passage(row)
        return 404, problem("not_found", f"`{self.path}` is not here")

    def reply(self, status, value, **headers):
        body = value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False).encode()
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Request-Id", self.headers.get("X-Request-Id", "none"))
        self.end_headers()
        self.wfile.write(body)


def problem(code, message):
    return {"code": code, "message": message, "request_id": "from-the-server"}


def passage(row):
    title, text = PASSAGES[row]["title"], PASSAGES[row]["text"]
    return {**PASSAGES[row], "row": row, "contents": f'"{title}"\n{text}' if title else text, "url": None}


def search(body):
    if body.get("top_k") == 0:
        return 422, problem("invalid_input", "`top_k` must be 1 to 1,000, found `0`")
    found = []
    for query in body.get("queries") or [str(vector) for vector in body["vectors"]]:
        scores = [sum(word in passage["text"].lower() for word in query.lower().split()) for passage in PASSAGES]
        rows = sorted(range(len(PASSAGES)), key=lambda row: (-scores[row], row))
        filters = body.get("filter", {})
        rows = [row for row in rows if PASSAGES[row]["id"] in filters.get("ids", [passage["id"] for passage in PASSAGES])]
        rows = [row for row in rows if PASSAGES[row]["id"] not in filters.get("exclude_ids", [])]
        fields = body.get("fields", ["id", "title", "text", "score"])
        hits = [{**passage(row), "score": float(scores[row])} for row in rows[: body.get("top_k", 3)]]
        found.append({"hits": [{key: hit[key] for key in fields} for hit in hits], "truncated": len(query) > 1000})
    return 200, {"results": found, "index": {"generation": 1}, "timings": {}, "request_id": "from-the-server"}


# Faults.


def status(code, value=b"", **headers):
    return lambda handler, body: handler.reply(code, value, **headers)


def reset(handler, body):
    handler.close_connection = True
    abort(handler.connection)


def hang_up(handler, body):
    handler.close_connection = True


def hang(handler, body):
    """No answer, until the client has gone."""
    handler.close_connection = True
    handler.connection.settimeout(0.02)
    while not handler.server.stopping.is_set():
        try:
            if not handler.connection.recv(1):
                handler.server.disconnected.set()
                return
        except socket.timeout:
            continue
        except OSError:
            handler.server.disconnected.set()
            return


def cut_short(handler, body):
    handler.close_connection = True
    handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"results": [')


def cut_short_in_chunks(handler, body):
    handler.close_connection = True
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n")
    handler.wfile.write(b'{"results": [\r\n')


def not_http(handler, body):
    handler.close_connection = True
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")


def in_chunks(handler, body):
    """The right answer, in chunks of 7 bytes, with an extension and a trailer."""
    text = json.dumps(handler.answer(body)[1]).encode()
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for start in range(0, len(text), 7):
        piece = text[start : start + 7]
        handler.wfile.write(b"%x;note=1\r\n%s\r\n" % (len(piece), piece))
    handler.wfile.write(b"0\r\nX-Trailer: 1\r\n\r\n")


def until_close(handler, body):
    """The right answer in HTTP/1.0's manner."""
    handler.close_connection = True
    handler.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n" + json.dumps(handler.answer(body)[1]).encode())


def answer_and_close(handler, body):
    """The right answer, after which the server closes without having said so."""
    handler.reply(*handler.answer(body))
    handler.close_connection = True


def drip(where):
    """An answer that comes a byte at a time, for ever, in its `head` or its `body`."""

    def fault(handler, body):
        handler.close_connection = True
        head = b"HTTP/1.1 200 OK\r\nX-Slow: "
        handler.wfile.write(head if where == "head" else head + b"1\r\nContent-Length: 100000\r\n\r\n")
        while not handler.server.stopping.wait(0.02):
            try:
                handler.wfile.write(b"1")
            except OSError:
                return

    return fault
