"""From settings to a ranker: the two ways of transforming agree, and networks are averaged as equals."""

import pytest
import torch

from pirank.data import RankingData, synthetic
from pirank.training import Settings, recipe, train_ranker

QUICK = Settings(epochs=2, model_options={"hidden": [8]})


def test_transforming_ahead_or_batch_by_batch_is_the_same(monkeypatch):
    data, valid = synthetic(queries=40, list_size=(5, 12), seed=0).split([0.75, 0.25])
    settings = QUICK.changed(transform="standard+query-rank+query-zscore", n_ensemble=2)
    ahead = train_ranker(data, valid, settings=settings)
    monkeypatch.setattr(recipe, "_BYTES_TRANSFORMED_AHEAD", 0)
    by_batch = train_ranker(data, valid, settings=settings)
    torch.testing.assert_close(
        ahead(valid.features, valid.offsets), by_batch(valid.features, valid.offsets), atol=1e-4, rtol=1e-4
    )


def test_members_differ_and_have_the_same_scale():
    data = synthetic(queries=30, list_size=10, seed=0)
    ranker = train_ranker(data, settings=QUICK.changed(n_ensemble=3))
    rows = ranker.transform(data.features, data.offsets)
    scores = torch.stack(
        [(m(rows) - c) / s for m, c, s in zip(ranker.members, ranker.centre, ranker.spread, strict=True)]
    )
    torch.testing.assert_close(scores.std(1, unbiased=False), torch.ones(3))
    assert (scores[0] - scores[1]).abs().max() > 0.01


def test_data_that_nothing_can_be_learned_from_is_refused():
    data = synthetic(queries=4, list_size=3, seed=0)
    offsets = data.offsets
    blank = RankingData(data.features, torch.zeros(12), offsets)
    with pytest.raises(ValueError, match="train split has a label above 0"):
        train_ranker(blank, settings=QUICK)
    with pytest.raises(ValueError, match="valid has 2"):
        train_ranker(data, RankingData(data.features[:, :2], data.labels, offsets), settings=QUICK)
    with pytest.raises(ValueError, match="the train split has no labels"):
        train_ranker(RankingData(data.features, None, offsets), settings=QUICK)
    data.features[5, 1] = float("nan")
    with pytest.raises(ValueError, match="first in document 5"):
        train_ranker(data, settings=QUICK)
