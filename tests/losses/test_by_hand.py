"""Values written out by hand, a list each."""

from math import exp, log, log2

import pytest
import torch

from pirank import losses
from pirank.metrics import MRR, NDCG

SCORES = [2.0, 1.0, 3.0]


def softplus(x):
    return log(1 + exp(x))


def sigmoid(x):
    return 1 / (1 + exp(-x))


# NeuralSort of 3, 2, 1 at temperature 1: a row's weights fall from its own item by e^−1, to e^−1−3 two away.
FIRST = 1 + exp(-1) + exp(-4)
SECOND = 1 + 2 * exp(-1)
LSE = log(exp(2) + exp(1) + exp(3))


def scaled_ndcg_of_the_first():
    """Columns divided by their sums, then rows; NDCG of the item of the first column."""
    outer, inner = 1 / FIRST + exp(-1) / SECOND + exp(-4) / FIRST, 2 * exp(-1) / FIRST + 1 / SECOND
    first = [1 / FIRST / outer, exp(-1) / FIRST / inner, exp(-4) / FIRST / outer]
    second = [exp(-1) / SECOND / outer, 1 / SECOND / inner, exp(-1) / SECOND / outer]
    return (first[0] + first[2] / 2) / sum(first) + second[0] / sum(second) / log2(3)


