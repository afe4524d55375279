"""Every metric against values worked out by hand, hard and on relaxed ranked values."""

from __future__ import annotations

from math import log2

import pytest
import torch

from pirank.metrics import (
    ARP,
    DCG,
    ERR,
    MRR,
    NDCG,
    OPA,
    RBP,
    AveragePrecision,
    HitRate,
    Metric,
    Precision,
    Recall,
)

# Ranked by the scores the labels read 0, 2, 0, 1, 3.
SCORES = torch.tensor([0.5, 9.0, 2.0, 7.0, 0.1])
LABELS = torch.tensor([1.0, 0.0, 0.0, 2.0, 3.0])
DCG_5 = 3 / log2(3) + 1 / log2(5) + 7 / log2(6)
IDEAL_5 = 7 + 3 / log2(3) + 1 / log2(4)


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        (DCG(), DCG_5),
        (DCG(k=2), 3 / log2(3)),
        (DCG(gain="linear"), 2 / log2(3) + 1 / log2(5) + 3 / log2(6)),
        (DCG(gain=lambda y: y.sqrt()), 2**0.5 / log2(3) + 1 / log2(5) + 3**0.5 / log2(6)),
        (NDCG(), DCG_5 / IDEAL_5),
        (NDCG(k=2), (3 / log2(3)) / (7 + 3 / log2(3))),
        (NDCG(k=50), DCG_5 / IDEAL_5),
        (ARP(), (2 * 2 + 1 * 4 + 3 * 5) / 6),
        (ARP(k=4), (2 * 2 + 1 * 4) / 6),
        (Precision(k=4), 2 / 4),
        (Precision(), 3 / 5),
        (Precision(k=10), 3 / 10),
        (Precision(k=10, denominator="retrieved"), 3 / 5),
        (Precision(k=4, threshold=1), 1 / 4),
        (Recall(k=4), 2 / 3),
        (Recall(k=2, denominator="reachable"), 1 / 2),
        (Recall(), 1),
        (MRR(), 1 / 2),
        (MRR(k=1), 0),
        (MRR(threshold=2), 1 / 5),
        (AveragePrecision(), (1 / 2 + 2 / 4 + 3 / 5) / 3),
        (AveragePrecision(k=4), (1 / 2 + 2 / 4) / 3),
        (AveragePrecision(k=2, denominator="reachable"), (1 / 2) / 2),
        (ERR(), 3 / 16 / 2 + (13 / 16) * (1 / 16) / 4 + (13 / 16) * (15 / 16) * (7 / 16) / 5),
        (ERR(k=2, max_label=3), 3 / 8 / 2),
        (RBP(), 0.2 * (0.8 + 0.8**3 + 0.8**4)),
        (RBP(k=4, persistence=0.5), 0.5 * (0.5 + 0.5**3)),
        (HitRate(k=1), 0),
        (HitRate(k=2), 1),
        (OPA(), 2 / 9),  # only the item labelled 2 stands above worse ones, those labelled 0 and 1
    ],
    ids=repr,
)
def test_value(metric, value):
    assert metric(SCORES, LABELS).item() == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        (Precision(k=3), 0.9 / 3),
        (MRR(), 0.5 + 0.5 * 0.4 / 2),
        (HitRate(), 1 - 0.5 * 0.6),
        (AveragePrecision(), (0.5 * 0.5 + 0.4 * 0.9 / 2) / 2),
        (ERR(), 0.5 + 0.5 * 0.4 / 2),
        (RBP(), 0.2 * (0.5 + 0.4 * 0.8)),
        (ARP(), (0.5 + 0.8) / 2),
    ],
    ids=repr,
)
def test_relaxed_values_read_as_expectations(metric, value):
    ranked = torch.tensor([[0.5, 0.4, 0.0]])
    normaliser = torch.tensor([3.0 if isinstance(metric, Precision) else 2.0])
    assert metric.of_ranked(ranked, normaliser).item() == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize(
    ("ties", "value"),
    [
        ("stable", (1 / log2(4) + 3 / log2(5)) / (3 + 1 / log2(3))),
        ("pessimistic", (3 / log2(5) + 1 / log2(4)) / (3 + 1 / log2(3))),
        ("average", (1 + 1 / log2(3) + 1 / log2(4) + 1 / log2(5)) / (3 + 1 / log2(3))),
    ],
)
def test_ties_of_ndcg(ties, value):
    labels = torch.tensor([0.0, 0.0, 1.0, 2.0])
    assert NDCG(ties=ties)(torch.ones(4), labels).item() == pytest.approx(value, rel=1e-6)


