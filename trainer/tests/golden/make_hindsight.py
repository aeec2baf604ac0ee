#!/usr/bin/env python3
"""Compute losses and gradients of learning in hindsight with PyTorch, for the tests of the trainer's objectives.

    OMP_NUM_THREADS=1 make_hindsight.py

writes hindsight.json beside itself. Written from the formulas of the papers (HindSearch, SD-Search, OpenClaw-RL, RLSD, EviSD),
one token at a time, in probabilities where the program has logarithms, in float64 from float32 inputs; gradients are
autograd's. The inputs are log-softmaxes of random logits of a small vocabulary for student, sampling policy and teacher. Needs
torch (2.15.0 made the file in the repository): run once, by hand, never by the tests.
"""

import json
import math
from functools import partial
from pathlib import Path

import torch
from torch.nn.functional import kl_div

torch.manual_seed(31)
NO_TOKEN = 2**32 - 1
LEAST = 1e-6
COLUMNS = ["logprobs", "entropy", "old", "reference", "policy_mask", "query_mask", "advantages"]
OFF = {
    "distillation": {"weight": 0.0, "scope": "query", "aggregation": "token-mean", "clamp": 1.0, "detach": True},
    "divergence": {
        "weight": 0.0,
        "scope": "query",
        "aggregation": "seq-mean-token-mean",
        "distance": "jsd",
        "tail": "bucket",
        "support": {"k": 50, "side": "teacher"},
    },
    "surrogate": {
        "weight": 0.0,
        "scope": "query",
        "aggregation": "token-mean",
        "clamp": 1.0,
        "clip_low": 0.2,
        "clip_high": 0.28,
        "support": {"k": 4, "side": "student"},
    },
    "modulation": {"weight": 0.0, "scope": "query", "form": "tanh", "clip": 0.2, "slope": 5.0},
}


def settings(scope="global", pg=0.0, kl=0.0, entropy=0.0, **hindsight):
    """Every setting is written out, so that no default of the program is relied upon."""
    return {
        "advantage": {"baseline": "group", "std": "unbiased", "single": "zero"},
        "aggregation": "token-mean",
        "scope": scope,
        "policy-gradient": {"weight": pg, "ratio": "token", "clip_low": 0.2, "clip_high": 0.2},
        "kl": {"weight": kl, "estimator": "k3", "form": "loss", "limit": 10.0},
        "entropy": {"weight": entropy},
        "supervised": {"weight": 0.0},
        "hindsight": {name: OFF[name] | hindsight.get(name, {}) for name in OFF},
    }


def rounded(x):
    return [round(value, 6) for value in x.flatten().tolist()]


def make_batch(lengths, k, side, sharpness, spread):
    """`spread` is how far apart the three policies' logits are, `sharpness` how sure they are."""
    n, vocabulary = sum(lengths), 16
    logits = torch.randn(n, vocabulary) * sharpness
    student = torch.log_softmax(logits, -1)
    old = torch.log_softmax(logits + torch.randn(n, vocabulary) * spread * 0.3, -1)
    teacher = torch.log_softmax(logits + torch.randn(n, vocabulary) * spread, -1)
    sampled = torch.multinomial(old.exp(), 1)
    policy_mask = (torch.rand(n) < 0.8).float()
    query_mask = policy_mask * (torch.rand(n) < 0.7)
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    query_mask[starts[1] : starts[1] + lengths[1]] = 0  # a row without a query
    advantages = torch.tensor([0.0 if i == 3 else (-1) ** i * (0.5 + 0.3 * i) for i in range(len(lengths))])
    # The teacher is asked about all rows but one, and about most of their tokens.
    teacher_mask = (torch.rand(n) < 0.8).float()
    teacher_mask[starts[2] : starts[2] + lengths[2]] = 0
    ids = []
    for t, s in zip(teacher.topk(k).indices.tolist(), old.topk(k).indices.tolist(), strict=True):
        union = t + [i for i in s if i not in t]
        chosen = {"teacher": t, "student": s, "union": union, "overlap": [i for i in t if i in s]}[side]
        ids.append(chosen + [NO_TOKEN] * ((2 * k if side == "union" else k) - len(chosen)))
    ids = torch.tensor(ids)
    at = ids.where(ids != NO_TOKEN, 0)

    def entropy(logprobs):
        return -(logprobs.exp() * logprobs).sum(-1)

    columns = {
        "logprobs": student.gather(1, sampled),
        "entropy": entropy(student),
        "old": old.gather(1, sampled),
        "reference": torch.log_softmax(logits + torch.randn(n, vocabulary) * 0.2, -1).gather(1, sampled),
        "policy_mask": policy_mask,
        "query_mask": query_mask,
        "advantages": advantages.repeat_interleave(torch.tensor(lengths)),
    }
    top = {"teacher": teacher.gather(1, at), "student": student.gather(1, at), "old": old.gather(1, at)}
    return (
        {"rows": lengths}
        | {name: rounded(column) for name, column in columns.items()}
        | {
            "teacher_logprobs": rounded(teacher.gather(1, sampled)),
            "teacher_entropy": rounded(entropy(teacher)),
            "teacher_mask": rounded(teacher_mask),
            "width": ids.shape[1],
            "ids": ids.flatten().tolist(),
            "top_teacher": rounded(top["teacher"]),
            "top_student": rounded(top["student"]),
            "top_old": rounded(top["old"]),
        }
    )


