#!/usr/bin/env python3
"""A second reader of quantized indexes, written from FORMAT.md alone.

    read_index.py INDEX QUERIES TOP_K

QUERIES is a NumPy file of `float32`, one query a row. Prints a JSON object: `scores` and `estimates` of all rows for each
query, and the `hits` of an exhaustive search as [row, score]. Every number has the very bits that hindsearch gives.

Reads one shard without deleted rows. Needs NumPy; checksums are compared where the module `blake3` is installed.
"""

import json
import sys
from pathlib import Path

import numpy as np

try:
    from blake3 import blake3
except ImportError:
    blake3 = None

PAGE = 4096
CHECKSUM_AT = 4064
BLOCK = 64
GROUP = 24
ROUNDS = 4
GROUP_ROWS = 1024
f32 = np.float32


def check(holds, message):
    if not holds:
        sys.exit(f"read_index: {message}")


def check_hash(name, data, expected):
    if blake3 is not None:
        found = blake3(data).hexdigest()
        check(found == expected, f"{name}: expected BLAKE3 {expected}, found {found}")


def pages(size):
    return -(-size // PAGE) * PAGE


def number(data, at, kind):
    return np.frombuffer(data, kind, 1, at)[0]


def read_generation(index):
    """The folder of the current generation, and its manifest."""
    line = (index / "CURRENT").read_text(encoding="ascii")
    check(line.startswith("gen-") and line.endswith("\n") and "/" not in line, f"CURRENT holds {line!r}")
    folder = index / line[:-1]
    text = (folder / "manifest.json").read_bytes()
    manifest = json.loads(text)
    body = text[: text.rindex(b',\n  "checksum"')] + b"\n}"
    check_hash("manifest.json", body, manifest["checksum"])
    check(manifest["format"] == 1, f"format {manifest['format']}")
    check(manifest["kind"] == "quantized", f"an index of kind {manifest['kind']}")
    check("shards" not in manifest and "deleted" not in manifest, "several shards, or deleted rows")
    for entry in manifest["files"]:
        data = (folder / entry["name"]).read_bytes()
        check(len(data) == entry["length"], f"{entry['name']}: {len(data)} bytes, expected {entry['length']}")
        check_hash(entry["name"], data, entry["blake3"])
    return folder, manifest


def check_head(data, magic, end):
    """The bytes up to `end` must have the checksum in the first page."""
    check(data[:8] == magic and number(data, 8, "<u4") == 1, f"no {magic!r} of version 1")
    check_hash(magic.decode(), data[:CHECKSUM_AT] + data[PAGE:end], data[CHECKSUM_AT:PAGE].hex())


def read_vectors(path):
    """The vectors that the rows stand for."""
    data = path.read_bytes()
    kind, dimensions, rows = int(number(data, 12, "<u4")), int(number(data, 16, "<u8")), int(number(data, 24, "<u8"))
    start = PAGE + (pages(4 * dimensions) if kind >= 2 else 0)
    check_head(data, b"HSVECTOR", start)
    if kind < 2:
        values = np.frombuffer(data, ("<f4", "<f2")[kind], offset=start)
        return values.reshape(rows, dimensions).astype(f32)
    mean = np.frombuffer(data, "<f4", dimensions, PAGE)
    stored = np.frombuffer(data, np.uint8, offset=start)
    if kind == 2:
        coarse, fine = stored.reshape(rows, 4 + dimensions), None
    else:
        coarse, fine = planes(stored, rows, dimensions)
    scales = coarse[:, :4].copy().view("<f4")
    codes = coarse[:, 4:].view(np.int8).astype(f32)
    if fine is not None:
        codes += fine.view(np.int8).astype(f32) / f32(256)
    return mean + scales * codes


def planes(stored, rows, dimensions):
    """Both planes of `i16` rows, which stand in groups."""
    coarse, fine = [], []
    for first in range(0, rows, GROUP_ROWS):
        count = min(GROUP_ROWS, rows - first)
        at = first * (4 + 2 * dimensions)
        end = at + GROUP_ROWS * (4 + dimensions)
        coarse.append(stored[at:end].reshape(GROUP_ROWS, 4 + dimensions)[:count])
        fine.append(stored[end : end + count * dimensions].reshape(count, dimensions))
    return np.concatenate(coarse), np.concatenate(fine)


def scores(rows, query):
    """The canonical inner products."""
    products = rows.astype(np.float64) * query.astype(np.float64)
    s = np.zeros((len(rows), 8))
    for first in range(0, products.shape[1], 8):
        part = products[:, first : first + 8]
        s[:, : part.shape[1]] += part
    s = ((s[:, 0] + s[:, 1]) + (s[:, 2] + s[:, 3])) + ((s[:, 4] + s[:, 5]) + (s[:, 6] + s[:, 7]))
    return s.astype(f32) + f32(0)


def fused(a, b, c):
    """a x b + c in single precision, rounded once."""
    product, c = np.float64(a) * np.float64(b), np.float64(c)
    total = np.atleast_1d(product + c)
    other = total - product
    error = (product - (total - other)) + (c - other)
    # What the sum in double precision lost decides ties: its last bit is set ("rounding to odd").
    bits = total.view(np.int64)
    away = np.where((error > 0) == (total > 0), 1, -1)
    bits = np.where((error != 0) & (bits & 1 == 0), bits + away, bits)
    return bits.view(np.float64).astype(f32)


class Codes:
    def __init__(self, path):
        data = path.read_bytes()
        check(number(data, 12, "<u4") == ROUNDS, "another number of rounds")
        self.dimensions, self.rows, self.slots, lists = (int(x) for x in np.frombuffer(data, "<u8", 4, 16))
        self.mean_unit, self.code_unit = np.frombuffer(data, "<f4", 2, 48)
        self.coordinates = -(-self.dimensions // GROUP) * GROUP
        code_bytes = self.coordinates // 8
        block_bytes = BLOCK * (code_bytes + 4)

        mean = PAGE
        signs = mean + pages(4 * self.dimensions)
        directory = signs + pages(ROUNDS * code_bytes)
        centroids = directory + pages(8 * (lists + 1))
        centroid_rows = centroids + pages(-(-lists // BLOCK) * block_bytes)
        blocks = centroid_rows + pages(lists * (4 + self.dimensions))
        count = -(-self.slots // BLOCK)
        numbers = blocks + pages(count * block_bytes)
        check(len(data) == numbers + 4 * self.slots, f"codes of {len(data)} bytes")
        check_head(data, b"HSCODES\0", centroids)

        self.mean = np.frombuffer(data, "<f4", self.dimensions, mean)
        bits = np.unpackbits(np.frombuffer(data, np.uint8, ROUNDS * code_bytes, signs), bitorder="little")
        self.signs = np.where(bits == 1, f32(-1), f32(1)).reshape(ROUNDS, self.coordinates)
        entries = np.frombuffer(data, "<u8", lists + 1, directory)
        check(entries[0] == 0 and entries[-1] == self.slots and (np.diff(entries) >= 0).all(), "a directory out of order")
        stored = np.frombuffer(data, np.uint8, count * block_bytes, blocks).reshape(count, block_bytes)
        columns = stored[:, : BLOCK * code_bytes].reshape(count, code_bytes, BLOCK)
        codes = np.ascontiguousarray(columns.transpose(0, 2, 1)).reshape(-1, code_bytes)
        self.bits = np.unpackbits(codes, axis=1, bitorder="little")
        factors = np.ascontiguousarray(stored[:, BLOCK * code_bytes :]).view("<f2").reshape(count, 2, BLOCK)
        self.a, self.b = (factors[:, which].reshape(-1).astype(f32) for which in (0, 1))
        self.row_numbers = np.frombuffer(data, "<u4", self.slots, numbers)

    def rotate(self, vector, means):
        window = 1 << (self.coordinates.bit_length() - 1)
        scale = f32(1) / np.sqrt(f32(window))
        values = np.zeros(self.coordinates, f32)
        values[: self.dimensions] = vector - means * self.mean
        for turn, signs in enumerate(self.signs):
            values *= signs
            first = 0 if turn % 2 == 0 else self.coordinates - window
            part = values[first : first + window]
            half = 1
            while half < window:
                pairs = part.reshape(-1, 2, half)
                left, right = pairs[:, 0].copy(), pairs[:, 1].copy()
                pairs[:, 0], pairs[:, 1] = left + right, left - right
                half *= 2
            part *= scale
        return values

    def estimates(self, query):
        """By slot."""
        base, square = scores(self.mean[None], query)[0], scores(self.mean[None], self.mean)[0]
        along_mean = base / square if square >= np.finfo(f32).tiny else f32(0)
        rotated = self.rotate(query, along_mean)
        size = np.abs(rotated).reshape(-1, GROUP // 8, 8)
        a, b, c, d, e, f, g, h = (size[:, :, at] for at in range(8))
        tops = ((g + h)[:, 0] + (g + h)[:, 1]) + (g + h)[:, 2]
        largest = max((((a + b) + (c + d)) + (e + f)).max(), ((e + f) + (g + h)).max(), tops.max())
        a, b, c, d, e, f, g, h = np.add.accumulate(np.abs(rotated).reshape(-1, 8))[-1]
        step = max(largest / f32(28), (((a + b) + (c + d)) + ((e + f) + (g + h))) / f32(30000))
        if step < np.finfo(f32).tiny:
            step, per_step = f32(0), f32(0)
        else:
            per_step = f32(1) / step
        weights = np.rint(rotated * per_step).astype(np.int64)
        bias = np.maximum(-weights, 0).sum()
        sums = (self.bits @ weights + bias).astype(f32)
        unit = step * self.code_unit
        at_zero = -unit * f32(np.abs(weights).sum())
        of_sum = fused(f32(2) * unit, sums, at_zero)
        of_mean = fused(self.a, along_mean * self.mean_unit, base)
        return fused(self.b, of_sum, of_mean)[: self.slots]


def exhaustive(codes, rows, query, estimates, top_k):
    """The hits of a search that estimates every code and scores the best."""
    usual = max(min(10 * top_k, max(300, 3 * top_k)), 100)
    candidates = max(usual, min(8 * usual, -(-768 * usual // codes.dimensions)))
    if candidates > len(rows) // 4:
        chosen = np.arange(len(rows))
    else:
        slots = np.lexsort((np.arange(len(estimates)), -estimates))[:candidates]
        chosen = codes.row_numbers[slots]
    found = scores(rows[chosen], query)
    order = np.lexsort((chosen, -found))[:top_k]
    return [[int(chosen[at]), float(found[at])] for at in order]


def main(index, queries, top_k):
    folder, manifest = read_generation(Path(index))
    rows, codes = read_vectors(folder / "vectors"), Codes(folder / "codes")
    shape = (manifest["rows"], manifest["dimensions"])
    check(rows.shape == shape and (codes.rows, codes.dimensions) == shape, f"files of other shapes than {shape}")
    answer = {"scores": [], "estimates": [], "hits": []}
    for query in np.load(queries):
        estimates = codes.estimates(query)
        by_row = np.empty(len(rows), f32)
        by_row[codes.row_numbers] = estimates
        answer["scores"].append(scores(rows, query).tolist())
        answer["estimates"].append(by_row.tolist())
        answer["hits"].append(exhaustive(codes, rows, query, estimates, int(top_k)))
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    check(len(sys.argv) == 4, "INDEX QUERIES TOP_K")
    main(*sys.argv[1:])
