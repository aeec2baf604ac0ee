#!/usr/bin/env python3
"""Write adamw.json: 20 updates of torch.optim.AdamW on tensors of two and of one dimension, with clip_grad_norm_.

    make_adamw.py > adamw.json

Weight decay is off for the tensor of one dimension. Floats are written so that they come back as the same f32.
"""

import json

import torch

STEPS = 20
SHAPES = {"norm.weight": [7], "proj.weight": [7, 5]}
CASES = [
    {"rate": 1e-2, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.1, "max_norm": 1.0},
    {"rate": 3e-3, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-6, "weight_decay": 0.0, "max_norm": 0.0},
]


def run(case, generator):
    values = {name: torch.randn(shape, generator=generator).requires_grad_() for name, shape in SHAPES.items()}
    decays = [value for value in values.values() if value.dim() > 1]
    others = [value for value in values.values() if value.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decays}, {"params": others, "weight_decay": 0.0}],
        lr=case["rate"],
        betas=(case["beta1"], case["beta2"]),
        eps=case["epsilon"],
        weight_decay=case["weight_decay"],
        foreach=False,
    )
    flat = lambda tensors: {name: tensor.flatten().tolist() for name, tensor in tensors.items()}  # noqa: E731
    steps, start = [], flat({name: value.detach() for name, value in values.items()})
    for step in range(STEPS):
        # From small to large, so that some are clipped and some are not.
        size = 0.02 * 1.4**step
        gradients = {name: size * torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
        rate = case["rate"] * (1 - step / STEPS)
        for group in optimizer.param_groups:
            group["lr"] = rate
        for name, value in values.items():
            value.grad = gradients[name].clone()
        limit = case["max_norm"] or float("inf")
        norm = torch.nn.utils.clip_grad_norm_(list(values.values()), limit).item()
        optimizer.step()
        after = flat({name: value.detach() for name, value in values.items()})
        steps.append({"rate": rate, "norm": norm, "gradients": flat(gradients), "after": after})
    return {"settings": case, "start": start, "steps": steps}


generator = torch.Generator().manual_seed(7)
cases = [run(case, generator) for case in CASES]
print(json.dumps({"made_with": f"torch {torch.__version__}", "shapes": SHAPES, "cases": cases}))
