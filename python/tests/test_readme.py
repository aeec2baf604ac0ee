"""The README's examples run as they stand, but for the server's address."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
NEEDS = {"hindsearch.langchain": "langchain_core", "hindsearch.llamaindex": "llama_index.core", "openai": "openai"}


class Model(BaseHTTPRequestHandler):
    """A chat model that searches once, then repeats what it was shown."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        last = request["messages"][-1]
        if last["role"] == "tool":
            message = {"role": "assistant", "content": last["content"]}
        else:
            tool = {"name": request["tools"][0]["function"]["name"], "arguments": json.dumps({"query": last["content"]})}
            message = {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": tool}]}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        answer = {"id": "1", "object": "chat.completion", "created": 0, "model": request["model"], "choices": [choice]}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def model(monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    yield
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("example", EXAMPLES, ids=[f"{number}" for number in range(1, len(EXAMPLES) + 1)])
def test_an_example_runs_and_prints_what_it_found(service, model, example, capsys):
    for module, package in NEEDS.items():
        if f"from {module} import" in example:
            pytest.importorskip(package, reason=f"NOT RUN: {package} is not installed")
    exec(compile(example.replace("http://127.0.0.1:8000", service), "README.md", "exec"), {"__name__": "__main__"})
    shown = capsys.readouterr().out
    assert (shown == "1.0 {'em': 1.0}\n") if "import score" in example else ("Curie" in shown)


def test_every_section_has_its_example():
    assert len(EXAMPLES) == 10
