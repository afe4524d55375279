"""What swapping two items at their current ranks would change in a metric, from a few numbers of each item."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pirank.losses.pairs import PairWeight
from pirank.metrics import NDCG

METRICS = ("ndcg", "dcg", "precision", "ap", "mrr", "arp")


def ranking(scores: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """The items in rank order and each item's rank from 1, ``[B, L]`` each; absent items come last."""
    keys = scores.detach() if mask is None else scores.detach().masked_fill(~mask, float("-inf"))
    order = keys.argsort(dim=-1, descending=True, stable=True)
    position = torch.arange(1, keys.shape[-1] + 1, dtype=keys.dtype, device=keys.device)
    return order, torch.empty_like(keys).scatter_(-1, order, position.expand_as(keys))


def change_of_metric(
    metric: str, labels: Tensor, mask: Tensor | None, ranks: Tensor, k: int | None
) -> tuple[PairWeight, tuple[Tensor, ...]]:
    """How much a swap would change the metric, and what that needs to know of an item, ``[B, L]`` each."""
    if metric == "mrr":
        return _change_of_reciprocal_rank, _reciprocal_rank_terms(labels, ranks, k)
    if metric == "ap":
        return _change_of_average_precision, _average_precision_terms(labels, ranks, k)
    return _change_of_gain_times_discount, gain_and_discount(metric, labels, mask, ranks, k)


def discount(ranks: Tensor) -> Tensor:
    """1/log2(1 + rank)."""
    return 1 / torch.log2(1 + ranks)


def gain_and_discount(
    metric: str, labels: Tensor, mask: Tensor | None, ranks: Tensor, k: int | None
) -> tuple[Tensor, Tensor]:
    """The two factors whose product, summed over the items, is the metric."""
    if metric == "arp":
        return labels / _above_zero(labels.sum(-1, keepdim=True)), ranks
    if metric == "precision" and k is not None:
        return (labels > 0).to(labels.dtype), (ranks <= k).to(ranks.dtype) / k
    ndcg = NDCG(k=k)
    gains = ndcg.item_values(labels)
    if metric == "ndcg":
        gains = gains / _above_zero(ndcg.normaliser(gains, mask)[:, None])
    return gains, discount(ranks) * _seen(ranks, k)


def _change_of_gain_times_discount(one: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:
    """|ΔM| = |(G_i − G_j)(D_i − D_j)|."""
    return ((one[0] - other[0]) * (one[1] - other[1])).abs_()


def _reciprocal_rank_terms(labels: Tensor, ranks: Tensor, k: int | None) -> tuple[Tensor, ...]:
    """Of an item: is it relevant, its rank, the best rank of the others that are, of all that are, and k."""
    relevant = labels > 0
    of_relevant = torch.where(relevant, ranks, float("inf"))
    first = of_relevant.amin(-1, keepdim=True)
    second = torch.where(ranks == first, float("inf"), of_relevant).amin(-1, keepdim=True)
    others = torch.where(ranks == first, second, first)
    cutoff = torch.full_like(ranks, float("inf") if k is None else k)
    return relevant.to(ranks.dtype), ranks, others, first.expand_as(ranks), cutoff


def _change_of_reciprocal_rank(one: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:
    """|ΔMRR|: the relevant one of two items goes to the other's rank; the first of all that are counts."""
    relevant, rank, others, first, cutoff = one
    moved = torch.where(relevant > 0, torch.minimum(other[1], others), torch.minimum(rank, other[2]))
    change = (moved.reciprocal() * (moved <= cutoff) - first.reciprocal() * (first <= cutoff)).abs()
    return change * (relevant != other[0])


def _average_precision_terms(labels: Tensor, ranks: Tensor, k: int | None) -> tuple[Tensor, ...]:
    """Of an item at rank r: is it relevant, 1/r, how many are relevant and Σ 1/rank of those, up to r.

    1/r counts up to rank k only, and the last two are over the number of relevant items.
    """
    relevant = (labels > 0).to(ranks.dtype)
    reciprocal = ranks.reciprocal() * _seen(ranks, k)
    order = ranks.argsort(-1)
    total = _above_zero(relevant.sum(-1, keepdim=True))
    place = ranks.long() - 1
    count = relevant.gather(-1, order).cumsum(-1).gather(-1, place)
    inverse = (relevant * reciprocal).gather(-1, order).cumsum(-1).gather(-1, place)
    return relevant, reciprocal, count / total, inverse / total, ranks, total.reciprocal().expand_as(ranks)


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


def _seen(ranks: Tensor, k: int | None) -> Tensor | float:
    """1 up to rank k, 0 beyond."""
    return 1.0 if k is None else (ranks <= k).to(ranks.dtype)


def _above_zero(normaliser: Tensor) -> Tensor:
    return torch.where(normaliser > 0, normaliser, 1)
