#!/usr/bin/env python3
"""Load on the hindsearch server beside the field's servers: same model, index, threads and requests, in one run.

    serve_load.py --index DIR --model DIR --questions Q.jsonl... [--hindsearch target/release/hindsearch] [--python PYTHON]
                  [--infinity BIN] [--also NAME=DIR]... [--rounds 3] [--seconds 10] [--threads 2] [--work DIR] [--out DIR]

INDEX is flat, f32 or f16, and its vectors and passages are what the Python server (serve_peer.py, started with PYTHON, with
sentence-transformers and with onnxruntime) holds too; MODEL is the hub folder it was built with, holding fp32 weights
(`model.safetensors`) and, here or as `--onnx FILE`, the graph. `--also` adds an index of the same corpus served by hindsearch. BIN is
infinity_emb of infinity-emb, for the embedding API. Loads (`--loads` takes some of them):

    single    each client sends one question at a time to /retrieve (Search-R1, top 3), no question twice
    group     the same, but every question comes five times in a row, as the rollouts of one prompt do
    post      one POST of 2,560 questions, twice
    cached    one question over and over from one client, where the answer names its timings (hindsearch alone)
    embed     each client sends one text at a time to /v1/embeddings, no text twice (hindsearch and infinity)

Each server is started anew in each round and runs alone; figures are medians over rounds. CPU is the server process's, ms a
request; `client` what load_client.py itself took. `x` compares with the better peer. Before the loads, 64 questions are asked
of each server and its top 3 held against the first server's. Writes serve_load.md and serve_load.json. Needs numpy; the peers need what they need.
"""
import argparse
import http.client
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import index_files
import serve_processes
import serve_report

TOP_K, GROUP, POST, POSTS, PROBE, REPEATS = 3, 5, 2560, 2, 64, 500
LOADS = ("single", "group", "post", "cached", "embed")
BODIES_PER_SECOND = 3000  # more than any model here answers


