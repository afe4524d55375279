"""Under its convention every metric equals the tool's own number, computed live on random lists."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from pirank import metrics
from pirank.metrics.conventions import CONVENTIONS

CUTOFFS = (1, 3, 10)


def random_lists(top: int = 4, ties: bool = True, seed: int = 0, lists: int = 40):
    """Flat lists of 1 to 25 items, labels from 0 to ``top``, about a tenth of the lists blank."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 26, lists)
    total = int(lengths.sum())
    if ties:
        scores = (random.integers(-8, 9, total) / 4).astype(np.float32)
    else:
        scores = random.permutation(total).astype(np.float32) / 8
    labels = random.integers(0, top + 3, total) - 2
    labels = np.maximum(labels, 0).astype(np.float32)
    offsets = np.concatenate([[0], lengths.cumsum()])
    for q in range(0, lists, 10):
        labels[offsets[q] : offsets[q + 1]] = 0
    return scores, labels, offsets


def ours(name: str, convention: str, lists, reduction: str = "none", **options):
    scores, labels, offsets = (torch.from_numpy(part) for part in lists)
    metric = metrics.get(name, convention=convention, **options)
    return metric(scores.double(), labels.double(), offsets=offsets, reduction=reduction).numpy()


def split(lists):
    scores, labels, offsets = lists
    return list(zip(np.split(scores, offsets[1:-1]), np.split(labels, offsets[1:-1]), strict=True))


def with_cutoffs(*keys: str):
    return [f"{key}@{k}" for key in keys for k in CUTOFFS]


# --- scikit-learn
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*with_cutoffs("ndcg", "dcg"), "ndcg", "dcg"])
@pytest.mark.parametrize("ties", [True, False])
def test_sklearn(name, ties):
    from sklearn.metrics import dcg_score, ndcg_score

    lists = random_lists(ties=ties)
    key, _, k = name.partition("@")
    tool = {"ndcg": ndcg_score, "dcg": dcg_score}[key]
    expected = []
    for scores, labels in split(lists):
        if len(scores) == 1:  # ndcg_score refuses a list of one item; its formula gives 1, or 0 if irrelevant
            expected.append(float(labels[0]) if key == "dcg" else float(labels[0] > 0))
        else:
            expected.append(tool([labels], [scores], k=int(k) if k else None))
    np.testing.assert_allclose(ours(name, "sklearn", lists), expected, rtol=1e-12)


def test_opa_of_binary_labels_is_the_area_under_the_curve():
    from sklearn.metrics import roc_auc_score

    lists = random_lists(top=1)
    for value, (scores, labels) in zip(ours("opa", "sklearn", lists), split(lists), strict=True):
        if len(set(labels)) == 2:
            assert value == pytest.approx(roc_auc_score(labels, scores), rel=1e-12)


# --- Rax
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [*with_cutoffs("ndcg", "dcg", "precision", "recall", "ap", "mrr"), "opa", "ndcg"]
)
def test_rax(name):
    rax = pytest.importorskip("rax")
    key, _, k = name.partition("@")
    lists = random_lists()
    tool = getattr(rax, f"{key}_metric")
    options = {"topn": int(k)} if k else {}
    width = max(len(scores) for scores, _ in split(lists))
    # One padded call with a mask, so that Rax's own padding is compared too.
    scores, labels, mask = (np.zeros((40, width), dtype) for dtype in (np.float32, np.float32, bool))
    for q, (s, y) in enumerate(split(lists)):
        scores[q, : len(s)], labels[q, : len(s)], mask[q, : len(s)] = s, y, True
    if key in ("precision", "recall", "ap", "mrr"):
        labels = (labels > 0).astype(np.float32)
    expected = tool(scores, labels, where=mask, reduce_fn=None, **options)
    np.testing.assert_allclose(ours(name, "rax", lists), expected, rtol=2e-6)
    average = tool(scores, labels, where=mask, **options)
    np.testing.assert_allclose(ours(name, "rax", lists, "mean"), average, rtol=2e-6)


# --- trec_eval
# ------------------------------------------------------------------------------------------------------


def as_run(lists):
    """Document ids that fall along the input, so that trec_eval's order of ties is the input's."""
    run, qrels = {}, {}
    for q, (scores, labels) in enumerate(split(lists)):
        ids = [f"d{999 - i:03d}" for i in range(len(scores))]
        run[f"{q:03d}"] = dict(zip(ids, map(float, scores), strict=True))
        qrels[f"{q:03d}"] = dict(zip(ids, map(int, labels), strict=True))
    return run, qrels


TREC = {
    "ndcg_cut": "ndcg@{k}",
    "P": "precision@{k}",
    "recall": "recall@{k}",
    "map_cut": "ap@{k}",
    "success": "hit_rate@{k}",
}


