"""Threads, processes, tasks: what one client survives."""

import asyncio
import multiprocessing
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import fake as faults
import pytest

import hindsearch


def test_many_threads_share_a_client(fake):
    with hindsearch.Client(fake.url) as client:
        queries = ["radium discovered", "born in Warsaw"] * 200
        expected = client.search(queries[:2])
        with ThreadPoolExecutor(32) as pool:
            answers = list(pool.map(client.search, queries))
    assert answers == [[result] for result in expected] * 200
    assert len(fake.connections) <= 33


def search_in_child(client, answers):
    answers.put(client.search("radium"))


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_a_client_crosses_into_another_process(fake, method):
    context = multiprocessing.get_context(method)
    client = hindsearch.Client(fake.url, retries=0)
    expected = client.search("radium")  # so that there is a connection to leave behind
    answers = context.Queue()
    children = [context.Process(target=search_in_child, args=(client, answers)) for _ in range(3)]
    for child in children:
        child.start()
    for _ in range(20):
        assert client.search("radium") == expected
    assert [answers.get(timeout=30) for _ in children] == [expected] * 3
    for child in children:
        child.join(30)
    assert sorted(fake.connections.values()) == [1, 1, 1, 21]  # nobody used another's connection


@pytest.mark.parametrize("kind", [hindsearch.Client, hindsearch.AsyncClient])
def test_a_pickle_keeps_the_settings(fake, kind):
    fake.token = "sesame"
    client = kind([fake.url], token="sesame", timeout=3, retries=1)
    copy = pickle.loads(pickle.dumps(client))
    assert repr(copy) == repr(client)
    call = copy.search("radium")
    assert (asyncio.run(call) if asyncio.iscoroutine(call) else call)[0].hits


def test_errors_cross_processes_with_their_facts(connect, fake):
    with pytest.raises(hindsearch.NotFound) as caught:
        connect(fake.url).passage("none")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is hindsearch.NotFound and vars(copy) == vars(caught.value) and str(copy) == str(caught.value)


def test_an_asynchronous_copy_has_the_same_settings(fake):
    fake.token = "sesame"
    client = hindsearch.Client(fake.url, token="sesame", timeout=3)
    assert asyncio.run(client.asynchronous().search("radium")) == client.search("radium")


def test_one_async_client_serves_several_event_loops(fake):
    client = hindsearch.AsyncClient(fake.url)
    assert asyncio.run(client.search("radium")) == asyncio.run(client.search("radium"))


def test_a_thousand_tasks_stay_within_the_cap(fake):
    flying, most, lock = 0, 0, threading.Lock()

    def counted(handler, body):
        nonlocal flying, most
        with lock:
            flying, most = flying + 1, max(most, flying + 1)
        time.sleep(0.002)
        with lock:
            flying -= 1
        handler.reply(*handler.answer(body))

    fake.faults = [counted] * 1000

    async def main():
        async with hindsearch.AsyncClient(fake.url, max_connections=8) as client:
            return await asyncio.gather(*[client.search(f"radium {number}") for number in range(1000)])

    assert len(asyncio.run(main())) == 1000
    assert 1 < most <= 8
    assert len(fake.connections) <= 8


def test_waiting_for_a_free_connection_counts_in_the_deadline(connect, fake):
    fake.faults = [faults.hang] * 99
    client = connect(fake.url, timeout=1, max_connections=1, retries=0)
    start = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        # Fewer than open the circuit.
        calls = [pool.submit(client.search, "radium") for _ in range(8)]
        # On a busy machine the time may be over at any point, and each has an error of its own.
        assert {type(call.exception()) for call in calls} <= {hindsearch.Timeout, hindsearch.Unavailable, hindsearch.ServerError}
    assert time.monotonic() - start < 7  # one after the other would take 8
    fake.faults = []
    assert client.search("radium")  # the slot came back


def test_cancelling_a_call_closes_its_connection(fake):
    fake.faults = [faults.hang]

    async def main():
        async with hindsearch.AsyncClient(fake.url) as client:
            task = asyncio.ensure_future(client.search("radium"))
            while not fake.requests:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.get_running_loop().run_in_executor(None, fake.disconnected.wait, 10)
            return await client.search("radium")  # and the client goes on

    assert asyncio.run(main())[0].hits
    assert len(fake.requests) == 2
