#!/usr/bin/env python3
"""Hold hindsearch's indexes beside those of faiss, SVS and usearch: same vectors, queries and threads, in one run.

    hindsearch bench vectors SET --rows 400000 --dimensions 768
    index_peers.py SET... [--hindsearch target/release/hindsearch] [--threads 1] [--rounds 3] [--work DIR] [--out DIR]

A SET is a folder with `vectors.npy` and `queries.npy`, float32 rows of length 1. Built indexes stay in WORK with what their
building took, so that a second run is cheap; `--build-only` stops there. Each setting of each index answers 64 single queries and
batches of 256, top 10, in interleaved rounds; figures are medians. An exact scan by faiss of at most 50,000 of the rows, scaled to
all, stands beside every measurement: ratios are against that scan, so that a busy machine slows both. Recall is against the exact
top 10 of faiss IndexFlatIP in float32. Writes index_peers.md, index_peers.json and one index_peers-SET.svg a set.

Needs numpy and faiss-cpu; usearch and scalable-vs are left out where they are not installed.
"""
import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("sets", type=Path, nargs="+", metavar="SET")
parser.add_argument("--hindsearch", type=Path, help="the release binary; left out if not given")
parser.add_argument("--ours", default="quantized:i8,quantized:i16,hnsw:f16,flat:f16", help="kinds and element types")
parser.add_argument("--peers", help="names of peers, separated by commas; all if not given")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--work", type=Path, default=Path("index-peers"), help="where built indexes stay")
parser.add_argument("--out", type=Path, default=Path("."))
parser.add_argument("--build-only", action="store_true")

if __name__ == "__main__":
    ARGS = parser.parse_args()
    # Before numpy and faiss look at it.
    os.environ |= {"OMP_NUM_THREADS": str(ARGS.threads), "OPENBLAS_NUM_THREADS": str(ARGS.threads), "OMP_WAIT_POLICY": "PASSIVE"}

import faiss
import numpy as np

import index_goals
import index_ours
import index_peers_list
from index_peers_list import BATCH, TOP_K, timed

SLICE = 50_000


class Set:
    """Vectors, queries and the truth."""

    def __init__(self, folder, work):
        self.folder, self.name, self.work = folder, folder.name, work / folder.name
        self.work.mkdir(parents=True, exist_ok=True)
        self.vectors = np.load(folder / "vectors.npy", mmap_mode="r")
        self.queries = np.ascontiguousarray(np.load(folder / "queries.npy")[: 4 * BATCH])
        self.rows, self.dimensions = self.vectors.shape
        # The exact scan that stands beside every measurement.
        self.slice = faiss.IndexFlatIP(self.dimensions)
        self.slice.add(np.ascontiguousarray(self.vectors[:SLICE]))
        self.truth = self.exact()

    def exact(self):
        path = self.work / "truth.npy"
        if not path.exists():
            best = faiss.ResultHeap(len(self.queries), TOP_K, keep_max=True)
            for start in range(0, self.rows, SLICE):
                part = faiss.IndexFlatIP(self.dimensions)
                part.add(np.ascontiguousarray(self.vectors[start : start + SLICE]))
                scores, rows = part.search(self.queries, TOP_K)
                best.add_result(scores, rows + start)
            best.finalize()
            np.save(path, best.I)
        return np.load(path)

    def recall(self, found, top_k):
        return float(np.mean([len(set(f[:top_k]) & set(t[:top_k])) / top_k for f, t in zip(found.tolist(), self.truth.tolist())]))

    def beside(self):
        """The exact scan's (wall, cpu) milliseconds a query of all rows, alone and in a batch."""
        scale = self.rows / self.slice.ntotal
        return {kind: tuple(scale * t for t in times) for kind, times in timed(lambda q: self.slice.search(q, TOP_K)[1], self.queries, 4).items()}


def measure(data, methods, rounds):
    """Rows of figures, one a setting."""
    runs = {}
    for number in range(rounds):
        for method in methods:
            beside = data.beside()
            for setting, found, times in method.run(data):
                run = runs.setdefault((method.name, setting), {"method": method, "found": found, "times": [], "beside": []})
                run["times"].append(times)
                run["beside"].append(beside)
            print(f"{data.name}: round {number + 1}, {method.name}", file=sys.stderr, flush=True)
    rows = []
    for (name, setting), run in runs.items():
        row = {"index": name, "setting": setting, "group": run["method"].group} | run["method"].facts
        row |= {f"recall@{k}": round(data.recall(run["found"], k), 4) for k in (1, 3, 10)}
        for kind in ("single", "batch"):
            for at, unit in enumerate(("wall", "cpu")):
                row[f"{kind}_{unit}_ms"] = statistics.median(t[kind][at] for t in run["times"])
                row[f"{kind}_{unit}_x"] = statistics.median(b[kind][at] / t[kind][at] for t, b in zip(run["times"], run["beside"]))
        rows.append(row)
    return rows


def table(rows):
    lines = ["| index | setting | r@1 | r@3 | r@10 | 1 query, CPU ms | x | wall ms | batch of 256, CPU ms | x | wall ms | memory, MB | build, CPU s |"]
    lines.append("|---|---|" + "---|" * 11)
    for r in rows:
        cells = [r["index"], r["setting"], *(f"{r[f'recall@{k}']:.3f}" for k in (1, 3, 10))]
        for kind in ("single", "batch"):
            cells += [f"{r[f'{kind}_cpu_ms']:.3f}", f"{r[f'{kind}_cpu_x']:.1f}", f"{r[f'{kind}_wall_ms']:.3f}"]
        cells += [f"{r['memory_bytes'] / 1e6:.0f}", f"{r['build_cpu_s']:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main():
    args, text, results = ARGS, [], {}
    faiss.omp_set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    for folder in args.sets:
        data = Set(folder, args.work)
        methods = index_peers_list.peers(data, args.threads, args.peers and args.peers.split(","))
        if args.hindsearch:
            methods += index_ours.indexes(data, args.hindsearch, args.threads, args.ours.split(","))
        if args.build_only:
            continue
        rows = measure(data, methods, args.rounds)
        results[data.name] = {"rows": data.rows, "dimensions": data.dimensions, "settings": rows}
        heading = f"## {data.name}: {data.rows:,} x {data.dimensions}, {args.threads} threads, faiss {faiss.__version__}, load {os.getloadavg()[0]:.1f}"
        text += [heading, "", *table(rows), ""]
        (args.out / f"index_peers-{data.name}.svg").write_text(index_goals.picture(data.name, rows))
    if args.build_only:
        return
    goals = index_goals.goals(results)
    text = ["# Goals", "", *index_goals.table(goals), "", *text]
    (args.out / "index_peers.md").write_text("\n".join(text))
    (args.out / "index_peers.json").write_text(json.dumps({"threads": args.threads, "goals": goals, "sets": results}, indent=1) + "\n")
    print("\n".join(text))


if __name__ == "__main__":
    main()
