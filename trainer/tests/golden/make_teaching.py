#!/usr/bin/env python3
"""Compute what hinted lessons do to the weights of a tiny model with transformers and PyTorch, for the tests of the trainer.

    OMP_NUM_THREADS=1 make_teaching.py

writes teaching.json beside itself. The model is `models/qwen2`, in float64. Samples are read as they are, lessons with other tokens before
and between; the teacher has the same weights and no gradient. Written from the formulas of the papers (HindSearch, SD-Search,
OpenClaw-RL) over whole softmaxes of the vocabulary. Needs torch (2.15.0) and transformers (5.10.4), which made the file in the
repository: run once, by hand, never by the tests.
"""

import json
import random
from pathlib import Path

import torch
import transformers

HERE = Path(__file__).parent
TEMPERATURE = 0.15
random.seed(5)


def tokens(count):
    return [random.randrange(3, 370) for _ in range(count)]


def sample(prompt, parts, hint, between=0):
    """`parts` are (author, length, in query); the policy's tokens have places."""
    ids, places, query = tokens(prompt), [], []
    lesson, there = tokens(hint) + ids, []
    for author, length, in_query in parts:
        piece = tokens(length)
        if author == "policy":
            if between:
                lesson = lesson + tokens(between)
            places += range(len(ids), len(ids) + length)
            there += range(len(lesson), len(lesson) + length)
            query += [in_query] * length
        ids, lesson = ids + piece, lesson + piece
    mask = [random.random() < 0.9 for _ in places]
    return {
        "tokens": ids,
        "places": places,
        "in_query": query,
        "advantage": 0.0,
        "lesson": {"tokens": lesson, "places": there, "mask": mask},
    }


def samples():
    own = [
        sample(5, [("policy", 3, False), ("policy", 6, True), ("other", 7, False), ("policy", 4, False)], 9),
        sample(4, [("policy", 5, True), ("other", 3, False), ("policy", 5, True)], 4, between=3),
        sample(6, [("policy", 7, True)], 2),
    ]
    own[2]["lesson"] = None  # one that succeeded
    return own


class Reader:
    def __init__(self):
        self.model = transformers.AutoModelForCausalLM.from_pretrained(HERE / "models" / "qwen2", dtype=torch.float64)
        self.parameters = dict(self.model.named_parameters())

    def rows(self, ids, places):
        logits = self.model(torch.tensor([ids])).logits[0, [place - 1 for place in places]]
        return torch.log_softmax(logits / TEMPERATURE, -1)


def taught(reader, all_samples, term):
    """`term(teacher, student, target)` is the loss of a taught query token; each list of a sample."""
    losses = []
    for own in all_samples:
        if own["lesson"] is None:
            continue
        student = reader.rows(own["tokens"], own["places"])
        with torch.no_grad():
            teacher = reader.rows(own["lesson"]["tokens"], own["lesson"]["places"])
        row = []
        for at, place in enumerate(own["places"]):
            if own["in_query"][at] and own["lesson"]["mask"][at]:
                row.append(term(teacher[at], student[at], own["tokens"][place]))
        losses.append(row)
    return [row for row in losses if row]


def distillation(teacher, student, target):
    weight = (teacher[target] - student[target]).clamp(0, 1).detach()
    return -weight * student[target]


def ids_of(teacher, student, k, side):
    of_teacher, of_student = (x.topk(k).indices.tolist() for x in (teacher, student))
    return {
        "teacher": of_teacher,
        "student": of_student,
        "union": of_teacher + [i for i in of_student if i not in of_teacher],
        "overlap": [i for i in of_teacher if i in of_student],
    }[side]


def jsd(k, side):
    def term(teacher, student, _):
        ids = ids_of(teacher, student, k, side)
        p, q = teacher[ids].exp(), student[ids].exp()
        p, q = torch.cat([p, (1 - p.sum())[None]]), torch.cat([q, (1 - q.sum())[None]])
        middle = (p + q) / 2
        return 0.5 * (p * (p / middle).log()).sum() + 0.5 * (q * (q / middle).log()).sum()

    return term


def surrogate(k, side):
    def term(teacher, student, _):
        ids = ids_of(teacher, student, k, side)
        if not ids:
            return student.sum() * 0
        old = student[ids].detach()
        advantage = (teacher[ids] - old).clamp(-1, 1) * torch.softmax(old, -1)
        ratio = (student[ids] - old).exp()
        return torch.max(-advantage * ratio, -advantage * ratio.clamp(0.8, 1.28)).sum()

    return term


CASES = {
    "distillation": ("distillation", None, distillation, "token-mean"),
    "jsd, teacher": ("divergence", {"k": 5, "side": "teacher"}, jsd(5, "teacher"), "seq-mean-token-mean"),
    "jsd, union": ("divergence", {"k": 4, "side": "union"}, jsd(4, "union"), "seq-mean-token-mean"),
    "surrogate, student": ("surrogate", {"k": 4, "side": "student"}, surrogate(4, "student"), "token-mean"),
    "surrogate, overlap": ("surrogate", {"k": 9, "side": "overlap"}, surrogate(9, "overlap"), "token-mean"),
}


def main():
    reader, all_samples = Reader(), samples()
    golden = {"note": " ".join(__doc__.split()), "temperature": TEMPERATURE, "samples": all_samples, "cases": []}
    for name, (term, support, loss, how) in CASES.items():
        reader.model.zero_grad()
        rows = taught(reader, all_samples, loss)
        if how == "token-mean":
            value = sum(sum(row) for row in rows) / sum(len(row) for row in rows)
        else:
            value = sum(sum(row) / len(row) for row in rows) / len(rows)
        value.backward()
        gradients = {}
        for key, parameter in reader.parameters.items():
            flat = parameter.grad.flatten()
            step = max(1, len(flat) // 12)
            gradients[key] = {"norm": flat.norm().item(), "step": step, "some": flat[::step].tolist()}
        case = {"name": name, "term": term, "support": support, "loss": value.item(), "gradients": gradients}
        golden["cases"].append(case)
    lines = json.dumps(golden).replace('{"name"', '\n{"name"')
    (HERE / "teaching.json").write_text(lines + "\n")


main()
