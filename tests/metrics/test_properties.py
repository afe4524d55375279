"""What holds for every metric: layouts, padding, permutations, precisions, blank lists, gradients."""

from __future__ import annotations

import math
from itertools import permutations

import pytest
import torch

from pirank import metrics
from pirank.metrics import Metric

METRICS = [
    "dcg@5",
    "ndcg",
    "ndcg@5",
    "arp",
    "precision@5",
    "precision",
    "recall@5",
    "mrr",
    "ap",
    "ap@5",
    "err@5",
]
METRICS += ["rbp", "rbp@5", "hit_rate@2", "opa"]
RANKED = [name for name in METRICS if name != "opa"]


def some_lists(seed: int = 0, lists: int = 12, longest: int = 20):
    """Lists of 1 to ``longest`` items with graded labels and ties in the scores; one has no relevant item."""
    random = torch.Generator().manual_seed(seed)
    batch = []
    for q in range(lists):
        length = 1 + int(torch.randint(longest, (1,), generator=random))
        scores = torch.randn(length, generator=random).mul(4).round() / 4
        labels = torch.randint(5, (length,), generator=random).sub(2).clamp(min=0).float()
        batch.append((scores, labels * (q != 3)))
    return batch


def as_padded(batch, pads: int = 0, seed: int = 0):
    """A padded batch with the absent items anywhere in the list, and numbers that would do harm in them."""
    random = torch.Generator().manual_seed(seed)
    width = max(len(scores) for scores, _ in batch) + pads
    scores, labels = torch.full((len(batch), width), 1e9), torch.full((len(batch), width), 3.0)
    mask = torch.zeros(len(batch), width, dtype=torch.bool)
    for q, (s, y) in enumerate(batch):
        places = torch.randperm(width, generator=random)[: len(s)].sort().values
        scores[q, places], labels[q, places], mask[q, places] = s, y, True
    return scores, labels, mask


def as_flat(batch):
    lengths = torch.tensor([0] + [len(scores) for scores, _ in batch])
    return torch.cat([s for s, _ in batch]), torch.cat([y for _, y in batch]), lengths.cumsum(0)


def same(a, b):
    torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7, equal_nan=True)


@pytest.mark.parametrize("ties", ["stable", "pessimistic", "average"])
@pytest.mark.parametrize("name", METRICS)
def test_padded_flat_and_list_by_list_agree(name, ties):
    metric = metrics.get(name, ties=ties)
    batch = some_lists()
    expected = torch.stack([metric(s, y, reduction="none") for s, y in batch])
    assert expected.isnan()[3]
    for pads in (0, 7):
        scores, labels, mask = as_padded(batch, pads)
        same(metric(scores, labels, mask=mask, reduction="none"), expected)
        same(
            metric(scores.view(3, 4, -1), labels.view(3, 4, -1), mask=mask.view(3, 4, -1)), expected.nanmean()
        )
    scores, labels, offsets = as_flat(batch)
    same(metric(scores, labels, offsets=offsets, reduction="none"), expected)
    same(metric(scores, labels, offsets=offsets), expected.nanmean())


@pytest.mark.parametrize("name", METRICS)
def test_very_ragged_lists_agree_with_list_by_list(name):
    metric = metrics.get(name)
    batch = some_lists(lists=40, longest=30) + some_lists(seed=1, lists=2, longest=5000)
    scores, labels, offsets = as_flat(batch)
    expected = torch.stack([metric(s, y, reduction="none") for s, y in batch])
    same(metric(scores, labels, offsets=offsets, reduction="none"), expected)


@pytest.mark.parametrize("name", METRICS)
def test_the_order_of_items_does_not_matter_without_ties(name):
    random = torch.Generator().manual_seed(0)
    scores = torch.randn(8, 30, generator=random)
    labels = torch.randint(5, (8, 30), generator=random).float()
    order = torch.randperm(30, generator=random)
    metric = metrics.get(name)
    same(
        metric(scores[:, order], labels[:, order], reduction="none"), metric(scores, labels, reduction="none")
    )


