"""What the clients promise of a server that is well: on the fake server and, where there is one, on the real one."""

import math

import pytest

import hindsearch


def test_a_query_gives_one_result_with_its_best_hits_first(connect, service):
    [result] = connect(service).search("radium discovered by Marie Curie", top_k=2)
    assert len(result.hits) == 2
    assert "adium" in result.hits[0].text
    assert result.hits[0].score >= result.hits[1].score
    assert isinstance(result.hits[0].id, str)
    assert not result.truncated


def test_results_keep_the_order_of_the_queries(connect, service):
    client = connect(service)
    queries = ["radium discovered", "born in Warsaw", "radium discovered"]
    first, second, third = client.search(queries, top_k=1)
    assert first == third == client.search(queries[0], top_k=1)[0]
    assert second == client.search(queries[1], top_k=1)[0]


def test_any_iterable_of_strings_is_taken(connect, service):
    client = connect(service)
    assert client.search(iter(("radium", "Warsaw"))) == client.search(["radium", "Warsaw"])


def test_no_queries_give_no_results(connect, service):
    client = connect(service)
    assert client.search([]) == []
    assert client.search_vectors([]) == []
    assert client.embed([]) == []


def test_five_thousand_queries_go_out_in_requests_the_server_takes(connect, fake):
    results = connect(fake.url).search([f"radium {number}" if number % 2 else "warsaw" for number in range(5000)], top_k=1)
    assert [result.hits[0].title for result in results] == ["Marie Curie", "Radium"] * 2500
    assert [len(body["queries"]) for _, _, body in fake.requests] == [4096, 904]


def test_long_queries_go_out_in_requests_the_server_takes(connect, fake):
    queries = ["ü" * 30_000] * 600  # 36 MB of UTF-8
    assert len(connect(fake.url).search(queries)) == 600
    assert len(fake.requests) == 3
    assert all(int(headers["Content-Length"]) <= 16 * 1024 * 1024 for _, headers, _ in fake.requests)


def test_non_ascii_texts_arrive_as_they_are(connect, fake):
    query = 'Skłodowska 数学 \u2028 \N{MUSICAL SYMBOL G CLEF} "quoted"\n'
    [result] = connect(fake.url).search(query, ids=["ü/2"], fields=["id", "title", "text"])
    assert fake.requests[0][2]["queries"] == [query]
    assert result.hits[0] == hindsearch.Hit(id="ü/2", title=None, text="Zürich – 数学 – Ελλάδα: a passage without a title.")


def test_fields_choose_what_hits_hold(connect, service):
    [result] = connect(service).search("radium", fields=["id", "row"], top_k=1)
    [hit] = result.hits
    assert hit == hindsearch.Hit(id=hit.id, row=hit.row)
    assert isinstance(hit.row, int)


def test_ids_filter_and_exclude(connect, service):
    client = connect(service)
    ids = [hit.id for hit in client.search("radium", top_k=2)[0].hits]
    assert [hit.id for hit in client.search("radium", ids=ids[1:])[0].hits] == ids[1:]
    assert ids[0] not in [hit.id for hit in client.search("radium", exclude_ids=ids[:1], effort=64)[0].hits]


def test_a_passage_is_found_by_its_id(connect, service):
    client = connect(service)
    [hit] = client.search("radium", top_k=1)[0].hits
    passage = client.passage(hit.id)
    assert (passage.id, passage.title, passage.text) == (hit.id, hit.title, hit.text)


def test_an_id_may_hold_any_character(connect, fake):
    assert connect(fake.url).passage("ü/2").title is None


def test_an_unknown_passage_is_a_key_error(connect, service):
    with pytest.raises(KeyError) as caught:
        connect(service).passage("no such/../passage ü?#")
    assert isinstance(caught.value, hindsearch.NotFound)
    assert (caught.value.code, caught.value.status) == ("not_found", 404)
    assert caught.value.request_id and caught.value.url.startswith(service + "/v1/passages/no%20such")


def test_what_the_server_refuses_is_a_value_error_with_its_words(connect, service):
    with pytest.raises(ValueError) as caught:
        connect(service).search("radium", top_k=0)
    error = caught.value
    assert isinstance(error, hindsearch.InvalidInput)
    assert (error.code, error.status, error.url) == ("invalid_input", 422, service + "/v1/search")
    assert "top_k" in error.message and error.message in str(error) and error.request_id in str(error)


def test_vectors_find_what_their_texts_find(connect, real):
    client = connect(real)
    queries = ["Who discovered radium?", "born in Warsaw"]
    vectors = client.embed(queries)
    assert all(math.isclose(sum(number * number for number in vector), 1, abs_tol=1e-4) for vector in vectors)
    by_vector, by_text = client.search_vectors(vectors), client.search(queries)
    assert [[hit.id for hit in result.hits] for result in by_vector] == [[hit.id for hit in result.hits] for result in by_text]


def test_embeddings_come_in_order_with_every_bit(connect, fake):
    assert connect(fake.url).embed(["a", "abc"], "passage") == [[1.0, -0.5], [3.0, -0.5]]
    assert fake.requests[0][2]["input_type"] == "passage"


def test_a_numpy_matrix_is_taken_as_vectors(connect, fake):
    numpy = pytest.importorskip("numpy", reason="NOT RUN: numpy is not installed")
    assert len(connect(fake.url).search_vectors(numpy.eye(2, dtype="float32"))) == 2
    assert fake.requests[0][2]["vectors"] == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.search(None),
        lambda client: client.search(b"bytes"),
        lambda client: client.search(["a", 1]),
        lambda client: client.search({"a": 1}),
        lambda client: client.search("half a pair: \ud800"),
        lambda client: client.search("a", fields="id"),
        lambda client: client.search("a", top_k=object()),
        lambda client: client.search_vectors([0.1, 0.2]),
        lambda client: client.search_vectors([["a"]]),
        lambda client: client.search_vectors([[float("nan")]]),
        lambda client: client.passage(""),
        lambda client: client.passage(7),
        lambda client: client.passage("\ud800"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_it_is(connect, fake, call):
    with pytest.raises(hindsearch.InvalidInput):
        call(connect(fake.url))
    assert fake.requests == []


@pytest.mark.parametrize(
    "options",
    [
        {"url": []},
        {"url": None},
        {"url": 8000},
        {"url": "127.0.0.1:8000"},
        {"url": "ftp://host"},
        {"url": "http://host:port"},
        {"url": "http://host?query"},
        {"url": "http://host/a b"},
        {"url": "http://hóst"},
        {"url": "http://host", "timeout": float("inf")},
        {"url": "http://host", "timeout": 0},
        {"url": "http://host", "attempt_timeout": -1},
        {"url": "http://host", "retries": -1},
        {"url": "http://host", "max_connections": 0},
        {"url": "http://host", "token": ""},
    ],
)
def test_settings_that_cannot_work_are_refused(connect, options):
    with pytest.raises(hindsearch.InvalidInput):
        connect(**options)


def test_readiness_and_info(connect, service, fake):
    assert connect(service).ready() is True
    assert isinstance(connect(service).info()["model_id"], str)
    fake.stop()
    assert connect(fake.url).ready() is False


def test_a_path_before_the_service_is_kept(connect, fake):
    with pytest.raises(hindsearch.NotFound):
        connect(fake.url + "/behind/proxy/").info()
    assert fake.requests[0][0] == "/behind/proxy/info"
