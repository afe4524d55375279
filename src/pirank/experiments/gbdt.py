"""Gradient-boosted trees as rows of a comparison: LightGBM, XGBoost and CatBoost on the same splits.

Each is trained with its own ranking objective on the features that the networks see, or on the raw ones, stops where
NDCG@10 of the validation split has not risen for 50 trees, and takes its parameters from one table of candidates, so
that all get the same tuning budget.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pirank.data import RankingData, Splits
from pirank.models.transforms import FeatureTransform
from pirank.training.scoring import transformed

TREES = 1000
PATIENCE = 50


def gbdt_scores(
    name: str,
    splits: Splits,
    *,
    options: dict[str, Any],
    transform: str = "none",
    seed: int,
    candidate: int,
    threads: int,
) -> tuple[Tensor, Tensor, dict[str, float]]:
    """Train on a split; scores of the validation and of the test rows, with seconds and trees.

    Args:
        name: ``"lightgbm"``, ``"xgboost"`` or ``"catboost"``.
        splits: the data; labels must be whole numbers from 0 to 30.
        options: parameters of the library, over the candidate's.
        transform: of the features, fitted on the training split.
        seed: of the rows and columns sampled.
        candidate: 0: the usual parameters; above: drawn at random, the same for every data set and seed.
        threads: of the library.
    """
    for part in splits:
        _check_grades(part)
    splits = _transformed(splits, transform)
    train = {"lightgbm": _lightgbm, "xgboost": _xgboost, "catboost": _catboost}[name]
    began = time.perf_counter()
    try:
        vali, test, trees = train(splits, _parameters(candidate), options, seed, threads)
    except Exception as error:  # each library has errors of its own, of no common kind
        raise RuntimeError(f"{name}: {error}") from error
    seconds = time.perf_counter() - began
    return torch.from_numpy(vali), torch.from_numpy(test), {"seconds": seconds, "trees": trees}


def _transformed(splits: Splits, steps: str) -> Splits:
    transform = FeatureTransform(steps, splits.train.features.shape[1])
    transform.fit(splits.train.features)
    return Splits(*(transformed(transform, part) for part in splits))


def _check_grades(part: RankingData) -> None:
    labels = part.labels
    if (
        labels is None
        or bool((labels != labels.round()).any())
        or not bool(((labels >= 0) & (labels <= 30)).all())
    ):
        raise ValueError(
            "gradient-boosted rankers take whole-number grades from 0 to 30: round the labels, or leave out --gbdt"
        )


def _parameters(candidate: int) -> dict[str, Any]:
    """What the three libraries call differently, under one name."""
    if candidate == 0:
        return {"rate": 0.05, "leaves": 31, "least": 20, "columns": 0.8, "rows": 0.8, "l2": 1.0}
    rng = np.random.default_rng([4_242, candidate])
    return {
        "rate": float(10 ** rng.uniform(-2, -0.5)),
        "leaves": int(2 ** rng.uniform(3, 8)),
        "least": int(10 ** rng.uniform(0.3, 2.3)),
        "columns": float(rng.uniform(0.4, 1)),
        "rows": float(rng.uniform(0.5, 1)),
        "l2": float(10 ** rng.uniform(-1, 2)),
    }


def _arrays(part: RankingData) -> tuple[Any, Any, Any]:
    assert part.labels is not None, "checked above"
    return part.features.numpy(), part.labels.numpy().astype(int), part.lengths.numpy()


def _lightgbm(
    splits: Splits, p: dict[str, Any], options: dict[str, Any], seed: int, threads: int
) -> tuple[Any, Any, float]:
    import lightgbm

    (x, y, lengths), (vx, vy, vlengths) = _arrays(splits.train), _arrays(splits.vali)
    train = lightgbm.Dataset(x, y, group=lengths)
    vali = lightgbm.Dataset(vx, vy, group=vlengths, reference=train)
    parameters = {
        "objective": "lambdarank", "metric": "ndcg", "eval_at": [10], "learning_rate": p["rate"],
        "num_leaves": p["leaves"], "min_data_in_leaf": p["least"], "feature_fraction": p["columns"],
        "bagging_fraction": p["rows"], "bagging_freq": 1, "lambda_l2": p["l2"], "seed": seed,
        "num_threads": threads, "deterministic": True, "force_row_wise": True, "verbosity": -1, **options,
    }  # fmt: skip
    stop = lightgbm.early_stopping(PATIENCE, verbose=False)
    booster = lightgbm.train(parameters, train, TREES, valid_sets=[vali], callbacks=[stop])
    trees = booster.best_iteration or booster.num_trees()
    test = splits.test.features.numpy()
    return booster.predict(vx, num_iteration=trees), booster.predict(test, num_iteration=trees), trees


def _xgboost(
    splits: Splits, p: dict[str, Any], options: dict[str, Any], seed: int, threads: int
) -> tuple[Any, Any, float]:
    import xgboost

    def matrix(part: RankingData) -> Any:
        x, y, lengths = _arrays(part)
        made = xgboost.DMatrix(x, label=y, nthread=threads)
        made.set_group(lengths)
        return made

    train, vali, test = map(matrix, splits)
    parameters = {
        "objective": "rank:ndcg", "eval_metric": "ndcg@10", "eta": p["rate"], "max_leaves": p["leaves"],
        "grow_policy": "lossguide", "max_depth": 0, "tree_method": "hist", "min_child_weight": 0.1,
        "colsample_bytree": p["columns"], "subsample": p["rows"], "lambda": p["l2"], "seed": seed,
        "nthread": threads, "lambdarank_pair_method": "topk", "verbosity": 0, **options,
    }  # fmt: skip
    booster = xgboost.train(
        parameters, train, TREES, evals=[(vali, "vali")], early_stopping_rounds=PATIENCE, verbose_eval=False
    )
    trees = booster.best_iteration + 1
    return (
        booster.predict(vali, iteration_range=(0, trees)),
        booster.predict(test, iteration_range=(0, trees)),
        trees,
    )


def _catboost(
    splits: Splits, p: dict[str, Any], options: dict[str, Any], seed: int, threads: int
) -> tuple[Any, Any, float]:
    import catboost

    def pool(part: RankingData) -> Any:
        x, y, _ = _arrays(part)
        return catboost.Pool(x, y, group_id=part.query_index.numpy())

    train, vali, test = map(pool, splits)
    parameters = {
        "loss_function": "YetiRank", "eval_metric": "NDCG:top=10;type=Exp", "iterations": TREES,
        "learning_rate": p["rate"], "depth": max(3, round(np.log2(p["leaves"]))), "l2_leaf_reg": p["l2"],
        "rsm": p["columns"], "random_seed": seed, "thread_count": threads, "allow_writing_files": False,
        "verbose": False, **options,
    }  # fmt: skip
    model = catboost.CatBoost(parameters)
    model.fit(train, eval_set=vali, early_stopping_rounds=PATIENCE)
    return np.asarray(model.predict(vali)), np.asarray(model.predict(test)), float(model.tree_count_)
