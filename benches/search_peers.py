#!/usr/bin/env python3
"""Search latency and recall of hindsearch beside faiss: same vectors, queries and threads, in one run.

    cargo build --release --example search_speed
    search_peers.py [--hindsearch target/release/examples/search_speed] [--rows 100000] [--threads 2] [--rounds 5] [--work DIR] [--out DIR]

Vectors come from gen_vectors.py, 768 dimensions, and stay in DIR with the built indexes. Each index answers 64 single
queries and one batch of 256, top 10, in interleaved rounds; figures are medians. Recall is the share of the exact top 10
of all queries. CPU-seconds are those of the whole process. Writes search_peers.md and search_peers.json.
Needs numpy and faiss-cpu.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

import faiss
import numpy as np

import gen_vectors

DIMS, TOP_K, SINGLES, BATCH = 768, 10, 64, 256
REFERENCE = "faiss IndexFlatIP"
HINDSEARCH = [("flat", "f32", 0), ("flat", "f16", 0), ("flat", "i8", 0), ("hnsw", "f16", 64), ("hnsw", "f16", 128), ("hnsw", "f16", 256)]


# ---- faiss ----

def faiss_indexes(vectors, work):
    """{name: search(queries) -> rows}, built once and kept in `work`."""
    def kept(name, build):
        path = work / f"{name}.faiss"
        if not path.exists():
            faiss.write_index(build(), str(path))
        return faiss.read_index(str(path))

    def flat():
        index = faiss.IndexFlatIP(DIMS)
        index.add(vectors)
        return index

    def half():
        index = faiss.IndexScalarQuantizer(DIMS, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
        index.train(vectors[:1000])
        index.add(vectors)
        return index

    def hnsw():
        index = faiss.IndexHNSWFlat(DIMS, 32, faiss.METRIC_INNER_PRODUCT)
        index.add(vectors)
        return index

    searches = {REFERENCE: searcher(kept("flat", flat)), "faiss IndexScalarQuantizer fp16": searcher(kept("sqfp16", half))}
    graph = kept("hnsw32", hnsw)
    for ef in (64, 128, 256):
        searches[f"faiss IndexHNSWFlat 32, ef {ef}"] = searcher(graph, faiss.SearchParametersHNSW(efSearch=ef))
    return searches


def searcher(index, params=None):
    return lambda queries: index.search(queries, TOP_K, params=params)[1]


def timed_faiss(search, queries):
    """{batch: (wall, cpu) seconds a query}"""
    times = {}
    for batch, part in ((1, queries[:SINGLES]), (BATCH, queries[:BATCH])):
        wall, cpu = time.perf_counter(), time.process_time()
        for start in range(0, len(part), batch):
            search(part[start : start + batch])
        times[batch] = (time.perf_counter() - wall) / len(part), (time.process_time() - cpu) / len(part)
    return times


# ---- hindsearch ----

def run_hindsearch(binary, work, kind, storage, expansion, threads):
    """Rows [queries, top_k] and {batch: (wall, cpu) seconds a query}; building, opening and a warm-up excluded."""
    with tempfile.TemporaryDirectory() as scratch:
        hits = Path(scratch) / "hits.npy"
        command = [str(binary), str(work / "vectors.npy"), str(work / "queries.npy"), str(work / "hindsearch"), kind, storage,
                   str(threads), str(hits)]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"EXPANSION_SEARCH": str(expansion)})
        if done.returncode:
            raise RuntimeError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
        report = json.loads(done.stdout)
        times = {batch: (report[f"{name}_ms"] / 1000, report[f"{name}_cpu_ms"] / 1000) for batch, name in ((1, "single"), (BATCH, "batch"))}
        return np.load(hits).astype(np.int64), times


# ---- the race ----

def recall(rows, exact):
    return float(np.mean([len(set(found) & set(true)) / TOP_K for found, true in zip(rows.tolist(), exact.tolist())]))


def race(args, searches, ours, queries, work):
    exact = searches[REFERENCE](queries)
    times = {name: [] for name in (*searches, *ours)}
    recalls = {name: recall(search(queries), exact) for name, search in searches.items()}
    for _ in range(args.rounds):
        for name, search in searches.items():
            times[name].append(timed_faiss(search, queries))
        for name, (kind, storage, expansion) in ours.items():
            rows, measured = run_hindsearch(args.hindsearch, work, kind, storage, expansion, args.threads)
            times[name].append(measured)
            recalls[name] = recall(rows, exact)
    return {name: {"recall@10": recalls[name]} | {
        f"{unit}_ms_batch_{batch}": 1000 * statistics.median(t[batch][i] for t in measured)
        for batch in (1, BATCH) for i, unit in enumerate(("wall", "cpu"))} for name, measured in times.items()}


def table(results):
    base = results[REFERENCE]
    lines = ["| | recall@10 | 1 query, ms | x | CPU ms | x | batch of 256, ms a query | x | CPU ms | x |", "|---|" + "---|" * 9]
    for name, r in results.items():
        cells = [f"{r['recall@10']:.4f}"]
        for batch in (1, BATCH):
            for unit in ("wall", "cpu"):
                key = f"{unit}_ms_batch_{batch}"
                cells += [f"{r[key]:.3f}", f"{base[key] / r[key]:.1f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hindsearch", type=Path, help="the release binary; left out if not given")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "hindsearch-search-peers")
    parser.add_argument("--out", type=Path, default=Path("."))
    args = parser.parse_args()

    faiss.omp_set_num_threads(args.threads)
    work = args.work / str(args.rows)
    if not (work / "vectors.npy").exists():
        gen_vectors.generate(work, args.rows, 1024, DIMS, seed=1)
    queries = np.load(work / "queries.npy")
    searches = faiss_indexes(np.load(work / "vectors.npy", mmap_mode="r"), work)
    ours = {}
    if args.hindsearch:
        ours = {f"hindsearch {kind} {storage}" + (f", ef {ef}" if ef else ""): (kind, storage, ef) for kind, storage, ef in HINDSEARCH}

    load = os.getloadavg()[0]
    results = race(args, searches, ours, queries, work)
    heading = (f"{args.rows} x {DIMS}, {args.threads} threads, faiss {faiss.__version__}, median of {args.rounds} rounds, "
               f"load {load:.1f} to {os.getloadavg()[0]:.1f}; x: times faster than {REFERENCE}")
    text = "\n".join([heading, "", *table(results), ""])
    (args.out / "search_peers.md").write_text(text)
    (args.out / "search_peers.json").write_text(json.dumps({"rows": args.rows, "threads": args.threads} | results, indent=2) + "\n")
    print(text)


if __name__ == "__main__":
    main()
