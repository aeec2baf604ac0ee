"""hindsearch's indexes for `index_peers.py`: built, kept and asked by `hindsearch bench index` on the same files."""
import json
import subprocess
import sys

import numpy as np

from index_peers_list import SINGLES


class Ours:
    """An index with all the efforts that it offers."""

    def __init__(self, data, binary, kind, element_type, threads):
        self.name, self.group, self.facts = f"hindsearch {kind} {element_type}", kind, {}
        self.command = [str(binary), "bench", "index", "--vectors", str(data.folder / "vectors.npy"), "--queries",
                        str(data.folder / "queries.npy"), "--count", str(len(data.queries)), "--kind", kind, "--element-type", element_type,
                        "--work", str(data.work / "hindsearch"), "--threads", str(threads), "--singles", str(SINGLES), "--rounds", "1",
                        "--json", "--hits"]

    def run(self, data):
        """Yields (setting, rows found, times) of each effort."""
        done = subprocess.run(self.command, capture_output=True, text=True)
        if done.returncode:
            print(f"{self.name}: left out: {done.stderr.strip()}", file=sys.stderr)
            return
        report = json.loads(done.stdout)
        self.facts = {"memory_bytes": sum(f["bytes"] for f in report["footprint"]["files"] if f["held"] == "needed"),
                      "build_cpu_s": report["built"]["cpu_seconds"]}
        for measured in report["settings"]:
            single, batch = measured["single"], measured["batch"]
            times = {"single": (single["p50_ms"], single["cpu_ms"]), "batch": (1e3 / batch["qps"], batch["cpu_ms"])}
            yield str(measured["effort"]), np.array(measured["hits"]), times


def indexes(data, binary, threads, chosen):
    """The kinds and element types of `chosen`, such as `hnsw:f16`."""
    return [Ours(data, binary, *choice.split(":"), threads) for choice in chosen]
