#!/usr/bin/env python3
"""BM25's recall on a corpus and its questions: the lexical baseline that a dense retriever is held against.

    bm25_baseline.py CORPUS.jsonl QUESTIONS.jsonl [--json OUT]

CORPUS lines carry `id` and `contents`; QUESTIONS lines `question` and `metadata.gold_passage_ids`; questions without
gold, or whose gold is not in the corpus, are left out. Scores are Lucene's BM25 with k1 0.9 and b 0.4 (Anserini's
setting for Wikipedia passages), English stop words, with and without Snowball stemming. Needs bm25s and PyStemmer.
"""
import argparse
import json
from pathlib import Path

import bm25s
import Stemmer

DEPTH = 20


def read(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def metrics(rankings, golds):
    """Recall@1, @5, @20 (any gold passage found) and MRR@20, as a dict of shares."""
    ranks = [next((r for r, hit in enumerate(ranking) if hit in gold), None) for ranking, gold in zip(rankings, golds)]
    found = [rank for rank in ranks if rank is not None]
    result = {f"recall@{k}": sum(rank < k for rank in found) / len(ranks) for k in (1, 5, DEPTH)}
    return result | {f"mrr@{DEPTH}": sum(1 / (rank + 1) for rank in found) / len(ranks)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--json", type=Path, metavar="OUT")
    args = parser.parse_args()

    corpus = read(args.corpus)
    row = {passage["id"]: i for i, passage in enumerate(corpus)}
    questions = [(q["question"], {row[g] for g in q.get("metadata", {}).get("gold_passage_ids", []) if g in row})
                 for q in read(args.questions)]
    questions = [(question, gold) for question, gold in questions if gold]
    texts, golds = [q for q, _ in questions], [gold for _, gold in questions]

    report = {"passages": len(corpus), "questions": len(questions), "bm25s": bm25s.__version__}
    for name, stemmer in (("stemmed", Stemmer.Stemmer("english")), ("unstemmed", None)):
        index = bm25s.BM25(method="lucene", k1=0.9, b=0.4)
        index.index(bm25s.tokenize([p["contents"] for p in corpus], stopwords="en", stemmer=stemmer, show_progress=False),
                    show_progress=False)
        rankings = []
        for tokens in bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, return_ids=False, show_progress=False):
            hits, _ = index.retrieve([tokens], k=DEPTH, show_progress=False)
            rankings.append(hits[0].tolist())
        report[name] = metrics(rankings, golds)
    print(json.dumps(report, indent=2))
    if args.json:
        args.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
