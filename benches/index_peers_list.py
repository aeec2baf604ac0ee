"""The indexes of other libraries that `index_peers.py` measures: how each is built, kept, and asked."""
import json
import statistics
import sys
import time

import faiss
import numpy as np

# Of each list; faiss asks for at least 39.
TRAINING_ROWS = 40
SINGLES, BATCH, TOP_K = 64, 256, 10


class Peer:
    """An index with its settings. `load(path)` opens what `build(path)` wrote; `ask(index, setting)` gives a search function."""

    def __init__(self, data, name, group, settings, build, load, ask):
        self.name, self.group, self.settings, self.load, self.ask = name, group, settings, load, ask
        self.found = {}  # by setting
        self.path = data.work / name.replace(" ", "-").replace(",", "-").replace("(", "-").replace(")", "")
        facts = self.path.with_name(self.path.name + ".json")
        if not facts.exists():
            wall, cpu = time.perf_counter(), time.process_time()
            build(self.path)
            facts.write_text(json.dumps({
                "build_cpu_s": time.process_time() - cpu, "build_wall_s": time.perf_counter() - wall, "memory_bytes": size(self.path)}))
            print(f"{data.name}: built {name}, {facts.read_text()}", file=sys.stderr, flush=True)
        self.facts = json.loads(facts.read_text())

    def run(self, data):
        """Opens the index, and yields (setting, rows found, times) of each setting."""
        index = self.load(self.path)
        for setting in self.settings:
            search = self.ask(index, setting)
            search(data.queries[:BATCH])
            if setting not in self.found:
                parts = range(0, len(data.queries), BATCH)
                self.found[setting] = np.concatenate([search(data.queries[s : s + BATCH]) for s in parts])
            yield setting, self.found[setting], timed(search, data.queries)


def timed(search, queries, singles=SINGLES):
    """{"single" or "batch": (wall, cpu) milliseconds a query}; of single queries the median wall time."""
    times = {}
    for kind, size, part in (("single", 1, queries[:singles]), ("batch", BATCH, queries[:BATCH])):
        walls, cpu = [], time.process_time()
        for start in range(0, len(part), size):
            wall = time.perf_counter()
            search(part[start : start + size])
            walls.append(time.perf_counter() - wall)
        times[kind] = 1e3 * statistics.median(walls) / size, 1e3 * (time.process_time() - cpu) / len(part)
    return times


def lists_of(data):
    return 256 if data.rows <= 50_000 else 1024 if data.rows <= 150_000 else 2048


def size(path):
    """Bytes of a file or folder: what the index holds in memory once it is open."""
    return path.stat().st_size if path.is_file() else sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def faiss_peer(data, key, group, settings):
    def build(path):
        index = faiss.index_factory(data.dimensions, key, faiss.METRIC_INNER_PRODUCT)
        if not index.is_trained:
            sample = np.random.default_rng(0).permutation(data.rows)[: TRAINING_ROWS * lists_of(data)]
            index.train(np.ascontiguousarray(data.vectors[np.sort(sample)]))
        for start in range(0, data.rows, 50_000):
            index.add(np.ascontiguousarray(data.vectors[start : start + 50_000]))
        faiss.write_index(index, str(path))

    def ask(index, setting):
        if setting:
            faiss.ParameterSpace().set_index_parameters(index, setting)
        return lambda queries: index.search(queries, TOP_K)[1]

    return Peer(data, f"faiss {key}", group, settings, build, lambda path: faiss.read_index(str(path)), ask)


def usearch_peer(data, dtype, threads):
    try:
        from usearch.index import Index
    except ImportError:
        return None

    def build(path):
        index = Index(ndim=data.dimensions, metric="ip", dtype=dtype, connectivity=16, expansion_add=128)
        for start in range(0, data.rows, 50_000):
            part = np.ascontiguousarray(data.vectors[start : start + 50_000])
            index.add(np.arange(start, start + len(part), dtype=np.uint64), part, threads=threads)
        index.save(str(path))

    def ask(index, setting):
        def search(queries):
            index.expansion_search = int(setting.removeprefix("ef="))
            return index.search(queries, TOP_K, threads=threads).keys.reshape(len(queries), -1).astype(np.int64)

        return search

    settings = [f"ef={ef}" for ef in (32, 64, 128, 256)]
    return Peer(data, f"usearch {dtype} M16", "usearch", settings, build, lambda path: Index.restore(str(path)), ask)


def svs_peer(data, threads):
    try:
        import svs
    except ImportError:
        return None

    def parts(path):
        return [str(path / part) for part in ("config", "graph", "data")]

    def build(path):
        path.mkdir()
        parameters = svs.VamanaBuildParameters(alpha=0.95, graph_max_degree=64, window_size=128)
        index = svs.Vamana.build(parameters, np.ascontiguousarray(data.vectors), svs.DistanceType.MIP, num_threads=threads)
        index.save(*parts(path))

    def load(path):
        config, graph, vectors = parts(path)
        loader = svs.VectorDataLoader(vectors, svs.DataType.float32, dims=data.dimensions)
        return svs.Vamana(config, svs.GraphLoader(graph), loader, svs.DistanceType.MIP, num_threads=threads)

    def ask(index, setting):
        def search(queries):
            index.search_window_size = int(setting.removeprefix("window="))
            return index.search(queries, TOP_K)[0].astype(np.int64)

        return search

    settings = [f"window={window}" for window in (10, 16, 24, 32, 64, 128)]
    return Peer(data, "svs Vamana R64 f32", "svs", settings, build, load, ask)


def peers(data, threads, chosen):
    """Every peer, or those whose group is in `chosen`; built where they are not there yet."""
    lists = lists_of(data)
    probes = [f"nprobe={n}" for n in (8, 16, 32, 64)]
    refined = [f"nprobe={n},k_factor_rf={k}" for n in (16, 32, 64, 128) for k in (10, 30)]
    faiss_indexes = [
        ("Flat", "flat", [""]),
        (f"IVF{lists},Flat", "ivf-flat", probes),
        (f"IVF{lists},RaBitQ,Refine(SQ8)", "rabitq", refined),
        (f"IVF{lists},RaBitQfs,Refine(SQ8)", "rabitq-fs", refined),
        (f"IVF{lists},PQ{data.dimensions // 4}x4fs,Refine(SQ8)", "pq-fs", refined),
        ("HNSW32,Flat", "hnsw", [f"efSearch={ef}" for ef in (16, 32, 64, 128, 256)]),
    ]
    builders = {group: lambda a=(key, group, settings): faiss_peer(data, *a) for key, group, settings in faiss_indexes}
    builders |= {"usearch": lambda: usearch_peer(data, "i8", threads), "usearch-f16": lambda: usearch_peer(data, "f16", threads)}
    builders["svs"] = lambda: svs_peer(data, threads)
    unknown = set(chosen or ()) - set(builders)
    if unknown:
        raise SystemExit(f"unknown peers {sorted(unknown)}; known are {', '.join(builders)}")
    return [peer for group, build in builders.items() if not chosen or group in chosen if (peer := build())]
