#!/usr/bin/env python3
"""Compute losses, gradients and advantages with PyTorch, for the tests of the trainer's objectives.

    OMP_NUM_THREADS=1 make_objectives.py

writes objectives.json beside itself. Written from the formulas of the papers (PPO, GRPO, Dr. GRPO, GSPO, RLOO; Schulman's
note on estimates of the KL divergence) and from what Search-R1's and verl's code computes, on padded matrices, in float64
from float32 inputs; gradients are autograd's. Needs torch (2.15.0 made the file in the repository): run once, by hand, never
by the tests.
"""

import json
from pathlib import Path

import torch
from torch.nn.utils.rnn import pad_sequence

torch.manual_seed(20)
TOKENS = ["logprobs", "entropy", "old", "reference", "policy_mask", "query_mask", "advantages"]


def settings(aggregation="token-mean", scope="global", advantage=None, pg=None, kl=None, entropy=0.0, supervised=0.0):
    """Every setting is written out, so that no default of the program is relied upon."""
    return {
        "advantage": {"baseline": "group", "std": "unbiased", "single": "zero"} | (advantage or {}),
        "aggregation": aggregation,
        "scope": scope,
        "policy-gradient": {"weight": 1.0, "ratio": "token", "clip_low": 0.2, "clip_high": 0.2} | (pg or {}),
        "kl": {"weight": 0.0, "estimator": "k3", "form": "loss", "limit": 10.0} | (kl or {}),
        "entropy": {"weight": entropy},
        "supervised": {"weight": supervised},
    }


PRESETS = {
    "search-r1": settings(scope="micro-batch", advantage={"single": "reward"}, kl={"weight": 0.001}, entropy=0.001),
    "grpo-paper": settings("seq-mean-token-mean", kl={"weight": 0.04, "limit": 1e9}),
    "dr-grpo": settings({"fixed-length": 2500.0}, advantage={"std": "none"}),
    "gspo": settings(
        "seq-mean-token-mean",
        pg={"ratio": "sequence", "clip_low": 3e-4, "clip_high": 4e-4, "log_ratio_limit": 10.0},
    ),
    "rloo": settings(
        "seq-mean-token-sum",
        advantage={"baseline": "leave-one-out", "std": "none"},
        pg={"ratio": "none"},
        kl={"weight": 0.001, "estimator": "k1", "form": "reward"},
    ),
    "ppo-clip": settings(
        advantage={"baseline": "batch"}, kl={"weight": 0.001, "estimator": "k1", "form": "reward"}, entropy=0.001
    ),
}


def make_batch(lengths, old_spread, reference_spread):
    n = sum(lengths)
    logprobs = -torch.rand(n) * 4 - 0.05
    policy_mask = (torch.rand(n) < 0.7).float()
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    policy_mask[starts[2] : starts[2] + lengths[2]] = 0  # a row without needed tokens
    query_mask = policy_mask * (torch.rand(n) < 0.4)
    advantages = torch.randn(len(lengths)).abs() * torch.tensor([(-1) ** i for i in range(len(lengths))])
    advantages[4] = 0
    columns = {
        "logprobs": logprobs,
        "entropy": torch.rand(n) * 3,
        "old": logprobs + torch.randn(n) * old_spread,
        "reference": logprobs + torch.randn(n) * reference_spread,
        "policy_mask": policy_mask,
        "query_mask": query_mask,
        "advantages": advantages.repeat_interleave(torch.tensor(lengths)),
    }
    return {"rows": lengths} | {name: [round(value, 6) for value in column.tolist()] for name, column in columns.items()}


def masked_mean(x, mask):
    return (x * mask).sum() / mask.sum() if mask.sum() > 0 else (x * 0).sum()


def aggregate(losses, mask, how, rows, tokens):
    """One number from `[rows, length]`; `rows` and `tokens` are what the mean is taken over."""
    if rows == 0:
        return (losses * 0).sum()
    sums = (losses * mask).sum(-1)
    if how == "token-mean":
        return sums.sum() / tokens
    if how == "seq-mean-token-mean":
        return (sums / mask.sum(-1).clamp(min=1)).sum() / rows
    if how == "seq-mean-token-sum":
        return sums.sum() / rows
    return sums.sum() / rows / how["fixed-length"]


def policy_losses(pg, logprobs, old, advantages, mask):
    if pg["ratio"] == "none":
        return -advantages * logprobs, None
    log_ratio = logprobs - old
    if pg["ratio"] == "sequence":
        row = (log_ratio * mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)
        log_ratio = logprobs - logprobs.detach() + row.detach()
    if "log_ratio_limit" in pg:
        log_ratio = torch.clamp(log_ratio, -pg["log_ratio_limit"], pg["log_ratio_limit"])
    ratio = torch.exp(log_ratio)
    clipped = torch.clamp(ratio, 1 - pg["clip_low"], 1 + pg["clip_high"])
    losses = torch.max(-advantages * ratio, -advantages * clipped)
    if "dual_clip" in pg:
        losses = torch.where(advantages < 0, torch.min(losses, -advantages * pg["dual_clip"]), losses)
    return losses, ratio