def bins(logprobs, tail):
    """Probabilities of what is compared."""
    p = logprobs.exp()
    if tail == "bucket":
        left = 1 - p.sum()
        # Cut in value, not in gradient.
        return torch.cat([p, (left + (left.clamp(min=LEAST) - left).detach()).reshape(1)])
    return p / p.sum() if tail == "renormalise" else p


def distance(choice, teacher, student):
    if choice["distance"] == "mse":
        tail = "renormalise" if choice["tail"] == "renormalise" else "drop"
        return ((bins(teacher, tail) - bins(student, tail)) ** 2).mean()
    p, q = bins(teacher, choice["tail"]), bins(student, choice["tail"])
    if choice["distance"] == "jsd":
        middle = (0.5 * (p + q)).log()
        return 0.5 * kl_div(middle, p, reduction="sum") + 0.5 * kl_div(middle, q, reduction="sum")
    if choice["distance"] == "forward-kl":
        return kl_div(q.log(), p, reduction="sum")
    return kl_div(p.log(), q, reduction="sum")


def surrogate(choice, teacher, student, old):
    share = torch.softmax(old, -1)
    advantage = (teacher - old).clamp(-choice["clamp"], choice["clamp"]) * share
    ratio = (student - old).exp()
    clipped = ratio.clamp(1 - choice["clip_low"], 1 + choice["clip_high"])
    return torch.max(-advantage * ratio, -advantage * clipped).sum()


def distillation(choice, teacher, student):
    gap = teacher - (student.detach() if choice["detach"] else student)
    return -gap.clamp(0, choice["clamp"]) * student


def modulated(choice, advantage, gap):
    if choice["weight"] == 0:
        return advantage
    if choice["form"] == "tanh":
        return advantage + choice["weight"] * abs(advantage) * math.tanh(choice["slope"] * gap)
    factor = math.exp(gap if advantage > 0 else -gap)
    factor = min(max(factor, 1 - choice["clip"]), 1 + choice["clip"])
    return advantage * (1 - choice["weight"] + choice["weight"] * factor)


