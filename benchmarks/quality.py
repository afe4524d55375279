"""Ranking quality of the defaults on real data, five folds, beside LightGBM tuned with 12 configurations.

    python benchmarks/quality.py --data ../shared/data [--sets MQ2008,OHSUMED] [--threads 2]

Everything is chosen on the validation part of each fold: the network's epoch, LightGBM's configuration and number
of trees. Both see the same features, those the ranker's transform gives. NDCG@10 over the test queries that have a
relevant document (rule "skip"), and a two-sided paired t-test over these queries, all folds together. Writes
``results/quality-folds.csv`` and ``results/quality.csv``.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import lightgbm
import numpy as np
import torch
from scipy.stats import ttest_rel
from torch import Tensor

from measure import RESULTS, machine, write_rows
from pirank.data import RankingData, read
from pirank.metrics import NDCG
from pirank.training import Settings, scores_of, train_ranker
from pirank.training.scoring import transformed

# Folder, file names, and the mean test NDCG@10 to reach with one network.
SETS = {
    "MQ2007-r85": ("MQ2007-r85", "S{}.txt.xz", 0.535),
    "MQ2008": ("MQ2008", "S{}.txt.xz", 0.699),
    "OHSUMED": ("OHSUMED-LETOR3/QueryLevelNorm", "S{}.txt.xz", 0.450),
    "ClueWeb09": ("ClueWeb09-webis", "Fold{}.test.txt.xz", 0.28),
}
LEAVES, RATES, LEAST_DOCUMENTS = (7, 31, 63), (0.03, 0.1), (20, 100)
METRIC = NDCG(k=10)
warnings.filterwarnings("ignore", module="lightgbm")  # its newest release has another name for eval_set


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--networks", type=int, default=5, help="networks of the averaged model; 1: none")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    for name in given.sets.split(","):
        per_query: dict[str, list[Tensor]] = {}
        rows = list(measured(name, given, per_query))
        replace_rows(RESULTS / "quality-folds.csv", name, rows)
        replace_rows(RESULTS / "quality.csv", name, list(summed_up(name, rows, per_query)))


def replace_rows(path: Path, name: str, rows: list[dict[str, object]]) -> None:
    """Put the rows of a set in place of those it had; the other sets keep theirs."""
    kept = list(csv.DictReader(path.read_text().splitlines())) if path.exists() else []
    others = [row for row in kept if row["set"] != name]
    write_rows(path, [*others, *({**row, **machine()} for row in rows)])


def measured(
    name: str, given: argparse.Namespace, per_query: dict[str, list[Tensor]]
) -> Iterator[dict[str, object]]:
    """One row a fold and method."""
    for fold, (train, valid, test) in enumerate(folds_of(name, given.data), start=1):
        methods = {"pirank": Settings()}
        if given.networks > 1:
            methods[f"pirank, {given.networks} networks"] = Settings(n_ensemble=given.networks)
        for method, settings in methods.items():
            began = time.perf_counter()
            ranker = train_ranker(train, valid, settings=settings)
            seconds = time.perf_counter() - began
            scores = scores_of(ranker, test)
            yield row_of(
                name, fold, method, scores_of(ranker, valid), valid, scores, test, seconds, per_query
            )
        parts = [transformed(ranker.transform, part) for part in (train, valid, test)]
        began = time.perf_counter()
        options = tuned(*parts[:2], given.threads)
        tuning = time.perf_counter() - began
        for method, seeds in (("lightgbm", 1), ("lightgbm, 5 seeds", 5)):
            began = time.perf_counter()
            of_valid, scores = boosted(*parts, options, seeds, given.threads)
            seconds = tuning + time.perf_counter() - began
            yield row_of(name, fold, method, of_valid, valid, scores, test, seconds, per_query)


def folds_of(name: str, data: Path) -> Iterator[tuple[RankingData, RankingData, RankingData]]:
    """The official folds: three parts to train on, one for validation, one for the test."""
    folder, pattern, _ = SETS[name]
    parts = [read(data / folder / pattern.format(i)) for i in range(1, 6)]
    for k in range(5):
        train = RankingData.concatenate([parts[(k + i) % 5] for i in range(3)])
        yield train, parts[(k + 3) % 5], parts[(k + 4) % 5]


def tuned(train: RankingData, valid: RankingData, threads: int) -> dict[str, float]:
    """LightGBM's configuration, of 12, with the best NDCG@10 on the validation part."""
    best: tuple[float, dict[str, float]] = (-1.0, {})
    for leaves, rate, least in itertools.product(LEAVES, RATES, LEAST_DOCUMENTS):
        options = {"num_leaves": leaves, "learning_rate": rate, "min_child_samples": least}
        of_valid = scores_by(forest(train, valid, options, 0, threads), valid)
        value = float(METRIC(of_valid, valid.labels, offsets=valid.offsets))
        best = max(best, (value, options), key=lambda found: found[0])
    return best[1]