def kl_estimates(kl, logprobs, reference):
    d = reference - logprobs
    if kl["estimator"] == "k1":
        return -d
    if kl["estimator"] == "k2":
        return 0.5 * d**2
    return torch.clamp(torch.exp(d) - d - 1, -kl["limit"], kl["limit"])


def terms(choice, x):
    """Loss of each token, `[rows, length]`, and the ratios."""
    mask, pg, kl = x["policy_mask"], choice["policy-gradient"], choice["kl"]
    losses, ratio = policy_losses(pg, x["logprobs"], x["old"], x["advantages"], mask)
    losses = pg["weight"] * losses
    if kl["form"] == "loss" and kl["weight"]:
        losses = losses + kl["weight"] * kl_estimates(kl, x["logprobs"], x["reference"])
    losses = losses - choice["entropy"]["weight"] * x["entropy"]
    losses = losses - choice["supervised"]["weight"] * x["logprobs"]
    return losses, ratio


def count(mask):
    return (mask.sum(-1) > 0).sum().item(), mask.sum().item()


def metrics(choice, x, ratio):
    """Over the whole batch, of the terms that are on."""
    pg, kl, mask, advantages = choice["policy-gradient"], choice["kl"], x["policy_mask"], x["advantages"]
    found = {"entropy/mean": masked_mean(x["entropy"], mask)}
    if kl["form"] == "loss" and kl["weight"]:
        found["kl/mean"] = masked_mean(kl_estimates(kl, x["logprobs"], x["reference"]), mask)
    if ratio is not None and pg["weight"]:
        low = (advantages < 0) & (ratio < 1 - pg["clip_low"])
        high = (advantages > 0) & (ratio > 1 + pg["clip_high"])
        dual = (advantages < 0) & (ratio > pg.get("dual_clip", torch.inf))
        found["policy/clip_low_fraction"] = masked_mean(low.double(), mask)
        found["policy/clip_high_fraction"] = masked_mean(high.double(), mask)
        found["policy/dual_clip_fraction"] = masked_mean(dual.double(), mask)
        found["policy/ratio_mean"] = masked_mean(ratio, mask)
        found["policy/ratio_max"] = ratio[mask > 0].max()
        found["policy/approx_kl"] = masked_mean(x["old"] - x["logprobs"], mask)
    return {name: value.item() for name, value in found.items()}


def run(batch, choice, split):
    """`split` is the number of rows of each micro-batch, which matters to the scope `micro-batch` alone."""
    flat = {name: torch.tensor(batch[name], dtype=torch.float32).double() for name in TOKENS}
    flat["logprobs"].requires_grad_()
    flat["entropy"].requires_grad_()
    x = {name: pad_sequence(torch.split(column, batch["rows"]), batch_first=True) for name, column in flat.items()}
    losses, ratio = terms(choice, x)
    how, mask = choice["aggregation"], x["policy_mask"]
    if choice["scope"] == "global":
        loss = aggregate(losses, mask, how, *count(mask))
    else:
        parts = zip(torch.split(losses, split), torch.split(mask, split), strict=True)
        loss = sum(aggregate(part, m, how, *count(m)) for part, m in parts) / len(split)
    gradients = torch.autograd.grad(loss, [flat["logprobs"], flat["entropy"]])
    return {
        "loss": loss.item(),
        "logprobs_gradient": [float(f"{value:.9g}") for value in gradients[0].tolist()],
        "entropy_gradient": [float(f"{value:.9g}") for value in gradients[1].tolist()],
        "metrics": metrics(choice, x, ratio),
    }