# Labels 1, 0, 2 and scores 2, 1, 3: ranks 2, 3, 1; gains 1, 0, 3; the ranking is the ideal one.
IDEAL = 3 + 1 / log2(3)
CASES = [
    ("mse", {}, [1, 0, 2], (1 + 1 + 1) / 3),
    ("sigmoid-ce", {}, [1, 0, 0], (softplus(-2) + softplus(1) + softplus(3)) / 3),
    ("sigmoid-ce", {}, [2, 0, 0], (softplus(-2) + softplus(1) + softplus(3)) / 3),
    ("sigmoid-ce", {"clip": False}, [2, 0, 0], (softplus(2) - 4 + softplus(1) + softplus(3)) / 3),
    (
        "ordinal",
        {"levels": 2},
        [1, 0, 2],
        (
            (softplus(-1.5) + softplus(0.5))
            + (softplus(0.5) + softplus(-0.5))
            + (softplus(-2.5) + softplus(-1.5))
        )
        / 3,
    ),
    ("ranknet", {}, [1, 0, 0], softplus(-1) + softplus(1)),
    ("ranknet", {}, [1, 0, 2], 2 * softplus(-1) + softplus(-2)),
    ("ranknet", {"average_pairs": True}, [1, 0, 0], (softplus(-1) + softplus(1)) / 2),
    ("pairwise-hinge", {}, [1, 0, 0], 0 + 2),
    ("pairwise-hinge", {}, [0, 2, 1], 2 + 3 + 0),
    (
        "lambdarank",
        {},
        [1, 0, 2],
        (
            1 * (1 / log2(3) - 0.5) * softplus(-1)
            + 2 * (1 - 1 / log2(3)) * softplus(-1)
            + 3 * (1 - 0.5) * softplus(-2)
        )
        / IDEAL,
    ),
    # With a cutoff of 1 only swaps with the first item change anything, and the ideal DCG is 3.
    ("lambdarank", {"k": 1}, [1, 0, 2], (2 * softplus(-1) + 3 * softplus(-2)) / 3),
    ("lambdarank", {"k": 1, "metric": "dcg"}, [1, 0, 2], 2 * softplus(-1) + 3 * softplus(-2)),
    # The relevant item at rank 2 would come first, or third.
    ("lambdarank", {"metric": "mrr"}, [1, 0, 0], (1 / 2 - 1 / 3) * softplus(-1) + (1 - 1 / 2) * softplus(1)),
    ("lambdarank", {"metric": "mrr", "k": 2}, [1, 0, 0], 1 / 2 * softplus(-1) + (1 - 1 / 2) * softplus(1)),
    # Two relevant items, at ranks 1 and 3, and one that is not, at rank 2: only the first one's fall matters.
    ("lambdarank", {"metric": "mrr"}, [0, 1, 1], (1 - 1 / 2) * softplus(-1)),
    # AP 1/2 now; 1 with the relevant item first, 1/3 with it last.
    ("lambdarank", {"metric": "ap"}, [1, 0, 0], (1 / 2 - 1 / 3) * softplus(-1) + (1 - 1 / 2) * softplus(1)),
    # AP (1 + 2/3)/2 now; the first one's fall makes it (1/2 + 2/3)/2, the last one's rise (1 + 1)/2.
    ("lambdarank", {"metric": "ap"}, [0, 1, 1], (1 - 1 / 2) / 2 * softplus(-1) + (1 - 2 / 3) / 2 * softplus(1)),
    ("lambdarank", {"metric": "precision", "k": 2}, [1, 0, 0], 1 / 2 * softplus(-1)),
    # Swaps over 1, 1 and 2 ranks, of labels that differ by 1, 1 and 2.
    ("lambdarank", {"metric": "arp", "k": None}, [1, 0, 2], (2 * softplus(-1) + 4 * softplus(-2)) / 3),
    (
        "lambdaloss",
        {"scheme": "ndcg2"},
        [1, 0, 2],
        (
            1 * (1 - 1 / log2(3)) * softplus(-1)
            + 2 * (1 - 1 / log2(3)) * softplus(-1)
            + 3 * (1 / log2(3) - 0.5) * softplus(-2)
        )
        / IDEAL,
    ),
    (
        "lambdaloss",
        {"scheme": "ndcg2++", "mu": 5.0},
        [1, 0, 2],
        (
            1 * (5 * (1 - 1 / log2(3)) + 1 / log2(3) - 0.5) * softplus(-1)
            + 2 * (5 * (1 - 1 / log2(3)) + 1 - 1 / log2(3)) * softplus(-1)
            + 3 * (5 * (1 / log2(3) - 0.5) + 1 - 0.5) * softplus(-2)
        )
        / IDEAL,
    ),
    # At k = 2 the pairs that reach rank 3 weigh 1/(1 − 1/2) as much.
    (
        "lambdaloss",
        {"scheme": "ndcg2", "k": 2},
        [1, 0, 2],
        (
            2 * 1 * (1 - 1 / log2(3)) * softplus(-1)
            + 2 * (1 - 1 / log2(3)) * softplus(-1)
            + 2 * 3 * (1 / log2(3) - 0.5) * softplus(-2)
        )
        / IDEAL,
    ),
    ("softmax", {}, [1, 0, 2], (LSE - 2) + 2 * (LSE - 3)),
    ("listnet", {}, [1, 0, 2], (LSE - 2) / 3 + 2 * (LSE - 3) / 3),
    (
        "listnet",
        {"targets": "softmax"},
        [1, 0, 2],
        (exp(1) * (LSE - 2) + 1 * (LSE - 1) + exp(2) * (LSE - 3)) / (exp(1) + 1 + exp(2)),
    ),
    ("listmle", {}, [1, 0, 2], (LSE - 3) + softplus(-1)),
    # Ties keep the input's order: 3, then 2, then 1.
    ("listmle", {}, [0, 0, 1], (LSE - 3) + softplus(-1)),
    ("listmle", {}, [0, 1, 0], (LSE - 1) + softplus(1)),
    # α = (2² − 1, 2¹ − 1, 2⁰ − 1) / 3
    ("p-listmle", {}, [1, 0, 2], (LSE - 3) + softplus(-1) / 3),
    ("p-listmle", {"positions": "log2"}, [1, 0, 2], (LSE - 3) + softplus(-1) / log2(3)),
    ("approx-ndcg", {"temperature": 1.0}, [1, 0, 0], 1 - 1 / log2(2 + sigmoid(-1) + sigmoid(1))),
    ("approx-ndcg", {}, [1, 0, 0], 1 - 1 / log2(2 + sigmoid(-10) + sigmoid(10))),
    ("approx-mrr", {"temperature": 1.0}, [0, 1, 0], 1 - 1 / (1 + sigmoid(1) + sigmoid(2))),
    ("approx-mrr", {"temperature": 1.0}, [0, 1, 2], 1 - 1 / (1 + sigmoid(-1) + sigmoid(-2))),
    (
        "approx-mrr",
        {"temperature": 1.0, "over": "mean"},
        [0, 1, 2],
        1 - (1 / (1 + sigmoid(1) + sigmoid(2)) + 2 / (1 + sigmoid(-1) + sigmoid(-2))) / 3,
    ),
    ("neuralsort", {}, [1, 0, 2], (2 * log(FIRST) + log(SECOND)) / 3),
    # The last two ranks go to the tied items in halves, one of which is a step away in each row.
    ("neuralsort", {}, [0, 0, 1], (2 * log(FIRST) + log(SECOND) + 1 / 2 + 1 / 2) / 3),
    (
        "neural-ndcg",
        {"max_iterations": 0},
        [0, 0, 1],
        1 - (1 / FIRST + exp(-1) / SECOND / log2(3) + exp(-4) / FIRST / 2),
    ),
    (
        "neural-ndcg",
        {"max_iterations": 0, "k": 2, "transposed": True},
        [0, 0, 1],
        1 - (1 / FIRST + exp(-1) / SECOND / log2(3)),
    ),
    ("pirank-ndcg", {}, [0, 0, 1], 1 - (1 / FIRST + exp(-1) / SECOND / log2(3) + exp(-4) / FIRST / 2)),
    ("pirank-ndcg", {"k": 1}, [0, 0, 1], 1 - 1 / FIRST),
    (
        "pirank-arp",
        {},
        [1, 0, 2],
        (
            2 * (1 / FIRST + 2 * exp(-1) / SECOND + 3 * exp(-4) / FIRST)
            + (exp(-1) / FIRST + 2 / SECOND + 3 * exp(-1) / FIRST)
        )
        / 3,
    ),
    ("neural-ndcg", {"max_iterations": 1}, [0, 0, 1], 1 - scaled_ndcg_of_the_first()),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "labels", "expected"), CASES)
