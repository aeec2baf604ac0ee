"""Question-answering episodes over a retriever: the core's rules around the search, which is the only thing done here.

    env = SearchEnv(Client("http://127.0.0.1:8000"), "search-r1")
    messages = env.reset("Who discovered radium?", ["Marie Curie"])
    observation, reward, done, info = env.step(model(messages))

What the retriever raises is raised: a fault outside never becomes an observation or a reward, and `resume` asks again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Optional, Union

from ._core import Episode, Preset, Reward, Rules, Transition, pick, tasks
from ._core import score as _score
from ._retrieval import Retriever, retriever_of, search, search_async
from ._tasks import golds_of, texts_of
from .errors import InvalidInput
from .types import Hit

__all__ = [
    "Episode",
    "Preset",
    "Retriever",
    "Reward",
    "Rules",
    "SearchEnv",
    "SearchEnvs",
    "Step",
    "look_up",
    "look_up_async",
    "pick",
    "score",
    "tasks",
]

Count = Optional[Callable[[str], int]]
"""A function from a text to its number of tokens, by the policy's tokenizer. Without one four characters count as a token."""


class Step(NamedTuple):
    """What came of a message."""

    observation: str
    """What the policy is shown; empty where it is shown nothing."""
    reward: float
    """0 until the episode is over, and where no reward is wanted."""
    done: bool
    info: dict[str, Any]
    """`action` (search, answer, end, invalid), `queries`, `truncated`, `searches`; after a search `retrieval_seconds`, which
    `SearchEnvs` spends on all episodes at once; at the end `stop`, the reward's `terms`, and `retrieval_hit`: whether a passage
    that was shown holds an accepted answer. Nothing before the end depends on the accepted answers."""


