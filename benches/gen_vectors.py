#!/usr/bin/env python3
"""Make unit vectors with the neighbour structure of text embeddings, and queries to go with them.

    gen_vectors.py OUT [--rows 100000] [--queries 1024] [--dims 768] [--seed 1]

Writes OUT/vectors.npy (float32 [rows, dims]) and OUT/queries.npy (float32 [queries, dims]), all of length 1. Rows belong to
subtopics of topics of uneven sizes; spreads fall off by a power law over rotated axes; and every row shares a mean that
holds 0.8 of its squared length, the narrow cone of E5's embeddings. A query is a held-out row mixed with noise, around a
mean of its own. Same seed, same vectors (with the same numpy).
"""
import argparse
from pathlib import Path

import numpy as np

TOPICS, SUBTOPICS = 200, 6000
SHARES = {"topic": 0.2, "subtopic": 0.3, "row": 0.5}  # of the variance around the common mean
MEAN_SHARE = 0.8  # squared length of the common mean, as measured on E5
BLOCK = 20_000


class World:
    """The fixed centres from which rows are drawn."""

    def __init__(self, dims, seed):
        self.dims, random = dims, np.random.default_rng(seed)
        axes = np.arange(16, dims + 16) ** -0.6
        self.spread = (axes / np.sqrt((axes**2).sum())).astype(np.float32)
        self.topics = self.noise(random, TOPICS)
        self.subtopics = self.noise(random, SUBTOPICS)
        self.topic_of = random.integers(0, TOPICS, SUBTOPICS)
        popularity = random.permutation(np.arange(1, SUBTOPICS + 1) ** -0.6)
        self.popularity = popularity / popularity.sum()
        self.rotation = np.linalg.qr(random.standard_normal((dims, dims)))[0].astype(np.float32)
        self.mean, self.query_shift = np.linalg.qr(random.standard_normal((dims, 2)))[0].T.astype(np.float32)

    def noise(self, random, count):
        return random.standard_normal((count, self.dims), np.float32) * self.spread

    def residuals(self, random, count):
        subtopic = random.choice(SUBTOPICS, count, p=self.popularity)
        parts = self.topics[self.topic_of[subtopic]], self.subtopics[subtopic], self.noise(random, count)
        return sum(np.float32(share**0.5) * part for share, part in zip(SHARES.values(), parts))

    def finish(self, residuals, mean):
        residuals = unit(residuals @ self.rotation)
        return unit(np.float32(MEAN_SHARE**0.5) * mean + np.float32((1 - MEAN_SHARE) ** 0.5) * residuals)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def generate(folder, rows, queries, dims, seed):
    folder.mkdir(parents=True, exist_ok=True)
    world, random = World(dims, seed), np.random.default_rng(seed + 1)
    mixed = np.float32(0.85**0.5) * world.residuals(random, queries) + np.float32(0.15**0.5) * world.noise(random, queries)
    np.save(folder / "queries.npy", world.finish(mixed, unit(world.mean + np.float32(0.35) * world.query_shift)))
    vectors = np.lib.format.open_memmap(folder / "vectors.npy", mode="w+", dtype=np.float32, shape=(rows, dims))
    for start in range(0, rows, BLOCK):
        stop = min(start + BLOCK, rows)
        vectors[start:stop] = world.finish(world.residuals(random, stop - start), world.mean)
    vectors.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=1024)
    parser.add_argument("--dims", type=int, default=768)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    generate(args.out, args.rows, args.queries, args.dims, args.seed)


if __name__ == "__main__":
    main()
