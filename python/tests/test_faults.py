"""What the clients promise of a server or a network that is not well."""

import time
from concurrent.futures import ThreadPoolExecutor

import fake as faults
import pytest
from fake import FakeServer

import hindsearch


@pytest.mark.parametrize(
    "fault",
    [
        faults.reset,
        faults.hang_up,
        faults.cut_short,
        faults.cut_short_in_chunks,
        faults.not_http,
        faults.status(500, b"Internal Server Error"),
        faults.status(502, b"<html>"),
        faults.status(503),
        faults.status(504),
    ],
)
def test_a_passing_failure_is_tried_again(connect, fake, fault):
    fake.faults = [fault, fault]
    assert connect(fake.url).search("radium")[0].hits[0].title == "Radium"
    assert len(fake.requests) == 3
    assert len({headers["X-Request-Id"] for _, headers, _ in fake.requests}) == 1


@pytest.mark.parametrize(
    ("fault", "kind", "is_also"),
    [
        (faults.status(400, b'{"code": "invalid_input", "message": "m"}'), hindsearch.InvalidInput, ValueError),
        (faults.status(413, b'{"code": "payload_too_large", "message": "m"}'), hindsearch.InvalidInput, ValueError),
        (faults.status(401, b'{"code": "unauthorized", "message": "m"}'), hindsearch.Unauthorized, Exception),
        (faults.status(403, b'{"code": "forbidden", "message": "m"}'), hindsearch.Unauthorized, Exception),
        (faults.status(404, b"<html>not here"), hindsearch.NotFound, KeyError),
        (faults.status(408, b'{"code": "timeout", "message": "m"}'), hindsearch.Timeout, TimeoutError),
        (faults.status(429), hindsearch.InvalidInput, ValueError),
        (faults.status(302, Location="http://elsewhere"), hindsearch.ServerError, Exception),
        (faults.status(204), hindsearch.ServerError, Exception),
        (faults.status(200, b"<html>a proxy's page"), hindsearch.ServerError, Exception),
        (faults.status(200, b'{"results": ['), hindsearch.ServerError, Exception),
        (faults.status(200, b"[" * 100_000), hindsearch.ServerError, Exception),
        (faults.status(200, b"null"), hindsearch.ServerError, Exception),
        (faults.status(200, b'{"results": []}'), hindsearch.ServerError, Exception),
        (faults.status(200, b'{"results": [{"hits": [7]}]}'), hindsearch.ServerError, Exception),
    ],
)
def test_a_lasting_failure_is_raised_at_once(connect, fake, fault, kind, is_also):
    fake.faults = [fault]
    with pytest.raises(kind) as caught:
        connect(fake.url).search("radium")
    assert isinstance(caught.value, is_also)
    assert caught.value.request_id and caught.value.url
    assert len(fake.requests) == 1


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (
            faults.status(503, b'{"code": "overloaded", "message": "512 requests in flight", "request_id": "r1"}'),
            hindsearch.Overloaded,
        ),
        (faults.status(503, b'{"code": "unavailable", "message": "not ready"}'), hindsearch.Unavailable),
        (faults.status(503, b"upstream connect error"), hindsearch.Unavailable),
        (faults.status(504, b'{"code": "timeout", "message": "late"}'), hindsearch.Timeout),
        (faults.status(500, b'{"code": "internal", "message": "a worker failed"}'), hindsearch.ServerError),
        (faults.reset, hindsearch.Unavailable),
    ],
)
def test_tries_are_bounded_and_the_last_failure_is_raised(connect, fake, fault, kind):
    fake.faults = [fault] * 9
    with pytest.raises(kind) as caught:
        connect(fake.url, retries=2).search("radium")
    assert len(fake.requests) == 3
    assert "after 3 tries" in str(caught.value)


def test_a_refused_connection_is_a_connection_error_with_its_cause(connect, fake):
    fake.stop()
    with pytest.raises(ConnectionError) as caught:
        connect(fake.url, retries=1).search("radium")
    assert isinstance(caught.value, hindsearch.Unavailable)
    assert caught.value.status is None and caught.value.request_id
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)


def test_retry_after_is_waited_for(connect, fake):
    fake.faults = [faults.status(503, Retry_After="1")]
    start = time.monotonic()
    connect(fake.url).search("radium")
    assert time.monotonic() - start >= 1


def test_a_retry_after_beyond_the_deadline_is_not(connect, fake):
    fake.faults = [faults.status(503, b'{"code": "overloaded", "message": "m"}', Retry_After="30")]
    start = time.monotonic()
    with pytest.raises(hindsearch.Overloaded) as caught:
        connect(fake.url, timeout=20).search("radium")
    assert time.monotonic() - start < 10
    assert caught.value.retry_after == 30


@pytest.mark.parametrize("value", ["soon", "-5", "Wed, 21 Oct 2015 07:28:00 GMT", "nan", "Wed, 21 Oct 99999 07:28:00 GMT"])
def test_any_retry_after_is_survived(connect, fake, value):
    fake.faults = [faults.status(503, Retry_After=value)]
    assert connect(fake.url).search("radium")


@pytest.mark.parametrize("fault", [faults.hang, faults.drip("head"), faults.drip("body")])
def test_the_deadline_holds_for_the_whole_call(connect, fake, fault):
    fake.faults = [fault] * 9
    start = time.monotonic()
    with pytest.raises(TimeoutError) as caught:
        connect(fake.url, timeout=0.6).search("radium")
    assert time.monotonic() - start < 5
    assert isinstance(caught.value, hindsearch.Timeout)
    assert len(fake.requests) >= 2


