"""Losses over pairs of items with different labels, all pairs alike."""

from __future__ import annotations

from torch import Tensor

from pirank.losses.base import ListLoss, list_loss
from pirank.losses.pairs import PairPenalty, count_pairs, hinge, logistic, sum_over_pairs


def ranknet_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    average_pairs: bool = False,
    mask: Tensor | None = None,
    offsets: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "mean",
    empty: str = "skip",
) -> Tensor:
    r"""RankNet, the pairwise logistic loss.

    .. math:: \ell(s, y) = \sum_{i, j} \mathbb 1(y_i > y_j) \log\bigl(1 + e^{-(s_i - s_j)}\bigr)

    Args:
        scores, labels, mask, offsets, weights, reduction, empty: as in :func:`~pirank.losses.list_loss`.
        average_pairs: divide a list's sum by its number of pairs, so that a long list weighs no more.

    Example:
        >>> import torch
        >>> ranknet_loss(torch.tensor([2.0, 1.0, 3.0]), torch.tensor([1.0, 0.0, 0.0]))
        tensor(1.6265)

    References:
        Burges et al.: Learning to rank using gradient descent, ICML 2005.
    """
    return list_loss(
        lambda s, y, m: _over_pairs(s, y, m, logistic, average_pairs),
        scores, labels,
        mask=mask, offsets=offsets, weights=weights, reduction=reduction, empty=empty,
    )  # fmt: skip


def pairwise_hinge_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    average_pairs: bool = False,
    mask: Tensor | None = None,
    offsets: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "mean",
    empty: str = "skip",
) -> Tensor:
    r"""The pairwise hinge loss.

    .. math:: \ell(s, y) = \sum_{i, j} \mathbb 1(y_i > y_j) \max\bigl(0, 1 - (s_i - s_j)\bigr)

    Args:
        scores, labels, mask, offsets, weights, reduction, empty: as in :func:`~pirank.losses.list_loss`.
        average_pairs: divide a list's sum by its number of pairs, so that a long list weighs no more.

    Example:
        >>> import torch
        >>> pairwise_hinge_loss(torch.tensor([2.0, 1.0, 3.0]), torch.tensor([1.0, 0.0, 0.0]))
        tensor(2.)

    References:
        Herbrich, Graepel, Obermayer: Large margin rank boundaries for ordinal regression, 2000.
    """
    return list_loss(
        lambda s, y, m: _over_pairs(s, y, m, hinge, average_pairs),
        scores, labels,
        mask=mask, offsets=offsets, weights=weights, reduction=reduction, empty=empty,
    )  # fmt: skip


def _over_pairs(
    scores: Tensor, labels: Tensor, mask: Tensor | None, penalty: PairPenalty, average: bool
) -> Tensor:
    total = sum_over_pairs(scores, labels, mask, penalty)
    return total / count_pairs(labels, mask).clamp(min=1) if average else total


class RankNetLoss(ListLoss, function=ranknet_loss):
    """:func:`ranknet_loss` as a module."""


class PairwiseHingeLoss(ListLoss, function=pairwise_hinge_loss):
    """:func:`pairwise_hinge_loss` as a module."""
