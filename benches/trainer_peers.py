#!/usr/bin/env python3
"""The trainer's model beside transformers on torch: same weights, tokens and threads, in one run.

    cargo build --release -p hindsearch-trainer --examples
    target/release/examples/copy_model MODEL.gguf FOLDER
    trainer_peers.py FOLDER [--programs target/release/examples] [--threads 1 2] [--rounds 3] [--only learn decode] [--out DIR]

Every case runs in a process of its own, ours and theirs by turns, as often as there are rounds; figures are those of the round
with the least wall time. How many cores other processes took meanwhile is told too: where that is more than a tenth of one, the
case is marked as disturbed, and its wall times mean little. Learning: forwards and back over rows of 512 tokens, all of them through the head. Prefill: 512 tokens.
Decoding: greedy, from 128 tokens of context, counted from when all rows write. Memory is the peak above the weights. Loss,
logits and gradients of one row are compared as well. Writes trainer_peers.json. Needs torch, transformers and safetensors.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LONG, SHORT, WRITTEN = 512, 128, 64
# Name, our mode, their mode, rows, the least ratio of tokens a second.
CASES = [
    ("learn 1 row", "learn", "learn", 1, 1.0),
    ("learn 4 rows", "learn", "learn", 4, 1.0),
    ("learn 4 rows, recomputed", "recompute", "recompute", 4, None),
    ("prefill", "prefill", "prefill", 1, None),
    ("decode 1 row", "decode", "decode", 1, 1.2),
    ("decode 8 rows", "decode", "decode", 8, 1.3),
    ("decode 16 rows", "decode", "decode", 16, 1.3),
]


def tokens(row, count):
    """As in `examples/model_speed.rs`."""
    return [(at * at * 7919 + at * 104729 + row * 15485863 + 17) % 49152 for at in range(count)]


# ---- transformers, in a process of its own ----


def load(folder, threads):
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(threads)
    return torch, AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def loss_of(torch, model, ids):
    logits = model(ids, use_cache=False).logits[:, :-1]
    logprobs = torch.log_softmax(logits, -1).gather(-1, ids[:, 1:, None])
    return -logprobs.mean()


def memory(line):
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(text.split()[1]) * 1024 for text in status if text.startswith(line + ":"))


def peer(folder, mode, rows, threads):
    torch, model = load(folder, threads)
    ids = torch.tensor([tokens(row, SHORT if mode == "decode" else LONG) for row in range(rows)])
    weights = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    stamps = []

    def stamp(*_):
        stamps.append((time.perf_counter(), time.process_time()))

    stamp()
    found = {}
    if mode in ("learn", "recompute"):
        model.train()  # There is no dropout; recomputing asks for it.
        if mode == "recompute":
            model.gradient_checkpointing_enable({"use_reentrant": False})
        loss = loss_of(torch, model, ids)
        loss.backward()
        found["loss"], found["tokens"] = loss.item(), rows * LONG
    elif mode == "prefill":
        with torch.inference_mode():
            model(ids, logits_to_keep=1)
        found["tokens"] = rows * LONG
    else:
        from transformers import StoppingCriteria

        class Watch(StoppingCriteria):
            def __call__(self, ids, scores, **_):
                stamp()
                return torch.zeros(len(ids), dtype=torch.bool)

        stamps.clear()
        options = {"do_sample": False, "max_new_tokens": WRITTEN, "min_new_tokens": WRITTEN, "pad_token_id": 0}
        model.generate(ids, attention_mask=torch.ones_like(ids), stopping_criteria=[Watch()], **options)
        found["tokens"] = rows * (len(stamps) - 1)
    if mode != "decode":
        stamp()
    (wall, cpu), (wall_end, cpu_end) = stamps[0], stamps[-1]
    found |= {"wall_seconds": wall_end - wall, "cpu_seconds": cpu_end - cpu, "peak_bytes": memory("VmHWM") - weights}
    print(json.dumps(found))


def peer_numbers(folder, path, threads):
    """How far our loss, logits and gradients are from torch's."""
    from safetensors.torch import load_file

    torch, model = load(folder, threads)
    ours = load_file(path)
    ids = torch.tensor([tokens(0, LONG)])
    loss = loss_of(torch, model, ids)
    loss.backward()
    with torch.inference_mode():
        logits = model(ids, use_cache=False).logits[0]
    theirs = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    with torch.inference_mode():
        exact = model.double()(ids, use_cache=False).logits[0]
    ours_logits = ours.pop("logits")
    found = {
        "loss": {"ours": ours.pop("loss").item(), "torch": loss.item()},
        "logits, largest difference": (ours_logits - logits).abs().max().item(),
        "ours from torch in float64": (ours_logits - exact).abs().max().item(),
        "torch from torch in float64": (logits - exact).abs().max().item(),
        "logits, largest": logits.abs().max().item(),
    }
    relative = {name: ((mine - theirs[name]).norm() / theirs[name].norm()).item() for name, mine in ours.items()}
    print(json.dumps(found | {"gradients, relative error": relative}))