def test_value(name, options, labels, expected):
    loss = losses.get(name, **options)
    value = loss(torch.tensor(SCORES, dtype=torch.float64), torch.tensor(labels))
    assert float(value) == pytest.approx(expected, abs=1e-12)


def test_every_loss_has_a_case():
    assert {case[0] for case in CASES} == set(losses.names())


def test_the_paper_weighs_ranknet_by_the_change_in_ndcg():
    # The only pair: scores the wrong way round, NDCG 1/log2(3) now and 1 when swapped.
    value = losses.lambdarank_loss(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]))
    assert float(value) == pytest.approx((1 - 1 / log2(3)) * softplus(1), abs=1e-6)


def test_lambdarank_takes_a_metric_with_its_own_options():
    scores, labels = (
        torch.tensor(SCORES, dtype=torch.float64),
        torch.tensor([1.0, 0.0, 2.0], dtype=torch.float64),
    )
    named = losses.lambdarank_loss(scores, labels, metric="ndcg", k=2)
    assert losses.lambdarank_loss(scores, labels, metric=NDCG(k=2)) == named
    # Linear gains at a cutoff of 1: the swaps with the first item, over an ideal of 2.
    linear = losses.lambdarank_loss(scores, labels, metric=NDCG(k=1, gain="linear"))
    assert linear.item() == pytest.approx((1 * softplus(-1) + 2 * softplus(-2)) / 2)
    # With a threshold of 1 only the last item is relevant, and it stands first.
    strict = losses.lambdarank_loss(scores, labels, metric=MRR(threshold=1.0))
    assert strict.item() == pytest.approx((1 - 1 / 2) * softplus(-1) + (1 - 1 / 3) * softplus(-2))
