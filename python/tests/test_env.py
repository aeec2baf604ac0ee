"""The environment: one search for all that want one, faults that stay faults, and policies that cannot break it."""

import asyncio
import pickle

import pytest
from fake import status

import hindsearch
from hindsearch import AsyncClient, Client, Hit
from hindsearch.env import SearchEnv, SearchEnvs, look_up

LOOK, ANSWER = "<search>radium</search>", "<answer>Curie</answer>"


def test_an_episode_over_a_server(service):
    env = SearchEnv(Client(service))
    messages = env.reset("Who discovered radium?", {"target": ["Marie Curie"]}, source="test")
    assert messages[-1]["role"] == "user"
    step = env.step("<search>Who discovered radium?</search>")
    assert "Curie" in step.observation and (step.reward, step.done) == (0.0, False)
    assert step.info == {"action": "search", "queries": ["Who discovered radium?"], "truncated": False, "searches": 1}
    step = env.step("<answer>Marie Curie</answer>")
    assert (step.observation, step.reward, step.done) == ("", 1.0, True)
    assert step.info["stop"] == "answer" and step.info["terms"] == {"em": 1.0}


def test_asyncio_and_pickles_play_the_same(service):
    async def play(retriever):
        env = SearchEnv(retriever)
        env.reset("Who discovered radium?", "Marie Curie")
        first = await env.step_async("<search>radium</search>")
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
    envs.reset(["a?", {"question": "b?", "golds": "Curie"}, "c?", "d?"])
    before = len(fake.requests)
    steps = envs.step([LOOK, ANSWER, "<search>Warsaw</search>", LOOK])
    assert len(fake.requests) == before + 1 and fake.requests[-1][2]["queries"] == ["radium", "Warsaw"]
    assert [step.info["action"] for step in steps] == ["search", "answer", "search", "search"]
    assert steps[1].reward == 1.0 and steps[0].observation == steps[3].observation != steps[2].observation
    assert envs.step([None, None, ANSWER, None])[2].done and len(fake.requests) == before + 1
    with pytest.raises(hindsearch.InvalidInput, match="episode 1, which is over"):
        envs.step([LOOK, LOOK, None, None])
    assert envs.envs[0].episode.turns == 1, "nothing has changed"
    with pytest.raises(hindsearch.InvalidInput, match="each of 4 episodes, found 1"):
        envs.step([LOOK])


def test_a_batch_goes_on_after_a_fault(fake):
    envs = SearchEnvs(Client(fake.url, retries=0))
    envs.reset(["a?", {"question": "b?", "golds": "Curie"}])
    fake.faults = [status(500)]
    with pytest.raises(hindsearch.ServerError):
        envs.step([LOOK, ANSWER])
    first, second = asyncio.run(envs.resume_async())
    assert "Radium" in first.observation and second.reward == 1.0


@pytest.mark.parametrize("query", ["", " \n", "x" * 70_000], ids=["empty", "blank", "long"])
def test_a_query_that_no_server_takes_finds_nothing(service, query):
    env = SearchEnv(Client(service))
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
        env = SearchEnv(retriever, top_k=2)
        env.reset("q")
        assert '[1] "T": some text' in env.step(LOOK).observation
        env.reset("q")
        assert '[1] "T": some text' in asyncio.run(env.step_async(LOOK)).observation
    assert asked == [(["radium"], 2)] * 4


@pytest.mark.parametrize("answer", [[], [[1]], [[{"id": "1"}]]])
def test_a_retriever_that_answers_something_else_is_refused(answer):
    env = SearchEnv(lambda queries, top_k: answer)
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
    env = SearchEnv(Client(fake.url))
    env.reset("q")
    assert look_up(env, ["radium"]) == env.step(LOOK).observation


def test_nothing_goes_on_that_has_not_begun():
    with pytest.raises(hindsearch.InvalidInput, match="call `reset` first"):
        SearchEnv(lambda queries, top_k: []).step(LOOK)