class Run:
    """One batch under one choice of settings."""

    def __init__(self, batch, choice):
        self.batch, self.choice = batch, choice
        column = {name: torch.tensor(batch[name], dtype=torch.float32).double() for name in COLUMNS}
        self.x = column | {
            name: torch.tensor(batch[name], dtype=torch.float32).double()
            for name in ["teacher_logprobs", "teacher_entropy", "teacher_mask", "top_teacher", "top_student", "top_old"]
        }
        self.leaves = [self.x[name].requires_grad_() for name in ["logprobs", "entropy", "top_student"]]
        ends = [sum(batch["rows"][: i + 1]) for i in range(len(batch["rows"]))]
        self.rows = [range(end - length, end) for end, length in zip(ends, batch["rows"], strict=True)]

    def top(self, name, i):
        width = self.batch["width"]
        there = [j for j in range(i * width, (i + 1) * width) if self.batch["ids"][j] != NO_TOKEN]
        return self.x[name][there]

    def written(self, i):
        return self.batch["policy_mask"][i] == 1

    def taught(self, i, scope):
        asked = self.written(i) and self.batch["teacher_mask"][i] == 1
        return asked and (scope == "policy" or self.batch["query_mask"][i] == 1)

    def mean(self, rows, needed, how, loss):
        """One number from the losses of tokens."""
        rows = [[i for i in row if needed(i)] for row in rows]
        rows = [row for row in rows if row]
        if not rows:
            return torch.zeros((), dtype=torch.float64)
        sums = [sum(loss(i) for i in row) for row in rows]
        if how == "token-mean":
            return sum(sums) / sum(len(row) for row in rows)
        return sum(s / len(row) for s, row in zip(sums, rows, strict=True)) / len(rows)

    def policy_loss(self, i):
        pg, modulation = self.choice["policy-gradient"], self.choice["hindsight"]["modulation"]
        advantage = self.x["advantages"][i].item()
        if self.taught(i, modulation["scope"]):
            advantage = modulated(modulation, advantage, (self.x["teacher_logprobs"][i] - self.x["logprobs"][i]).item())
        ratio = (self.x["logprobs"][i] - self.x["old"][i]).exp()
        clipped = ratio.clamp(1 - pg["clip_low"], 1 + pg["clip_high"])
        d = self.x["reference"][i] - self.x["logprobs"][i]
        loss = pg["weight"] * torch.max(-advantage * ratio, -advantage * clipped)
        return loss + self.choice["kl"]["weight"] * (d.exp() - d - 1) - self.choice["entropy"]["weight"] * self.x["entropy"][i]

    def term(self, name, i):
        choice = self.choice["hindsight"][name]
        if name == "distillation":
            return distillation(choice, self.x["teacher_logprobs"][i], self.x["logprobs"][i])
        tops = [self.top(side, i) for side in ["top_teacher", "top_student"]]
        if name == "divergence":
            return distance(choice, *tops)
        return surrogate(choice, *tops, self.top("top_old", i))

    def loss(self, rows):
        total = self.mean(rows, self.written, "token-mean", self.policy_loss)
        for name in ["distillation", "divergence", "surrogate"]:
            choice = self.choice["hindsight"][name]
            if choice["weight"]:
                term = self.mean(
                    rows, partial(self.taught, scope=choice["scope"]), choice["aggregation"], partial(self.term, name)
                )
                total = total + choice["weight"] * term
        return total

    def metrics(self):
        x, hindsight = self.x, self.choice["hindsight"]
        everything = range(len(self.batch["logprobs"]))
        query = [i for i in everything if self.taught(i, "query")]
        written = [i for i in everything if self.written(i)]

        def mean(values):
            return sum(values) / len(values)

        found = {
            "hindsight/gap_mean": mean([(x["teacher_logprobs"][i] - x["logprobs"][i]).item() for i in query]),
            "hindsight/reference_gap_mean": mean([(x["reference"][i] - x["logprobs"][i]).item() for i in query]),
            "hindsight/teacher_entropy": mean([x["teacher_entropy"][i].item() for i in query]),
            "hindsight/student_entropy": mean([x["entropy"][i].item() for i in query]),
            "hindsight/query_share": mean([self.batch["query_mask"][i] for i in written]),
            "hindsight/taught_share": len(query) / len(written),
        }
        choice = hindsight["distillation"]
        if choice["weight"]:
            gaps = [(x["teacher_logprobs"][i] - x["logprobs"][i]).item() for i in everything if self.taught(i, choice["scope"])]
            found["hindsight/clamp_saturation"] = mean([float(gap >= choice["clamp"]) for gap in gaps])
        choice = hindsight["divergence"]
        if choice["weight"]:
            values = [self.term("divergence", i).item() for i in everything if self.taught(i, choice["scope"])]
            found |= {"hindsight/divergence_mean": mean(values), "hindsight/divergence_max": max(values)}
        return found

    def outcome(self, split):
        if self.choice["scope"] == "global":
            loss = self.loss(self.rows)
        else:
            starts = [sum(split[:i]) for i in range(len(split))]
            loss = sum(self.loss(self.rows[a : a + n]) for a, n in zip(starts, split, strict=True)) / len(split)
        gradients = torch.autograd.grad(loss, self.leaves, allow_unused=True)
        gradients = [torch.zeros_like(x) if g is None else g for g, x in zip(gradients, self.leaves, strict=True)]
        names = ["logprobs_gradient", "entropy_gradient", "top_gradient"]
        numbers = [[float(f"{value:.7g}") for value in gradient.tolist()] for gradient in gradients]
        return {"loss": loss.item()} | dict(zip(names, numbers, strict=True)) | {"metrics": self.metrics()}


