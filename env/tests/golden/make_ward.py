"""Makes `ward.json`: what scikit-learn's agglomerative clustering (Ward linkage) makes of unit vectors, for several thresholds.

Made once with scikit-learn 1.9.1 and NumPy: `python make_ward.py > ward.json`. Seeded, so always the same.
"""

import json
import sys

import numpy
from sklearn.cluster import AgglomerativeClustering


def unit(rows):
    return (rows / numpy.linalg.norm(rows, axis=1, keepdims=True)).astype(numpy.float32)


def case(name, rows, thresholds):
    """Vectors, merge heights in order, and for each threshold the label of each row."""
    wide = rows.astype(numpy.float64)
    full = AgglomerativeClustering(n_clusters=None, linkage="ward", distance_threshold=0.0).fit(wide)

    def labels(threshold):
        return (
            AgglomerativeClustering(n_clusters=None, linkage="ward", distance_threshold=threshold)
            .fit(wide)
            .labels_.tolist()
        )

    return {
        "name": name,
        "dimensions": rows.shape[1],
        "vectors": [float(f"{value:.9g}") for value in rows.ravel()],
        "heights": full.distances_.tolist(),
        "cuts": [{"threshold": threshold, "labels": labels(threshold)} for threshold in thresholds],
    }


def main():
    dice = numpy.random.default_rng(7)
    centres = dice.normal(size=(6, 8))
    near = unit(numpy.repeat(centres, 10, axis=0) + 0.35 * dice.normal(size=(60, 8)))
    loose = unit(dice.normal(size=(40, 4)))
    cases = [
        case("six groups", near, [0.2, 0.4, 0.63, 0.9, 1.5, 5.0]),
        case("no groups", loose, [0.3, 0.63, 0.9, 1.5]),
    ]
    json.dump(cases, sys.stdout)
    print()


main()
