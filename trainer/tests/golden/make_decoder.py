#!/usr/bin/env python3
"""Writes decoder-*.safetensors: what transformers and torch make of three tiny decoders, and the gradients of every weight.

    pip install torch transformers safetensors      # made with torch 2.15.0, transformers 5.10.4, float32 on a CPU
    python make_decoder.py

Weights are not stored: value i of a weight is `scale * (hash(name, i) / 2^32 - 1/2)`, see `weight` here and in tests/common/mod.rs;
norms are 1 more than that. Two sequences of different length run one by one, without padding. The loss is
`sum(logprob * slope) + sum(entropy * spread)` over the rows in `ROWS`, with slopes by the same hash.
"""

from pathlib import Path

import numpy
import torch
from safetensors.numpy import save_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

HERE = Path(__file__).resolve().parent
COMMON = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 40,
    "vocab_size": 72,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "attn_implementation": "eager",
}
SCALING = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
MODELS = {
    "llama": LlamaForCausalLM(LlamaConfig(**COMMON, tie_word_embeddings=True, rope_parameters=SCALING)),
    "qwen2": Qwen2ForCausalLM(Qwen2Config(**COMMON, tie_word_embeddings=False)),
    "qwen3": Qwen3ForCausalLM(Qwen3Config(**COMMON, tie_word_embeddings=True)),
}
LENGTHS = (37, 5)


def numbers(name, count):
    """The same in every language: 32-bit arithmetic that wraps."""
    seed = 2166136261
    for byte in name.encode():
        seed = (seed ^ byte) * 16777619 % 2**32
    at = numpy.arange(count, dtype=numpy.uint64)
    mixed = (at * 2654435761 + seed) % 2**32
    mixed = (mixed ^ (mixed >> 15)) * 2246822519 % 2**32
    mixed = mixed ^ (mixed >> 13)
    return mixed.astype(numpy.float64) / 2**32 - 0.5


def weight(name, shape):
    values = numbers(name, int(numpy.prod(shape))) * 0.6
    if "norm" in name:
        values += 1
    return torch.tensor(values.astype(numpy.float32)).reshape(shape)


def main():
    for kind, model in MODELS.items():
        model.eval()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(weight(name, parameter.shape))
        out, loss = {}, 0
        for number, length in enumerate(LENGTHS):
            tokens = torch.tensor(((numbers(f"tokens {number}", length) + 0.5) * 72).astype(numpy.int64))
            logits = model(tokens[None]).logits[0].double()
            logprobs = torch.log_softmax(logits / 0.7, -1)
            entropies = -(logprobs.exp() * logprobs).sum(-1)
            chosen = logprobs[:-1].gather(1, tokens[1:, None])[:, 0]
            slope, spread = (torch.tensor(numbers(f"{what} {number}", length - 1)) for what in ("slope", "spread"))
            # Not every row is asked for.
            asked = torch.arange(length - 1) % 3 != 1
            loss = loss + (chosen * slope)[asked].sum() + (entropies[:-1] * spread)[asked].sum()
            out |= {f"logits {number}": logits, f"logprobs {number}": chosen, f"entropies {number}": entropies[:-1]}
        loss.backward()
        out["loss"] = loss
        out |= {f"gradient {name}": parameter.grad for name, parameter in model.named_parameters()}
        arrays = {name: value.detach().float().contiguous().numpy() for name, value in out.items()}
        save_file(arrays, HERE / f"decoder-{kind}.safetensors")


if __name__ == "__main__":
    main()
