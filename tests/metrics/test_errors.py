"""What metrics refuse, and that the message says what to do."""

from __future__ import annotations

import pytest
import torch

from pirank import metrics
from pirank.metrics import ARP, DCG, ERR, MRR, NDCG, OPA, RBP


class Middle(MRR):
    averages_ties = False


S, Y = torch.tensor([[2.0, 1.0]]), torch.tensor([[0.0, 1.0]])


def test_negative_labels_are_refused_where_they_mean_nothing():
    for metric in (NDCG(), NDCG(gain="linear"), DCG(k=1), ARP(), ERR()):
        with pytest.raises(
            ValueError, match=r"labels must not be negative.*-1; mark absent items with mask="
        ):
            metric(S, -Y)
        with pytest.raises(ValueError, match="labels must not be negative"):
            metric.item_values(-Y)
    assert MRR()(S, -Y, empty="zero") == 0
    assert NDCG()(S, Y - 1, mask=torch.tensor([[False, True]]), empty="zero") == 0
    with pytest.raises(ValueError, match="labels must not be negative"):
        NDCG()(S, -Y, check_values=True)


def test_labels_beyond_the_top_grade():
    with pytest.raises(ValueError, match=r"at most max_label=4.*the largest is 5; pass max_label=5"):
        ERR()(S, 5 * Y)


def test_gains_beyond_the_floating_point_range():
    with pytest.raises(ValueError, match=r"at most 107 where the gain is 2.label − 1: got 200"):
        NDCG()(S, 200 * Y)
    assert NDCG(gain="linear")(S, 200 * Y) == NDCG()(S, Y)
    assert NDCG()(S.double(), 200 * Y.double()).item() == pytest.approx(NDCG()(S, Y).item())


def test_gain_functions():
    with pytest.raises(ValueError, match=r"gain must return finite numbers of at least 0.*-1"):
        NDCG(gain=lambda y: -y)(S, Y)
    with pytest.raises(ValueError, match=r"gain must return one number an item, \[1, 2\]: got \[\]"):
        NDCG(gain=lambda y: y.sum())(S, Y)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NDCG(gain="exp"), "gain must be one of 'exp2', 'linear', got 'exp'"),
        (lambda: NDCG(ties="first"), "ties must be one of"),
        (lambda: NDCG(average="weighted"), "average must be one of"),
        (lambda: NDCG(empty="none"), "empty must be one of"),
        (lambda: NDCG(convention="trec_eval"), "convention must be one of"),
        (lambda: NDCG(k=0), "k must be at least 1"),
        (
            lambda: Middle(ties="average"),
            "needs the expectation of Middle over all orders of tied items: set",
        ),
        (lambda: RBP(persistence=1), "persistence must lie between 0 and 1"),
        (lambda: ERR(max_label=0), "max_label must be above 0"),
        (lambda: metrics.Precision(denominator="n"), "denominator must be one of 'k', 'retrieved'"),
        (lambda: metrics.get("ncdg@10"), "unknown metric 'ncdg': did you mean 'ndcg'"),
        (lambda: metrics.get("ndcg", gian="linear"), "unknown option of ndcg 'gian': did you mean 'gain'"),
        (lambda: metrics.get("mrr", tie="random"), "unknown option of mrr 'tie': did you mean 'ties'"),
        (lambda: metrics.get("ndcg@10", k=5), "names its cutoff, and k=5 another"),
        (lambda: metrics.get("ndcg@"), "not the name of a metric"),
        (lambda: metrics.get("opa@5"), "takes no cutoff"),
        (lambda: metrics.get("ndcg@0"), "k must be at least 1"),
    ],
)
def test_wrong_options(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_wrong_calls():
    with pytest.raises(ValueError, match="reduction must be one of"):
        NDCG()(S, Y, reduction="sum")
    with pytest.raises(ValueError, match="empty must be one of"):
        NDCG()(S, Y, empty="drop")
    with pytest.raises(ValueError, match=r"weights must be one number a list, \[1\]: got \[1, 2\]"):
        NDCG()(S, Y, weights=S)
    with pytest.raises(ValueError, match="weights must not be negative: the smallest is -1"):
        NDCG()(S, Y, weights=torch.tensor([-1.0]))
    with pytest.raises(ValueError, match="labels must have the shape of scores"):
        OPA()(S, Y[0])
    with pytest.raises(ValueError, match="scores must be finite"):
        NDCG()(S * float("nan"), Y)


def test_what_is_not_a_tensor():
    with pytest.raises(
        TypeError, match=r"scores must be a torch.Tensor, got list: torch.as_tensor\(scores\)"
    ):
        NDCG(ties="random")([2.0, 1.0], Y[0])
    with pytest.raises(TypeError, match=r"labels must be a torch.Tensor, got list"):
        NDCG()(S[0], [0.0, 1.0], check_values=True)


def test_names():
    for name in metrics.names():
        assert metrics.get(name).name == name
    assert metrics.get("NDCG@10").name == "ndcg@10"
    assert metrics.get("hit-rate @ 3").name == "hit_rate@3"
    assert metrics.get("map").name == "ap"
    assert (
        repr(metrics.get("precision@5", empty="one", threshold=2))
        == "Precision(k=5, empty='one', threshold=2)"
    )
