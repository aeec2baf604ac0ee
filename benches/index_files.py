"""The files of a hindsearch index as indexes/FORMAT.md specifies them: vectors and passages for programs that are not hindsearch."""
import json
import subprocess
from pathlib import Path

import numpy as np

HEADER = 4096
TYPES = {"f32": "<f4", "f16": "<f2"}


def generation(index):
    return Path(index) / Path(index, "CURRENT").read_text().strip()


def manifest(index):
    return json.loads((generation(index) / "manifest.json").read_text(encoding="utf-8"))


def vectors(index):
    """The stored values, memory-mapped: [rows, dimensions], f32 or f16."""
    facts = manifest(index)
    if facts["element_type"] not in TYPES:
        raise SystemExit(f"`{index}` stores {facts['element_type']}; give an index of f32 or f16")
    return np.memmap(generation(index) / "vectors", TYPES[facts["element_type"]], "r", HEADER, (facts["rows"], facts["dimensions"]))


def unpacked(index, binary, work):
    """Paths of the vectors (.npy, float32) and of the passages (JSONL, row by row), made once and kept in `work`."""
    facts = manifest(index)
    folder = Path(work) / facts["checksum"][:16]
    folder.mkdir(parents=True, exist_ok=True)
    array, corpus = folder / "vectors.npy", folder / "corpus.jsonl"
    if not array.exists():
        scratch = folder / "vectors.tmp"
        with open(scratch, "wb") as file:
            np.save(file, vectors(index).astype(np.float32))
        scratch.rename(array)
    if not corpus.exists():
        subprocess.run([str(binary), "export", str(index), "--out", str(corpus), "--quiet"], check=True, stdout=subprocess.DEVNULL)
    return array, corpus
