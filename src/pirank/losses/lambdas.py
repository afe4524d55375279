"""Pairwise losses in which a pair weighs what swapping its two items would do to a metric."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pirank.lists import check_choice, check_k
from pirank.losses.base import ListLoss, list_loss
from pirank.losses.pairs import logistic, sum_over_pairs
from pirank.losses.swaps import change_of_metric, discount, metric_to_swap_in, ranking
from pirank.metrics import NDCG, Metric


def lambdarank_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    k: int | None = 10,
    metric: str | Metric = "ndcg",
    mask: Tensor | None = None,
    offsets: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "mean",
    empty: str = "skip",
) -> Tensor:
    r"""LambdaRank: RankNet with each pair weighed by what swapping its items would change in a metric.

    .. math::
        \ell(s, y) = \sum_{i, j} \mathbb 1(y_i > y_j)\,
        \bigl|\Delta\mathrm{NDCG@}k(i, j)\bigr| \log\bigl(1 + e^{-(s_i - s_j)}\bigr)

    The swap is of the two items at their current ranks (ties in the scores keep the input's order); its
    weight is not differentiated. Pairs with both items below rank k weigh nothing, so with a cutoff the loss
    takes O(kL).

    Args:
        scores, labels, mask, offsets, weights, reduction, empty: as in :func:`~pirank.losses.list_loss`.
        k: the metric's cutoff; None: the whole list.
        metric: ``"ndcg"``, ``"dcg"``, ``"precision"``, ``"recall"``, ``"rbp"``, ``"ap"`` (average precision),
            ``"mrr"`` or ``"arp"`` (with ``k=None``); or such a metric with options and a cutoff of its own, as
            ``NDCG(k=5, gain="linear")``.

    Example:
        >>> lambdarank_loss(torch.tensor([2.0, 1.0, 3.0]), torch.tensor([1.0, 0.0, 0.0]))
        tensor(0.5257)

    References:
        Burges, Ragno, Le: Learning to rank with nonsmooth cost functions, NeurIPS 2006.
    """
    check_k(k)
    chosen = metric_to_swap_in(metric, k)
    return list_loss(
        lambda s, y, m: _lambdarank(s, y, m, chosen), scores, labels, relevant=lambda y: chosen.values_of(y) > 0,
        mask=mask, offsets=offsets, weights=weights, reduction=reduction, empty=empty,
    )  # fmt: skip


def lambdaloss(
    scores: Tensor,
    labels: Tensor,
    *,
    scheme: str = "ndcg2++",
    k: int | None = None,
    mu: float = 10.0,
    mask: Tensor | None = None,
    offsets: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "mean",
    empty: str = "skip",
) -> Tensor:
    r"""LambdaLoss: NDCG-Loss2 and NDCG-Loss2++, a tighter bound on NDCG than LambdaRank's.

    .. math::
        \ell(s, y) = \sum_{i, j} \mathbb 1(y_i > y_j)\, w_{ij} \log\bigl(1 + e^{-(s_i - s_j)}\bigr), \qquad
        w^{\text{2}}_{ij} = |G_i - G_j|\, |D(|r_i - r_j|) - D(|r_i - r_j| + 1)|, \qquad
        w^{\text{2++}}_{ij} = \mu\, w^{\text{2}}_{ij} + |G_i - G_j|\, |D(r_i) - D(r_j)|

    with G the gain over the ideal DCG, D(r) = 1/log2(1 + r), and r the current ranks; not differentiated.

    Args:
        scores, labels, mask, offsets, weights, reduction, empty: as in :func:`~pirank.losses.list_loss`.
        scheme: ``"ndcg2"`` or ``"ndcg2++"``.
        k: optimise NDCG@k: in w² a pair whose lower item is at rank r > k weighs 1/(1 − D(r)) times as much,
            and in the second term of w²⁺⁺ discounts end at k.
        mu: μ, the share of w² in w²⁺⁺.

    Example:
        >>> lambdaloss(torch.tensor([2.0, 1.0, 3.0]), torch.tensor([1.0, 0.0, 0.0]), scheme="ndcg2")
        tensor(0.6003)

    References:
        Wang, Li, Golbandi, Bendersky, Najork: The LambdaLoss framework for ranking metric optimization, CIKM
        2018.
        Jagerman, Qin, Wang, Bendersky, Najork: On optimizing top-k metrics for neural ranking models, SIGIR
        2022.
    """
    check_k(k)
    check_choice("scheme", scheme, ("ndcg2", "ndcg2++"))
    if not 0 <= mu < float("inf"):
        raise ValueError(f"mu must be a finite number of at least 0, got {mu}")
    return list_loss(
        lambda s, y, m: _lambdaloss(s, y, m, k, mu, scheme == "ndcg2++"),
        scores, labels,
        mask=mask, offsets=offsets, weights=weights, reduction=reduction, empty=empty,
    )  # fmt: skip


class LambdaRankLoss(ListLoss, function=lambdarank_loss):
    """:func:`lambdarank_loss` as a module."""


class LambdaLoss(ListLoss, function=lambdaloss):
    """:func:`lambdaloss` as a module."""


def _lambdarank(scores: Tensor, labels: Tensor, mask: Tensor | None, metric: Metric) -> Tensor:
    order, ranks = ranking(scores, mask)
    weight, known = change_of_metric(metric, labels, mask, ranks)
    if metric.k is None or metric.k >= scores.shape[-1]:
        return sum_over_pairs(scores, labels, mask, logistic, weight, known)
    return sum_over_pairs(scores, labels, mask, logistic, weight, known, first=order, rows=metric.k)


def _lambdaloss(
    scores: Tensor, labels: Tensor, mask: Tensor | None, k: int | None, mu: float, plus_plus: bool
) -> Tensor:
    _, ranks = ranking(scores, mask)
    _, (gains, discounts) = change_of_metric(NDCG(k=k), labels, mask, ranks)

    def weight(one: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:
        apart = (one[1] - other[1]).abs().clamp_(min=1)
        result = discount(apart) - discount(apart + 1)
        if k is not None:
            lower = torch.maximum(one[1], other[1]).clamp_(min=2)
            result = torch.where(lower > k, result / (1 - discount(lower)), result)
        if plus_plus:
            result = mu * result + (one[2] - other[2]).abs()
        return result * (one[0] - other[0]).abs()

    return sum_over_pairs(scores, labels, mask, logistic, weight, (gains, ranks, discounts))
