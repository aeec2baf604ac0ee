"""The environment: one search for all that want one, faults that stay faults, and policies that cannot break it."""

import asyncio
import contextlib
import pickle
import threading
import time

import pytest
from fake import status

import hindsearch
from hindsearch import AsyncClient, Client, Hit
from hindsearch.env import SearchEnv, SearchEnvs, look_up, score

LOOK, ANSWER = "<search>radium</search>", "<answer>Curie</answer>"


def retrieve(queries, top_k):
    return [["some text"] for _ in queries]


def test_an_episode_over_a_server(service):
    env = SearchEnv(Client(service))
    messages = env.reset("Who discovered radium?", {"target": ["Marie Curie"]}, source="test")
    assert messages[-1]["role"] == "user"
    step = env.step("<search>Who discovered radium?</search>")
    assert "Curie" in step.observation and (step.reward, step.done) == (0.0, False)
    assert step.info.pop("retrieval_seconds") > 0
    assert step.info == {"action": "search", "queries": ["Who discovered radium?"], "truncated": False, "searches": 1}
    step = env.step("<answer>Marie Curie</answer>")
    assert (step.observation, step.reward, step.done) == ("", 1.0, True)
    assert step.info["stop"] == "answer" and step.info["terms"] == {"em": 1.0}


def test_asyncio_and_pickles_play_the_same(service):
    async def play(retriever):
        env = SearchEnv(retriever)
        env.reset("Who discovered radium?", "Marie Curie")
        first = await env.step_async("<search>radium</search>")
        assert first.info.pop("retrieval_seconds") > 0
        env = pickle.loads(pickle.dumps(env))
        return first, await env.step_async("<answer>Marie Curie</answer>")

    blocking, awaited = asyncio.run(play(Client(service))), asyncio.run(play(AsyncClient(service)))
    assert blocking == awaited and blocking[1].reward == 1.0


def test_a_fault_is_raised_and_the_search_can_be_asked_again(fake):
    env = SearchEnv(Client(fake.url, retries=0))
    env.reset("q", "Curie")
    fake.faults = [status(500)]
    with pytest.raises(hindsearch.ServerError):
        env.step(LOOK)
    assert env.episode.pending == ["radium"]
    with pytest.raises(hindsearch.InvalidInput, match="waits for passages"):
        env.step(ANSWER)
    assert "Radium" in env.resume().observation
    assert env.step(ANSWER).reward == 1.0


def test_a_batch_searches_once_and_each_query_once(fake):
    envs = SearchEnvs(Client(fake.url))
    envs.reset([{"question": question, "golds": "Curie"} for question in ("a?", "b?", "c?", "d?")])
    before = len(fake.requests)
    steps = envs.step([LOOK, ANSWER, "<search>Warsaw</search>", LOOK])
    assert len(fake.requests) == before + 1 and fake.requests[-1][2]["queries"] == ["radium", "Warsaw"]
    assert [step.info["action"] for step in steps] == ["search", "answer", "search", "search"]
    assert steps[0].info["retrieval_seconds"] == steps[2].info["retrieval_seconds"] > 0
    assert steps[1].reward == 1.0 and steps[0].observation == steps[3].observation != steps[2].observation
    assert envs.step([None, None, ANSWER, None])[2].done and len(fake.requests) == before + 1
    with pytest.raises(hindsearch.InvalidInput, match="episode 1, which is over"):
        envs.step([LOOK, LOOK, None, None])
    assert envs.envs[0].episode.turns == 1, "nothing has changed"
    with pytest.raises(hindsearch.InvalidInput, match="each of 4 episodes, found 1"):
        envs.step([LOOK])


def test_a_batch_goes_on_after_a_fault(fake):
    envs = SearchEnvs(Client(fake.url, retries=0))
    envs.reset([{"question": "a?", "golds": "Curie"}, {"question": "b?", "golds": "Curie"}])
    fake.faults = [status(500)]
    with pytest.raises(hindsearch.ServerError):
        envs.step([LOOK, ANSWER])
    first, second = asyncio.run(envs.resume_async())
    assert "Radium" in first.observation and second.reward == 1.0


@pytest.mark.parametrize("query", ["", " \n", "x" * 70_000], ids=["empty", "blank", "long"])
def test_a_query_that_no_server_takes_finds_nothing(service, query):
    env = SearchEnv(Client(service), reward=False)
    env.reset("q")
    step = env.step(f"<search>{query}</search>")
    # One that is so long has filled the context, too.
    assert step.info["searches"] == 1 and step.observation.strip().startswith("<information>") and "1" not in step.observation


