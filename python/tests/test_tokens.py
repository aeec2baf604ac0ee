"""Episodes of tokens: what was sampled stays as it was, what was shown is never trained on, and the end of a message is right."""

import asyncio

import pytest
from bytewise import END, Tokenizer

from hindsearch import Client
from hindsearch._core import Preset
from hindsearch.adapters._tokens import TokenEpisode, decode, ends_of, observation_tokens
from hindsearch.env import SearchEnv

LOOK, ANSWER = "<think>é</think><search>radium</search>", "<answer>Curie</answer>"


@pytest.fixture(params=[True, False], ids=["fast", "slow"])
def tokenizer(request):
    return Tokenizer(request.param)


def test_masks_and_logprobs_are_of_what_was_sampled(fake, tokenizer):
    play = TokenEpisode(SearchEnv(Client(fake.url)), tokenizer, {"question": "q", "golds": "Curie"})
    play.begin()
    assert tokenizer.decode(play.prompt).endswith("<|im_end|>\n<|im_start|>assistant\n")
    for text in (LOOK + " and more", ANSWER + "<|im_end|>"):
        tokens = tokenizer.encode(text)
        step = asyncio.run(play.step(tokens, [-0.5] * len(tokens)))
    assert step.done and play.reward() == 1.0
    tokens, mask, logprobs = play.response()
    shown = [token for token, own in zip(tokens, mask) if not own]
    assert tokenizer.decode([token for token, own in zip(tokens, mask) if own]) == LOOK + ANSWER + "<|im_end|>"
    assert tokenizer.decode(shown).startswith("\n\n<information>[1]") and "Radium" in tokenizer.decode(shown)
    assert [logprob == -0.5 for logprob in logprobs] == mask
    queries = [token for token, own in zip(play.tokens, play.env.episode.query_mask()) if own]
    assert tokenizer.decode(queries) == "radium"


def test_a_character_in_pieces_keeps_its_tokens_in_order(tokenizer):
    text = "a😀b�"
    tokens = tokenizer.encode(text)
    ends = ends_of(tokenizer, tokens, text)
    assert ends == sorted(ends) and ends[-1] == len(text) and len(ends) == len(tokens)
    assert ends[:6] == [1, 2, 2, 2, 2, 3]
    # A message that was cut off in the middle of a character.
    half = tokens[:3]
    text = decode(tokenizer, half)
    assert ends_of(tokenizer, half, text)[-1] == len(text)


def test_observations_of_a_chat_stand_in_messages(tokenizer):
    whole = tokenizer.decode(observation_tokens(tokenizer, "user", "shown", END))
    assert whole == "\n<|im_start|>user\nshown<|im_end|>\n<|im_start|>assistant\n"
    # A message that a stop string ended has no end of its own.
    assert observation_tokens(tokenizer, "tool", "shown", 1)[0] == END
    assert observation_tokens(tokenizer, "assistant", "shown", 1) == tokenizer.encode("shown")


def test_prompts_are_rendered_as_the_recipe_wants_them(tokenizer):
    def prompt(name):
        play = TokenEpisode(SearchEnv(lambda queries, top_k: [], name, reward=False), tokenizer, {"question": "who?"})
        play.begin()
        return tokenizer.decode(play.prompt), play.messages

    text, messages = prompt("asearcher")
    assert text == "".join(message["content"] for message in messages)
    text, _ = prompt("verl-tool-call")
    assert text.startswith('<tools>[{"type": "function"') and text.endswith("<|im_start|>assistant\n")


def test_a_message_may_have_what_recipe_and_trainer_leave(fake, tokenizer):
    play = TokenEpisode(SearchEnv(Client(fake.url)), tokenizer, {"question": "q", "golds": "Curie"})
    play.begin()
    assert play.room(len(play.prompt) + 10) == 10
    assert play.room(len(play.prompt) + 10_000) == Preset.named("hindsearch").response_tokens
    assert play.room(1) == 0
    # Whoever ends it early gets what the text earns.
    asyncio.run(play.step(tokenizer.encode("hm"), None, True))
    assert play.reward() == 0.0
