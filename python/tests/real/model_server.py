"""A chat server in OpenAI's manner, in its own thread, whose model is a function from the text so far to the next message."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = self.server.policy("".join(map(content, request["messages"])))
        base = {"id": "1", "created": 0, "model": request["model"]}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if request.get("stream"):
            first = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}
            last = {"index": 0, "delta": {}, "finish_reason": "stop"}
            chunks = [{"choices": [first]}, {"choices": [last]}, {"choices": [], "usage": usage}]
            lines = [json.dumps({**base, "object": "chat.completion.chunk", **chunk}) for chunk in chunks]
            return self.reply("".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]), "text/event-stream")
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        answer = {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
        return self.reply(json.dumps(answer), "application/json")

    def reply(self, text, kind):
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


def content(message):
    parts = message.get("content") or ""
    return parts if isinstance(parts, str) else "".join(part.get("text", "") for part in parts)


def start(policy):
    """The URL of the server."""
    server = Server(("127.0.0.1", 0), Handler)
    server.policy = policy
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"
