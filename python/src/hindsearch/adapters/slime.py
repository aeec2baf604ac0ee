"""slime: `--custom-generate-function-path hindsearch.adapters.slime.generate` and
`--custom-rm-path hindsearch.adapters.slime.reward_func`.

Settings are `search_url`, `search_preset` and so on in the file of `--custom-config-path`, or `SEARCH_ENV_URL` and so on. The
label holds the accepted answers; metadata with a `question` asks for the recipe's prompt, else the prompt stays as it is.
"""

from __future__ import annotations

from typing import Any

from .._tasks import golds_of, task_of
from ..env import score
from ._settings import make_env, make_preset
from ._tokens import TokenEpisode, counter

SETTINGS = ("url", "preset", "top_k", "token", "ca_file", "timeout")


async def generate(args: Any, sample: Any, sampling_params: dict[str, Any], evaluation: bool = False) -> Any:
    """Plays the sample's episode and fills in tokens, loss mask, log-probabilities, status and reward."""
    from slime.rollout.sglang_rollout import GenerateState
    from slime.utils.http_utils import post

    tokenizer = GenerateState(args).tokenizer
    metadata = sample.metadata or {}
    task = task_of(metadata, sample.prompt, golds_of(sample.label, "label"))
    play = TokenEpisode(make_env(_settings(args), count=counter(tokenizer)), tokenizer, task)
    # A prompt that is text was rendered by slime.
    is_rendered = "prompt" in task and isinstance(sample.prompt, str)
    play.begin(tokenizer.encode(sample.prompt, add_special_tokens=False) if is_rendered else None)
    url = f"http://{args.sglang_router_ip}:{args.sglang_router_port}/generate"
    limit = len(play.prompt) + sampling_params["max_new_tokens"]
    stop = play.env.preset.stop
    status = type(sample).Status
    sample.status = status.TRUNCATED
    while room := play.room(limit):
        sampling = {**sampling_params, "max_new_tokens": room, **({"stop": stop, "no_stop_trim": True} if stop else {})}
        output = await post(url, {"input_ids": play.tokens, "sampling_params": sampling, "return_logprob": True})
        meta = output["meta_info"]
        if meta["finish_reason"]["type"] == "abort":
            sample.status = status.ABORTED
            return sample
        tokens = [entry[1] for entry in meta["output_token_logprobs"]]
        # Rounding can leave a log-probability a little above 0.
        logprobs = [min(0.0, float(entry[0])) for entry in meta["output_token_logprobs"]]
        step = await play.step(tokens, logprobs, meta["finish_reason"]["type"] == "length")
        if step.done:
            sample.status = status.TRUNCATED if step.info["stop"] == "context" else status.COMPLETED
            break
    tokens, mask, logprobs = play.response()
    sample.tokens = play.tokens
    sample.response = "".join(span.text for span in play.env.episode.spans() if span.author != "prompt")
    sample.response_length = len(tokens)
    sample.loss_mask = [int(own) for own in mask]
    sample.rollout_log_probs = logprobs
    sample.reward = play.reward()
    sample.metadata = {**metadata, "searches": play.env.episode.searches}
    return sample


async def reward_func(args: Any, sample: Any, **kwargs: Any) -> float:
    """The reward that `generate` gave, or what the text of another function's response earns."""
    if isinstance(sample.reward, (int, float)):
        return float(sample.reward)
    return score(make_preset(_settings(args)), sample.response, golds_of(sample.label, "label")).total


def _settings(args: Any) -> dict[str, Any]:
    return {name: getattr(args, f"search_{name}", None) for name in SETTINGS}
