"""Episodes of tokens, for trainers in which the adapter itself asks the model: sampled tokens stay as they were sampled, and the
masks come from the record."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from .._core import Preset
from ..env import SearchEnv, Step
from ..types import Hit


class TokenEpisode:
    """A `SearchEnv` that is told tokens of any Hugging Face tokenizer."""

    def __init__(self, env: SearchEnv, tokenizer: Any, task: dict[str, Any]) -> None:
        self.env = env
        self.tokenizer = tokenizer
        self.messages = env.reset(**task)
        self.prompt: list[int] = []
        self.last: Step | None = None

    def begin(self, prompt: Sequence[int] | None = None) -> None:
        """Takes the tokens of the messages, as the trainer has rendered them, or else as the tokenizer's template does."""
        if prompt is None:
            prompt = prompt_tokens(self.tokenizer, self.env.preset, self.messages)
        self.prompt = [int(token) for token in prompt]
        self.env.episode.set_prompt_tokens(self.prompt)

    @property
    def tokens(self) -> list[int]:
        """Prompt and response."""
        return self.env.episode.tokens()

    def response(self) -> tuple[list[int], list[bool], list[float]]:
        """Tokens behind the prompt, whether the policy wrote each, and its log-probability (0 where there is none)."""
        episode, start = self.env.episode, len(self.prompt)
        logprobs: list[float] = []
        for span in episode.spans():
            if span.author != "prompt":
                logprobs += span.logprobs or [0.0] * len(span.tokens)
        return episode.tokens()[start:], episode.policy_mask()[start:], logprobs

    def room(self, limit: int) -> int:
        """Tokens that the next message may have, where prompt and response may have `limit` together."""
        return max(0, min(self.env.preset.response_tokens, limit - len(self.tokens)))

    async def step(self, tokens: Sequence[int], logprobs: Sequence[float] | None = None, cut_off: bool = False) -> Step:
        """`SearchEnv.step_async` of sampled tokens."""
        return self.decide(tokens, logprobs, cut_off) or self._seen(await self.env.resume_async())

    def decide(self, tokens: Sequence[int], logprobs: Sequence[float] | None = None, cut_off: bool = False) -> Step | None:
        """`SearchEnv.decide` of sampled tokens."""
        ids = [int(token) for token in tokens]
        text = decode(self.tokenizer, ids)
        ends = ends_of(self.tokenizer, ids, text)
        step = self.env.decide(text, tokens=ids, logprobs=list(logprobs or []), ends=ends, cut_off=cut_off)
        return step and self._seen(step)

    def observe(self, found: Sequence[Sequence[Hit]]) -> Step:
        """`SearchEnv.observe`."""
        return self._seen(self.env.observe(found))

    def _seen(self, step: Step) -> Step:
        self.last = step
        if step.observation:
            *_, said, shown = self.env.episode.spans()
            before = said.tokens[-1] if said.tokens else None
            tokens = observation_tokens(self.tokenizer, shown.role, step.observation, before)
            self.env.episode.set_observation_tokens(tokens)
        return step

    def reward(self) -> float:
        """The episode's reward; one that the trainer ended earns what it holds."""
        return self.last.reward if self.last and self.last.done else self.env.score()


def counter(tokenizer: Any) -> Callable[[str], int]:
    """Counts tokens, so that the recipe's limits are the policy's."""
    return lambda text: len(_encode(tokenizer, text))


def decode(tokenizer: Any, tokens: Sequence[int]) -> str:
    """The text without the token that ends a message, which belongs to the chat's form. All others stay: tags may be tokens."""
    end = len(tokens)
    while end and tokens[end - 1] in (tokenizer.eos_token_id, tokenizer.pad_token_id):
        end -= 1
    return _decode(tokenizer, tokens[:end])


def ends_of(tokenizer: Any, tokens: Sequence[int], text: str) -> list[int]:
    """Where each token ends in the text, in characters. A character that is spread over tokens is counted with the first."""
    try:
        again = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids, offsets = list(again["input_ids"]), again["offset_mapping"]
    except (NotImplementedError, KeyError, TypeError):  # not a fast tokenizer
        ids, offsets = [], []
    # Only where the text has the very tokens that were sampled.
    if ids and ids == list(tokens[: len(ids)]):
        ends = [end for _, end in offsets]
    else:
        ends = [len(_whole(_decode(tokenizer, tokens[: count + 1]), text)) for count in range(len(tokens))]
    ends = ends[: len(tokens)] + [len(text)] * (len(tokens) - len(ends))
    for place in range(1, len(ends)):
        ends[place] = min(max(ends[place], ends[place - 1]), len(text))
    if ends:
        ends[-1] = len(text)
    return ends


def prompt_tokens(tokenizer: Any, preset: Preset, messages: list[dict[str, str]]) -> list[int]:
    """The messages in the tokenizer's template, or without it where the recipe knows none."""
    if preset.bare:
        return _encode(tokenizer, "".join(message["content"] for message in messages))
    chat, begun = split(messages)
    tools = {"tools": json.loads(preset.tools)} if preset.tools else {}
    return _template(tokenizer, chat, True, **tools) + (_encode(tokenizer, begun) if begun else [])


def split(messages: list[dict[str, str]]) -> tuple[list[dict[str, str]], str]:
    """The chat, and what the recipe lets the answer begin with, which follows the template as it is."""
    *chat, last = messages
    return (chat, last["content"]) if last["role"] == "assistant" else (messages, "")


def observation_tokens(tokenizer: Any, role: str, text: str, before: int | None) -> list[int]:
    """An observation: running text as it is, or a message with all that the template puts around it.

    `before` is the last token of the policy's message, which may have ended without the template's own end.
    """
    if role == "assistant":
        return _encode(tokenizer, text)
    chat = [{"role": "user", "content": "-"}, {"role": "assistant", "content": "-"}]
    end = tokenizer.eos_token_id
    head = _template(tokenizer, chat, False)
    if end in head:
        # Templates put a line break behind the end of a message, which the policy never writes.
        head = head[: len(head) - head[::-1].index(end)]
    whole = _template(tokenizer, [*chat, {"role": role, "content": text}], True)
    tail = whole[len(head) :]
    return tail if before == end or end not in head else [end, *tail]


def _template(tokenizer: Any, messages: list[dict[str, str]], generation: bool, **options: Any) -> list[int]:
    options = {"add_generation_prompt": generation, "tokenize": True, "return_dict": False, **options}
    tokens = tokenizer.apply_chat_template(messages, **options)
    return [int(token) for token in tokens]


def _encode(tokenizer: Any, text: str) -> list[int]:
    return [int(token) for token in tokenizer.encode(text, add_special_tokens=False)]


def _decode(tokenizer: Any, tokens: Sequence[int]) -> str:
    return str(tokenizer.decode(list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False))


def _whole(head: str, text: str) -> str:
    """The head, with the character of the text that its last tokens have only a part of."""
    if text.startswith(head):
        return head
    kept = head.rstrip("\ufffd")
    return text[: len(kept) + 1]
