"""Feature transforms against scipy's ranks, the moments they promise, and each other."""

import numpy as np
import pytest
import torch
from scipy.stats import rankdata

from pirank.models import FeatureTransform


def some_features(rows=60, columns=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    features = (
        torch.randn(rows, columns, generator=generator) * torch.tensor([1.0, 100.0, 1e6, 1.0])[:columns]
    )
    features[:, 0] = features[:, 0].round()  # ties
    features[:, -1] = 7.0  # constant
    return features


OFFSETS = torch.tensor([0, 1, 1, 20, 59, 60])


def test_query_rank_equals_the_mean_ranks_of_scipy():
    features = some_features()
    ranks = FeatureTransform("query-rank", 4)(features, OFFSETS)
    for start, stop in zip(OFFSETS[:-1].tolist(), OFFSETS[1:].tolist(), strict=True):
        n = stop - start
        if n == 0:
            continue
        mean_rank = rankdata(features[start:stop].numpy(), axis=0)
        expected = (2 * mean_rank - (n + 1)) / max(n - 1, 1)
        np.testing.assert_allclose(ranks[start:stop].numpy(), expected, atol=1e-6)


def test_query_rank_does_not_depend_on_which_queries_are_beside_it():
    features = some_features()
    together = FeatureTransform("query-rank", 4)(features, OFFSETS)
    alone = FeatureTransform("query-rank", 4)(features[20:59], torch.tensor([0, 39]))
    assert torch.equal(together[20:59], alone)


def test_query_rank_of_infinite_features():
    features = torch.tensor([[float("inf")], [1.0], [float("inf")], [5.0], [6.0]])
    ranks = FeatureTransform("query-rank", 1)(features, torch.tensor([0, 3, 5]))
    assert ranks.flatten().tolist() == [0.5, -1.0, 0.5, -1.0, 1.0]


def test_query_zscore_has_mean_0_and_spread_1_within_each_query():
    scaled = FeatureTransform("query-zscore", 4)(some_features(), OFFSETS)
    for start, stop in ((1, 20), (20, 59)):
        part = scaled[start:stop, :3]
        assert part.mean(0).abs().max() < 1e-5
        assert (part.std(0, unbiased=False) - 1).abs().max() < 1e-5
    assert scaled[:, 3].abs().max() == 0
    assert scaled[:1].abs().max() == 0


@pytest.mark.parametrize("scale", [3e38, 1e-30])
def test_query_zscore_of_numbers_whose_squares_no_float_holds(scale):
    features = torch.tensor([[1.0, 0.5], [-1.0, 1.0], [1.0, 1.0], [1.0, 0.25]])
    offsets = torch.tensor([0, 3, 4])
    scaled, expected = (FeatureTransform("query-zscore", 2)(x, offsets) for x in (features * scale, features))
    torch.testing.assert_close(scaled, expected)
    assert expected[:3].abs().min() > 0


@pytest.mark.parametrize("step", ["query-zscore", "query-rank"])
def test_without_offsets_all_rows_are_one_query(step):
    features = some_features()
    transform = FeatureTransform(step, 4)
    torch.testing.assert_close(transform(features), transform(features, torch.tensor([0, 60])))


def test_standard_gives_mean_0_and_spread_1_and_0_for_a_constant():
    features = some_features()
    transform = FeatureTransform("standard", 4)
    transform.fit(features)
    scaled = transform(features)
    assert scaled[:, :3].mean(0).abs().max() < 1e-5
    assert (scaled[:, :3].std(0, unbiased=False) - 1).abs().max() < 1e-5
    assert scaled[:, 3].abs().max() == 0


def test_standard_keeps_its_digits_far_from_0():
    features = torch.tensor([[1e8], [1e8 + 16], [1e8 + 32]])
    transform = FeatureTransform("standard", 1)
    transform.fit(features)
    assert transform(features).flatten().tolist() == pytest.approx([-1.2247449, 0, 1.2247449])


def test_quantile_is_monotone_and_normal_on_the_training_rows():
    features = torch.rand(5000, 1).exp()
    transform = FeatureTransform("quantile", 1)
    transform.fit(features)
    heights = transform(features)
    order = features.flatten().argsort()
    assert (heights.flatten()[order].diff() >= 0).all()
    assert abs(heights.mean()) < 0.02
    assert abs(heights.std() - 1) < 0.05
    assert transform(torch.tensor([[-1e9]])) == heights.min()
    assert transform(torch.tensor([[1e9]])) == heights.max()


def test_quantile_of_a_mostly_zero_column_and_of_a_constant():
    features = torch.zeros(1000, 2)
    features[:100, 0] = torch.arange(1, 101)
    transform = FeatureTransform("quantile", 2)
    transform.fit(features)
    heights = transform(features)
    assert torch.isfinite(heights).all()
    # 90 % are zeros: they share the middle of the quantiles they span, below 0.
    assert heights[-1, 0] < 0 < heights[50, 0] < heights[99, 0]
    assert heights[:, 1].abs().max() == 0


def test_quantile_as_a_sum_of_ramps_is_the_same_function():
    features = some_features()
    transform = FeatureTransform("quantile", 4)
    transform.fit(features)
    step = transform.rows[0]
    probes = torch.cat([features, features * 1.7, torch.zeros(1, 4)])
    torch.testing.assert_close(step._as_sum_of_ramps(probes), step(probes), atol=1e-5, rtol=1e-5)


def test_steps_chain_in_order_and_query_steps_sit_beside_them():
    features = some_features()
    transform = FeatureTransform("log1p+standard+query-rank+query-zscore", 4)
    transform.fit(features)
    out = transform(features, OFFSETS)
    assert out.shape == (60, 12)
    logged = features.sign() * features.abs().log1p()
    expected = (logged - logged.mean(0)) / logged.std(0, unbiased=False)
    torch.testing.assert_close(out[:, :3], expected[:, :3], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(out[:, 4:8], FeatureTransform("query-rank", 4)(features, OFFSETS))


def test_a_wrong_name_and_a_wrong_order_are_told():
    with pytest.raises(ValueError, match="did you mean 'standard'"):
        FeatureTransform("standrad", 3)
    with pytest.raises(ValueError, match=r"write 'standard\+query-rank'"):
        FeatureTransform("query-rank+standard", 3)
    with pytest.raises(ValueError, match=r"\[documents, 3\]"):
        FeatureTransform("none", 3)(torch.zeros(2, 4))
