#!/usr/bin/env python3
"""Embedding speed of hindsearch beside the usual CPU runtimes: same weights, threads and texts, in one run.

    embed_peers.py --minilm DIR --corpus passages.jsonl [--hindsearch BIN] [--threads 2] [--rounds 5] [--work DIR] [--out DIR]

DIR is the hub folder of all-MiniLM-L6-v2. The second model has the shape of BERT-base and random weights: speed only.
Workloads: `equal`, passages of exactly 150 tokens; `real`, passages of the corpus as they come; `padded`, the same passages,
which peers pad to 256 tokens; `query`, 20 tokens, one at a time. Rounds are interleaved, so that a busy machine hurts all
alike; figures are medians over rounds, model loading excluded, tokenisation included. CPU-seconds are those of the whole
process, for hindsearch those of its worker threads, which do all the work. Writes embed_peers.md and embed_peers.json. Needs sentence-transformers, fastembed, openvino, nncf, onnxruntime;
a peer that cannot be loaded is reported and left out.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ |= {"TOKENIZERS_PARALLELISM": "false", "OMP_WAIT_POLICY": "PASSIVE", "HF_HUB_OFFLINE": "1"}

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import export_onnx

MAX_LENGTH, BATCH, REFERENCE = 256, 8, "onnxruntime fp32"
REPEATS = 6  # of hindsearch's texts: each measurement is a new process, whose first runs are slow; the peers stay warm
WORKLOADS = ("equal", "real", "padded", "query")


# ---- models ----

def base_folder(work, minilm):
    """A hub folder with BERT-base's shape, random weights and MiniLM's tokenizer."""
    folder = work / "bert-base-random"
    if (folder / "model.safetensors").exists():
        return folder
    shutil.copytree(minilm, folder, ignore=shutil.ignore_patterns("model.safetensors", "onnx"), dirs_exist_ok=True)
    hidden, layers, inner, vocab = 768, 12, 3072, 30522
    config = json.loads((minilm / "config.json").read_text()) | {
        "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": 12, "intermediate_size": inner}
    pooling = json.loads((minilm / "1_Pooling/config.json").read_text()) | {"word_embedding_dimension": hidden}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "1_Pooling/config.json").write_text(json.dumps(pooling))
    random = np.random.default_rng(0)
    tensors = {}

    def linear(name, outputs, inputs):
        tensors[f"{name}.weight"] = 0.02 * random.standard_normal((outputs, inputs), np.float32)
        tensors[f"{name}.bias"] = np.zeros(outputs, np.float32)

    def norm(name):
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = np.ones(hidden, np.float32), np.zeros(hidden, np.float32)

    for part, rows in (("word", vocab), ("position", 512), ("token_type", 2)):
        tensors[f"embeddings.{part}_embeddings.weight"] = 0.02 * random.standard_normal((rows, hidden), np.float32)
    norm("embeddings.LayerNorm")
    for layer in range(layers):
        name = f"encoder.layer.{layer}"
        for part in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            linear(f"{name}.{part}", hidden, hidden)
        linear(f"{name}.intermediate.dense", inner, hidden)
        linear(f"{name}.output.dense", hidden, inner)
        norm(f"{name}.attention.output.LayerNorm")
        norm(f"{name}.output.LayerNorm")
    save_file(tensors, folder / "model.safetensors")
    return folder


def variants(work, folder, calibration):
    """Hub folders whose onnx/model.onnx is fp32, static int8, and dynamic int8 as onnxruntime's own tool makes it."""
    result = {kind: work / f"{folder.name}-{kind}" for kind in ("fp32", "int8", "dynamic")}
    for kind, variant in result.items():
        graph = variant / "onnx/model.onnx"
        if graph.exists():
            continue
        shutil.copytree(folder, variant, ignore=shutil.ignore_patterns("model.safetensors", "onnx"), dirs_exist_ok=True)
        graph.parent.mkdir(exist_ok=True)
        if kind == "dynamic":
            from onnxruntime.quantization import QuantType, quantize_dynamic
            quantize_dynamic(result["fp32"] / "onnx/model.onnx", graph, weight_type=QuantType.QInt8, per_channel=True,
                             extra_options={"MatMulConstBOnly": True})
        elif kind == "int8":
            export_onnx.export(folder, graph, "static", calibration=calibration, samples=64)
        else:
            export_onnx.export(folder, graph)
    return result


# ---- texts ----

def workloads(corpus, tokenizer, passages, queries, seed=0):
    """{workload: texts}. Texts over 250 tokens are left out, so that no limit of any runtime takes part."""
    texts = [json.loads(line)["contents"] for line in corpus.open(encoding="utf-8")]
    order = np.random.default_rng(seed).permutation(len(texts))

    def cut(tokens, count):
        found = []
        for i in order:
            encoding = tokenizer.encode(texts[i])
            if len(encoding.ids) <= tokens:
                continue
            text = texts[i][: encoding.offsets[tokens - 2][1]]
            if len(tokenizer.encode(text).ids) == tokens:
                found.append(text)
            if len(found) == count:
                return found
        sys.exit(f"error: `{corpus}` has too few passages of {tokens} tokens")

    real = [texts[i] for i in order if len(tokenizer.encode(texts[i]).ids) <= 250][:passages]
    return {"equal": cut(150, passages), "real": real, "padded": real, "query": cut(20, queries)}


