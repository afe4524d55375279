"""PiRanker: scikit-learn's own checks, every kind of input, and calls written for LightGBM and XGBoost."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from pirank import PiRanker

# scikit-learn's checks that do not apply, each with its reason.
NOT_FOR_A_RANKER = {
    "check_sample_weight_equivalence_on_dense_data": "weights are those of queries: a repeated row changes its query",
    "check_sample_weight_equivalence_on_sparse_data": "weights are those of queries: a repeated row changes its query",
}


def problem(queries=30, seed=0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 9, queries)
    X = rng.normal(size=(sizes.sum(), 4)).astype(np.float32)
    y = np.clip((1.5 * X[:, 0]).round(), 0, 3).astype(int)
    return X, y, sizes, np.repeat(np.arange(queries), sizes)


def quick(**params):
    return PiRanker(**{"epochs": 5, "hidden": (8,), "learning_rate": 0.01, "random_state": 0, **params})


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scikit_learns_own_checks():
    results = check_estimator(
        PiRanker(epochs=2, hidden=(8,), random_state=0), expected_failed_checks=NOT_FOR_A_RANKER, on_skip=None
    )
    failed = {r["check_name"] for r in results if r["status"] == "xfail"}
    assert failed == set(NOT_FOR_A_RANKER)


def test_it_learns_and_is_repeatable():
    X, y, group, qid = problem()
    ranker = quick(epochs=30).fit(X, y, qid=qid)
    assert ranker.score(X, y, qid=qid) > 0.8
    np.testing.assert_array_equal(ranker.predict(X), quick(epochs=30).fit(X, y, group=group).predict(X))
    assert not np.array_equal(
        ranker.predict(X), quick(epochs=30, random_state=1).fit(X, y, qid=qid).predict(X)
    )


@pytest.mark.parametrize("kind", ["numpy", "sparse", "pandas", "polars"])
def test_every_input_gives_the_same_scores(kind):
    X, y, _, qid = problem()
    names = [f"f{i}" for i in range(4)]
    make = {
        "numpy": lambda X: X,
        "sparse": scipy.sparse.csr_matrix,
        "pandas": lambda X: pd.DataFrame(X, columns=names),
        "polars": lambda X: pl.DataFrame(X, schema=names),
    }[kind]
    ranker = quick().fit(make(X), y, qid=qid)
    np.testing.assert_allclose(ranker.predict(make(X)), quick().fit(X, y, qid=qid).predict(X), atol=1e-6)
    assert ranker.n_features_in_ == 4
    assert hasattr(ranker, "feature_names_in_") == (kind in ("pandas", "polars"))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_qid_column_is_enough_for_everything(frame):
    X, y, _, qid = problem()
    table = frame({"qid": qid, **{f"f{i}": X[:, i] for i in range(4)}})
    ranker = quick().fit(table, y)
    assert list(ranker.feature_names_in_) == ["f0", "f1", "f2", "f3"]
    assert "query-rank" in ranker.ranker_.transform.steps
    order = np.random.default_rng(0).permutation(len(y))
    shuffled = table.iloc[order] if frame is pd.DataFrame else table[order]
    np.testing.assert_allclose(ranker.predict(shuffled), ranker.predict(table)[order], atol=1e-6)
    assert ranker.score(table, y) > 0.6
    with pytest.raises(ValueError, match="which rows belong together"):
        ranker.predict(table.drop(columns="qid") if frame is pd.DataFrame else table.drop("qid"))


def test_cross_validation_and_grid_search_by_query():
    X, y, _, qid = problem()
    table = pd.DataFrame(X, columns=list("abcd")).assign(qid=qid)
    assert np.isfinite(cross_val_score(quick(), table, y, cv=GroupKFold(3), groups=qid)).all()
    search = GridSearchCV(
        quick(), {"hidden": [(4,), (8,)], "loss": ["softmax", "pirank-ndcg"]}, cv=GroupKFold(2)
    )
    search.fit(table, y, groups=qid)
    assert search.best_score_ > 0.5


def test_rows_of_a_query_may_stand_anywhere():
    X, y, _, qid = problem()
    ranker = quick().fit(X, y, qid=qid)
    order = np.random.default_rng(0).permutation(len(y))
    np.testing.assert_array_equal(ranker.rank(X[order], qid[order]), ranker.rank(X, qid)[order])
    assert ranker.score(X[order], y[order], qid=qid[order]) == pytest.approx(ranker.score(X, y, qid=qid))


def test_ranks_within_each_query():
    X, y, group, qid = problem()
    ranker = quick().fit(X, y, qid=qid)
    ranks, scores = ranker.rank(X, qid), ranker.predict(X)
    for query in np.unique(qid):
        rows = qid == query
        assert ranks[rows].tolist() == (1 + (-scores[rows]).argsort().argsort()).tolist()
    np.testing.assert_array_equal(ranks, ranker.rank(X, group=group))


def test_calls_written_for_lightgbm_and_xgboost():
    X, y, group, qid = problem()
    V, v, valid_group, valid_qid = problem(seed=1)
    of_lightgbm = quick().fit(
        X,
        y,
        group=group,
        eval_set=[(V, v)],
        eval_group=[valid_group],
        eval_at=[5, 10],
        eval_metric=["ndcg"],
        callbacks=[print],
    )
    of_xgboost = quick().fit(X, y, qid=qid, eval_set=[(V, v)], eval_qid=[valid_qid], verbose=False)
    np.testing.assert_array_equal(of_lightgbm.predict(V), of_xgboost.predict(V))
    of_newer = quick().fit(X, y, group=group, eval_X=(V,), eval_y=(v,), eval_group=[valid_group])
    np.testing.assert_array_equal(of_lightgbm.predict(V), of_newer.predict(V))
    best = max(record["ndcg@10"] for record in of_lightgbm.history_)
    assert of_lightgbm.score(V, v, group=valid_group) == pytest.approx(best, abs=1e-6)


def test_weights_of_queries():
    X, y, group, qid = problem()
    chosen = (np.arange(len(group)) < 15).astype(float)
    by_query = quick(dropout=0).fit(X, y, qid=qid, sample_weight=chosen)
    by_row = quick(dropout=0).fit(X, y, qid=qid, sample_weight=chosen[qid])
    np.testing.assert_array_equal(by_query.predict(X), by_row.predict(X))
    assert not np.array_equal(by_query.predict(X), quick(dropout=0).fit(X, y, qid=qid).predict(X))
    with pytest.raises(ValueError, match="one number a query"):
        quick().fit(X, y, qid=qid, sample_weight=[1, 2])


def test_save_load_pickle_and_clone(tmp_path):
    X, y, _, qid = problem()
    ranker = quick(n_ensemble=2, n_jobs=1).fit(pd.DataFrame(X, columns=list("abcd")), y, qid=qid)
    frame = pd.DataFrame(X, columns=list("abcd"))
    ranker.save(tmp_path / "ranker.safetensors")
    loaded = PiRanker.load(tmp_path / "ranker.safetensors")
    for other in (loaded, pickle.loads(pickle.dumps(ranker))):
        np.testing.assert_array_equal(other.predict(frame), ranker.predict(frame))
        assert list(other.feature_names_in_) == list("abcd")
    assert loaded.get_params() == ranker.get_params() | {"hidden": [8]}
    assert not hasattr(clone(ranker), "ranker_")


def test_what_is_missing_or_wrong_is_told():
    X, y, _, qid = problem()
    with pytest.warns(UserWarning, match="all rows are one query"):
        quick().fit(X, y)
    with pytest.raises(ValueError, match="did you mean"):
        quick(loss="pirank-ndgc").fit(X, y, qid=qid)
    with pytest.raises(ValueError, match="did you mean 'epochs'"):
        quick(settings={"epoch": 3}).fit(X, y, qid=qid)
    with pytest.raises(ValueError, match="exclude each other"):
        quick().fit(X, y, qid=qid, group=[len(y)])


def test_the_state_of_torch_is_left_alone():
    import torch

    X, y, _, qid = problem()
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    quick(n_jobs=2).fit(X, y, qid=qid)
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.get_num_threads() == threads