@pytest.mark.parametrize("name", METRICS)
def test_only_the_order_of_the_scores_matters(name):
    scores, labels, mask = as_padded(some_lists())
    metric = metrics.get(name)
    value = metric(scores.clamp(max=1e3), labels, mask=mask)
    same(metric(scores.clamp(max=1e3) * 1e27 - 1e28, labels, mask=mask), value)


@pytest.mark.parametrize("name", [name for name in METRICS if name != "precision"])
def test_the_best_order_is_best_and_the_worst_is_worst(name):
    random = torch.Generator().manual_seed(0)
    labels = torch.randint(5, (50, 12), generator=random).float()
    metric = metrics.get(name)
    best, worst = metric(labels, labels), metric(-labels, labels)
    value = metric(torch.randn(50, 12, generator=random), labels)
    assert worst > value > best if metric.lower_is_better else worst < value < best
    if name in ("ndcg", "ndcg@5", "mrr", "ap", "hit_rate@2", "opa"):
        same(metric(labels, labels, reduction="none"), torch.ones(50))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", METRICS)
def test_precisions(name, dtype):
    scores, labels, mask = as_padded(some_lists())
    scores = scores.clamp(max=100)
    value = metrics.get(name)(scores.to(dtype), labels.to(dtype), mask=mask)
    assert value.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    same(value.float(), metrics.get(name)(scores, labels, mask=mask))