def tensors(tokenizer, texts, pad_to=None):
    """The feed of a graph, padded to the longest text or to `pad_to`."""
    ids = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    shape = len(ids), pad_to or max(map(len, ids))
    feed = {name: np.zeros(shape, np.int64) for name in ("input_ids", "attention_mask", "token_type_ids")}
    for row, tokens in enumerate(ids):
        feed["input_ids"][row, : len(tokens)] = tokens
        feed["attention_mask"][row, : len(tokens)] = 1
    return feed


def pooled(state, mask):
    vectors = (state * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def in_batches(infer, tokenizer, texts, workload):
    """Embed with a graph: batches sorted by length, as sentence-transformers does it."""
    size = 1 if workload == "query" else BATCH
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    parts = []
    for start in range(0, len(order), size):
        feed = tensors(tokenizer, [texts[i] for i in order[start : start + size]],
                       MAX_LENGTH if workload == "padded" else None)
        parts.append(pooled(infer(feed), feed["attention_mask"]))
    return np.concatenate(parts)[np.argsort(order)]


# ---- peers: each loader returns embed(texts, workload) -> vectors ----

def load_sentence_transformers(folder, threads):
    import torch
    from sentence_transformers import SentenceTransformer
    torch.set_num_threads(threads)
    model = SentenceTransformer(str(folder), device="cpu")
    model.max_seq_length = MAX_LENGTH

    def embed(texts, workload):
        if workload == "query":
            return np.concatenate([model.encode([t], normalize_embeddings=True, show_progress_bar=False) for t in texts])
        if workload == "padded":
            parts = []
            with torch.inference_mode():
                for start in range(0, len(texts), BATCH):
                    feed = model.tokenizer(texts[start : start + BATCH], padding="max_length", truncation=True,
                                           max_length=MAX_LENGTH, return_tensors="pt")
                    parts.append(model(dict(feed))["sentence_embedding"].numpy())
            return np.concatenate(parts)
        return model.encode(texts, batch_size=BATCH, normalize_embeddings=True, show_progress_bar=False)

    return embed


def load_fastembed(folder, threads):
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType
    name = f"local/{folder.name}"
    dim = json.loads((folder / "config.json").read_text())["hidden_size"]
    TextEmbedding.add_custom_model(model=name, pooling=PoolingType.MEAN, normalization=True, dim=dim,
                                   sources=ModelSource(hf=name), model_file="onnx/model.onnx")
    model = TextEmbedding(name, specific_model_path=str(folder), threads=threads, local_files_only=True)
    tokenizer = model.model.tokenizer

    def embed(texts, workload):
        # fastembed pads to the longest of a batch unless told otherwise.
        tokenizer.enable_padding(length=MAX_LENGTH if workload == "padded" else None)
        if workload == "query":
            return np.concatenate([np.stack(list(model.embed([t], batch_size=1))) for t in texts])
        return np.stack(list(model.embed(texts, batch_size=BATCH)))

    return embed


def load_onnxruntime(folder, threads, tokenizer):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(str(folder / "onnx/model.onnx"), options, providers=["CPUExecutionProvider"])
    return lambda texts, workload: in_batches(lambda feed: session.run(None, feed)[0], tokenizer, texts, workload)


def load_openvino(folder, threads, tokenizer, calibration=None):
    import openvino
    core = openvino.Core()
    model = core.read_model(folder / "onnx/model.onnx")
    if calibration:
        import nncf
        feeds = nncf.Dataset([tensors(tokenizer, [text]) for text in calibration])
        model = nncf.quantize(model, feeds, model_type=nncf.ModelType.TRANSFORMER, subset_size=len(calibration))
    compiled = core.compile_model(model, "CPU", {
        "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32", "ENABLE_CPU_PINNING": False})
    request, output = compiled.create_infer_request(), compiled.output(0)
    return lambda texts, workload: in_batches(lambda feed: request.infer(feed)[output], tokenizer, texts, workload)


def load_hindsearch(binary, folder, threads):
    def embed(texts, workload):
        return run_hindsearch(binary, folder, texts, threads, ["--window", "1"] if workload == "query" else [])
    return embed


def run_hindsearch(binary, folder, texts, threads, extra=()):
    """Embed `texts` with the command line: (vectors, wall seconds, CPU seconds), model loading excluded by the command."""
    with tempfile.TemporaryDirectory() as scratch:
        source, out = Path(scratch) / "texts.txt", Path(scratch) / "vectors.npy"
        source.write_text("".join(" ".join(text.split()) + "\n" for text in texts) * REPEATS, encoding="utf-8")
        command = [str(binary), "embed", "--file", str(source), "--out", str(out), "--model", str(folder),
                   "--threads", str(threads), "--json", *extra]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
        report = json.loads(done.stdout)
        return np.load(out)[: len(texts)], report["wall_seconds"] / REPEATS, report["cpu_seconds"] / REPEATS


# ---- the race ----

def timed(embed, texts, workload):
    wall, cpu = time.perf_counter(), time.process_time()
    result = embed(texts, workload)
    if isinstance(result, tuple):  # a separate process reports its own times
        return result
    return result, time.perf_counter() - wall, time.process_time() - cpu


def load_all(folder, graphs, args, tokenizer, calibration):
    loaders = {
        "sentence-transformers": lambda: load_sentence_transformers(folder, args.threads),
        "fastembed": lambda: load_fastembed(graphs["fp32"], args.threads),
        "openvino fp32": lambda: load_openvino(graphs["fp32"], args.threads, tokenizer),
        REFERENCE: lambda: load_onnxruntime(graphs["fp32"], args.threads, tokenizer),
        "openvino int8": lambda: load_openvino(graphs["fp32"], args.threads, tokenizer, calibration),
        "onnxruntime int8 dynamic": lambda: load_onnxruntime(graphs["dynamic"], args.threads, tokenizer),
        "onnxruntime int8 static": lambda: load_onnxruntime(graphs["int8"], args.threads, tokenizer),
    }
    if args.hindsearch:
        loaders["hindsearch fp32"] = lambda: load_hindsearch(args.hindsearch, graphs["fp32"], args.threads)
        loaders["hindsearch int8"] = lambda: load_hindsearch(args.hindsearch, graphs["int8"], args.threads)
    peers = {}
    for name, load in loaders.items():
        try:
            peers[name] = load()
        except Exception as error:  # a missing package must not end the run
            print(f"left out: {name}: {type(error).__name__}: {error}", file=sys.stderr)
    return peers


def race(peers, texts, rounds):
    """{workload: {peer: figures}}"""
    results = {}
    for workload in WORKLOADS:
        batch, times, cosines = texts[workload], {name: [] for name in peers}, {}
        reference = peers[REFERENCE](batch, workload)
        for turn in range(rounds + 1):  # the first warms up
            for name, embed in peers.items():
                vectors, wall, cpu = timed(embed, batch, workload)
                if turn == 0:
                    cosines[name] = float((vectors * reference).sum(axis=1).mean())
                else:
                    times[name].append((len(batch) / wall, len(batch) / cpu))
        results[workload] = {name: {
            "texts_per_second": statistics.median(wall for wall, _ in measured),
            "texts_per_cpu_second": statistics.median(cpu for _, cpu in measured),
            "cosine": cosines[name],
        } for name, measured in times.items()}
        print(f"{workload} done, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    return results


def table(model, results):
    lines = []
    for workload, peers in results.items():
        base = peers[REFERENCE]
        lines += [f"### {model}, {workload}", "",
                  f"| | texts/s | x {REFERENCE} | texts per CPU-s | x {REFERENCE} | cosine to {REFERENCE} |",
                  "|---|---|---|---|---|---|"]
        for name, r in sorted(peers.items(), key=lambda item: -item[1]["texts_per_cpu_second"]):
            ratios = [r[key] / base[key] for key in ("texts_per_second", "texts_per_cpu_second")]
            lines.append(f"| {name} | {r['texts_per_second']:.2f} | {ratios[0]:.2f} | {r['texts_per_cpu_second']:.2f} | "
                         f"{ratios[1]:.2f} | {r['cosine']:.5f} |")
        lines.append("")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minilm", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--hindsearch", type=Path, help="the release binary; left out if not given")
    parser.add_argument("--models", default="bert-base,minilm")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--passages", type=int, default=8, help="passages a workload for bert-base; minilm gets four times as many")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "hindsearch-embed-peers")
    parser.add_argument("--out", type=Path, default=Path("."))
    args = parser.parse_args()

    args.work.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.from_file(str(args.minilm / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_LENGTH)
    report, lines = {"threads": args.threads, "rounds": args.rounds, "load_before": os.getloadavg()[0]}, []
    for model in args.models.split(","):
        folder, scale = (base_folder(args.work, args.minilm), 1) if model == "bert-base" else (args.minilm, 4)
        texts = workloads(args.corpus, tokenizer, args.passages * scale, 8 * scale)
        calibration = [t for name in ("equal", "query") for t in workloads(args.corpus, tokenizer, 32, 32, seed=1)[name]]
        calibration_file = args.work / "calibration.jsonl"
        calibration_file.write_text("".join(json.dumps({"text": t}) + "\n" for t in calibration), encoding="utf-8")
        graphs = variants(args.work, folder, calibration_file)
        # NNCF holds every activation of its samples: a few are enough and bound its time.
        peers = load_all(folder, graphs, args, tokenizer, calibration[24:40])
        report[model] = race(peers, texts, args.rounds)
        lines += table(model, report[model])
    report["load_after"] = os.getloadavg()[0]
    heading = f"{args.threads} threads, median of {args.rounds} rounds, load {report['load_before']:.1f} to {report['load_after']:.1f}"
    (args.out / "embed_peers.md").write_text("\n".join([heading, "", *lines]))
    (args.out / "embed_peers.json").write_text(json.dumps(report, indent=2) + "\n")
    print("\n".join([heading, "", *lines]))


if __name__ == "__main__":
    main()