class Questions:
    """The questions in a fixed random order; after the last, again with a mark at the end, so that none is sent twice."""

    def __init__(self, files):
        texts = [json.loads(line)["question"] for file in files for line in open(file, encoding="utf-8")]
        self.texts, self.next = list(dict.fromkeys(texts)), 0
        random.Random(1).shuffle(self.texts)

    def take(self, count):
        picked = [self.texts[i % len(self.texts)] + " ?" * (i // len(self.texts)) for i in range(self.next, self.next + count)]
        self.next += count
        return picked


def retrieve_body(queries):
    return json.dumps({"queries": queries, "topk": TOP_K, "return_scores": True})


def embed_body(texts):
    return json.dumps({"model": "default", "input": texts})


def post(url, path, body):
    """The parsed answer and the seconds it took, over a connection of its own."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=600)
    begin = time.perf_counter()
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    seconds = time.perf_counter() - begin
    connection.close()
    if answer.status != 200:
        raise SystemExit(f"`{url}{path}` answered {answer.status}: {text[:300].decode(errors='replace')}")
    return json.loads(text), seconds


# ---- loads: each gives {measurement: figures} ----

def closed_loop(server, path, bodies, connections, seconds):
    """load_client.py's report, with the server's CPU and memory."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        file.write("\n".join(bodies) + "\n")
        file.flush()
        client = [sys.executable, str(Path(__file__).with_name("load_client.py")), server.url + path, file.name]
        cpu = server.cpu_seconds()
        done = subprocess.run([*client, "--connections", str(connections), "--seconds", str(seconds)], check=True, capture_output=True, text=True)
        report = json.loads(done.stdout)
        report["cpu_ms"] = 1000 * (server.cpu_seconds() - cpu) / max(1, report["answered"])
    report["rss_mb"], report["anon_mb"] = server.memory()
    return report


def singles(server, questions, args, path="/retrieve", body=retrieve_body, name="single", group=1, connections=None):
    figures = {}
    for count in connections or args.connections:
        seconds = args.seconds * (2 if count >= 256 else 1)
        start = questions.next
        bodies = [text for question in questions.take(int(seconds * BODIES_PER_SECOND / group)) for text in [body([question])] * group]
        report = closed_loop(server, path, bodies, count, seconds)
        questions.next = start + report["sent"] // group + 1
        figures[f"{name} {count}"] = report
    return figures


def big_posts(server, questions):
    seconds, cpu = [], server.cpu_seconds()
    for _ in range(POSTS):
        answer, took = post(server.url, "/retrieve", retrieve_body(questions.take(POST)))
        assert [len(hits) for hits in answer["result"]] == [TOP_K] * POST, "an answer of another shape"
        seconds.append(took)
    cpu_ms = 1000 * (server.cpu_seconds() - cpu) / POSTS / POST
    rss, anon = server.memory()
    return {f"post {POST}": {"per_second": POST / statistics.median(seconds), "p50": 1000 * statistics.median(seconds),
                             "p99": 1000 * max(seconds), "cpu_ms": cpu_ms, "rss_mb": rss, "anon_mb": anon, "errors": 0}}


def cached(server, questions, args):
    """A question whose vector is cached, from one client, beside what the server says that it spent on the search."""
    [question] = questions.take(1)
    report = closed_loop(server, "/retrieve", [retrieve_body([question])], 1, args.seconds / 2)
    body = json.dumps({"query": question, "top_k": TOP_K})
    timings = [post(server.url, "/v1/search", body)[0]["timings"] for _ in range(REPEATS)]
    report |= {f"server_{stage}": statistics.median(t[stage] for t in timings) for stage in timings[0]}
    report["overhead_ms"] = report["p50"] - report["server_search_ms"]
    return {"cached 1": report}


def in_process(args, index, questions):
    """Median ms of `hindsearch search`, queries one after the other, embedding included."""
    texts = "\n".join(" ".join(q.split()) for q in questions.take(REPEATS))
    command = [args.hindsearch, "search", index, "--queries", "-", "--top-k", str(TOP_K), "--json", "--quiet"]
    done = subprocess.run([str(part) for part in command], input=texts, check=True, capture_output=True, text=True)
    return statistics.median(json.loads(line)["milliseconds"] for line in done.stdout.splitlines())


# ---- the race ----

def contenders(args, vectors, corpus):
    """(server, loads that it takes part in)"""
    ours = [("hindsearch", args.index), *(entry.split("=", 1) for entry in args.also)]
    retrieval = [serve_processes.python_peer(encoder, args, vectors, corpus, args.inflight) for encoder in args.encoders]
    servers = [(server, {"single", "group", "post"}) for server in retrieval]
    servers += [(serve_processes.hindsearch(name, args, index), set(LOADS)) for name, index in ours if args.hindsearch]
    if args.infinity and "embed" in args.loads:
        servers += [(serve_processes.infinity(args, threads), {"embed"}) for threads in args.infinity_threads]
    return [(server, taken & set(args.loads)) for server, taken in servers]


def top_rows(server, texts):
    answer, _ = post(server.url, "/retrieve", retrieve_body(texts))
    return [[hit["document"]["id"] for hit in hits] for hits in answer["result"]]


def visit(server, loads, questions, args, reference):
    """Start a server, warm it up, put the loads on it, stop it: {measurement: figures}."""
    figures = {"start": {}}
    try:
        server.start(args.work / "servers.log")
        figures["start"]["ready_seconds"] = server.ready_seconds
        if "single" in loads or "group" in loads or "post" in loads:
            rows = top_rows(server, questions.texts[:PROBE])
            reference.setdefault("rows", rows)
            figures["start"]["same_top"] = sum(a == b for a, b in zip(rows, reference["rows"])) / PROBE
            closed_loop(server, "/retrieve", [retrieve_body([q]) for q in questions.take(200)], 4, 2)
        else:
            closed_loop(server, "/v1/embeddings", [embed_body([q]) for q in questions.take(200)], 4, 2)
        if "single" in loads:
            figures |= singles(server, questions, args)
        if "group" in loads:
            figures |= singles(server, questions, args, name="group", group=GROUP, connections=args.group_connections)
        if "post" in loads:
            figures |= big_posts(server, questions)
        if "cached" in loads:
            figures |= cached(server, questions, args)
        if "embed" in loads:
            figures |= singles(server, questions, args, "/v1/embeddings", embed_body, "embed", connections=args.embed_connections)
    finally:
        figures["start"]["exit"] = server.stop()
    return figures


def race(args, servers, questions):
    rounds, reference = [], {}
    for number in range(args.rounds):
        rounds.append({})
        for server, loads in servers:
            if loads:
                start = os.getloadavg()[0]
                rounds[-1][server.name] = visit(server, loads, questions, args, reference) | {"load": {"before": start, "after": os.getloadavg()[0]}}
                print(f"round {number + 1}: {server.name} done, load {start:.1f} to {os.getloadavg()[0]:.1f}", file=sys.stderr)
    return rounds


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--questions", type=Path, nargs="+", required=True)
    parser.add_argument("--hindsearch", type=Path, default=Path("target/release/hindsearch"))
    parser.add_argument("--only-peers", action="store_true", help="leave hindsearch's server out")
    parser.add_argument("--python", help="interpreter with the peer's packages; this one if not given")
    parser.add_argument("--onnx", type=Path)
    parser.add_argument("--infinity", help="infinity_emb's executable; left out if not given")
    parser.add_argument("--infinity-threads", type=int, nargs="+", default=[1])
    parser.add_argument("--also", action="append", default=[], metavar="NAME=DIR")
    parser.add_argument("--encoders", nargs="*", choices=["st", "ort"], default=["st", "ort"])
    parser.add_argument("--inflight", type=int, default=0, help="see serve_peer.py")
    parser.add_argument("--loads", nargs="+", choices=LOADS, default=list(LOADS))
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 16, 64, 256])
    parser.add_argument("--group-connections", type=int, nargs="+", default=[256])
    parser.add_argument("--embed-connections", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "hindsearch-serve-load")
    parser.add_argument("--out", type=Path, default=Path("."))
    return parser.parse_args()


