"""The peer of the linear learner's bench program.

Times, on this machine and in this run, what a user of numpy would do with the same rows: the product of the
one-hot matrix in single precision with itself, and the least squares solution from it. Prints one JSON object
a line, `name`, `peer`, `unit`. One thread, as ours. Each number is the best of several runs.
"""

import json
import os
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

ROWS = 1 << 18
FIELDS = 10
VALUES = 6


def emit(name, peer, unit):
    print(json.dumps({"name": name, "peer": peer, "unit": unit}), flush=True)


def best_of(runs, work):
    """The shortest of `runs` timings of `work`, in seconds."""
    best = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def rows():
    """One-hot rows with a column of ones, and their labels."""
    generator = np.random.default_rng(7)
    features = np.zeros((ROWS, FIELDS * VALUES + 1), dtype=np.float32)
    for field in range(FIELDS):
        columns = field * VALUES + generator.integers(0, VALUES, ROWS)
        features[np.arange(ROWS), columns] = 1
    features[:, -1] = 1
    return features, generator.random(ROWS, dtype=np.float32)


def fit(features, labels):
    matrix = features.T @ features
    cross = features.T @ labels
    np.linalg.solve(matrix + np.eye(len(matrix), dtype=np.float32), cross)


def main():
    features, labels = rows()
    emit("adassp", ROWS / best_of(20, lambda: fit(features, labels)), "rows/s")


main()
