"""What swapping two items at their current ranks would change in a metric, from a few numbers of each item."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pirank import metrics
from pirank.lists import check_choice
from pirank.losses.pairs import PairWeight
from pirank.metrics import ARP, DCG, MRR, RBP, AveragePrecision, Metric, Precision, Recall

METRICS = ("ndcg", "dcg", "precision", "recall", "rbp", "ap", "mrr", "arp")


def metric_to_swap_in(metric: str | Metric, k: int | None) -> Metric:
    """The metric of that name, cut at k, or the metric itself, if what a swap changes in it is known."""
    if isinstance(metric, (DCG, Precision, Recall, RBP, AveragePrecision, MRR, ARP)):
        return metric
    if not isinstance(metric, str):
        raise ValueError(f"metric must be one of {', '.join(METRICS)}, or such a metric: got {metric!r}")
    check_choice("metric", metric, METRICS)
    if metric == "arp" and k is not None:
        raise ValueError(f"k must be None with metric='arp', which looks at the whole list: got k={k}")
    if metric in ("precision", "recall") and k is None:
        raise ValueError(f"k must be given with metric={metric!r}: no swap changes that of the whole list")
    chosen = metrics.get(metric, k=k)
    assert isinstance(chosen, Metric)
    return chosen


def ranking(scores: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """The items in rank order and each item's rank from 1, ``[B, L]`` each; absent items come last."""
    keys = scores.detach() if mask is None else scores.detach().masked_fill(~mask, float("-inf"))
    order = keys.argsort(dim=-1, descending=True, stable=True)
    position = torch.arange(1, keys.shape[-1] + 1, dtype=keys.dtype, device=keys.device)
    return order, torch.empty_like(keys).scatter_(-1, order, position.expand_as(keys))


def change_of_metric(
    metric: Metric, labels: Tensor, mask: Tensor | None, ranks: Tensor
) -> tuple[PairWeight, tuple[Tensor, ...]]:
    """How much a swap would change the metric, and what that needs to know of an item, ``[B, L]`` each."""
    values = metric.item_values(labels)
    if isinstance(metric, MRR):
        return _change_of_reciprocal_rank, _reciprocal_rank_terms(values, ranks, metric.k)
    normaliser = metric.normaliser(values, mask)[:, None]
    if isinstance(metric, AveragePrecision):
        return _change_of_average_precision, _average_precision_terms(values, normaliser, ranks, metric.k)
    gains = values / torch.where(normaliser > 0, normaliser, 1)
    return _change_of_gain_times_discount, (gains, _weight_of_rank(metric, ranks) * seen(ranks, metric.k))


def discount(ranks: Tensor) -> Tensor:
    """1/log2(1 + rank)."""
    return 1 / torch.log2(1 + ranks)


def seen(ranks: Tensor, k: int | None) -> Tensor | float:
    """1 up to rank k, 0 beyond."""
    return 1.0 if k is None else (ranks <= k).to(ranks.dtype)


def _weight_of_rank(metric: Metric, ranks: Tensor) -> Tensor:
    """D of a metric that is Σ over the items of G · D(rank)."""
    if isinstance(metric, DCG):
        return discount(ranks)
    if isinstance(metric, RBP):
        return (1 - metric.persistence) * metric.persistence ** (ranks - 1)
    return ranks if isinstance(metric, ARP) else torch.ones_like(ranks)


def _change_of_gain_times_discount(one: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:
    """|ΔM| = |(G_i − G_j)(D_i − D_j)|."""
    return ((one[0] - other[0]) * (one[1] - other[1])).abs_()


def _reciprocal_rank_terms(relevant: Tensor, ranks: Tensor, k: int | None) -> tuple[Tensor, ...]:
    """Of an item: is it relevant, its rank, the best rank of the others that are, of all that are, and k."""
    of_relevant = torch.where(relevant > 0, ranks, float("inf"))
    first = of_relevant.amin(-1, keepdim=True)
    second = torch.where(ranks == first, float("inf"), of_relevant).amin(-1, keepdim=True)
    others = torch.where(ranks == first, second, first)
    cutoff = torch.full_like(ranks, float("inf") if k is None else k)
    return relevant, ranks, others, first.expand_as(ranks), cutoff


def _change_of_reciprocal_rank(one: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:
    """|ΔMRR|: the relevant one of two items goes to the other's rank; the first of all that are counts."""
    relevant, rank, others, first, cutoff = one
    moved = torch.where(relevant > 0, torch.minimum(other[1], others), torch.minimum(rank, other[2]))
    change = (moved.reciprocal() * (moved <= cutoff) - first.reciprocal() * (first <= cutoff)).abs()
    return change * (relevant != other[0])


def _average_precision_terms(
    relevant: Tensor, normaliser: Tensor, ranks: Tensor, k: int | None
) -> tuple[Tensor, ...]:
    """Of an item at rank r: is it relevant, 1/r, how many are relevant and Σ 1/rank of those, up to r.

    1/r counts up to rank k only, and the last two are over the normaliser, as is the 1 of one more item.
    """
    reciprocal = ranks.reciprocal() * seen(ranks, k)
    order = ranks.argsort(-1)
    share = torch.where(normaliser > 0, normaliser, 1).reciprocal()
    place = ranks.long() - 1
    count = relevant.gather(-1, order).cumsum(-1).gather(-1, place)
    inverse = (relevant * reciprocal).gather(-1, order).cumsum(-1).gather(-1, place)
    return relevant, reciprocal, count * share, inverse * share, ranks, share.expand_as(ranks)


def _change_of_average_precision(one: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:
    """|ΔAP|: a relevant item moves from rank a to b, and each relevant one between them counts one more, or less."""
    one_is_it = one[0] > other[0]
    _, at_a, count_a, inverse_a, a, share = (
        torch.where(one_is_it, x, y) for x, y in zip(one, other, strict=True)
    )
    _, at_b, count_b, inverse_b, b, _ = (
        torch.where(one_is_it, y, x) for x, y in zip(one, other, strict=True)
    )
    up = (count_b + share) * at_b + (inverse_a - share * at_a) - inverse_b
    down = count_b * at_b - (inverse_b - inverse_a)
    return (torch.where(b < a, up, down) - count_a * at_a).abs() * (one[0] != other[0])
