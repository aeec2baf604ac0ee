#!/usr/bin/env python3
"""Compare a run's events, as TensorBoard reads them, with its metrics.jsonl. Needs `tensorboard`; run by hand.

read_tensorboard.py RUN
"""

import json
import struct
import sys
from collections import defaultdict
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

WORDS = {"NaN": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def as_f32(value):
    return struct.pack("<f", value)


def main():
    run = Path(sys.argv[1])
    expected = defaultdict(list)
    for line in (run / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        for name, value in record["values"].items():
            value = WORDS[record["not_finite"][name]] if value is None else value
            expected[name].append((record["step"], as_f32(value)))
    events = EventAccumulator(str(run), size_guidance={"scalars": 0})
    events.Reload()
    names = events.Tags()["scalars"]
    found = {name: [(one.step, as_f32(one.value)) for one in events.Scalars(name)] for name in names}
    if found != expected:
        wrong = [name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)]
        sys.exit(f"{run}: TensorBoard reads other values than metrics.jsonl for {sorted(wrong)}")
    print(f"{run}: {len(names)} curves, {sum(map(len, found.values()))} values, all equal")


if __name__ == "__main__":
    main()
