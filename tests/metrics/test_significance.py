"""The comparison of methods: hand-computed tests, the correction, NaN, metrics that count downwards, the table."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch

from pirank import metrics
from pirank.significance import Comparison, compare, holm

# Leads 1, 2, 3: mean 2, standard deviation 1, t = 2√3 with two degrees of freedom. There the tail beyond t is
# (1 − t / √(2 + t²)) / 2.
LEADS = [1.0, 2.0, 3.0]
T = 2 * math.sqrt(3)
P = (1 - T / math.sqrt(2 + T**2)) / 2


def two(better, worse, name="ndcg"):
    return {"better": {name: better}, "worse": {name: worse}}


def test_the_t_test_by_hand():
    result = compare(two([4.0, 4.0, 4.0], [3.0, 2.0, 1.0])).metrics["ndcg"]
    assert result.best == "better"
    assert result.means == {"better": 4.0, "worse": 2.0}
    assert result.p_values["worse"] == pytest.approx(P, rel=1e-12)
    assert pytest.approx(0.037, abs=1e-3) == P
    assert result.winners == ("better",)
    assert compare(two([4.0, 4.0, 4.0], [3.0, 2.0, 1.0]), level=0.99).metrics["ndcg"].winners == (
        "better",
        "worse",
    )


def test_agrees_with_scipy():
    from scipy import stats

    random = np.random.default_rng(0)
    base = random.normal(size=200)
    results = {f"m{i}": {"mrr": base + 0.3 * random.normal(size=200) - 0.05 * i} for i in range(4)}
    result = compare(results).metrics["mrr"]
    for method, p in result.p_values.items():
        expected = stats.ttest_rel(results[result.best]["mrr"], results[method]["mrr"], alternative="greater")
        assert p == pytest.approx(expected.pvalue, rel=1e-9)


def test_the_randomisation_test_by_hand():
    # All leads are positive: of the 2^5 sign patterns only the one observed has so large a mean.
    better, worse = np.array([5.0, 6, 7, 8, 9]), np.array([4.0, 4, 4, 4, 4])
    result = compare(two(better, worse), test="randomisation").metrics["ndcg"]
    assert result.p_values["worse"] == pytest.approx(1 / 32)
    leads = np.array([3.0, -1.0, 2.0, 0.5])
    as_large = sum(np.dot(leads, signs) >= leads.sum() for signs in product([1, -1], repeat=4))
    result = compare(two(leads, np.zeros(4)), test="randomisation").metrics["ndcg"]
    assert result.p_values["worse"] == pytest.approx(as_large / 16)


def test_the_randomisation_test_of_many_queries_is_near_the_t_test_and_repeats():
    random = np.random.default_rng(0)
    better, worse = random.normal(0.1, 1, 300), random.normal(0, 1, 300)
    exact = compare(two(better, worse)).metrics["ndcg"].p_values["worse"]
    drawn = [compare(two(better, worse), test="randomisation", seed=s).metrics["ndcg"] for s in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0].p_values["worse"] == pytest.approx(exact, abs=0.02)


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_holm_keeps_more_winners():
    values = {"a": [4.0, 4.0, 4.0], "b": [3.0, 2.0, 1.0], "c": [2.0, 3.0, 1.0]}
    results = {method: {"ndcg": value} for method, value in values.items()}
    assert compare(results).metrics["ndcg"].winners == ("a",)
    corrected = compare(results, correction="holm").metrics["ndcg"]
    assert corrected.winners == ("a", "b", "c")
    assert corrected.p_values["b"] == pytest.approx(2 * P)


def test_lower_is_better_metrics_count_downwards():
    results = two([3.0, 2.0, 1.0], [4.0, 4.0, 4.0], name="arp")
    result = compare(results).metrics["arp"]
    assert (result.lower_is_better, result.best) == (True, "better")
    assert result.p_values["worse"] == pytest.approx(P)
    assert compare(two([3.0, 2.0], [4.0, 5.0], name="seconds")).metrics["seconds"].best == "worse"
    chosen = compare(two([3.0, 2.0], [4.0, 5.0], name="seconds"), lower_is_better={"seconds"})
    assert chosen.metrics["seconds"].best == "better"


def test_differences_without_spread():
    same = compare(two([1.0, 0.5, 0.2], [1.0, 0.5, 0.2])).metrics["ndcg"]
    assert same.p_values == {"worse": 1.0}
    assert same.winners == ("better", "worse")
    constant = compare(two([1.0, 0.75, 0.5], [0.75, 0.5, 0.25])).metrics["ndcg"]
    assert constant.p_values == {"worse": 0.0}
    assert constant.winners == ("better",)
    identical = compare(two([1.0, 0.5, 0.2], [1.0, 0.5, 0.2]), test="randomisation").metrics["ndcg"]
    assert identical.p_values == {"worse": 1.0}


def test_queries_that_any_method_lacks_are_dropped_for_all():
    nan = math.nan
    results = two([4.0, nan, 4.0, 4.0, 100.0], [3.0, 7.0, 2.0, 1.0, nan])
    results["third"] = {"ndcg": [0.0, 0.0, 0.0, 0.0, 0.0]}
    result = compare(results).metrics["ndcg"]
    assert (result.queries, result.dropped) == (3, 2)
    assert result.means == {"better": 4.0, "worse": 2.0, "third": 0.0}
    assert result.p_values["worse"] == pytest.approx(P)


def test_from_metrics_to_the_table():
    random = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (60, 10), generator=random).float() * (torch.arange(60)[:, None] > 2)
    noise = torch.randn(60, 10, generator=random)
    scorers = {"good": labels + 0.5 * noise, "as good": labels + 0.5 * noise.flip(0), "bad": noise}
    names = ("ndcg@5", "arp")
    results = {
        method: {name: metrics.get(name)(scores, labels, reduction="none") for name in names}
        for method, scores in scorers.items()
    }
    comparison = compare(results)
    assert isinstance(comparison, Comparison)
    assert set(comparison.metrics["ndcg@5"].winners) == {"good", "as good"}
    assert comparison.metrics["arp"].dropped == 3
    lines = str(comparison).splitlines()
    assert lines[0] == "|  | ndcg@5 ↑ | arp ↓ |"
    assert lines[1] == "| --- | ---: | ---: |"
    assert lines[2].startswith("| good | **0.")
    assert "**" not in lines[4]
    assert lines[-1] == (
        "Bold: the best method of each column and all not significantly worse (one-sided paired t-test at "
        "95 %, 57 queries)."
    )


@pytest.mark.parametrize(
    ("results", "options", "message"),
    [
        ({}, {}, "results must hold at least one method"),
        (two([1.0, 2.0], [1.0, 2.0]), {"test": "wilcoxon"}, "test must be one of 't', 'randomisation'"),
        (two([1.0, 2.0], [1.0, 2.0]), {"correction": "bonferroni"}, "correction must be one of 'holm'"),
        (two([1.0, 2.0], [1.0, 2.0]), {"level": 95}, "level must lie between 0 and 1"),
        (two([1.0, 2.0], [1.0, 2.0]), {"test": "randomisation", "resamples": 0}, "resamples must be"),
        (two([1.0, 2.0], [1.0]), {}, r"'worse', 'ndcg': expected one value a query, \[2\] as in 'better'"),
        (two([1.0, math.nan], [1.0, 2.0]), {}, "ndcg: only 1 of 2 queries have a value"),
        ({"a": {"x": [1.0]}, "b": {"y": [1.0]}}, {}, r"'a' has \['x'\], 'b' has \['y'\]"),
    ],
)
def test_errors(results, options, message):
    with pytest.raises(ValueError, match=message):
        compare(results, **options)
