"""NDCG@10 of a whole data set: 30,000 ragged lists of 1 to 1,251 items, here and in the tools people use.

    python benchmarks/metrics.py            # writes benchmarks/results/metrics.csv

Every tool starts from what it reads: flat arrays here, one pair of arrays a list in scikit-learn, dictionaries by
document id in ir_measures, ``Qrels`` and ``Run`` in ranx. Building those is not counted, in favour of the others; a
warm-up run lets ranx compile. The script first checks that all agree on the value.
"""

from __future__ import annotations

import argparse
import csv
import platform
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

from measure import machine
from pirank.metrics import NDCG

K = 10
COLUMNS = ["tool", "version", "lists", "items", "runs", "seconds_20", "seconds_50", "seconds_80", "ndcg"]
COLUMNS += ["times_pirank", "threads", "cpu", "python", "torch"]


def data_set(lists: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Flat scores, labels and offsets, with the lengths and label shares of a web search log like MSLR-WEB30K."""
    random = np.random.default_rng(seed)
    lengths = np.clip(np.round(random.lognormal(4.45, 0.85, lists)), 1, 1251).astype(np.int64)
    offsets = np.concatenate([[0], lengths.cumsum()])
    scores = random.standard_normal(offsets[-1]).astype(np.float32)
    labels = random.choice(5, offsets[-1], p=[0.515, 0.325, 0.134, 0.018, 0.008]).astype(np.float32)
    return scores, labels, offsets


def pirank(scores: np.ndarray, labels: np.ndarray, offsets: np.ndarray) -> Callable[[], float]:
    metric = NDCG(k=K, convention="trec")
    tensors = [torch.from_numpy(part) for part in (scores, labels, offsets)]
    return lambda: float(metric(tensors[0], tensors[1], offsets=tensors[2]))


def scikit_learn(scores: np.ndarray, labels: np.ndarray, offsets: np.ndarray) -> Callable[[], float]:
    from sklearn.metrics import ndcg_score

    pairs = [
        (s[None], y[None])
        for s, y in zip(np.split(scores, offsets[1:-1]), np.split(labels, offsets[1:-1]), strict=True)
    ]

    def run() -> float:
        # ndcg_score refuses a list of one item, which has an NDCG of 1, or 0 if it is irrelevant.
        values = [
            ndcg_score(labels, scores, k=K) if labels.size > 1 else float(labels[0, 0] > 0)
            for scores, labels in pairs
        ]
        return float(np.mean(values))

    return run


def as_dictionaries(
    scores: np.ndarray, labels: np.ndarray, offsets: np.ndarray
) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    # Ids fall along the input, so that no two tools order ties differently.
    names = [f"d{9999 - i}" for i in range(int(np.diff(offsets).max()))]
    qrels, run = {}, {}
    for q, (start, stop) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        qrels[f"{q:06d}"] = dict(zip(names, labels[start:stop].astype(int).tolist(), strict=False))
        run[f"{q:06d}"] = dict(zip(names, scores[start:stop].tolist(), strict=False))
    return qrels, run


def ir_measures(scores: np.ndarray, labels: np.ndarray, offsets: np.ndarray) -> Callable[[], float]:
    import ir_measures

    qrels, run = as_dictionaries(scores, labels, offsets)
    measure = ir_measures.nDCG @ K
    return lambda: float(ir_measures.calc_aggregate([measure], qrels, run)[measure])


def ranx(scores: np.ndarray, labels: np.ndarray, offsets: np.ndarray) -> Callable[[], float]:
    from ranx import Qrels, Run, evaluate

    qrels, run = as_dictionaries(scores, labels, offsets)
    judged, ranked = Qrels(qrels), Run(run)
    return lambda: float(evaluate(judged, ranked, f"ndcg@{K}"))


TOOLS: dict[str, tuple[Callable[..., Callable[[], float]], str, int]] = {
    "pirank": (pirank, "pirank", 20),
    "ranx": (ranx, "ranx", 10),
    "ir_measures": (ir_measures, "ir_measures", 5),
    "scikit-learn": (scikit_learn, "scikit-learn", 3),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lists", type=int, default=30_000)
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "metrics.csv")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    data = data_set(options.lists)
    rows = []
    for name in options.tools:
        make, package, runs = TOOLS[name]
        evaluate = make(*data)
        value = evaluate()
        seconds = []
        for _ in range(runs):
            start = time.perf_counter()
            evaluate()
            seconds.append(time.perf_counter() - start)
        low, middle, high = np.quantile(seconds, [0.2, 0.5, 0.8])
        rows.append([name, version(package), options.lists, len(data[0]), runs, low, middle, high, value])
        print(f"{name:14} {middle:10.4f} s   NDCG@{K} = {value:.6f}", flush=True)
        del evaluate
    values = [row[8] for row in rows]
    if max(values) - min(values) > 1e-5:
        raise SystemExit(f"the tools disagree on the value, so their times mean nothing: {values}")
    where = [torch.get_num_threads(), machine()["cpu"], platform.python_version(), torch.__version__]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with options.output.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in rows:
            times = [f"{number:.5f}" for number in row[5:8]]
            ratio = f"{row[6] / rows[0][6]:.2f}"
            writer.writerow([*row[:5], *times, f"{row[8]:.7f}", ratio, *where])


if __name__ == "__main__":
    main()