class SearchEnv:
    """One episode after the other. It can be pickled, in the middle of an episode too."""

    def __init__(
        self,
        retriever: Retriever | str,
        preset: str | Preset = "hindsearch",
        *,
        top_k: int | None = None,
        count: Count = None,
        reward: bool = True,
    ) -> None:
        """Args:
        retriever: a server's URL, or see `hindsearch.env.Retriever`.
        preset: a recipe, by name or by the path of a `.toml` file.
        top_k: passages a query, in place of the recipe's.
        count: counts the tokens of a text, so that the recipe's limits are the policy's tokens; see `hindsearch.env.Count`.
        reward: whether episodes are rewarded, for which they need accepted answers. Without it every reward is 0.
        """
        self.retriever = retriever_of(retriever)
        self.rules = Rules(preset if isinstance(preset, Preset) else Preset.load(preset), count)
        self.preset = self.rules.preset
        self.top_k = top_k or self.preset.top_k
        self.reward = reward
        self._episode: Episode | None = None
        self._golds: list[str] = []
        self._augmented: list[str] = []

    def spawn(self) -> SearchEnv:
        """Another one with the same settings, and no episode yet."""
        return SearchEnv(self.retriever, self.preset, top_k=self.top_k, count=self.rules.count, reward=self.reward)

    @property
    def episode(self) -> Episode:
        """The record of the episode."""
        if self._episode is None:
            raise InvalidInput("no episode has begun: call `reset` first")
        return self._episode

    def reset(
        self,
        question: str,
        golds: Any = None,
        *,
        augmented: Any = (),
        source: str = "",
        sample: int = 0,
        prompt: Sequence[Mapping[str, str]] | None = None,
    ) -> list[dict[str, str]]:
        """Begins an episode and returns its messages.

        Args:
            golds: the accepted answers: a text, a list, or a dictionary with `target`. They must be given where episodes are
                rewarded.
            augmented: further wordings of them, which some scorers count for less.
            source: the data set.
            sample: which of the task's plays this is, from 0.
            prompt: the messages of a trainer that renders prompts itself, in place of the recipe's.

        Raises:
            InvalidInput: a `ValueError`, where a reward is wanted and no accepted answer is given.
        """
        self._keep(golds, augmented)
        self._episode = self.rules.begin(question, source, self._golds, sample, prompt=prompt)
        return self._episode.messages()

    def restore(self, record: str, golds: Any = None, *, augmented: Any = ()) -> None:
        """Goes on with an episode from the JSON of its record, which holds no accepted answers."""
        self._keep(golds, augmented)
        self._episode = Episode.from_json(self.rules, record)

    def step(self, text: str, **message: Any) -> Step:
        """Takes the policy's message. `message` are `tokens`, `logprobs`, `ends` and `cut_off` of `Episode.decide`."""
        return self.decide(text, **message) or self.resume()

    async def step_async(self, text: str, **message: Any) -> Step:
        """`step` for asyncio."""
        return self.decide(text, **message) or await self.resume_async()

    def resume(self) -> Step:
        """Looks for the passages that the episode waits for, after an error too."""
        begun = time.perf_counter()
        found = search(self.retriever, self._pending(), self.top_k)
        return self.observe(found, time.perf_counter() - begun)

    async def resume_async(self) -> Step:
        """`resume` for asyncio."""
        begun = time.perf_counter()
        found = await search_async(self.retriever, self._pending(), self.top_k)
        return self.observe(found, time.perf_counter() - begun)

    def decide(self, text: str, **message: Any) -> Step | None:
        """The first half of `step`; `None` when passages have to be looked for."""
        decided = self.episode.decide(text, **message)
        return self._step(decided) if isinstance(decided, Transition) else None

    def observe(self, found: Sequence[Sequence[Hit]], seconds: float | None = None) -> Step:
        """The second half of `step`. `seconds` are what the search took."""
        queries = self._pending()
        return self._step(self.episode.observe(found), queries, seconds)

    def score(self) -> float:
        """What the episode earns as it is, for trainers that end it themselves."""
        return self._reward().total

    def _keep(self, golds: Any, augmented: Any) -> None:
        """They stay here, and only `score` sees them."""
        self._golds = golds_of(golds) if self.reward else texts_of(golds)
        self._augmented = texts_of(augmented, "augmented")

    def _reward(self) -> Reward:
        if not self.reward:
            raise InvalidInput("a reward: this environment was made with `reward=False`")
        reward = _score(self.rules, self.episode, self._golds, self._augmented)
        self.episode.set_reward(reward)
        return reward

    def _pending(self) -> list[str]:
        queries = self.episode.pending
        if queries is None:
            raise InvalidInput("the episode waits for no passages")
        return queries

    def _step(self, next: Transition, queries: Sequence[str] = (), seconds: float | None = None) -> Step:
        episode = self.episode
        info: dict[str, Any] = {
            "action": episode.action,
            "queries": list(queries),
            "truncated": next.truncated,
            "searches": episode.searches,
        }
        if seconds is not None:
            info["retrieval_seconds"] = seconds
        if next.stop is None:
            return Step(next.observation, 0.0, False, info)
        info["stop"] = next.stop
        if not self.reward:
            return Step(next.observation, 0.0, True, info)
        reward = self._reward()
        # Only now, when the policy can be shown nothing any more.
        info.update(terms=reward.terms, retrieval_hit=reward.retrieval_hit)
        return Step(next.observation, reward.total, True, info)


Task = Union[str, Mapping[str, Any]]
"""A dictionary with `question` and the other arguments of `SearchEnv.reset`; where no reward is wanted, a question."""


