"""Losses that look at each item alone: the mean over a list's items."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from pirank.losses.base import ListLoss, list_loss


def mse_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    mask: Tensor | None = None,
    offsets: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "mean",
    empty: str = "skip",
) -> Tensor:
    r"""Mean squared error.

    .. math:: \ell(s, y) = \frac1L \sum_i (s_i - y_i)^2

    Args:
        scores, labels, mask, offsets, weights, reduction, empty: as in :func:`~pirank.losses.list_loss`.

    Example:
        >>> mse_loss(torch.tensor([3.0, 1.0]), torch.tensor([1.0, 0.0]))
        tensor(2.5000)
    """
    return list_loss(
        lambda s, y, m: _mean_over_items((s - y).square(), m),
        scores, labels,
        mask=mask, offsets=offsets, weights=weights, reduction=reduction, empty=empty,
    )  # fmt: skip


def sigmoid_cross_entropy_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    clip: bool = True,
    mask: Tensor | None = None,
    offsets: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "mean",
    empty: str = "skip",
) -> Tensor:
    r"""Cross-entropy of each item being relevant, with probability σ(s).

    .. math:: \ell(s, y) = -\frac1L \sum_i \bigl[y_i \log \sigma(s_i) + (1 - y_i) \log(1 - \sigma(s_i))\bigr]

    Args:
        scores, labels, mask, offsets, weights, reduction, empty: as in :func:`~pirank.losses.list_loss`.
        clip: clip labels to [0, 1], as Rax does; False takes them as they are, as TF-Ranking does, and has no
            minimum where a label is above 1.

    Example:
        >>> sigmoid_cross_entropy_loss(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.0]))
        tensor(1.0032)
    """

    def per_list(scores: Tensor, labels: Tensor, mask: Tensor | None) -> Tensor:
        labels = labels.clamp(0, 1) if clip else labels
        return _mean_over_items(_cross_entropy(scores, labels), mask)

    return list_loss(
        per_list, scores, labels,
        mask=mask, offsets=offsets, weights=weights, reduction=reduction, empty=empty,
    )  # fmt: skip


def ordinal_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    levels: int = 4,
    mask: Tensor | None = None,
    offsets: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "mean",
    empty: str = "skip",
) -> Tensor:
    r"""Cross-entropies of each item reaching level 1, 2, …, n of relevance.

    .. math::
        \ell(s, y) = -\frac1L \sum_i \sum_{t=1}^{n} \bigl[\mathbb 1(y_i \ge t) \log \sigma(s_i - t + \tfrac12)
        + \mathbb 1(y_i < t) \log(1 - \sigma(s_i - t + \tfrac12))\bigr]

    A score of s stands for the label nearest to s: the thresholds between levels are at ½, 1½, …, n − ½.

    Args:
        scores, labels, mask, offsets, weights, reduction, empty: as in :func:`~pirank.losses.list_loss`.
        levels: n, the highest label.

    Example:
        >>> ordinal_loss(torch.tensor([2.0, 0.0]), torch.tensor([2.0, 0.0]), levels=2)
        tensor(0.6755)

    References:
        Niu, Zhou, Wang, Gao, Hua: Ordinal regression with multiple output CNN for age estimation, CVPR 2016.
        Pobrotyn, Bartczak, Synowiec, Białobrzeski, Bojar: Context-aware learning to rank with self-attention,
        2020.
    """
    if isinstance(levels, bool) or not isinstance(levels, int) or levels < 1:
        raise ValueError(f"levels must be a whole number of at least 1, the highest label: got {levels!r}")

    def per_list(scores: Tensor, labels: Tensor, mask: Tensor | None) -> Tensor:
        total = torch.zeros_like(scores)
        for level in range(1, levels + 1):
            total = total + _cross_entropy(scores - (level - 0.5), (labels >= level).to(scores.dtype))
        return _mean_over_items(total, mask)

    return list_loss(
        per_list, scores, labels,
        mask=mask, offsets=offsets, weights=weights, reduction=reduction, empty=empty,
    )  # fmt: skip


def _mean_over_items(values: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return values.sum(-1) / max(values.shape[-1], 1)
    return torch.where(mask, values, 0).sum(-1) / mask.sum(-1).clamp(min=1)


def _cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(scores, labels, reduction="none")


class MSELoss(ListLoss, function=mse_loss):
    """:func:`mse_loss` as a module."""


class SigmoidCrossEntropyLoss(ListLoss, function=sigmoid_cross_entropy_loss):
    """:func:`sigmoid_cross_entropy_loss` as a module."""


class OrdinalLoss(ListLoss, function=ordinal_loss):
    """:func:`ordinal_loss` as a module."""
