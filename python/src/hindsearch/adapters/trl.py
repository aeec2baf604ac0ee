"""TRL: an environment whose methods are the model's tools, and a rollout function for recipes of running text.

GRPOTrainer(..., environment_factory=environment_factory(url=...))
GRPOTrainer(..., rollout_func=rollout_function(url=...), reward_funcs=reward_function())
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from .._core import Episode, Rules
from .._retrieval import search
from .._tasks import messages_of, question_of, row_golds, task_of
from ..env import score
from ._settings import faults_end_the_run, make_env, make_preset
from ._tokens import TokenEpisode, counter

Generate = Callable[[Any, list[list[int]]], tuple[list[list[int]], Any]]
"""From trainer and prompts to the tokens of each completion and their log-probabilities, or `None`."""


class SearchEnvironment:
    """Rows hold `question`, or a `prompt`, and accepted answers (`answer`, `golden_answers`, `reward_model` and others).

    An answer in the text of a message earns nothing; it is given with `answer`.
    """

    def __init__(self, **settings: Any) -> None:
        self._env = make_env(settings)

    def reset(self, **row: Any) -> None:
        """Begins the episode of a row of the data set."""
        self._env.reset(**task_of(row))

    def search(self, query: str) -> str:
        """
        Search the collection for passages nearest in meaning to the query.

        Args:
            query: What to look for, as a question or a few words.

        Returns:
            The passages.
        """
        return self._act(self._env.preset.search_text([query]))

    def answer(self, text: str) -> str:
        """
        Give the final answer. The episode is over then.

        Args:
            text: The answer, as short as it can be.

        Returns:
            An acknowledgement.
        """
        return self._act(self._env.preset.answer_text(text))

    def get_reward(self) -> float:
        return self._env.score()

    def _act(self, text: str) -> str:
        if self._env.episode.stop:
            return "The episode is over."
        # TRL tells the model of any exception, as if the tool had answered.
        with faults_end_the_run():
            step = self._env.step(text)
        return step.observation.strip() or ("The episode is over." if step.done else "")


def environment_factory(**settings: Any) -> Callable[[], SearchEnvironment]:
    """`url`, `preset`, `top_k` and so on, for `environment_factory=`. It can be pickled."""
    return functools.partial(SearchEnvironment, **settings)


def rollout_function(*, render: bool = True, generate: Generate | None = None, **settings: Any) -> Callable[..., dict[str, Any]]:
    """For `rollout_func=`: plays all prompts of a batch side by side, with the searches of a turn at once.

    Args:
        render: whether prompts are bare questions, which get the recipe's prompt.
        generate: another way to sample than the trainer's own engine.
        settings: `url`, `preset`, `top_k` and so on.
    """
    return functools.partial(_rollout, render, generate or _generate, settings)


def reward_function(**settings: Any) -> Callable[..., list[float]]:
    """For `reward_funcs=`, behind `rollout_function` with the same `preset`: the data set's columns hold the accepted answers."""
    reward = functools.partial(_rewards, settings)
    reward.__name__ = "hindsearch"  # type: ignore[attr-defined]
    return reward


def _rollout(render: bool, generate: Generate, settings: Mapping[str, Any], prompts: list[Any], trainer: Any) -> dict[str, Any]:
    tokenizer = getattr(trainer.processing_class, "tokenizer", trainer.processing_class)
    plays = []
    for prompt in prompts:
        messages = messages_of(prompt)
        task = {"question": question_of(messages)} if render else {"question": question_of(messages), "prompt": messages}
        # The accepted answers are `reward_function`'s, which gets the columns.
        play = TokenEpisode(make_env(settings, count=counter(tokenizer), reward=False), tokenizer, task)
        play.begin()
        plays.append(play)
    limit = trainer.max_completion_length
    going = list(plays)
    while going:
        completions, logprobs = generate(trainer, [play.tokens for play in going])
        _step(going, completions, logprobs, limit)
        going = [play for play in going if not (play.last and play.last.done) and len(play.tokens) - len(play.prompt) < limit]
    parts = [_ended(play) for play in plays]
    return {
        "prompt_ids": [play.prompt for play in plays],
        "completion_ids": [tokens[:limit] for tokens, _, _ in parts],
        "logprobs": None if logprobs is None else [logprobs[:limit] for _, _, logprobs in parts],
        "env_mask": [[int(own) for own in mask[:limit]] for _, mask, _ in parts],
        "episode": [play.env.episode.to_json() for play in plays],
    }


def _ended(play: TokenEpisode) -> tuple[list[int], list[bool], list[float]]:
    """The response, with the token by which TRL tells that an episode is over. It is not the policy's: what the policy wrote
    behind its answer was cut off."""
    tokens, mask, logprobs = play.response()
    end = play.tokenizer.eos_token_id
    if play.last and play.last.done and tokens[-1:] != [end]:
        return [*tokens, end], [*mask, False], [*logprobs, 0.0]
    return tokens, mask, logprobs


def _step(plays: list[TokenEpisode], completions: list[list[int]], logprobs: Any, limit: int) -> None:
    """A message of each episode, and one search for all that want one."""
    for number, (play, tokens) in enumerate(zip(plays, completions)):
        is_full = len(play.tokens) - len(play.prompt) + len(tokens) >= limit
        cut_off = is_full and play.tokenizer.eos_token_id not in tokens
        play.decide(tokens, logprobs[number] if logprobs else None, cut_off)
    waiting = [(play, play.env.episode.pending or []) for play in plays if play.env.episode.pending]
    if waiting:
        env = waiting[0][0].env
        found = iter(search(env.retriever, [query for _, queries in waiting for query in queries], env.top_k))
        for play, queries in waiting:
            play.observe([next(found) for _ in queries])


def _generate(trainer: Any, prompts: list[list[int]]) -> tuple[list[list[int]], Any]:
    """The trainer's own engine, be it vLLM or the model itself. Prompts differ, so each gets one completion."""
    completions, logprobs = trainer._generate_single_turn(prompts, None, {}, 1)
    return [[int(token) for token in tokens] for tokens in completions], logprobs


def _rewards(settings: Mapping[str, Any], completions: Any, episode: list[str], **columns: Any) -> list[float]:
    rules = Rules(make_preset(settings))

    def one(number: int, record: str) -> float:
        row = {name: values[number] for name, values in columns.items() if isinstance(values, list)}
        return score(rules, Episode.from_json(rules, record), row_golds(row)).total

    return [one(number, record) for number, record in enumerate(episode)]
