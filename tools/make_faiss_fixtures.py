#!/usr/bin/env python3
"""Write small vector files with faiss and NumPy, for the tests of the importer.

    make_faiss_fixtures.py indexes/tests/fixtures/faiss

24 unit vectors of 8 values, fixed seed, in every format that is read, and some that are refused. `vectors.npy` holds the
vectors themselves; `NAME.npy` beside `NAME.faiss` what faiss gives back for a format that rounds (`reconstruct_n`); `made.json`
the versions. Needs faiss-cpu and numpy: run once, by hand, never by the tests.
"""
import argparse
import json
import platform
from pathlib import Path

import faiss
import numpy as np

ROWS, DIMS, LISTS = 24, 8, 3
INNER_PRODUCT = faiss.METRIC_INNER_PRODUCT


def unit_vectors():
    values = np.random.default_rng(20).standard_normal((ROWS, DIMS))
    return (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)


def hnsw(x, metric):
    index = faiss.IndexHNSWFlat(DIMS, 4, metric)
    index.add(x)
    return index


def id_map(kind, x, ids):
    index = kind(faiss.IndexFlatIP(DIMS))
    index.add_with_ids(x, ids)
    return index


def lists(x, ids, direct_map=None):
    quantizer = faiss.IndexFlatIP(DIMS)
    index = faiss.IndexIVFFlat(quantizer, DIMS, LISTS, INNER_PRODUCT)
    index.train(x)
    # Which does not go with ids of one's own, unless it is a hash table.
    if direct_map is not None:
        index.set_direct_map_type(direct_map)
    index.add_with_ids(x, ids) if ids is not None else index.add(x)
    return index


def few_lists(x):
    """Most lists are empty, so that their sizes are written as pairs."""
    quantizer = faiss.IndexFlatIP(DIMS)
    quantizer.add(x)
    index = faiss.IndexIVFFlat(quantizer, DIMS, ROWS, INNER_PRODUCT)
    index.is_trained = True
    index.add(np.repeat(x[:2], ROWS // 2, axis=0))
    return index


def scalar(x, kind):
    index = faiss.IndexScalarQuantizer(DIMS, getattr(faiss.ScalarQuantizer, kind), INNER_PRODUCT)
    index.train(x)
    index.add(x)
    return index


def factory(x, description):
    index = faiss.index_factory(DIMS, description, INNER_PRODUCT)
    index.train(x)
    index.add(x)
    return index


def without_storage(x, path):
    faiss.write_index(hnsw(x, INNER_PRODUCT), str(path), faiss.IO_FLAG_SKIP_STORAGE)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    faiss.omp_set_num_threads(1)

    x = unit_vectors()
    order = np.random.default_rng(21).permutation(ROWS).astype(np.int64)
    flat, l2 = faiss.IndexFlatIP(DIMS), faiss.IndexFlatL2(DIMS)
    flat.add(x)
    l2.add(x)
    indexes = {
        "flat_ip": flat,
        "flat_l2": l2,
        "hnsw_ip": hnsw(x, INNER_PRODUCT),
        "hnsw_l2": hnsw(x, faiss.METRIC_L2),
        # Row i of the file is the vector of passage order[i].
        "id_map": id_map(faiss.IndexIDMap, x[order], order),
        "id_map2": id_map(faiss.IndexIDMap2, x[order], order),
        "id_map_same": id_map(faiss.IndexIDMap2, x, np.arange(ROWS)),
        "id_map_strangers": id_map(faiss.IndexIDMap, x, np.arange(ROWS) * 7 + 100),
        "id_map_twice": id_map(faiss.IndexIDMap, x, np.arange(ROWS) // 2),
        "ivf": lists(x, None),
        "ivf_ids": lists(x[order], order),
        "ivf_array": lists(x, None, faiss.DirectMap.Array),
        "ivf_hash": lists(x[order], order, faiss.DirectMap.Hashtable),
        "ivf_few": few_lists(x),
        "sq_fp16": scalar(x, "QT_fp16"),
        "sq_bf16": scalar(x, "QT_bf16"),
        "sq_8bit": scalar(x, "QT_8bit"),
        "sq_8bit_uniform": scalar(x, "QT_8bit_uniform"),
        "hnsw_sq8": factory(x, "HNSW4,SQ8"),
        "refused_sq_4bit": scalar(x, "QT_4bit"),
        "refused_pca": factory(x, "PCA4,Flat"),
        "refused_refine": factory(x, "Flat,RFlat"),
        "refused_pq": factory(x, "PQ4x2np"),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, index in indexes.items():
        faiss.write_index(index, str(folder / f"{name}.faiss"))
    without_storage(x, folder / "refused_no_vectors.faiss")
    for name in ["sq_fp16", "sq_bf16", "sq_8bit", "sq_8bit_uniform", "ivf_few"]:
        np.save(folder / f"{name}.npy", indexes[name].reconstruct_n(0, ROWS))
    # Graphs do not give back what a quantiser holds for them.
    np.save(folder / "hnsw_sq8.npy", faiss.downcast_index(indexes["hnsw_sq8"].storage).reconstruct_n(0, ROWS))

    np.save(folder / "vectors.npy", x)
    np.save(folder / "half.npy", x.astype(np.float16))
    for version in [(2, 0), (3, 0)]:
        with open(folder / f"version_{version[0]}.npy", "wb") as file:
            np.lib.format.write_array(file, x, version)
    np.save(folder / "refused_fortran.npy", np.asfortranarray(x))
    np.save(folder / "refused_double.npy", x.astype(np.float64))
    np.save(folder / "refused_flat.npy", x.ravel())
    np.save(folder / "refused_objects.npy", np.array([x[0].tolist(), None], dtype=object), allow_pickle=True)
    x.tofile(folder / "vectors.memmap")
    versions = {"faiss-cpu": faiss.__version__, "numpy": np.__version__, "python": platform.python_version()}
    made = {"made": "by tools/make_faiss_fixtures.py", "rows": ROWS, "dimensions": DIMS, "versions": versions}
    (folder / "made.json").write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