class SearchEnvs:
    """Episodes side by side, whose searches go out in one call."""

    def __init__(
        self,
        retriever: Retriever | str,
        preset: str | Preset = "hindsearch",
        *,
        top_k: int | None = None,
        count: Count = None,
        reward: bool = True,
    ) -> None:
        """See `SearchEnv`."""
        self._new = SearchEnv(retriever, preset, top_k=top_k, count=count, reward=reward)
        self.envs: list[SearchEnv] = []
        self._steps: list[Step | None] = []

    def reset(self, tasks: Iterable[Task]) -> list[list[dict[str, str]]]:
        """Begins an episode for each task and returns their messages."""
        made = [{"question": task} if isinstance(task, str) else dict(task) for task in tasks]
        envs = [self._new.spawn() for _ in made]
        messages = [env.reset(**task) for env, task in zip(envs, made)]
        self.envs = envs
        return messages

    def step(self, texts: Sequence[str | None]) -> list[Step | None]:
        """Takes a message for each episode; `None` for those that are over, and in their place."""
        self._decide(texts)
        return self.resume()

    async def step_async(self, texts: Sequence[str | None]) -> list[Step | None]:
        """`step` for asyncio."""
        self._decide(texts)
        return await self.resume_async()

    def resume(self) -> list[Step | None]:
        """Goes on with the step that an error of the retriever broke off."""
        begun = time.perf_counter()
        found = search(self._new.retriever, self._queries(), self._new.top_k)
        return self._observe(found, time.perf_counter() - begun)

    async def resume_async(self) -> list[Step | None]:
        """`resume` for asyncio."""
        begun = time.perf_counter()
        found = await search_async(self._new.retriever, self._queries(), self._new.top_k)
        return self._observe(found, time.perf_counter() - begun)

    def _decide(self, texts: Sequence[str | None]) -> None:
        if len(texts) != len(self.envs):
            raise InvalidInput(f"expected a message, or `None`, for each of {len(self.envs)} episodes, found {len(texts)}")
        for number, (env, text) in enumerate(zip(self.envs, texts)):
            if text is not None and (env.episode.stop or env.episode.pending):
                state = "is over" if env.episode.stop else "waits for passages: call `resume`"
                raise InvalidInput(f"a message for episode {number}, which {state}")
        self._steps = [None if text is None else env.decide(text) for env, text in zip(self.envs, texts)]

    def _waiting(self) -> list[tuple[int, list[str]]]:
        pending = [(number, env.episode.pending) for number, env in enumerate(self.envs)]
        return [(number, queries) for number, queries in pending if queries is not None]

    def _queries(self) -> list[str]:
        return [query for _, queries in self._waiting() for query in queries]

    def _observe(self, found: list[list[Hit]], seconds: float) -> list[Step | None]:
        rest = iter(found)
        for number, queries in self._waiting():
            self._steps[number] = self.envs[number].observe([next(rest) for _ in queries], seconds)
        return self._steps


def score(
    recipe: str | Preset | Rules,
    said: str | Episode,
    golds: Any,
    *,
    augmented: Any = (),
    question: str = "",
    source: str = "",
) -> Reward:
    """What an episode earns by a recipe, or a text of which nothing else is known.

    Args:
        recipe: by name, by the path of a `.toml` file, or as it is.
        said: an episode, or all that follows the prompt. What stands in a text between the recipe's marks of an observation, or
            in a tool's response, is not the policy's.
        golds: the accepted answers, as `SearchEnv.reset` takes them.
        augmented: further wordings of them, which some scorers count for less.
        question: of the text.
        source: the data set of the text.

    Raises:
        InvalidInput: a `ValueError`, without an accepted answer.
    """
    recipe = Preset.load(recipe) if isinstance(recipe, str) else recipe
    if isinstance(said, str):
        rules = recipe if isinstance(recipe, Rules) else Rules(recipe)
        said = rules.read(said, question, source)
    return _score(recipe, said, golds_of(golds), texts_of(augmented, "augmented"))


def look_up(env: SearchEnv, queries: Sequence[str]) -> str:
    """What a search would show, outside any episode: for tools whose trainer keeps the episode."""
    return _shown(env, queries, search(env.retriever, queries, env.top_k))


async def look_up_async(env: SearchEnv, queries: Sequence[str]) -> str:
    """`look_up` for asyncio."""
    return _shown(env, queries, await search_async(env.retriever, queries, env.top_k))


def _shown(env: SearchEnv, queries: Sequence[str], found: list[list[Hit]]) -> str:
    episode = env.rules.begin("")
    if not isinstance(episode.decide(env.preset.search_text(queries)), list):
        raise InvalidInput(f"preset `{env.preset.name}` cannot search for {list(queries)!r} in its first turn")
    pending = episode.pending or []
    return episode.observe(found[: len(pending)]).observation