def boosted(
    train: RankingData,
    valid: RankingData,
    test: RankingData,
    options: dict[str, float],
    seeds: int,
    threads: int,
) -> tuple[Tensor, Tensor]:
    """The mean scores of LightGBM models from several seeds, for the validation and the test documents."""
    models = [forest(train, valid, options, seed, threads) for seed in range(seeds)]
    of_valid, of_test = ([scores_by(model, part) for model in models] for part in (valid, test))
    return torch.stack(of_valid).mean(0), torch.stack(of_test).mean(0)


def forest(
    train: RankingData, valid: RankingData, options: dict[str, float], seed: int, threads: int
) -> lightgbm.LGBMRanker:
    """One LightGBM model with early stopping on NDCG@10; seeds differ in the columns they draw."""
    model = lightgbm.LGBMRanker(
        n_estimators=1000, colsample_bytree=1.0 if seed == 0 else 0.8, random_state=seed, n_jobs=threads,
        verbosity=-1, **options,
    )  # fmt: skip
    return model.fit(
        train.features.numpy(), train.labels.numpy(), group=train.lengths.numpy(),
        eval_set=[(valid.features.numpy(), valid.labels.numpy())], eval_group=[valid.lengths.numpy()], eval_at=[10],
        callbacks=[lightgbm.early_stopping(50, verbose=False)],
    )  # fmt: skip


def scores_by(model: lightgbm.LGBMRanker, part: RankingData) -> Tensor:
    """The model's scores of all documents."""
    return torch.from_numpy(model.booster_.predict(part.features.numpy())).float()


def row_of(
    name: str, fold: int, method: str, of_valid: Tensor, valid: RankingData, scores: Tensor, test: RankingData,
    seconds: float, per_query: dict[str, list[Tensor]],
) -> dict[str, object]:  # fmt: skip
    """The validation and test metric of a fold, and its queries' metrics for the test of significance."""
    values = METRIC(scores, test.labels, offsets=test.offsets, reduction="none")
    per_query.setdefault(method, []).append(values[~values.isnan()])
    row = {
        "set": name,
        "fold": fold,
        "method": method,
        "valid_ndcg@10": round(float(METRIC(of_valid, valid.labels, offsets=valid.offsets)), 4),
        "test_ndcg@10": round(float(values.nanmean()), 4),
        "seconds": round(seconds, 1),
    }
    print(*row.values(), file=sys.stderr, flush=True)
    return row


def summed_up(
    name: str, rows: list[dict[str, object]], per_query: dict[str, list[Tensor]]
) -> Iterator[dict[str, object]]:
    """Means over the folds, and the t-test against LightGBM with as many models."""
    for method, values in per_query.items():
        own = [row for row in rows if row["method"] == method]
        rival = "lightgbm" if method == "pirank" else "lightgbm, 5 seeds"
        test = ttest_rel(torch.cat(values).numpy(), torch.cat(per_query[rival]).numpy())
        mean = float(np.mean([row["test_ndcg@10"] for row in own]))
        target = SETS[name][2]
        row = {
            "set": name,
            "method": method,
            "test_ndcg@10": round(mean, 4),
            "deviation_of_folds": round(float(np.std([row["test_ndcg@10"] for row in own])), 4),
            "seconds_a_fold": round(float(np.mean([row["seconds"] for row in own])), 1),
            "target": target if method == "pirank" else "",
            "reached": ("yes" if mean >= target else "no") if method == "pirank" else "",
            "queries": len(torch.cat(values)),
            "p_against_lightgbm": "" if method.startswith("lightgbm") else f"{test.pvalue:.2g}",
            "t": "" if method.startswith("lightgbm") else round(float(test.statistic), 2),
        }
        print(*row.values(), file=sys.stderr, flush=True)
        yield row


if __name__ == "__main__":
    main()