def main():
    args = arguments()
    args.work.mkdir(parents=True, exist_ok=True)
    vectors, corpus = index_files.unpacked(args.index, args.hindsearch, args.work)
    questions, facts = Questions(args.questions), index_files.manifest(args.index)
    binary = args.hindsearch
    if args.only_peers:
        args.hindsearch = None
    servers = contenders(args, vectors, corpus)
    rounds = race(args, servers, questions)

    header = {"rows": facts["rows"], "dimensions": facts["dimensions"], "stored": facts["element_type"], "threads": args.threads,
              "rounds": args.rounds, "seconds": args.seconds, "questions": len(questions.texts), "machine": platform.machine(), "cores": os.cpu_count(),
              "versions": serve_report.versions(args.python or sys.executable, args.infinity, binary)}
    if args.hindsearch and "cached" in args.loads:
        header["search_command_ms"] = in_process(args, args.index, questions)
    client = Path(__file__).with_name("load_client.py")
    header["client_floor"] = [json.loads(subprocess.run([sys.executable, str(client), "--floor", "--connections", str(count)], check=True,
                                                        capture_output=True, text=True).stdout) for count in (1, 64)]
    text = serve_report.markdown(header, rounds, [server.name for server, _ in servers])
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "serve_load.md").write_text(text)
    (args.out / "serve_load.json").write_text(json.dumps({"header": header, "rounds": rounds}, indent=2) + "\n")
    print(text)


if __name__ == "__main__":
    main()