@pytest.mark.parametrize(
    "passage",
    [
        Hit(id="1", contents='"T"\nsome text'),
        Hit(title="T", text="some text"),
        {"document": {"id": "1", "contents": '"T"\nsome text'}, "score": 0.5},
        {"title": "T", "text": "some text"},
        '"T"\nsome text',
    ],
)
def test_any_function_can_retrieve(passage):
    asked = []

    def retrieve(queries, top_k):
        asked.append((queries, top_k))
        return [[passage] for _ in queries]

    async def retrieve_later(queries, top_k):
        return retrieve(queries, top_k)

    for retriever in (retrieve, retrieve_later):
        env = SearchEnv(retriever, top_k=2, reward=False)
        env.reset("q")
        assert '[1] "T": some text' in env.step(LOOK).observation
        env.reset("q")
        assert '[1] "T": some text' in asyncio.run(env.step_async(LOOK)).observation
    assert asked == [(["radium"], 2)] * 4


@pytest.mark.parametrize("answer", [[], [[1]], [[{"id": "1"}]]])
def test_a_retriever_that_answers_something_else_is_refused(answer):
    env = SearchEnv(lambda queries, top_k: answer, reward=False)
    env.reset("q")
    with pytest.raises(hindsearch.InvalidInput, match="the retriever|a passage"):
        env.step(LOOK)
    assert env.episode.pending == ["radium"]


def test_an_episode_is_restored_from_its_record(fake):
    env, other = SearchEnv(Client(fake.url)), SearchEnv(Client(fake.url))
    env.reset("q", "Curie")
    env.step(LOOK)
    other.restore(env.episode.to_json(), "Curie")
    assert other.step(ANSWER).reward == 1.0


def test_a_tool_shows_what_the_recipe_shows(fake):
    env = SearchEnv(Client(fake.url), reward=False)
    env.reset("q")
    assert look_up(env, ["radium"]) == env.step(LOOK).observation


def test_nothing_goes_on_that_has_not_begun():
    with pytest.raises(hindsearch.InvalidInput, match="call `reset` first"):
        SearchEnv(lambda queries, top_k: []).step(LOOK)


@pytest.mark.parametrize("golds", [None, [], (), {"target": []}], ids=["none", "list", "tuple", "target"])
def test_a_reward_is_refused_where_no_answer_is_accepted(golds):
    env = SearchEnv(lambda queries, top_k: [])
    envs = SearchEnvs(lambda queries, top_k: [])
    for reset in (lambda: env.reset("q", golds), lambda: envs.reset([{"question": "q", "golds": golds}])):
        with pytest.raises(ValueError, match="`golds`: expected accepted answers.* found .*reward=False"):
            reset()
    with pytest.raises(ValueError, match="`golds`: expected accepted answers"):
        score("hindsearch", ANSWER, golds)
    with pytest.raises(ValueError, match="found `label`"):
        env.reset("q", {"label": "x"})


def test_episodes_are_played_without_answers_where_no_reward_is_wanted():
    envs = SearchEnvs(lambda queries, top_k: [["some text"] for _ in queries], reward=False)
    envs.reset(["a?", "b?"])
    [first, second] = envs.step([LOOK, ANSWER])
    assert "some text" in first.observation and (second.reward, second.done) == (0.0, True)
    assert second.info["stop"] == "answer" and not {"terms", "retrieval_hit"} & set(second.info)
    with pytest.raises(hindsearch.InvalidInput, match="reward=False"):
        envs.envs[1].score()


def test_a_servers_url_is_a_retriever(fake):
    env = SearchEnv(fake.url)
    env.reset("q", "Curie")
    assert "Radium" in env.step(LOOK).observation
    envs = SearchEnvs(fake.url)
    envs.reset([{"question": "q", "golds": "Curie"}])
    assert "Radium" in envs.step([LOOK])[0].observation


@pytest.mark.parametrize("given", [None, 8000, Client, {"url": "http://127.0.0.1:8000"}, "127.0.0.1:8000"])
@pytest.mark.parametrize("kind", [SearchEnv, SearchEnvs])
def test_what_looks_up_nothing_is_refused_at_once(kind, given):
    with pytest.raises(hindsearch.InvalidInput, match="expected a (server's )?URL"):
        kind(given)