def test_a_cut_through_a_tie_takes_the_mean_of_all_its_items():
    scores, labels = torch.tensor([2.0, 1.0, 1.0, 1.0, 0.0]), torch.tensor([0.0, 1.0, 0.0, 0.0, 1.0])
    assert Precision(k=2, ties="average")(scores, labels).item() == pytest.approx((1 / 3) / 2)


def test_random_ties_repeat_with_the_seed_and_average_to_the_expectation():
    scores, labels = torch.zeros(20_000, 3), torch.tensor([1.0, 0.0, 0.0]).expand(20_000, 3)
    drawn = MRR(ties="random", seed=1)(scores, labels)
    assert drawn == MRR(ties="random", seed=1)(scores, labels)
    assert drawn != MRR(ties="random", seed=2)(scores, labels)
    assert drawn.item() == pytest.approx((1 + 1 / 2 + 1 / 3) / 3, abs=0.01)
    assert OPA(ties="random")(scores, labels).item() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(("ties", "value"), [("pessimistic", 1 / 5), ("average", 1.5 / 5), ("stable", 2 / 5)])
def test_ties_of_opa(ties, value):
    # Items a, b, c, d. Pairs: a>b tied, a>c wrong, a>d right, d>b wrong, d>c wrong.
    scores, labels = torch.tensor([1.0, 1.0, 2.0, 0.0]), torch.tensor([2.0, 1.0, 1.0, 1.5])
    assert OPA(ties=ties)(scores, labels).item() == pytest.approx(value)


def test_micro_averages_divide_the_sums():
    scores = torch.tensor([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]])
    labels = torch.tensor([[0.0, 0.0, 1.0], [3.0, 0.0, 0.0]])
    assert ARP(average="micro")(scores, labels).item() == pytest.approx((3 + 3) / (1 + 3))
    assert ARP()(scores, labels).item() == pytest.approx((3 + 1) / 2)
    labels = torch.tensor([[0.0, 0.0, 1.0], [3.0, 2.0, 1.0]])
    assert OPA(average="micro")(scores, labels).item() == pytest.approx((0 + 3) / (2 + 3))
    assert OPA()(scores, labels).item() == pytest.approx((0 + 1) / 2)


def test_blank_lists_count_what_the_rule_says():
    scores = torch.tensor([[2.0, 1.0], [2.0, 1.0], [2.0, 1.0]])
    labels = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    second = 1 / log2(3)
    metric = NDCG()
    assert metric(scores, labels).item() == pytest.approx((second + 1) / 2)
    assert metric(scores, labels, empty="zero").item() == pytest.approx((0 + second + 1) / 3)
    assert metric(scores, labels, empty="one").item() == pytest.approx((1 + second + 1) / 3)
    assert NDCG(empty="one")(scores, labels).item() == pytest.approx((1 + second + 1) / 3)
    per_list = metric(scores, labels, reduction="none")
    assert per_list.isnan().tolist() == [True, False, False]
    with pytest.raises(ValueError, match="1 of 3 lists have no relevant item, the first is list 0"):
        metric(scores, labels, empty="error")
    assert metric(scores[:1], labels[:1]).isnan()


def test_weights_weigh_lists():
    scores, labels = torch.tensor([[2.0, 1.0]] * 3), torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    weights = torch.tensor([7.0, 1.0, 3.0])
    assert MRR()(scores, labels, weights=weights).item() == pytest.approx((0.5 + 3) / 4)
    assert MRR(empty="zero")(scores, labels, weights=weights).item() == pytest.approx((0.5 + 3) / 11)


def test_a_metric_of_ones_own_shows_itself_and_follows_every_rule():
    class Top(Metric):
        key = "top"

        def __init__(self, k=1):
            super().__init__(k)
            self.note = "not an option"

        def values_of(self, labels):
            return labels

        def of_ranked(self, ranked, normaliser):
            return ranked.sum(-1)

    assert (repr(Top()), Top().name) == ("Top()", "top@1")
    assert Top()(SCORES, LABELS) == 0
    assert Top(k=2)(SCORES, LABELS) == 2
    assert Top()(SCORES, 0 * LABELS, empty="one") == 1


def test_micro_ndcg_is_the_sum_of_the_dcgs_over_the_sum_of_the_best():
    scores, labels = torch.tensor([[2.0, 1.0]] * 3), torch.tensor([[0.0, 1.0], [2.0, 0.0], [0.0, 0.0]])
    value = (1 / log2(3) + 3) / (1 + 3)
    for empty in ("skip", "zero", "one"):  # a blank list has nothing to divide by
        assert NDCG(average="micro", empty=empty)(scores, labels).item() == pytest.approx(value)
