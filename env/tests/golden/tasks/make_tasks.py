#!/usr/bin/env python3
"""Makes the golden files beside it: `python3 make_tasks.py`. Made with pyarrow 26.0.1 and pandas 3.1.1.

The Parquet files hold made-up tasks in the layouts that published scripts write:
search-r1.parquet  Search-R1 (`scripts/data_process/qa_search_train_merge.py`): a target list, and a column without values
verl.parquet       verl (`examples/data_preprocess/preprocess_search_r1_dataset.py`), through pandas: numpy arrays
skyrl.parquet      SkyRL (`examples/train/search/searchr1_dataset.py`), a target that is text
list.parquet       a `ground_truth` that is a list, as large strings and as a dictionary; version 2 pages, zstd
string.parquet     a `ground_truth` that is text, and no question but the prompt's

draws.json says what is drawn for a seed. ChaCha8 is written out here from its specification (RFC 8439's block function with
eight rounds, a 64-bit block counter and a 64-bit stream number), so the numbers do not come from the code under test.
"""

import json
import struct

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = [
    ("train_0", "Who discovered argon?", ["Lord Rayleigh", "William Ramsay"], "nq"),
    ("train_1", "Où est né Émile Zola", ["Paris"], "hotpotqa"),
    ("train_2", 'Which "element"\nis 18th?', ["argon", "Ar", "氩"], "nq"),
]


def user(question):
    return [{"role": "user", "content": f"Answer the question. <answer> Beijing </answer>. Question: {question}\n"}]


def search_r1():
    rows = [
        {
            "id": id_,
            "question": question,
            "golden_answers": answers,
            "data_source": source,
            "prompt": user(question),
            "ability": "fact-reasoning",
            "reward_model": {"style": "rule", "ground_truth": {"target": answers}},
            "extra_info": {"split": "train", "index": index},
            "metadata": None,
        }
        for index, (id_, question, answers, source) in enumerate(ROWS)
    ]
    pq.write_table(pa.Table.from_pylist(rows), "search-r1.parquet", row_group_size=2)


def derived(question, answers, source, index):
    ground_truth = {"target": np.array(answers, dtype=object)}
    kwargs = {"ground_truth": ground_truth, "question": question, "data_source": "searchR1_" + source}
    return ground_truth, {
        "data_source": "searchR1_" + source,
        "prompt": [{"role": "system", "content": "You are helpful."}] + user(question),
        "ability": "fact-reasoning",
        "extra_info": {
            "index": index,
            "need_tools_kwargs": True,
            "question": question,
            "split": "test",
            "tools_kwargs": {"search": {"create_kwargs": kwargs}},
        },
        "metadata": None,
    }


def verl():
    rows = []
    for index, (_, question, answers, source) in enumerate(ROWS):
        ground_truth, row = derived(question, answers, source, index)
        rows.append(row | {"reward_model": {"style": "rule", "ground_truth": ground_truth}})
    pd.DataFrame(rows).to_parquet("verl.parquet", index=False)


def skyrl():
    rows = []
    for index, (_, question, answers, source) in enumerate(ROWS):
        _, row = derived(question, answers, source, index)
        reward = {"style": "rule", "ground_truth": {"target": answers[0]}}
        rows.append(row | {"env_class": "search", "reward_spec": reward})
    pd.DataFrame(rows).to_parquet("skyrl.parquet", index=False)


def plain_ground_truth():
    table = pa.table(
        {
            "question": pa.array([row[1] for row in ROWS], pa.large_string()),
            "data_source": pa.array([row[3] for row in ROWS]).dictionary_encode(),
            "prompt": [user(row[1]) for row in ROWS],
            "reward_model": pa.array(
                [{"style": "rule", "ground_truth": row[2]} for row in ROWS],
                pa.struct([("style", pa.string()), ("ground_truth", pa.large_list(pa.large_string()))]),
            ),
        }
    )
    pq.write_table(table, "list.parquet", compression="zstd", data_page_version="2.0")
    table = pa.table(
        {
            "data_source": [row[3] for row in ROWS],
            "prompt": [user(row[1]) for row in ROWS],
            "reward_model": [{"style": "rule", "ground_truth": row[2][0]} for row in ROWS],
        }
    )
    pq.write_table(table, "string.parquet")


class ChaCha8:
    def __init__(self, seed, stream):
        self.key = struct.pack("<Q", seed) + bytes(24)
        self.stream, self.counter, self.words = stream, 0, []

    def block(self):
        start = list(struct.unpack("<4I", b"expand 32-byte k")) + list(struct.unpack("<8I", self.key))
        start += list(struct.unpack("<4I", struct.pack("<QQ", self.counter, self.stream)))
        self.counter += 1
        state = start[:]

        def add(a, b, c, turn):
            state[a] = (state[a] + state[b]) & 0xFFFFFFFF
            mixed = state[c] ^ state[a]
            state[c] = ((mixed << turn) | (mixed >> (32 - turn))) & 0xFFFFFFFF

        columns = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)]
        diagonals = [(0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]
        for _ in range(4):
            for a, b, c, d in columns + diagonals:
                add(a, b, d, 16)
                add(c, d, b, 12)
                add(a, b, d, 8)
                add(c, d, b, 7)
        return [(x + y) & 0xFFFFFFFF for x, y in zip(state, start)]

    def next(self):
        if not self.words:
            self.words = self.block()
        low, high = self.words.pop(0), self.words.pop(0)
        return low | high << 32


class Deck:
    def __init__(self, length, seed, stream):
        self.cards, self.at, self.random = list(range(length)), length, ChaCha8(seed, stream)

    def draw(self):
        if self.at == len(self.cards):
            for end in range(len(self.cards) - 1, 0, -1):
                other = self.random.next() * (end + 1) >> 64
                self.cards[end], self.cards[other] = self.cards[other], self.cards[end]
            self.at = 0
        self.at += 1
        return self.cards[self.at - 1]


def draws():
    seed = 20260701
    deck = Deck(20, seed, 0)
    sample = [deck.draw() for _ in range(20)]
    weights, choice = [1.0, 2.5], ChaCha8(seed, 0)
    decks = [Deck(3, seed, 1), Deck(5, seed, 2)]
    mixture = []
    for _ in range(40):
        point = (choice.next() >> 11) / 2**53 * sum(weights)
        chosen = 0 if point < weights[0] else 1
        mixture.append([chosen, decks[chosen].draw()])
    picks = [ChaCha8(other, 0).next() * 218 >> 64 for other in range(20)]
    about = (
        "sample: order of 20 tasks. mix: [set, task] of 40 draws from sets of 3 and 5 tasks. "
        "pick: which of 218 tasks each seed from 0 chooses."
    )
    drawn = {"about": about, "seed": seed, "sample": sample, "weights": weights, "mix": mixture, "pick": picks}
    text = json.dumps(drawn)
    with open("draws.json", "w", encoding="utf-8") as file:
        file.write(text + "\n")


search_r1()
verl()
skyrl()
plain_ground_truth()
draws()