@pytest.mark.parametrize("top", [1, 4])
def test_pytrec_eval(top):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    lists = random_lists(top=top)
    run, qrels = as_run(lists)
    measures = {"ndcg", "map", "recip_rank"} | {f"{name}.1,3,10" for name in TREC}
    results = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(run)
    names = {f"{trec}_{k}": name.format(k=k) for trec, name in TREC.items() for k in CUTOFFS}
    names |= {"ndcg": "ndcg", "map": "ap", "recip_rank": "mrr"}
    for measure, name in names.items():
        expected = [results[q][measure] for q in sorted(results)]
        np.testing.assert_allclose(ours(name, "trec", lists), expected, rtol=1e-12, err_msg=measure)


def test_ir_measures():
    ir_measures = pytest.importorskip("ir_measures")
    lists = random_lists()
    run, qrels = as_run(lists)
    names = ["nDCG@3", "nDCG@10", "nDCG", "P@3", "R@10", "AP", "AP@10", "RR", "Success@3"]
    own = ["ndcg@3", "ndcg@10", "ndcg", "precision@3", "recall@10", "ap", "ap@10", "mrr", "hit_rate@3"]
    measures = [ir_measures.parse_measure(name) for name in names]
    result = ir_measures.calc_aggregate(measures, qrels, run)
    for measure, name in zip(measures, own, strict=True):
        assert ours(name, "trec", lists, "mean") == pytest.approx(result[measure], rel=1e-12), name


# --- ranx
# -----------------------------------------------------------------------------------------------------------


def test_ranx():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranx = pytest.importorskip("ranx")
        # ranx sorts unstably: numbers of its own are compared where there are no ties.
        lists = random_lists(ties=False)
        run, qrels = as_run(lists)
        names = {"ndcg@{k}": "ndcg@{k}", "precision@{k}": "precision@{k}", "recall@{k}": "recall@{k}"}
        names |= {"mrr@{k}": "mrr@{k}", "map@{k}": "ap@{k}"}
        pairs = {theirs.format(k=k): own.format(k=k) for theirs, own in names.items() for k in (3, 10)}
        pairs |= {"ndcg": "ndcg", "mrr": "mrr", "map": "ap"}
        burges = {f"ndcg_burges@{k}": f"ndcg@{k}" for k in (3, 10)}
        asked = [*pairs, *burges]
        results = ranx.evaluate(
            ranx.Qrels(qrels), ranx.Run(run), asked, return_mean=False, make_comparable=False
        )
    for theirs, own in (pairs | burges).items():
        options = {"gain": "exp2"} if theirs in burges else {}
        value = ours(own, "ranx", lists, **options)
        np.testing.assert_allclose(value, results[theirs], rtol=1e-12, err_msg=theirs)


# --- LightGBM and XGBoost
# -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("top", [1, 4])
def test_lightgbm(top):
    lightgbm = pytest.importorskip("lightgbm")
    lists = random_lists(top=top)
    scores, labels, offsets = lists
    features = np.arange(len(scores), dtype=float)[:, None]
    train = lightgbm.Dataset(features, label=labels, group=np.diff(offsets), params={"verbose": -1})
    valid = lightgbm.Dataset(
        features, label=labels, group=np.diff(offsets), init_score=scores, reference=train
    )
    result: dict[str, dict[str, list[float]]] = {}
    # A tree that may not split leaves the scores as they are.
    lightgbm.train(
        {"metric": ["ndcg", "map"], "eval_at": CUTOFFS, "objective": "lambdarank", "verbose": -1}
        | {"min_data_in_leaf": 10**6},
        train,
        num_boost_round=1,
        valid_sets=[valid],
        valid_names=["valid"],
        callbacks=[lightgbm.record_evaluation(result)],
    )
    for k in CUTOFFS:
        expected = result["valid"][f"ndcg@{k}"][0]
        assert ours(f"ndcg@{k}", "lightgbm", lists, "mean") == pytest.approx(expected, rel=1e-9)
        expected = result["valid"][f"map@{k}"][0]
        assert ours(f"ap@{k}", "lightgbm", lists, "mean") == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("top", [1, 4])
def test_xgboost(top):
    xgboost = pytest.importorskip("xgboost")
    lists = random_lists(top=top)
    scores, labels, offsets = lists

    def evaluate(labels, names):
        data = xgboost.DMatrix(np.zeros((len(scores), 1)), label=labels, base_margin=scores)
        data.set_group(np.diff(offsets))
        booster = xgboost.Booster({"objective": "rank:ndcg", "eval_metric": names, "verbosity": 0}, [data])
        pairs = [part.split(":") for part in booster.eval(data).split("\t")[1:]]
        return {name.removeprefix("eval-"): float(value) for name, value in pairs}

    theirs = evaluate(labels, [f"ndcg@{k}{minus}" for k in CUTOFFS for minus in ("", "-")])
    binary = ("map", "pre")  # XGBoost wants labels of 0 and 1 for these
    theirs |= evaluate(np.minimum(labels, 1), [f"{m}@{k}" for m in binary for k in CUTOFFS])
    for k in CUTOFFS:
        pairs = {f"ndcg@{k}": f"ndcg@{k}", f"map@{k}": f"ap@{k}", f"pre@{k}": f"precision@{k}"}
        for name, own in pairs.items():
            assert ours(own, "xgboost", lists, "mean") == pytest.approx(theirs[name], rel=1e-6), name
        minus = ours(f"ndcg@{k}", "xgboost", lists, "mean", empty="zero")
        assert minus == pytest.approx(theirs[f"ndcg@{k}-"], rel=1e-6)


