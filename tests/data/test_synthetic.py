"""The synthetic task: the paper's five steps, checked from the outside."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pirank.data import RankingData, synthetic, synthetic_stream


def test_labels_are_the_clipped_sum_over_the_revealed_columns() -> None:
    data = synthetic(
        20, 30, document_features=8, query_features=3, low=-1, high=2.5, reveal_columns=True, seed=4
    )
    assert data.features.shape == (600, 8 + 3 + 8)
    assert data.labels is not None
    documents, _, spread = data.features.double().split([8, 3, 8], dim=1)
    assert torch.allclose(data.labels.double(), (documents * spread).sum(1).clamp(-1, 2.5), atol=1e-5)
    for query in data:
        # The same γ and the same columns for all documents of a query; each γ once, in m_q different columns.
        assert (query.features[:, 8:] == query.features[0, 8:]).all()
        spread = query.features[0, 11:]
        assert spread[spread != 0].sort().values.tolist() == query.features[0, 8:11].sort().values.tolist()
    assert data.labels.min() == -1
    assert data.labels.max() == 2.5


def test_columns_differ_between_queries_and_cover_all() -> None:
    data = synthetic(200, 1, document_features=6, query_features=2, reveal_columns=True)
    chosen = (data.features[:, 8:] != 0).float()
    assert (chosen.sum(1) == 2).all()
    # 200 × 2/6 = 67 expected in each column, five standard deviations are 33.
    assert ((chosen.sum(0) - 200 / 3).abs() < 33).all()


def test_without_revealing_the_features_are_documents_and_gamma() -> None:
    plain = synthetic(5, 7, document_features=4, query_features=2, seed=1)
    told = synthetic(5, 7, document_features=4, query_features=2, seed=1, reveal_columns=True)
    assert torch.equal(plain.features, told.features[:, :6])
    assert plain.labels is not None
    assert told.labels is not None
    assert torch.equal(plain.labels, told.labels)
    assert plain.feature_names == told.feature_names[:6] if told.feature_names else False


def test_real_valued_by_default_grades_on_request() -> None:
    real, graded = synthetic(10, 50).labels, synthetic(10, 50, round=True).labels
    assert real is not None
    assert graded is not None
    assert len(real.unique()) > 50
    assert set(graded.unique().tolist()) <= {0, 1, 2, 3, 4, 5}
    assert torch.equal(real.round(), graded)


@pytest.mark.parametrize("per_part", [1, 3, 100])
def test_streaming_gives_the_same_queries(per_part: int) -> None:
    whole = synthetic(7, (2, 9), seed=8)
    streamed = RankingData.concatenate(list(synthetic_stream(7, (2, 9), seed=8, queries_per_part=per_part)))
    assert torch.equal(whole.features, streamed.features)
    assert whole.offsets.tolist() == streamed.offsets.tolist()
    assert whole.query_ids.tolist() == streamed.query_ids.tolist()
    assert int(whole.lengths.min()) >= 2
    assert int(whole.lengths.max()) <= 9
    longer = synthetic(9, (2, 9), seed=8)[:7]
    assert torch.equal(whole.features, longer.features)


def test_seeds_and_distributions() -> None:
    base = synthetic(4, 50, seed=1)
    assert torch.equal(base.features, synthetic(4, 50, seed=1).features)
    assert not torch.equal(base.features, synthetic(4, 50, seed=2).features)
    uniform = synthetic(4, 500, documents="uniform", weights=lambda rng, shape: np.full(shape, 2.0))
    assert 0 <= uniform.features[:, :25].min() <= uniform.features[:, :25].max() <= 1
    assert (uniform.features[:, 25:] == 2).all()
    normal = synthetic(4, 5000).features[:, :25]
    assert abs(float(normal.mean())) < 0.01
    assert abs(float(normal.std()) - 1) < 0.01


def test_sizes_at_the_edges() -> None:
    assert len(synthetic(0, 5)) == 0
    assert synthetic(2, np.int64(5)).documents == 10
    assert synthetic(1, 20_000, document_features=3, query_features=1).documents == 20_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queries": -1}, "queries must not be negative"),
        ({"list_size": 0}, "list_size must be at least 1"),
        ({"query_features": 30}, "query_features must be from 1 to document_features, 25: got 30"),
        ({"low": 5.0}, "low must be below high"),
        ({"documents": "cauchy"}, "documents must be one of 'normal', .* or a function, got 'cauchy'"),
        ({"seed": -1}, "seed must not be negative, got -1"),
        ({"round": True, "high": 4.6}, "low and high must be whole numbers, got 0.0 and 4.6"),
        (
            {"documents": lambda rng, shape: np.ones(shape[1:])},
            r"documents must give an array of .*\(100, 25\): got",
        ),
        ({"weights": lambda rng, shape: np.full(shape, np.inf)}, "weights must give finite numbers"),
    ],
)
def test_impossible_sizes(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        synthetic(**options)  # type: ignore[arg-type]
