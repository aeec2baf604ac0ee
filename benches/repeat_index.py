#!/usr/bin/env python3
"""Make a large index out of a small one without embedding a large corpus, to measure serving on it.

    repeat_index.py INDEX OUT --rows 1000000 --tiny DIR [--hindsearch target/release/hindsearch] [--noise 0.3]

Row i repeats row i mod n of INDEX (n rows, flat, f32 or f16): its passage under the id `COPY-ID`; its vector turned by
random noise of `--noise` times its length, and of length 1 again (copy 0 stays as it is). So the texts, sizes, model and
dimensions are real and the queries are embedded by the real model, but neighbours are copies of each other: measure speed
on it, not quality. The passages come from `hindsearch build` with the model DIR (tests/fixtures/tiny-bert), which is fast
and whose vectors are then replaced, together with what the manifest says of them. Needs numpy and blake3.
"""
import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import blake3
import numpy as np

import index_files

BLOCK, CHUNK, CODES = 50_000, 64 << 20, {"f32": 0, "f16": 1}


def write_corpus(source, rows, out):
    passages = [json.loads(line) for line in open(source, encoding="utf-8")]
    with open(out, "w", encoding="utf-8") as lines:
        for row in range(rows):
            copy, of = divmod(row, len(passages))
            lines.write(json.dumps({"id": f"{copy}-{passages[of]['id']}", "contents": passages[of]["contents"]}, ensure_ascii=False) + "\n")


def write_vectors(source, rows, noise, element_type, path):
    """A `vectors` file: header page, then the rows."""
    random, (count, dims), largest = np.random.default_rng(1), source.shape, 0.0
    path.unlink()
    with open(path, "wb") as file:
        file.write(bytes(index_files.HEADER))
        for start in range(0, rows, BLOCK):
            row = np.arange(start, min(start + BLOCK, rows))
            block = source[row % count].astype(np.float32)
            turned = block + random.standard_normal(block.shape, np.float32) * np.float32(noise / dims**0.5)
            turned /= np.linalg.norm(turned, axis=1, keepdims=True)
            block[row >= count] = turned[row >= count]
            stored = block.astype(index_files.TYPES[element_type])
            largest = max(largest, float(np.linalg.norm(stored.astype(np.float64), axis=1).max()))
            file.write(stored.tobytes())
        bound = np.nextafter(np.float32(largest), np.float32(2))
        header = b"HSVECTOR" + np.array([1, CODES[element_type]], "<u4").tobytes() + np.array([dims, rows], "<u8").tobytes() + bound.tobytes()
        header = header.ljust(index_files.HEADER - 32, b"\0")
        file.seek(0)
        file.write(header + blake3.blake3(header).digest())
    path.chmod(0o444)


def file_entry(path):
    whole, chunks = blake3.blake3(), []
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            whole.update(chunk)
            chunks.append(blake3.blake3(chunk).hexdigest())
    return {"name": path.name, "length": path.stat().st_size, "blake3": whole.hexdigest(), "chunk_length": CHUNK, "chunks": chunks}


def write_manifest(facts, path):
    body = json.dumps({name: value for name, value in facts.items() if name != "checksum"}, indent=2, ensure_ascii=False).encode()
    checksum = blake3.blake3(body).hexdigest()
    path.unlink()
    path.write_bytes(body.removesuffix(b"\n}") + b',\n  "checksum": "' + checksum.encode() + b'"\n}\n')
    path.chmod(0o444)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--tiny", type=Path, required=True)
    parser.add_argument("--hindsearch", type=Path, default=Path("target/release/hindsearch"))
    parser.add_argument("--noise", type=float, default=0.3)
    args = parser.parse_args()

    small = index_files.manifest(args.index)
    with tempfile.TemporaryDirectory(dir=args.out.parent) as scratch:
        exported, corpus = Path(scratch) / "small.jsonl", Path(scratch) / "large.jsonl"
        subprocess.run([args.hindsearch, "export", args.index, "--out", exported, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        write_corpus(exported, args.rows, corpus)
        subprocess.run([args.hindsearch, "build", corpus, "--out", args.out, "--model", args.tiny, "--set", "model.max_length=8",
                        "--set", "index.kind=flat", "--quiet"], check=True, stdout=subprocess.DEVNULL)

    large, folder = index_files.manifest(args.out), index_files.generation(args.out)
    write_vectors(index_files.vectors(args.index), args.rows, args.noise, small["element_type"], folder / "vectors")
    large["dimensions"], large["element_type"] = small["dimensions"], small["element_type"]
    large["attributes"]["provenance"]["model"] = small["attributes"]["provenance"]["model"]
    large["files"] = [file_entry(folder / "vectors") if entry["name"] == "vectors" else entry for entry in large["files"]]
    write_manifest(large, folder / "manifest.json")
    subprocess.run([args.hindsearch, "verify", args.out], check=True)


if __name__ == "__main__":
    main()