# --- tools too heavy to install: values they gave
# -------------------------------------------------------------------

# Ranked in this order, but for the third list, which CatBoost was given with all scores equal.
RECORDED = (
    [[3.0, 2.0, 1.0, 0.5], [3.0, 2.0, 1.0], [4.0, 2.0, 3.0, 1.0], [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]],
    [[0.0, 2.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 2.0, 1.0], [1.0, 0.0, 0.0, 1.0, 1.0, 1.0]],
)

# catboost 1.2.10, catboost.utils.eval_metric(labels, scores, metric, group_id): each list alone, then all
# four.
CATBOOST = {
    "NDCG": ("ndcg", [0.66967181649423, 1.0, 0.5174418337467068, 0.8485833840018, 0.7589242585606841]),
    "NDCG:top=2": ("ndcg@2", [0.4796249331362629, 1.0, 0.0, 0.6131471927654585, 0.5231930314754304]),
    "NDCG:type=Exp": (
        "ndcg",
        [0.6590018048024133, 1.0, 0.4935456744811716, 0.8485833840018, 0.7502827158213463],
    ),
    "DCG": ("dcg", [1.7618595071429148, 0.0, 1.3613531161467862, 2.173736552415957, 1.3242372939264144]),
    "MRR": ("mrr", [0.5, 0.0, 0.3333333333333333, 1.0, 0.4583333333333333]),
    "MRR:top=2": ("mrr@2", [0.5, 0.0, 0.0, 1.0, 0.375]),
    "MAP": ("ap", [0.5833333333333333, 0.0, 0.41666666666666663, 0.6916666666666667, 0.4229166666666666]),
    "MAP:top=2": ("ap@2", [0.25, 0.0, 0.0, 0.5, 0.1875]),
    "PrecisionAt:top=6": ("precision@6", [0.5, 0.0, 0.5, 0.6666666666666666, 0.41666666666666663]),
    "RecallAt:top=2": ("recall@2", [0.5, 1.0, 0.0, 0.25, 0.4375]),
}


def recorded(tied: bool):
    scores = [[1.0] * 4 if tied and q == 2 else s for q, s in enumerate(RECORDED[0])]
    offsets = np.cumsum([0] + [len(s) for s in scores])
    return np.concatenate(scores).astype(np.float32), np.concatenate(RECORDED[1]).astype(np.float32), offsets


@pytest.mark.parametrize("theirs", CATBOOST)
def test_catboost(theirs):
    name, expected = CATBOOST[theirs]
    options = {"gain": "exp2"} if "Exp" in theirs else {}
    lists = recorded(tied=True)
    value = [*ours(name, "catboost", lists, **options), ours(name, "catboost", lists, "mean", **options)]
    np.testing.assert_allclose(value, expected, rtol=1e-12)


# tensorflow-ranking 0.5.5 with tensorflow 2.15.1, tfr.keras.metrics.*Metric(topn=k): each list alone, then
# all four. ARP is 3.1 = (7 + 8 + 16) labels × ranks / (3 + 3 + 4) labels, and OPA 7 of 18 pairs: not the
# means of the lists. There the second list has no weight, which is NaN here; TF-Ranking shows it as 0.
TF_RANKING = {
    "ndcg@2": [0.52129608, 0.0, 0.52129608, 0.61314720, 0.41393483],
    "ndcg": [0.65900183, 0.0, 0.63990933, 0.84858346, 0.53687364],
    "dcg": [2.39278936, 0.0, 2.32346582, 2.17373657, 1.72249794],
    "mrr@2": [0.5, 0.0, 0.5, 1.0, 0.5],
    "precision@6": [0.5, 0.0, 0.5, 0.66666669, 0.41666666],
    "recall@2": [0.5, 0.0, 0.5, 0.25, 0.3125],
    "ap@2": [0.25, 0.0, 0.25, 0.25, 0.1875],
    "ap": [0.58333337, 0.0, 0.5, 0.69166666, 0.44375002],
    "arp": [2.33333325, np.nan, 2.66666675, 4.0, 3.1],
    "opa": [0.6, np.nan, 0.4, 0.25, 0.38888890],
    "hit_rate@2": [1.0, 0.0, 1.0, 1.0, 0.75],
}


@pytest.mark.parametrize("name", TF_RANKING)
def test_tf_ranking(name):
    lists = recorded(tied=False)
    value = [*ours(name, "tf-ranking", lists), ours(name, "tf-ranking", lists, "mean")]
    np.testing.assert_allclose(value, TF_RANKING[name], rtol=1e-6)


# --- every convention
# -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("name", metrics.names())
def test_every_metric_has_every_convention_and_named_options_win(name, convention):
    metric = metrics.get(name, convention=convention)
    assert metric.convention == convention
    assert metrics.get(name, convention=convention, empty="error").empty == "error"
    scores, labels, offsets = map(torch.from_numpy, random_lists())
    assert metric(scores, labels.clamp(max=4), offsets=offsets).isfinite()