def test_whether_a_search_found_an_answer_is_told_at_the_end_and_not_before():
    def retrieve(queries, top_k):
        return [[Hit(title="Radium", text="found by Curie")] for _ in queries]

    def play(gold, query="radium"):
        env = SearchEnv(retrieve)
        env.reset("q", gold)
        steps = [env.step(f"<search>{query}</search>"), env.step("<answer>x</answer>")]
        assert steps[0].info.pop("retrieval_seconds") >= 0
        return steps

    found, missed = play("curie"), play("Becquerel")
    assert found[0] == missed[0] and "retrieval_hit" not in found[0].info
    assert found[1].info.pop("retrieval_hit") is True and missed[1].info.pop("retrieval_hit") is False
    assert found[1] == missed[1], "nothing else tells"
    # An answer that the query held was not found by it.
    assert play("curie", "curie")[1].info["retrieval_hit"] is False


def test_a_text_is_scored_as_an_episode_is():
    env = SearchEnv(lambda queries, top_k: [["some text"] for _ in queries])
    env.reset("q", "Curie")
    env.step(LOOK)
    assert env.step(ANSWER).reward == 1.0
    for recipe in ("hindsearch", env.preset, env.rules):
        for said in (env.episode, f"{LOOK}<information><answer>no</answer></information>{ANSWER}"):
            assert score(recipe, said, {"target": ["Curie"]}).terms == {"em": 1.0}
            assert float(score(recipe, said, "nobody")) == 0.0
    assert score("hindsearch", env.episode, "Curie").retrieval_hit is False
    assert score("hindsearch", ANSWER, "Curie").retrieval_hit is None
    with pytest.raises(hindsearch.NotFound):
        score("nope", ANSWER, "Curie")


def test_a_recipes_limits_are_in_tokens_of_the_policy():
    passage = Hit(title="T", text="radium " * 2000)

    def shown(**counted):
        env = SearchEnv(lambda queries, top_k: [[passage] for _ in queries], "search-r1", reward=False, **counted)
        env.reset("q")
        before = env.episode.length
        step = env.step(LOOK)
        assert step.info["truncated"]
        return step.observation, env.episode.length - before

    def words_of(text):
        return len(text.split())

    # Of each way to count, what is shown has the recipe's 500 tokens, but for a rest in which nothing has room.
    words, length = shown(count=words_of)
    assert length == words_of(words) + words_of(LOOK) and 490 < words_of(words) <= 500
    letters, length = shown(count=len)
    assert length == len(letters) + len(LOOK) and 490 < len(letters) <= 500
    assert 1990 < len(shown()[0]) <= 2000, "four characters a token"


def test_what_counts_tokens_may_fail_and_nothing_has_changed():
    fails = []

    def count(text):
        if fails:
            raise fails[0]
        return len(text)

    env = SearchEnv(lambda queries, top_k: [["some text"] for _ in queries], count=count, reward=False)
    env.reset("q")
    fails.append(RuntimeError("no tokenizer"))
    with pytest.raises(RuntimeError, match="no tokenizer"):
        env.step(LOOK)
    with pytest.raises(RuntimeError, match="no tokenizer"):
        env.episode.length  # noqa: B018
    fails.clear()
    assert env.episode.pending == ["radium"] and "some text" in env.resume().observation
    with pytest.raises(hindsearch.InvalidInput, match="`count`: expected a function"):
        SearchEnv(retrieve, count=7)
    for wrong in ("3", -1, 2.5, None):
        env = SearchEnv(lambda queries, top_k: [["some text"]], count=lambda text, wrong=wrong: wrong, reward=False)
        env.reset("q")
        with pytest.raises(hindsearch.InvalidInput, match="`count`: expected a number of tokens"):
            env.step("nothing")
        assert env.episode.turns == 0


def test_what_counts_tokens_goes_with_pickles():
    env = SearchEnv(retrieve, count=len, reward=False)
    env.reset("q")
    length = env.episode.length
    copy = pickle.loads(pickle.dumps(env))
    assert copy.episode.length == length == len(env.episode.messages()[0]["content"]) and copy.rules.count is len


def test_threads_may_share_an_episode_whose_tokens_are_counted():
    def count(text):
        time.sleep(0)
        return len(text)

    env = SearchEnv(retrieve, count=count, reward=False)
    env.reset("q")

    def look():
        for _ in range(50):
            env.episode.length, env.episode.to_json()
            with contextlib.suppress(hindsearch.InvalidInput):
                env.decide("nothing")

    threads = [threading.Thread(target=look, daemon=True) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join(60) for thread in threads]
    assert not any(thread.is_alive() for thread in threads) and env.episode.stop == "turns"