@pytest.mark.parametrize("name", METRICS)
def test_integer_and_boolean_labels(name):
    scores = torch.randn(6, 9, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(54).view(6, 9) % 2
    value = metrics.get(name)(scores, labels.float())
    same(metrics.get(name)(scores, labels), value)
    same(metrics.get(name)(scores, labels.bool()), value)


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("shape", [(0, 5), (2, 0), (0,), (0, 0), (2, 0, 3)])
def test_empty_batches_and_lists(name, shape):
    metric = metrics.get(name)
    per_list = metric(torch.zeros(shape), torch.zeros(shape), reduction="none")
    assert per_list.shape == shape[:-1]
    assert per_list.isnan().all()
    assert metric(torch.zeros(shape), torch.zeros(shape)).isnan()
    assert metric(torch.zeros(0), torch.zeros(0), offsets=torch.tensor([0]), reduction="none").shape == (0,)


@pytest.mark.parametrize("name", RANKED)
def test_of_ranked_is_differentiable_also_on_blank_lists(name):
    metric = metrics.get(name)
    random = torch.Generator().manual_seed(0)
    labels = torch.randint(5, (5, 6), generator=random).double()
    labels[0] = 0
    mask = torch.ones(5, 6, dtype=torch.bool)
    mask[1] = False
    values = torch.where(mask, metric.item_values(labels), 0)
    normaliser = metric.normaliser(values, mask)
    ranked = values[:, : metric.ranks(6)].clone().requires_grad_()
    value = metric.of_ranked(ranked, normaliser)
    value.sum().backward()
    assert value.isfinite().all()
    assert ranked.grad.isfinite().all()
    relaxed = (torch.rand(5, metric.ranks(6), generator=random, dtype=torch.float64) * 0.9).requires_grad_()
    assert torch.autograd.gradcheck(lambda r: metric.of_ranked(r, normaliser), (relaxed,))


@pytest.mark.parametrize("name", RANKED)
def test_hard_values_through_of_ranked_are_the_metric(name):
    metric = metrics.get(name)
    assert isinstance(metric, Metric)
    random = torch.Generator().manual_seed(0)
    scores, labels = torch.randn(7, 15, generator=random), torch.randint(5, (7, 15), generator=random).float()
    values = metric.item_values(labels)
    permutation = torch.nn.functional.one_hot(scores.argsort(descending=True), 15).float()
    ranked = (permutation @ values[:, :, None])[:, : metric.ranks(15), 0]
    value = metric.of_ranked(ranked, metric.normaliser(values, None))
    same(value, metric(scores, labels, reduction="none"))
    assert metric.loss(value).shape == (7,)


@pytest.mark.parametrize("name", RANKED)
def test_compiled_equals_eager(name):
    metric = metrics.get(name)
    scores, labels, mask = as_padded(some_lists())
    torch.compiler.reset()
    compiled = torch.compile(lambda s, y, m: metric(s, y, mask=m), backend="aot_eager", fullgraph=True)
    same(compiled(scores, labels, mask), metric(scores, labels, mask=mask))


@pytest.mark.parametrize("name", METRICS)
def test_nan_that_nobody_looked_at_comes_out_as_nan(name):
    labels = torch.tensor([[1.0, 0.0, 0.0]] * 3)
    scores = torch.tensor([[3.0, 2.0, math.nan], [3.0, 2.0, 1.0], [math.nan, 2.0, 1.0]])
    metric = metrics.get(name)
    per_list = metric(scores, labels, reduction="none", check_values=False)
    assert per_list.isnan().tolist() == [True, False, True]
    assert metric(scores, labels, check_values=False).isnan()


@pytest.mark.parametrize("ties", ["stable", "pessimistic", "average"])
@pytest.mark.parametrize("grades", [2, 5, 16, 60, 10**6])
def test_opa_counts_the_pairs(grades, ties):
    random = torch.Generator().manual_seed(0)
    scores = torch.randint(30, (6, 200), generator=random).float()
    labels = torch.randint(grades, (6, 200), generator=random).float() - grades // 2
    mask = torch.rand(6, 200, generator=random) < 0.8
    mask[0, 1:] = False
    expected = []
    for s, y, m in zip(scores, labels, mask, strict=True):
        s, y = s[m], y[m]
        better = y[:, None] > y[None, :]
        in_front = torch.arange(len(s))[:, None] < torch.arange(len(s))
        of_tied = {"stable": in_front, "pessimistic": 0, "average": 0.5}[ties]
        right = (s[:, None] > s[None, :]).float() + (s[:, None] == s[None, :]) * of_tied
        expected.append((right * better).sum() / better.sum())
    same(metrics.OPA(ties=ties)(scores, labels, mask=mask, reduction="none"), torch.stack(expected))


@pytest.mark.parametrize("name", ["ndcg@3", "precision@2", "mrr@1"])
@pytest.mark.parametrize("distinct", [1, 3, 40, 10_000])
def test_selecting_the_first_ranks_keeps_the_order_of_ties(name, distinct):
    random = torch.Generator().manual_seed(0)
    scores = torch.randint(distinct, (300, 50), generator=random).float()
    scores = torch.where(scores == 0, -0.0 * (torch.rand(300, 50, generator=random) < 0.5), scores)
    labels = torch.randint(5, (300, 50), generator=random).float()
    mask = torch.rand(300, 50, generator=random) < torch.rand(300, 1, generator=random)
    metric = metrics.get(name)
    order = scores.masked_fill(~mask, -1).sort(descending=True, stable=True).indices
    # Distinct scores in that order have no ties to break.
    distinct_scores = torch.empty_like(scores).scatter(1, order, -torch.arange(50.0).expand(300, 50))
    same(
        metric(scores, labels, mask=mask, reduction="none"),
        metric(distinct_scores, labels, mask=mask, reduction="none"),
    )


@pytest.mark.parametrize("name", METRICS)
def test_the_average_over_ties_is_the_mean_over_all_orders(name):
    random = torch.Generator().manual_seed(0)
    metric, stable = metrics.get(name, ties="average"), metrics.get(name, ties="stable")
    orders = torch.tensor(list(permutations(range(6))))
    for q in range(12):
        scores = torch.randint(1 + q % 4, (6,), generator=random).double()
        labels = torch.randint(5, (6,), generator=random).sub(q % 3).clamp(min=0).double()
        labels[q % 6] = 2
        labels[(q + 1) % 6] = 0
        # Every order of the input, with the input's order at ties, is every order of each group equally often.
        expected = stable(scores[orders], labels[orders])
        same(metric(scores, labels), expected)
