"""The servers and clients that the tests share.

`--program` (a `hindsearch` program) and `--index` (an index of `examples/data/corpus.jsonl`) let the tests of the contract, of
the adapters and of the README also run against the real server; without them those runs are skipped, and say so. Both paths are
seen from the repository's root.
"""

import asyncio
import inspect
import json
import subprocess
import threading
from pathlib import Path

import pytest
from fake import FakeServer

import hindsearch

ROOT = Path(__file__).resolve().parents[2]


def pytest_addoption(parser):
    parser.addoption("--program", help="the `hindsearch` program to test against")
    parser.addoption("--index", help="the index that it serves")


@pytest.fixture
def fake():
    server = FakeServer()
    yield server
    server.stop()


class Blocking:
    """An `AsyncClient` that is called like a `Client`, on an event loop in a thread, so that one test tests both."""

    def __init__(self, *args, **options):
        self.inner = hindsearch.AsyncClient(*args, **options)
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def __getattr__(self, name):
        method = getattr(self.inner, {"close": "aclose"}.get(name, name))
        if not inspect.iscoroutinefunction(method):
            return method
        return lambda *args, **options: asyncio.run_coroutine_threadsafe(method(*args, **options), self.loop).result(60)

    def __repr__(self):
        return repr(self.inner)


@pytest.fixture(params=["sync", "async"])
def connect(request):
    """Makes a client, of either kind, that is closed after the test."""
    made = []

    def connect(url, **options):
        made.append((hindsearch.Client if request.param == "sync" else Blocking)(url, **options))
        return made[-1]

    yield connect
    for client in made:
        client.close()
        if isinstance(client, Blocking):
            client.loop.call_soon_threadsafe(client.loop.stop)


@pytest.fixture(scope="session")
def real(pytestconfig):
    """The URL of a real server, started for these tests."""
    program, index = pytestconfig.getoption("program"), pytestconfig.getoption("index")
    if not program or not index:
        pytest.skip("NOT RUN AGAINST THE REAL SERVER: it needs --program and --index")
    command = [ROOT / program, "--json", "serve", ROOT / index, "--port", "0", "--no-access-log"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    line = server.stdout.readline()
    assert line, f"`{program} serve {index}` ended with {server.wait(30)} before it served; its own words are above"
    yield json.loads(line)["address"]
    server.terminate()
    assert server.wait(30) == 0
    server.stdout.close()


@pytest.fixture(params=["fake", "real"])
def service(request):
    """The URL of the fake server, then of the real one."""
    server = request.getfixturevalue(request.param)
    return server if isinstance(server, str) else server.url
