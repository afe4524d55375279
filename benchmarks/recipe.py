"""How the default settings were chosen: variations of them, one at a time, by validation NDCG@10 alone.

    python benchmarks/recipe.py --data ../shared/data [--sets MQ2008,OHSUMED] [--threads 2]

Trains every variation on the five folds of every set and never looks at a test part. Writes ``results/recipe.csv``, one
row a variation: the mean validation NDCG@10 (rule "skip") of each set, and the mean over the sets, best first.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from measure import RESULTS, machine, write_rows
from pirank.training import Settings, scores_of, train_ranker
from quality import METRIC, SETS, folds_of


def loss(**options: Any) -> dict[str, Any]:
    """The default loss with other options."""
    return {"loss_options": {**Settings().loss_options, **options}}


def network(**options: Any) -> dict[str, Any]:
    """The default network with other options."""
    return {"model_options": {**Settings().model_options, **options}}


VARIATIONS: dict[str, dict[str, Any]] = {
    "the default": {},
    "temperature 0.005": loss(temperature=0.005),
    "temperature 0.01": loss(temperature=0.01),
    "temperature 0.05": loss(temperature=0.05),
    "temperature 0.1": loss(temperature=0.1),
    "temperature 0.1 to 0.005": {
        **loss(temperature=0.1),
        "temperature_schedule": "exponential",
        "temperature_end": 0.005,
    },
    "k = 5": loss(k=5),
    "k = the whole list": loss(k=None),
    "batches of 4": {"batch_size": 4},
    "batches of 16": {"batch_size": 16},
    "single rows, standardised": {"transform": "standard"},
    "single rows, quantiles": {"transform": "quantile"},
    "ranks within the query only": {"transform": "query-rank"},
    "with z-scores within the query": {"transform": "standard+query-zscore+query-rank"},
    "no dropout": network(dropout=0.0),
    "dropout 0.5": network(dropout=0.5),
    "hidden 64": network(hidden=[64]),
    "hidden 256, 128": network(hidden=[256, 128]),
    "a linear scorer": {"model": "linear", "model_options": {}},
    "learning rate 0.0003": {"learning_rate": 3e-4},
    "learning rate 0.003": {"learning_rate": 3e-3},
    "softmax loss": {"loss": "softmax", "loss_options": {}},
    "LambdaRank loss": {"loss": "lambdarank", "loss_options": {"k": 10}},
}


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    folds = {name: [parts[:2] for parts in folds_of(name, given.data)] for name in given.sets.split(",")}
    rows = []
    for variation, changes in VARIATIONS.items():
        began = time.perf_counter()
        settings = Settings().changed(**changes)
        means = {
            name: round(float(np.mean([of_fold(settings, *fold) for fold in folds[name]])), 4)
            for name in folds
        }
        seconds = (time.perf_counter() - began) / (5 * len(folds))
        row = {"variation": variation, **means, "mean": round(float(np.mean(list(means.values()))), 4)}
        rows.append({**row, "seconds_a_fold": round(seconds, 1), **machine()})
        print(*row.values(), file=sys.stderr, flush=True)
        write_rows(RESULTS / "recipe.csv", sorted(rows, key=lambda row: -row["mean"]))


def of_fold(settings: Settings, train: Any, valid: Any) -> float:
    """Validation NDCG@10 of the weights that were kept."""
    ranker = train_ranker(train, valid, settings=settings)
    return float(METRIC(scores_of(ranker, valid), valid.labels, offsets=valid.offsets))


if __name__ == "__main__":
    main()
