"""Tinker: the real `do_group_rollout` of the cookbook over our groups, pickled and back."""

import asyncio
import functools
import pickle

import play
import tiny
from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
from tinker_cookbook.renderers import get_renderer
from tinker_cookbook.rl.rollouts import do_group_rollout

from hindsearch.adapters.tinker import SearchDataset

URL = play.server()
TOKENIZER = tiny.tokenizer()


class Scripted(TokenCompleter):
    async def __call__(self, model_input, stop, *, max_tokens=None):
        tokens = [*TOKENIZER.encode(play.reply(TOKENIZER.decode(model_input.to_ints()))), TOKENIZER.eos_token_id]
        return TokensWithLogprobs(tokens=tokens, maybe_logprobs=[0.0] * len(tokens), stop_reason="stop")


async def main():
    renderer = functools.partial(get_renderer, "qwen3_instruct", TOKENIZER)
    dataset = SearchDataset(play.TASKS, renderer, group_size=2, batch_size=32, max_trajectory_tokens=32768, url=URL)
    groups = [group for index in range(len(dataset)) for group in pickle.loads(pickle.dumps(dataset.get_batch(index)))]
    played = await asyncio.gather(*(do_group_rollout(group, Scripted()) for group in groups))
    totals = [group.get_total_rewards() for group in played]
    assert all(first == second for first, second in totals)
    play.same("tinker", [first for first, _ in totals], URL)


asyncio.run(main())