def cases(batches):
    everywhere = {"aggregation": "seq-mean-token-mean", "scope": "global"}
    policies = {
        "token ratio": {},
        "clip-higher": {"clip_high": 0.28},
        "uneven clip": {"clip_low": 0.1, "clip_high": 0.4},
        "dual clip": {"dual_clip": 3.0},
        "limited log-ratio": {"log_ratio_limit": 2.0},
        "dual clip and limit": {"dual_clip": 1.5, "log_ratio_limit": 20.0, "weight": 0.5},
        "sequence ratio": {"ratio": "sequence"},
        "narrow sequence ratio": {"ratio": "sequence", "clip_low": 3e-4, "clip_high": 4e-4, "log_ratio_limit": 10.0},
        "limited sequence ratio": {"ratio": "sequence", "log_ratio_limit": 0.3},
        "no ratio": {"ratio": "none"},
    }
    for name, pg in policies.items():
        for batch in batches:
            yield f"{name}, {batch}", batch, settings(pg=pg)
    for how in ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", {"fixed-length": 7.0}]:
        for scope in ["global", "micro-batch"]:
            for ratio in ["token", "sequence"]:
                choice = settings(how, scope, pg={"ratio": ratio}, kl={"weight": 0.1}, entropy=0.05, supervised=0.02)
                yield f"{how} over {scope}, {ratio} ratio", "wide", choice
    for estimator in ["k1", "k2", "k3"]:
        for batch in ["wide", "far"]:
            kl = {"weight": 0.3, "estimator": estimator}
            yield f"{estimator}, {batch}", batch, settings(pg={"weight": 0.0}, kl=kl, **everywhere)
    yield "k3 with a low limit", "wide", settings(pg={"weight": 0.0}, kl={"weight": 1.0, "limit": 0.05})
    yield "k3 without a limit", "wide", settings(pg={"weight": 0.0}, kl={"weight": 1.0, "limit": 1e9})
    yield "entropy", "wide", settings(pg={"weight": 0.0}, entropy=1.0)
    yield "supervised", "wide", settings(pg={"weight": 0.0}, supervised=1.0)


def penalties(batch, kl):
    column = {name: torch.tensor(batch[name], dtype=torch.float32).double() for name in TOKENS}
    estimates = kl["weight"] * kl_estimates(kl, column["old"], column["reference"]) * column["policy_mask"]
    return [part.sum().item() for part in torch.split(estimates, batch["rows"])]


def advantages(choice, groups):
    def normalised(rewards, mean, over):
        if choice["std"] == "none":
            return rewards - mean
        return (rewards - mean) / (over.std(unbiased=choice["std"] == "unbiased") + 1e-6)

    groups = [torch.tensor(group, dtype=torch.float64) for group in groups]
    everything = torch.cat(groups)
    found = []
    for rewards in groups:
        over = everything if choice["baseline"] == "batch" else rewards
        if len(over) == 1:
            scale = 1 if choice["std"] == "none" else 1 + 1e-6
            found.append(rewards / scale if choice["single"] == "reward" else rewards * 0)
        elif choice["baseline"] == "leave-one-out":
            mean = torch.stack([torch.cat([rewards[:i], rewards[i + 1 :]]).mean() for i in range(len(rewards))])
            found.append(normalised(rewards, mean, over))
        else:
            found.append(normalised(rewards, over.mean(), over))
    return [group.tolist() for group in found]


def main():
    batches = {
        "wide": make_batch([5, 1, 4, 9, 3, 0, 7, 6, 2], 0.25, 0.5),
        "far": make_batch([5, 1, 4, 9, 3, 0, 7, 6, 2], 2.0, 6.0),
        "near": make_batch([6, 3, 2, 8, 4, 1, 5], 3e-3, 1e-3),
        "on-policy": make_batch([3, 2, 4, 1, 5], 0.0, 0.1),
    }
    splits = {"wide": [3, 1, 5], "far": [2, 7], "near": [2, 1, 4], "on-policy": [5]}
    golden = {"note": " ".join(__doc__.split()), "batches": batches, "cases": [], "penalties": [], "advantages": []}
    plain = [(*case, None) for case in cases(batches)]
    named = [(f"preset {name}, {b}", b, choice, name) for name, choice in PRESETS.items() for b in ["wide", "near"]]
    for name, batch, choice, preset in plain + named:
        case = {"name": name, "preset": preset, "batch": batch, "split": splits[batch], "settings": choice}
        golden["cases"].append(case | run(batches[batch], choice, splits[batch]))
    for estimator in ["k1", "k2", "k3"]:
        kl = {"weight": 0.01, "estimator": estimator, "form": "reward", "limit": 10.0}
        golden["penalties"].append({"kl": kl, "batch": "far", "expected": penalties(batches["far"], kl)})
    groups = [[1.0, 0.0, 0.0, 0.0, 1.0], [0.3, 0.7, 0.1], [0.25, 0.25], [0.6]]
    for baseline in ["group", "leave-one-out", "batch"]:
        for std in ["unbiased", "biased", "none"]:
            for single in ["zero", "reward"]:
                choice = {"baseline": baseline, "std": std, "single": single}
                golden["advantages"].append({"settings": choice, "groups": groups, "expected": advantages(choice, groups)})
    lines = json.dumps(golden).replace('{"name"', '\n{"name"').replace('{"settings"', '\n{"settings"')
    Path(__file__).with_name("objectives.json").write_text(lines + "\n")


main()
