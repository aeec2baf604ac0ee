#!/usr/bin/env python3
"""Hold a flat index against brute force in NumPy, hit for hit.

    numpy_exact.py HINDSEARCH INDEX QUESTIONS.jsonl [top_k]

Reads the vectors as indexes/FORMAT.md specifies them, embeds the questions with `hindsearch embed`, scores every row in
double precision, and compares ids and scores with what `hindsearch search` says. Needs NumPy alone.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

binary, index, questions = sys.argv[1:4]
top_k = int(sys.argv[4]) if len(sys.argv) > 4 else 20


def run(*arguments):
    return subprocess.run([binary, *arguments], check=True, capture_output=True, text=True).stdout


manifest = json.loads(run("inspect", index, "--json"))
assert manifest["kind"] == "flat" and manifest["element_type"] in ("f32", "f16"), "give a flat index of f32 or f16"
generation = Path(index) / Path(index, "CURRENT").read_text().strip()
shape = manifest["rows"], manifest["dimensions"]
vectors = np.memmap(generation / "vectors", {"f32": "<f4", "f16": "<f2"}[manifest["element_type"]], "r", 4096, shape).astype(np.float64)

with tempfile.TemporaryDirectory() as scratch:
    texts, out = Path(scratch) / "q.txt", Path(scratch) / "q.npy"
    lines = [" ".join(json.loads(line)["question"].split()) for line in open(questions, encoding="utf-8") if line.strip()]
    texts.write_text("\n".join(lines) + "\n", encoding="utf-8")
    model = manifest["attributes"]["provenance"]["model"]["source"]
    run("embed", "--file", str(texts), "--out", str(out), "--model", model, "--json")
    queries = np.load(out).astype(np.float64)
    found = [json.loads(line)["hits"] for line in run("search", index, "--queries", str(texts), "-k", str(top_k), "--json").splitlines()]

wrong, largest = 0, 0.0
for query, hits in zip(queries, found, strict=True):
    scores = (vectors @ query).astype(np.float32)
    order = np.lexsort((np.arange(len(scores)), -scores))[:top_k]
    rows = [hit["row"] for hit in hits]
    largest = max(largest, float(np.abs(scores[rows] - [np.float32(hit["score"]) for hit in hits]).max()))
    wrong += rows != order.tolist()
print(f"{len(found)} questions, {shape[0]} rows, top {top_k}: {wrong} rankings differ, largest difference of a score {largest:.2e}")
sys.exit(wrong > 0)