def cases(supports):
    for scope in ["query", "policy"]:
        for how in ["token-mean", "seq-mean-token-mean"]:
            choice = {"weight": 1.0, "scope": scope, "aggregation": how}
            yield f"distillation, {scope}, {how}", "teacher", settings(distillation=choice)
    yield "distillation with a gradient of w", "teacher", settings(distillation={"weight": 0.5, "detach": False})
    yield "distillation, low clamp", "teacher", settings(distillation={"weight": 0.5, "clamp": 0.2})
    for name in ["teacher", "union", "sure"]:
        for what in ["jsd", "forward-kl", "reverse-kl", "mse"]:
            for tail in ["bucket", "renormalise", "drop"] if name == "teacher" else ["bucket"]:
                choice = {"weight": 1.0, "distance": what, "tail": tail, "support": supports[name]}
                yield f"{what}, {tail}, {name}", name, settings(divergence=choice)
    choice = {"weight": 0.3, "scope": "policy", "aggregation": "token-mean", "support": supports["union"]}
    yield "jsd at all tokens alike", "union", settings(divergence=choice)
    for name in ["few", "overlap"]:
        yield f"surrogate, {name}", name, settings(surrogate={"weight": 1.0, "support": supports[name]})
    choice = {"weight": 1.0, "clamp": 0.1, "clip_low": 0.05, "clip_high": 0.1, "support": supports["few"]}
    yield "surrogate, narrow", "few", settings(surrogate=choice | {"aggregation": "seq-mean-token-mean"})
    yield "tanh", "few", settings(pg=1.0, modulation={"weight": 0.2})
    yield "tanh at all tokens", "few", settings(pg=1.0, modulation={"weight": 1.0, "scope": "policy", "slope": 1.5})
    yield "ratio", "few", settings(pg=1.0, modulation={"weight": 0.5, "scope": "policy", "form": "ratio"})
    yield "ratio, wide", "few", settings(pg=1.0, modulation={"weight": 1.0, "form": "ratio", "clip": 0.9})
    grpo = {"pg": 1.0, "kl": 0.001, "entropy": 0.001}
    yield "HindSearch with GRPO", "teacher", settings(**grpo, distillation={"weight": 0.01})
    yield "SD-Search with GRPO", "teacher", settings(**grpo, divergence={"weight": 1e-3})
    three = {
        "distillation": {"weight": 0.2, "aggregation": "seq-mean-token-mean"},
        "divergence": {"weight": 0.3, "support": supports["few"]},
        "surrogate": {"weight": 0.4, "support": supports["few"]},
        "modulation": {"weight": 0.5},
    }
    yield "all at once", "few", settings(**grpo, **three)
    yield "all at once, means over micro-batches", "few", settings("micro-batch", **grpo, **three)


def main():
    lengths, split = [4, 3, 3, 2, 0, 5, 4], [3, 1, 3]
    supports = {
        "teacher": {"k": 5, "side": "teacher"},
        "union": {"k": 3, "side": "union"},
        "sure": {"k": 5, "side": "teacher"},
        "few": {"k": 4, "side": "student"},
        "overlap": {"k": 4, "side": "overlap"},
    }
    shapes = {"teacher": (1.5, 0.8), "union": (1.5, 1.2), "sure": (14.0, 9.0), "few": (1.5, 0.8), "overlap": (1.5, 0.8)}
    batches = {name: make_batch(lengths, *support.values(), *shapes[name]) for name, support in supports.items()}
    golden = {"note": " ".join(__doc__.split()), "split": split, "batches": batches, "cases": []}
    for name, batch, choice in cases(supports):
        outcome = Run(batches[batch], choice).outcome(split)
        golden["cases"].append({"name": name, "batch": batch, "settings": choice} | outcome)
    lines = json.dumps(golden).replace('{"name"', '\n{"name"')
    Path(__file__).with_name("hindsight.json").write_text(lines + "\n")


main()
