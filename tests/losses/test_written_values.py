"""Values that TF-Ranking's documentation and allRank's tests give, reproduced as docs/losses.md says.

TF-Ranking: the examples in the docstrings of tensorflow_ranking/python/keras/losses.py, of one list and of two ragged
lists. allRank: tests/losses/test_listmle.py, tests/test_lambdaloss.py, tests/test_approxndcg.py, and
tests/losses/test_ranknet.py.
"""

from math import exp, log

import pytest
import torch

from pirank import losses

ONE = {"scores": [[0.6, 0.8]], "labels": [[1.0, 0.0]]}
TWO = {"scores": [0.6, 0.8, 0.5, 0.8, 0.4], "labels": [1.0, 0.0, 0.0, 1.0, 0.0]}
OFFSETS = torch.tensor([0, 2, 5])
# TF-Ranking pads to the longest list, and averages a pair loss over items of the padded batch.
PADDED_ITEMS = 6


def of_lists(name, data, **options):
    """One value a list."""
    offsets = OFFSETS if data is TWO else None
    scores, labels = torch.tensor(data["scores"]), torch.tensor(data["labels"])
    return losses.get(name, reduction="none", **options)(scores, labels, offsets=offsets).double()


@pytest.mark.parametrize(
    ("name", "one", "two"),
    [("ranknet", 0.39906943, 0.3109182), ("pairwise-hinge", 0.6, 0.41666666)],
)
def test_tf_ranking_averages_pair_losses_over_items(name, one, two):
    assert of_lists(name, ONE).sum().item() / 2 == pytest.approx(one, rel=1e-6)
    assert of_lists(name, TWO).sum().item() / PADDED_ITEMS == pytest.approx(two, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "one", "two"), [("mse", 0.4, 0.20833336), ("sigmoid-ce", 0.8042943, 0.64446354)]
)
def test_tf_ranking_averages_pointwise_losses_over_the_items_of_the_batch(name, one, two):
    assert of_lists(name, ONE).mean().item() == pytest.approx(one, rel=1e-6)
    items = torch.tensor([2, 3])
    assert (of_lists(name, TWO) * items).sum().item() / PADDED_ITEMS == pytest.approx(two, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "options", "one", "two"),
    [
        ("softmax", {}, 0.7981389, 0.83911896),
        ("approx-ndcg", {}, -0.655107 + 1, -0.80536866 + 1),
        ("approx-mrr", {"over": "mean"}, -0.53168947 + 1, -0.73514676 + 1),
    ],
)
def test_tf_ranking_averages_list_losses_over_lists(name, options, one, two):
    assert of_lists(name, ONE, **options).mean().item() == pytest.approx(one, rel=1e-5)
    assert of_lists(name, TWO, **options).mean().item() == pytest.approx(two, rel=1e-5)


def test_tf_ranking_listmle():
    assert of_lists("listmle", ONE).item() == pytest.approx(0.7981389, rel=1e-6)
    # Two of the second list's items are tied; its value is of one order of them.
    drawn = torch.Generator().manual_seed(0)
    values = {
        round(of_lists("listmle", TWO, ties="shuffle", generator=drawn).mean().item(), 5) for _ in range(50)
    }
    assert round(1.1613163, 5) in values


def test_tf_ranking_ordinal():
    value = losses.ordinal_loss(
        torch.tensor([[[0.6, 0.2], [0.8, 0.3]]]), torch.tensor([[1.0, 0.0]]), levels=2
    )
    assert value.item() == pytest.approx(1.6305413, rel=1e-6)


ALLRANK = torch.tensor([[0.5, 0.3, 0.5]])


def test_allrank_listmle():
    value = losses.listmle_loss(torch.tensor([0.5, 0.3]), torch.tensor([1.0, 0.0]))
    assert value.item() == pytest.approx(0.5981389284133911, rel=1e-6)


def test_allrank_lambdaloss_takes_logarithms_to_base_2():
    assert losses.lambdaloss(ALLRANK, ALLRANK).item() / log(2) == pytest.approx(1.1244146823, rel=1e-6)


def test_allrank_ranknet():
    assert losses.ranknet_loss(ALLRANK, ALLRANK).item() == pytest.approx(1.1962778568, rel=1e-6)
    value = losses.ranknet_loss(
        torch.tensor([0.5, 0.2, 0.1]), torch.tensor([1.0, 0.0, 0.0]), average_pairs=True
    )
    assert value.item() == pytest.approx((log(1 + exp(-0.3)) + log(1 + exp(-0.4))) / 2, rel=1e-6)


def test_allrank_approx_ndcg():
    value = losses.approx_ndcg_loss(ALLRANK, ALLRANK, temperature=1.0)
    assert value.item() == pytest.approx(1 - 0.8499219417, rel=1e-5)