def test_a_lost_answer_leaves_time_for_another_try(connect, fake):
    fake.faults = [faults.hang]
    assert connect(fake.url, timeout=4).search("radium")
    assert len(fake.requests) == 2
    assert 0 < int(fake.requests[0][1]["X-Request-Timeout-Ms"]) <= 2000


@pytest.mark.parametrize("answer", [faults.in_chunks, faults.until_close])
def test_every_framing_of_a_body_is_read(connect, fake, answer):
    fake.faults = [answer]
    client = connect(fake.url, retries=0)
    assert client.search("radium") == client.search("radium")


def test_connections_are_kept_alive(connect, fake):
    client = connect(fake.url)
    for _ in range(5):
        client.search("radium")
    assert len(fake.connections) == 1


def test_a_connection_closed_while_idle_costs_no_try(connect, fake):
    client = connect(fake.url, retries=0)
    for _ in range(3):
        fake.faults = [faults.answer_and_close]
        assert client.search("radium")
        time.sleep(0.05)
        assert client.search("radium")


def test_a_dead_replica_is_passed_over(connect, fake):
    dead = FakeServer()
    dead.stop()
    client = connect([dead.url, fake.url], retries=0)
    for _ in range(30):
        assert client.search("radium")
    assert len(fake.requests) == 30


def test_a_failing_replica_hands_over_without_a_pause(connect, fake):
    other = FakeServer()
    other.faults = [faults.status(503, Retry_After="30")] * 10
    client = connect([other.url, fake.url], timeout=5)
    for _ in range(10):
        assert client.search("radium")
    assert (len(fake.requests), len(other.requests)) == (10, 5)
    other.stop()


def test_load_is_spread_over_replicas(connect, fake):
    other = FakeServer()
    client = connect([other.url, fake.url])
    for _ in range(10):
        client.search("radium")
    assert len(fake.requests) == len(other.requests) == 5
    other.stop()


def test_the_circuit_opens_after_ten_failures_and_one_probe_closes_it(connect, fake):
    client = connect(fake.url, retries=0)
    fake.faults = [faults.status(500)] * 10
    for _ in range(10):
        with pytest.raises(hindsearch.ServerError):
            client.search("radium")
    for _ in range(20):
        with pytest.raises(hindsearch.Unavailable) as caught:
            client.search("radium")
        assert 0 < caught.value.retry_after <= 5
    assert len(fake.requests) == 10

    fake.faults = [faults.status(500)]
    time.sleep(caught.value.retry_after)
    with pytest.raises(hindsearch.ServerError):
        client.search("radium")  # the probe fails
    with pytest.raises(hindsearch.Unavailable) as caught:
        client.search("radium")
    assert len(fake.requests) == 11

    time.sleep(caught.value.retry_after)
    for _ in range(5):
        assert client.search("radium")
    assert len(fake.requests) == 16


def test_one_probe_goes_out_however_many_callers_wait(connect, fake):
    client = connect(fake.url, retries=0)
    fake.faults = [faults.status(500)] * 10
    for _ in range(10):
        with pytest.raises(hindsearch.ServerError):
            client.search("radium")
    with pytest.raises(hindsearch.Unavailable) as caught:
        client.search("radium")
    fake.faults = [faults.hang]
    time.sleep(caught.value.retry_after)
    with ThreadPoolExecutor(8) as pool:
        probes = [pool.submit(client.search, "radium") for _ in range(8)]
        while sum(probe.done() for probe in probes) < 7:
            time.sleep(0.01)
        fake.stop()
    assert all(isinstance(probe.exception(), hindsearch.Unavailable) for probe in probes)
    assert len(fake.requests) == 11


def test_an_open_circuit_is_waited_for_within_the_deadline(connect, fake):
    fake.faults = [faults.hang_up] * 10
    client = connect(fake.url)
    for _ in range(2):
        with pytest.raises(hindsearch.Unavailable):
            client.search("radium")
    assert client.search("radium")
    assert len(fake.requests) == 11


def test_shed_load_and_refusals_do_not_open_the_circuit(connect, fake):
    client = connect(fake.url, retries=0)
    fake.faults = [faults.status(503, Retry_After="0")] * 12 + [faults.status(422)] * 12
    for _ in range(24):
        with pytest.raises(hindsearch.HindsearchError):
            client.search("radium")
    assert client.search("radium")


def test_a_service_that_starts_can_be_polled_and_used_at_once(connect, fake):
    client = connect(fake.url)
    fake.faults = [faults.status(503, Retry_After="1")] * 30
    for _ in range(30):
        assert client.ready() is False
    assert client.ready() is True
    assert client.search("radium")


def test_one_bad_answer_in_five_never_reaches_the_caller(connect, fake):
    bad = [faults.reset, faults.cut_short, faults.hang_up, faults.status(503, Retry_After="0")]
    fake.faults = [
        bad[number // 5 % 4] if number % 5 == 0 else lambda handler, body: handler.reply(*handler.answer(body))
        for number in range(200)
    ]
    client = connect(fake.url)
    expected = client.search("radium")
    for _ in range(150):
        assert client.search("radium") == expected
