#!/usr/bin/env python3
"""Compute golden measures with trec_eval, for the tests of the evaluation.

    make_trec_golden.py retriever/tests/fixtures/trec_eval.json

A random run of 40 queries over 60 passages with graded judgements, and what trec_eval (through pytrec-eval-terrier) says
of it. Run once, by hand, never by the tests.
"""
import importlib.metadata
import json
import random
import sys

import pytrec_eval

random.seed(3)
passages = [f"d{i}" for i in range(60)]
qrels, run = {}, {}
for query in (f"q{i}" for i in range(40)):
    relevant = random.sample(passages, random.choice([1, 1, 2, 3, 5]))
    qrels[query] = {passage: random.choice([1, 1, 2, 3]) for passage in relevant}
    for passage in random.sample([p for p in passages if p not in relevant], 3):
        qrels[query][passage] = 0
    ranking = random.sample(passages, 20)
    if random.random() < 0.7 and relevant[0] not in ranking:
        ranking[random.randrange(20)] = relevant[0]
    run[query] = list(dict.fromkeys(ranking))

evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"recall.1,5,20", "success.1,5", "recip_rank", "ndcg_cut.10"})
results = evaluator.evaluate({q: {p: 1 - at / 100 for at, p in enumerate(ranking)} for q, ranking in run.items()})
names = {"recall_1": "recall@1", "recall_5": "recall@5", "recall_20": "recall@20", "success_1": "success@1",
         "success_5": "success@5", "recip_rank": "mrr@20", "ndcg_cut_10": "ndcg@10"}
with open(sys.argv[1], "w") as file:
    version = importlib.metadata.version("pytrec-eval-terrier")
    json.dump({"made_by": f"tools/make_trec_golden.py, pytrec-eval-terrier {version}", "qrels": qrels, "run": run,
               "expected": {q: {names[k]: v for k, v in r.items()} for q, r in results.items()}}, file, indent=1)
    file.write("\n")
