#!/usr/bin/env python3
"""Compute golden vectors with sentence-transformers, for the tests of the embedder.

    make_golden.py tests/fixtures/tiny-bert tests/fixtures/tiny-bert/golden.json --cls --max-length 64
    make_golden.py MINILM_DIR tests/fixtures/minilm/golden.json

MODEL_DIR is a sentence-transformers folder with model.safetensors. The texts are those under `texts` in the golden file,
which is then written anew: to add one, add it there and run the tool. `mean` holds the vectors of mean pooling and L2 norm
at the model's own length, `tokens` the number of tokens after truncation, specials included; `--cls` adds a list with the
first token's vector instead of the mean, and `--max-length N` one of mean pooling after truncation to N tokens. Needs
sentence-transformers and torch: run once, by hand, never by the tests.
"""
import argparse
import json
import platform
from pathlib import Path

import sentence_transformers
import tokenizers
import torch
import transformers
from sentence_transformers import SentenceTransformer


def vectors(folder, texts, pooling="mean", max_length=None):
    model = SentenceTransformer(str(folder), device="cpu")
    if pooling == "cls":
        model[1].pooling_mode = "cls"
    if max_length:
        model.max_seq_length = max_length
    # One text a batch: no padding takes part in the figures.
    values = model.encode(texts, batch_size=1, normalize_embeddings=True, show_progress_bar=False)
    return [[round(float(x), 6) for x in row] for row in values]


def token_counts(folder, texts):
    model = SentenceTransformer(str(folder), device="cpu")
    return [int(model.preprocess([text])["input_ids"].shape[1]) for text in texts]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model_dir", type=Path)
    parser.add_argument("golden", type=Path)
    parser.add_argument("--cls", action="store_true")
    parser.add_argument("--max-length", type=int)
    args = parser.parse_args()
    texts = json.loads(args.golden.read_text())["texts"]
    libraries = {m.__name__: m.__version__ for m in (sentence_transformers, transformers, tokenizers, torch)}
    golden = {
        "made": "by tools/make_golden.py with " + ", ".join(f"{name} {v}" for name, v in libraries.items())
                + f", Python {platform.python_version()}, fp32 weights, one text a batch, rounded to 6 decimals",
        "texts": texts,
        "tokens": token_counts(args.model_dir, texts),
        "mean": vectors(args.model_dir, texts),
    }
    if args.cls:
        golden["cls"] = vectors(args.model_dir, texts, "cls")
    if args.max_length:
        golden[f"mean_{args.max_length}"] = vectors(args.model_dir, texts, max_length=args.max_length)
    # One text or vector a line, so that a change can be read.
    lines = [f" {json.dumps(key)}: " + (json.dumps(value) if isinstance(value, str) else
             "[\n  " + ",\n  ".join(json.dumps(v) for v in value) + "\n ]") for key, value in golden.items()]
    args.golden.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
