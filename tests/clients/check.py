"""Runs the search clients of other projects, from their checkouts and unchanged, against a running server.

    hindsearch build examples/data/corpus.jsonl --out sample && hindsearch serve sample --port 8000
    pip install requests httpx aiohttp msgspec
    python tests/clients/check.py CHECKOUTS http://127.0.0.1:8000

CHECKOUTS holds one folder a repository, named as in `clients.py` (a commit behind the name where the newest no longer has the client).
Of each client its own code asks the question and writes the text that its model would read. That text must show exactly the passages
that the server ranks first, in order, with their titles. Exit code 1 if any client fails, 2 if none ran.
"""

import argparse
import contextlib
import io
import json
import sys
import traceback
from pathlib import Path

import requests

from clients import CLIENTS

QUESTIONS = ["Who discovered radium?", "Welche Stadt liegt an der Seine?", 'the "Mona Lisa" — where is it?\nIn which museum?']
START = 60
"""Characters of a passage's text by which it is recognised; some clients cut the rest."""


def passages(corpus: Path):
    """id -> (title without quotes, start of the text)"""
    with open(corpus, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    split = {row["id"]: row["contents"].split("\n", 1) for row in rows}
    return {key: (title.strip('"'), text[:START]) for key, (title, text) in split.items()}


def ranking(server: str, question: str, depth: int):
    answer = requests.post(f"{server}/retrieve", json={"queries": [question], "topk": depth, "return_scores": True}, timeout=30)
    answer.raise_for_status()
    return [hit["document"]["id"] for hit in answer.json()["result"][0]]


def faults(client, texts, questions, corpus, ranked):
    """What is wrong with the texts. `shown` is 0 where the client shows none."""
    if client.shown == 0:
        return
    if len(texts) != len(questions):
        yield f"expected {len(questions)} texts, found {len(texts)}"
    for question, text, ids in zip(questions, texts, ranked):
        places = sorted((text.find(start), key) for key, (_, start) in corpus.items() if start in text)
        found = [key for _, key in places]
        expected = ids[: client.shown]
        if found != expected:
            yield f"`{question}` shows passages {found}, expected {expected}: {text[:200]!r}"
        if client.titles and not all(corpus[key][0] in text for key in found):
            yield f"`{question}` lacks a title: {text[:200]!r}"


def check(client, folder, server, corpus, ranked):
    """The client's faults, or None where its checkout is missing."""
    if not all((folder / file).is_file() for file in client.files):
        return None
    address = f"{server}/dialect/{client.dialect}" if client.dialect else server
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            texts = client.run(folder, address, QUESTIONS)
    except Exception:
        return [traceback.format_exc(limit=-3) + output.getvalue()[-1000:]]
    return list(faults(client, texts, QUESTIONS, corpus, ranked))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("server")
    parser.add_argument("--corpus", type=Path, default=Path("examples/data/corpus.jsonl"), help="what the server's index was built from")
    parser.add_argument("--only", help="run the clients whose name holds this")
    args = parser.parse_args()
    server = args.server.rstrip("/")
    corpus = passages(args.corpus)
    ranked = [ranking(server, question, 10) for question in QUESTIONS]
    chosen = [client for client in CLIENTS if not args.only or args.only in client.name]
    outcomes = {"ok": 0, "FAILED": 0, "no checkout": 0}
    for client in chosen:
        found = check(client, args.checkouts, server, corpus, ranked)
        outcome = "no checkout" if found is None else "FAILED" if found else "ok"
        outcomes[outcome] += 1
        print(f"{outcome:12} {client.name}", *(found or []), sep="\n    " if found else " ", flush=True)
    print(*(f"{count} {outcome}" for outcome, count in outcomes.items()), sep=", ")
    sys.exit(1 if outcomes["FAILED"] else 0 if outcomes["ok"] else 2)


if __name__ == "__main__":
    main()