# ---- both ----


def run(command, threads):
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
    environment = os.environ | dict.fromkeys(names, str(threads)) | {"OMP_WAIT_POLICY": "PASSIVE", "HF_HUB_OFFLINE": "1"}
    start, busy, own = time.perf_counter(), busy_seconds(), child_seconds()
    done = subprocess.run(list(map(str, command)), env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.strip().splitlines()[-1]) if done.stdout.strip() else {}
    others = (busy_seconds() - busy) - (child_seconds() - own)
    return found | {"others": max(0.0, others / (time.perf_counter() - start))}


def busy_seconds():
    """CPU time of all processes of this machine."""
    user, nice, system, _, _, irq, softirq = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def child_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def best(rounds):
    """Speeds of the best round, memory of the worst."""
    found = min(rounds, key=lambda found: found["wall_seconds"])
    speeds = {what: found["tokens"] / found[f"{what}_seconds"] for what in ("wall", "cpu")}
    peak = max(found["peak_bytes"] for found in rounds)
    return speeds | {"peak": peak, "loss": found.get("loss"), "others": found["others"], "rounds": rounds}


def compare(case, arguments, threads):
    name, our_mode, their_mode, rows, goal = case
    program, folder = arguments.programs / "model_speed", arguments.folder
    ours, theirs = [], []
    for _ in range(arguments.rounds):
        ours.append(run([program, folder, our_mode, rows], threads))
        theirs.append(run([sys.executable, __file__, folder, "--peer", their_mode, rows, "--threads", threads], threads))
    ours, theirs = best(ours), best(theirs)
    found = {"case": name, "threads": threads, "ours": ours, "torch": theirs, "goal": goal}
    found |= {"wall ratio": ours["wall"] / theirs["wall"], "cpu ratio": ours["cpu"] / theirs["cpu"]}
    return found | {"memory ratio": ours["peak"] / theirs["peak"]}


def show(found):
    ours, theirs = found["ours"], found["torch"]
    goal = f" (goal {found['goal']})" if found["goal"] else ""
    print(
        f"{found['case']:26} {found['threads']} thr | tok/s {ours['wall']:7.1f} {theirs['wall']:7.1f} x{found['wall ratio']:.2f}{goal}"
        f" | tok/CPU s {ours['cpu']:7.1f} {theirs['cpu']:7.1f} x{found['cpu ratio']:.2f}"
        f" | MiB {ours['peak'] / 2**20:6.0f} {theirs['peak'] / 2**20:6.0f} x{found['memory ratio']:.2f}"
        f" | others {ours['others']:.2f} {theirs['others']:.2f}{' DISTURBED' if max(ours['others'], theirs['others']) > 0.1 else ''}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--programs", type=Path, default=Path("target/release/examples"))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="beginnings of the names of cases, and `numbers`")
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--peer", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    threads = arguments.threads[0]
    if arguments.peer:
        mode, what = arguments.peer
        return peer_numbers(arguments.folder, what, threads) if mode == "numbers" else peer(arguments.folder, mode, int(what), threads)
    wanted = [case for case in CASES if not arguments.only or any(case[0].startswith(name) for name in arguments.only)]
    results = {"cases": []}
    print("hindsearch, torch, ratio")
    for threads in arguments.threads:
        for case in wanted:
            results["cases"].append(compare(case, arguments, threads))
            show(results["cases"][-1])
    if not arguments.only or "numbers" in arguments.only:
        with tempfile.TemporaryDirectory() as work:
            path = Path(work) / "numbers.safetensors"
            run([arguments.programs / "model_speed", arguments.folder, "numbers", path], threads)
            command = [sys.executable, __file__, arguments.folder, "--peer", "numbers", path, "--threads", threads]
            results["numbers"] = run(command, threads)
        print(json.dumps(results["numbers"], indent=2))
        rows = {rows: run([arguments.programs / "model_speed", arguments.folder, "agree", rows], threads) for rows in (1, 8)}
        results["sampled and trained log-probabilities"] = rows
        print("sampled and trained log-probabilities, largest difference:", {r: f["largest_difference"] for r, f in rows.items()})
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "trainer_peers.json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
