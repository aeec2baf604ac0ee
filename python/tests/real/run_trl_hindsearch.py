"""TRL with HindSearch's loss: steps of the real `GRPOTrainer.train` by the example's trainer, and what must hold of the loss."""

import os
import sys
import tempfile
from pathlib import Path

os.environ.update(TRL_EXPERIMENTAL_SILENCE="1", CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1")

import play
import tiny
import torch
from trl import GRPOConfig
from trl.chat_template_utils import qwen2_5_chat_template

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
import trl_hindsearch

URL = play.server()
TOKENIZER = tiny.tokenizer(qwen2_5_chat_template)
TASKS = trl_hindsearch.rows(play.ROOT / "examples/data/questions.jsonl")
assert [row["prompt"][0]["content"] for row in TASKS][:64] == play.QUESTIONS


class Watched(trl_hindsearch.HindSearchTrainer):
    """Keeps what it was taught."""

    def __init__(self, *args, **options):
        self.batches = []
        super().__init__(*args, **options)

    def _compute_loss(self, model, inputs):
        loss = super()._compute_loss(model, inputs)
        self.batches.append((inputs["teacher_logps"], self.student_logps.detach(), inputs["taught"], inputs["completion_ids"]))
        return loss


class Unhinted(Watched):
    """Its teacher reads no hint."""

    def hint(self, episode, row):
        return None if super().hint(episode, row) is None else ""


def train(kind, steps=3, **options):
    """Steps of 32 episodes, of 16 questions that a scripted policy answers in four ways. Also how far the weights have moved."""
    torch.manual_seed(1)
    config = GRPOConfig(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=32,
        num_generations=2,
        max_completion_length=4096,
        max_steps=steps,
        report_to="none",
        save_strategy="no",
        logging_steps=1,
        learning_rate=1e-2,
        lr_scheduler_type="constant",
        use_cpu=True,
        bf16=False,
        beta=0.0,
        disable_tqdm=True,
        gradient_checkpointing=False,
    )
    data = TASKS.select(range(64))
    trainer = kind(
        tiny.model(TOKENIZER, play.reply), url=URL, args=config, train_dataset=data, processing_class=TOKENIZER, **options
    )
    first = {name: value.clone() for name, value in trainer.model.named_parameters()}
    trainer.train()
    for name, value in trainer.teacher.named_parameters():
        assert torch.equal(value, first[name]), f"the teacher has learnt: {name}"
    moved = max((value - first[name]).abs().max().item() for name, value in trainer.model.named_parameters())
    return trainer, moved


trainer, moved = train(Watched, weight=10.0)
logs = [log for log in trainer.state.log_history if "hindsight/loss" in log]
assert len(logs) == 3 and moved > 0, trainer.state.log_history
assert all(0 < log["hindsight/weight"] <= 1 and log["hindsight/tokens"] > 0 for log in logs), logs
for _, _, taught, tokens in trainer.batches:
    written = TOKENIZER.decode(tokens[taught > 0])
    assert "<" not in written and ">" not in written and "I do not know" not in written, written
hinted = max(((teacher - student) * taught).abs().max().item() for teacher, student, taught, _ in trainer.batches[:1])

# All attempts at a question earn the same here, so GRPO alone has nothing to learn: what moved the policy is hindsight.
assert train(Watched, weight=0.0)[1] == 0
# A teacher that is told nothing is the first policy, token for token.
[(teacher, student, taught, _)] = train(Unhinted, steps=1, weight=10.0)[0].batches
gap = ((teacher - student) * taught).abs().max().item()
assert taught.sum() > 0 and 10 * gap < hinted and gap < 1e-5, (gap, hinted)
tokens = sum(log["hindsight/tokens"] for log in logs)
print(f"trl, HindSearch: 3 steps, {tokens:.0f} query tokens taught; greatest gap {hinted:.1e}, without a hint {gap:.1e}")
