"""HindSearch (arXiv 2608.01597) in TRL: GRPO, and what a hinted teacher likes better about the queries of failed episodes.

    pip install trl ./python
    hindsearch serve INDEX &
    python python/examples/trl_hindsearch.py --model Qwen/Qwen2.5-0.5B-Instruct --tasks examples/data/questions.jsonl

A failed episode gets a critique, here by rule from the passages that hold the answer. The teacher, a frozen copy of the first
policy, reads the critique before the question and then the very tokens that were sampled. For each token of a query, with l_T and
l_S the log-probabilities that teacher and student give it:

    loss = GRPO - weight / |M| * sum over M of clamp(l_T - l_S, 0, limit) * l_S        M: query tokens of failed episodes

The clamp is a coefficient: nothing is learnt through it.
"""

from __future__ import annotations

import argparse
import copy
import functools
import json

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from hindsearch import Client
from hindsearch.adapters.trl import reward_function, rollout_function
from hindsearch.env import Episode, Preset, Rules
from hindsearch.hindsight import align, critique_by_rules


class HindSearchTrainer(GRPOTrainer):
    """A `GRPOTrainer` whose rows also hold `golden_answers`, and in `passages` the ids of what holds the answer, in order."""

    def __init__(self, model, *, url, preset="hindsearch", weight=0.01, limit=1.0, **options):
        if isinstance(model, str):
            model = AutoModelForCausalLM.from_pretrained(model)
        # Before TRL changes anything of it.
        self.teacher = copy.deepcopy(model).eval().requires_grad_(False)
        self.weight, self.limit = weight, limit
        self.rules = Rules(Preset.load(preset))
        self.passage = functools.lru_cache(maxsize=None)(Client(url).passage)
        play = {"url": url, "preset": preset}
        super().__init__(model, rollout_func=rollout_function(**play), reward_funcs=reward_function(preset=preset), **options)
        self.teacher.to(self.accelerator.device)

    def hint(self, episode, row):
        """What the teacher is told; `None` for an episode from which nothing is learnt in hindsight."""
        critique = critique_by_rules(episode, row["golden_answers"], [self.passage(id) for id in row["passages"]])
        return critique and critique.hint

    def _generate_and_score_completions(self, inputs):
        batch = super()._generate_and_score_completions(inputs)
        shape, device = batch["completion_ids"].shape, batch["completion_ids"].device
        batch["teacher_logps"] = torch.zeros(shape, device=device)
        batch["taught"] = torch.zeros(shape, device=device)
        # TRL has put what the rollout gave beside the columns of each row.
        for number, row in enumerate(inputs):
            episode = Episode.from_json(self.rules, row["episode"])
            hint = self.hint(episode, row)
            if hint is None:
                continue
            read = align(episode, hint)
            # TRL cuts what is longer than its limit.
            kept = min(len(read.response), shape[1])
            assert batch["completion_ids"][number, :kept].tolist() == read.response[:kept]
            batch["teacher_logps"][number, :kept] = self.teacher_logps(read)[:kept]
            batch["taught"][number, :kept] = torch.tensor(read.query_mask[:kept], device=device).float()
        return batch

    @torch.no_grad()
    def teacher_logps(self, read):
        """The teacher's log-probability of each token of the response."""
        tokenizer = getattr(self.processing_class, "tokenizer", self.processing_class)
        prompt = tokenizer.apply_chat_template(read.messages, add_generation_prompt=True, return_dict=False)
        tokens = torch.tensor([prompt + read.response], device=self.accelerator.device)
        logits = self.teacher(input_ids=tokens).logits[0, len(prompt) - 1 : -1].float()
        return logits.log_softmax(-1).gather(-1, tokens[0, len(prompt) :, None])[:, 0]

    def _get_per_token_logps_and_entropies(self, *args, **options):
        found = super()._get_per_token_logps_and_entropies(*args, **options)
        # The policy loss's own forward pass serves the hindsight loss, too.
        self.student_logps = found[0]
        return found

    def _compute_loss(self, model, inputs):
        loss = super()._compute_loss(model, inputs)
        student, taught = self.student_logps, inputs["taught"]
        gap = ((inputs["teacher_logps"] - student.detach()) * taught).clamp(0, self.limit)
        count = taught.sum().clamp(min=1)
        hindsight = -(gap * student).sum() / count
        mode = "train" if self.model.training else "eval"
        self._metrics[mode]["hindsight/loss"].append(hindsight.item())
        self._metrics[mode]["hindsight/weight"].append((gap.sum() / count).item())
        self._metrics[mode]["hindsight/saturation"].append(((gap >= self.limit) & (taught > 0)).sum().item() / count.item())
        self._metrics[mode]["hindsight/tokens"].append(taught.sum().item())
        steps = self.current_gradient_accumulation_steps if mode == "train" else 1
        return loss + self.weight * hindsight / steps


def rows(path):
    """Rows of a file of tasks whose `metadata` name the passages that hold the answer."""
    with open(path, encoding="utf-8") as lines:
        tasks = [json.loads(line) for line in lines]
    return Dataset.from_list(
        [
            {
                "prompt": [{"role": "user", "content": task["question"]}],
                "golden_answers": task["golden_answers"],
                "passages": task["metadata"]["gold_passage_ids"],
            }
            for task in tasks
        ]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="GRPO with HindSearch's loss, in TRL.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--tasks", required=True)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--out", default="runs/trl-hindsearch")
    asked = parser.parse_args()
    config = GRPOConfig(
        output_dir=asked.out,
        max_steps=asked.steps,
        learning_rate=1e-6,
        num_generations=5,
        per_device_train_batch_size=5,
        gradient_accumulation_steps=8,
        max_completion_length=3584,
        beta=0.001,
        logging_steps=1,
    )
    HindSearchTrainer(
        asked.model,
        url=asked.url,
        args=config,
        train_dataset=rows(asked.tasks),
        processing_class=AutoTokenizer.from_pretrained(asked.model),
    ).train()
