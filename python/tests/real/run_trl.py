"""TRL: the real `GRPOTrainer.train`, with tools from an environment and with a rollout function."""

import json
import os
import tempfile

os.environ.update(TRL_EXPERIMENTAL_SILENCE="1", CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1")

import play
import tiny
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen2_5_chat_template

from hindsearch.adapters import trl as adapter

URL = play.server()
TOKENIZER = tiny.tokenizer(qwen2_5_chat_template)


def call_tools(text):
    """The next call, by the number of answers that the tools gave so far."""
    number, done = play.number_of(text), text.rsplit("<|im_start|>user\nQuestion", 1)[-1].count("<tool_response>")
    left = play.calls(number)[done:]
    if not left:
        return "Done."
    name, argument = left[0]
    arguments = {"query" if name == "search" else "text": argument}
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments}, ensure_ascii=False)}\n</tool_call>"


def train(policy, **options):
    rows = [
        {"prompt": [{"role": "user", "content": f"Question: {question}"}], "question": question, "golden_answers": golds}
        for question, golds in zip(play.QUESTIONS, play.GOLDS)
    ]
    config = GRPOConfig(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=64,
        num_generations=2,
        gradient_accumulation_steps=2,
        max_completion_length=4096,
        max_steps=1,
        report_to="none",
        save_strategy="no",
        logging_steps=1,
        use_cpu=True,
        bf16=False,
        beta=0.0,
        disable_tqdm=True,
        gradient_checkpointing=False,
    )
    trainer = GRPOTrainer(
        model=tiny.model(TOKENIZER, policy),
        args=config,
        train_dataset=Dataset.from_list(rows),
        processing_class=TOKENIZER,
        **options,
    )
    trainer.train()
    return trainer.state.log_history[0]


def noting(kind, earned, question_of):
    """The environment, which also notes each episode's reward by its question."""

    class Noting(kind):
        def get_reward(self):
            reward = super().get_reward()
            earned.setdefault(question_of(self), []).append(reward)
            return reward

    return Noting


def by_question(earned):
    """One reward a question; both plays of it have to earn the same."""
    assert sum(map(len, earned.values())) == 128 and all(len(set(rewards)) == 1 for rewards in earned.values()), earned
    return [earned[question][0] for question in play.QUESTIONS]


earned = {}
kind = noting(adapter.SearchEnvironment, earned, lambda env: env._env.episode.question)
log = train(call_tools, environment_factory=lambda: kind(url=URL))
play.same("trl, tools", by_question(earned), URL)
assert abs(log["reward"] - sum(play.rewards(URL)) / 64) < 1e-6, log

noted = {}
reward = adapter.reward_function()


def noting_reward(completions, episode, question, **columns):
    rewards = reward(completions, episode=episode, question=question, **columns)
    for record, earned in zip(episode, rewards):
        noted.setdefault(json.loads(record)["question"].removeprefix("Question: "), []).append(earned)
    return rewards


log = train(play.reply, rollout_func=adapter.rollout_function(url=URL), reward_funcs=noting_reward)
play.same("trl, rollout function", by_question(noted), URL)
assert abs(log["reward"] - sum(play.rewards(URL)) / 64) < 1e-6, log
