"""The PiRank losses: Proposition 1 for every metric and sort, layouts, weights, straight-through, errors."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from pirank import losses
from pirank.losses import PiRankLoss, pirank_arp_loss, pirank_ndcg_loss
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
    Precision,
    Recall,
)
from pirank.sorts import NeuralSort, Sinkhorn, SoftSort, Tree, naive_neural_sort

METRICS = {
    "dcg": DCG(k=5),
    "ndcg": NDCG(k=5),
    "ndcg of all": NDCG(),
    "arp": ARP(),
    "precision": Precision(k=4),
    "recall": Recall(k=4),
    "mrr": MRR(),
    "ap": AveragePrecision(),
    "err": ERR(k=6),
    "rbp": RBP(),
    "hit rate": HitRate(k=3),
}
SORTS = {
    "neural": lambda tau: NeuralSort(tau),
    "soft": lambda tau: SoftSort(tau),
    "sinkhorn": lambda tau: Sinkhorn(tau),
    "tree": lambda tau: Tree(NeuralSort(tau), depth=2),
    "tree of soft": lambda tau: Tree(SoftSort(tau), depth=3),
    "tree, straight through": lambda tau: Tree(NeuralSort(tau), branching=(5, 4), straight_through=True),
}
every_metric = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS.keys())
every_sort = pytest.mark.parametrize("sort", SORTS.values(), ids=SORTS.keys())


def graded_lists(
    *shape: int, seed: int = 0, dtype: torch.dtype = torch.float64
) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    scores = torch.randn(*shape, generator=random, dtype=dtype)
    return scores, torch.randint(0, 5, shape, generator=random).to(dtype)


@every_sort
@every_metric
def test_the_relaxation_recovers_the_metric(metric, sort) -> None:
    """Proposition 1, for every metric, every sort and the divide and conquer."""
    scores, labels = graded_lists(6, 17)
    mask = torch.rand(6, 17, generator=torch.Generator().manual_seed(9)) > 0.2
    hard = metric(scores, labels, mask=mask, empty="zero", reduction="none")
    cold = PiRankLoss(metric, sort(1e-6), reduction="none")(scores, labels, mask=mask)
    torch.testing.assert_close(cold, metric.loss(hard), rtol=1e-5, atol=1e-5)


@every_sort
@every_metric
def test_straight_through_reports_the_hard_metric_with_the_relaxed_gradient(metric, sort) -> None:
    scores, labels = graded_lists(3, 17)
    scores.requires_grad_()
    hard = metric(scores.detach(), labels, reduction="none")
    loss = PiRankLoss(metric, sort(1.0), straight_through=True, reduction="none")(scores, labels)
    torch.testing.assert_close(loss.detach(), metric.loss(hard))
    (gradient,) = torch.autograd.grad(loss.sum(), scores)
    relaxed = PiRankLoss(metric, sort(1.0), reduction="none")(scores, labels)
    torch.testing.assert_close(gradient, torch.autograd.grad(relaxed.sum(), scores)[0])
    assert gradient.isfinite().all()


def test_ndcg_loss_is_the_papers_formula() -> None:
    scores, labels = graded_lists(4, 30)
    scores.requires_grad_()
    for k, tau in ((1, 0.3), (10, 1.0), (30, 5.0)):
        gains = torch.exp2(labels) - 1
        discounts = 1 / torch.log2(torch.arange(2, k + 2, dtype=torch.float64))
        relaxed = (naive_neural_sort(scores, tau, k) @ gains[..., None])[..., 0] @ discounts
        expected = 1 - relaxed / (gains.sort(descending=True).values[:, :k] @ discounts)
        found = pirank_ndcg_loss(scores, labels, k=k, temperature=tau, reduction="none")
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(
            torch.autograd.grad(found.sum(), scores)[0], torch.autograd.grad(expected.sum(), scores)[0]
        )


def test_arp_loss_is_the_papers_formula() -> None:
    scores, labels = graded_lists(4, 12)
    ranks = torch.arange(1, 13, dtype=torch.float64)
    relaxed = (naive_neural_sort(scores, 0.5) @ labels[..., None])[..., 0]
    found = pirank_arp_loss(scores, labels, temperature=0.5, reduction="none")
    torch.testing.assert_close(found, (relaxed @ ranks) / labels.sum(-1))
    first = pirank_arp_loss(scores, labels, temperature=0.5, k=3, reduction="none")
    torch.testing.assert_close(first, (relaxed[:, :3] @ ranks[:3]) / labels.sum(-1))


def test_by_hand() -> None:
    """Two items ln 3 apart: P̂_1(0) = σ(s_0 − s_1) = 3/4, with slope 3/4 · 1/4."""
    scores = torch.tensor([math.log(3), 0.0], dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0.0, 1.0], dtype=torch.float64)
    loss = pirank_ndcg_loss(scores, labels, k=1)
    torch.testing.assert_close(loss, torch.tensor(0.75, dtype=torch.float64))
    (gradient,) = torch.autograd.grad(loss, scores)
    torch.testing.assert_close(gradient, torch.tensor([0.1875, -0.1875], dtype=torch.float64))


@pytest.mark.parametrize("loss", [pirank_ndcg_loss, pirank_arp_loss])
@pytest.mark.parametrize("tau", [0.01, 1.0, 1000.0])
def test_layouts_agree(loss, tau: float) -> None:
    """Padded with a mask, flat with offsets and list by list: the same losses and gradients."""
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        lengths = torch.tensor([5, 0, 1, 40, 300, 7])
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
        scores, labels = graded_lists(int(lengths.sum()), dtype=dtype)
        flat = scores.clone().requires_grad_()
        in_flat = loss(flat, labels, offsets=offsets, temperature=tau, reduction="none")
        in_flat.sum().backward()
        mask = torch.arange(320) < lengths[:, None]
        wide = torch.zeros(6, 320, dtype=dtype).masked_scatter(mask, scores).requires_grad_()
        in_padded = loss(
            wide,
            torch.full((6, 320), -1.0, dtype=dtype).masked_scatter(mask, labels),
            mask=mask,
            temperature=tau,
            reduction="none",
        )
        in_padded.sum().backward()
        torch.testing.assert_close(in_padded, in_flat, rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(
            wide.grad[mask], flat.grad, rtol=0, atol=tolerance * float(flat.grad.abs().max())
        )
        assert (wide.grad[~mask] == 0).all()
        for q in range(6):
            part = slice(int(offsets[q]), int(offsets[q + 1]))
            alone = loss(scores[part], labels[part], temperature=tau)
            torch.testing.assert_close(alone, in_flat[q].detach(), rtol=tolerance, atol=tolerance)


def test_mean_is_over_the_lists_that_have_a_relevant_item() -> None:
    scores, labels = graded_lists(5, 9)
    labels[2] = 0
    each = pirank_ndcg_loss(scores, labels, reduction="none")
    assert each[2] == 0
    weights = torch.tensor([1.0, 2.0, 3.0, 0.0, 0.5])
    torch.testing.assert_close(pirank_ndcg_loss(scores, labels), each.sum() / 4)
    torch.testing.assert_close(pirank_ndcg_loss(scores, labels, empty="zero"), each.mean())
    torch.testing.assert_close(
        pirank_ndcg_loss(scores, labels, weights=weights), (each * weights).sum() / (weights.sum() - 3)
    )
    torch.testing.assert_close(pirank_ndcg_loss(scores, labels, reduction="sum"), each.sum())


@every_metric
def test_lists_without_relevant_items_and_absent_lists_give_zero(metric) -> None:
    for sort in SORTS.values():
        scores = torch.randn(3, 12, requires_grad=True)
        labels = torch.zeros(3, 12)
        mask = torch.ones(3, 12, dtype=torch.bool)
        mask[1] = False
        labels[1] = 2.0
        loss = PiRankLoss(metric, sort(1.0))(scores, labels, mask=mask)
        loss.backward()
        assert loss.item() == 0
        assert (scores.grad == 0).all()


def test_compiled_autocast_and_empty_batches() -> None:
    scores, labels = graded_lists(3, 25, dtype=torch.float32)
    mask = torch.rand(3, 25, generator=torch.Generator().manual_seed(1)) > 0.3
    plain = scores.clone().requires_grad_()
    expected = pirank_ndcg_loss(plain, labels, mask=mask)
    expected.backward()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        in_autocast = pirank_ndcg_loss(scores, labels, mask=mask)
    assert in_autocast.dtype == torch.float32
    torch.testing.assert_close(in_autocast, expected.detach())
    half = pirank_ndcg_loss(scores.bfloat16().requires_grad_(), labels, mask=mask)
    assert half.dtype == torch.float32
    compiled = torch.compile(pirank_ndcg_loss)
    other = scores.clone().requires_grad_()
    found = compiled(other, labels, mask=mask)
    found.backward()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(other.grad, plain.grad, rtol=1e-4, atol=1e-6)
    assert float(pirank_ndcg_loss(torch.zeros(0, 5), torch.zeros(0, 5))) == 0
    assert float(pirank_ndcg_loss(torch.zeros(0), torch.zeros(0), offsets=torch.tensor([0]))) == 0
    assert pirank_ndcg_loss(torch.zeros(2, 0), torch.zeros(2, 0), reduction="none").tolist() == [0, 0]


def test_the_loss_trains() -> None:
    random = torch.Generator().manual_seed(0)
    features = torch.randn(64, 20, 8, generator=random)
    labels = (features @ torch.randn(8, generator=random)).clamp(0, 4).round()
    for name in ("pirank-ndcg", "pirank-arp"):
        weights = torch.zeros(8, requires_grad=True)
        optimiser = torch.optim.Adam([weights], lr=0.05)
        loss = losses.get(name, temperature=2.0)
        before = NDCG(k=10)(features @ weights.detach(), labels)
        for _ in range(100):
            optimiser.zero_grad()
            loss(features @ weights, labels).backward()
            optimiser.step()
        assert NDCG(k=10)(features @ weights.detach(), labels) > before + 0.3


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda s, y: pirank_ndcg_loss(s, y[:, :4]),
            ValueError,
            r"labels must have the shape of scores.*\[2, 4\]",
        ),
        (lambda s, y: pirank_ndcg_loss(s / 0, y), ValueError, "scores must be finite"),
        (lambda s, y: pirank_ndcg_loss(s, y, k=-1), ValueError, "k must be at least 1"),
        (lambda s, y: pirank_ndcg_loss(s, y, temperature=0.0), ValueError, "temperature must be"),
        (lambda s, y: pirank_ndcg_loss(s, y - 3), ValueError, "labels"),
        (
            lambda s, y: pirank_ndcg_loss(s, y, mask=s[:1] > 0),
            ValueError,
            "mask must have the shape of scores",
        ),
        (lambda s, y: pirank_ndcg_loss(s, y, mask=torch.ones_like(s)), TypeError, "mask must be boolean"),
        (lambda s, y: pirank_ndcg_loss(s, y, reduction="avg"), ValueError, "reduction must be one of"),
        (
            lambda s, y: pirank_ndcg_loss(s, y, weights=torch.ones(3)),
            ValueError,
            r"weights must be one number a list",
        ),
        (
            lambda s, y: pirank_ndcg_loss(s, y, offsets=torch.tensor([0, 3])),
            ValueError,
            "scores must be flat",
        ),
        (
            lambda s, y: pirank_ndcg_loss(s[0], y[0], offsets=torch.tensor([1, 6])),
            ValueError,
            r"offsets must start at 0, got offsets\[0\] = 1",
        ),
        (
            lambda s, y: pirank_ndcg_loss(s[0], y[0], offsets=torch.tensor([0, 5])),
            ValueError,
            r"must end at the number of items, 6: got offsets\[-1\] = 5",
        ),
        (
            lambda s, y: pirank_ndcg_loss(s[0], y[0], offsets=torch.tensor([0, 4, 3, 6])),
            ValueError,
            r"offsets must not fall: offsets\[1\] = 4 is followed by 3",
        ),
        (lambda s, y: PiRankLoss(OPA(), NeuralSort()), TypeError, "no relaxed form"),
        (lambda s, y: PiRankLoss(NDCG(k=3), "neural"), TypeError, "sort must be a pirank sort"),
        (lambda s, y: losses.get("pirank-ndcg", temprature=1.0), ValueError, "temperature"),
        (lambda s, y: losses.get("pirank-ndgc"), ValueError, "pirank-ndcg"),
    ],
)
def test_errors_name_the_argument(call, error, message: str) -> None:
    scores, labels = graded_lists(2, 6, dtype=torch.float32)
    with pytest.raises(error, match=message):
        call(scores, labels)


def test_nan_in_gives_nan_out_where_values_are_not_looked_at() -> None:
    """On a GPU nobody looks at the values; a NaN must not come out as a plausible number."""
    scores, labels = graded_lists(2, 30, dtype=torch.float32)
    scores[0, 3] = float("nan")
    ranked = NeuralSort(1.0).sorted_values(scores, labels[:, None], None, 10, 1.0)
    assert ranked[0].isnan().all()
    assert ranked[1].isfinite().all()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize(("tau", "times"), [(1.0, 20), (1e6, 60)])
def test_memory_of_a_million_items(tau: float, times: int) -> None:
    """Peak memory of loss and gradient, in units of the scores' own 4 MB."""
    import subprocess
    import sys

    script = f"""
import re, torch
from pirank.losses import pirank_ndcg_loss
torch.manual_seed(0)
# Not getrusage: what that says of a process includes the one that started it.
def peak(): return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
def step(n):
    scores = torch.randn(1, n, requires_grad=True)
    labels = torch.randint(0, 5, (1, n)).float()
    before = peak()
    pirank_ndcg_loss(scores, labels, temperature={tau}).backward()
    return peak() - before
step(2000)
print(step(1_000_000))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert 4_000_000 < int(done.stdout) < times * 4_000_000
