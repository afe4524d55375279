"""Losses that look at each item alone: the mean over a list's items."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from pirank.lists import check_scores, in_full_precision
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
        \ell(s, y) = -\frac1L \sum_i \sum_{t=1}^{n} \bigl[\mathbb 1(y_i \ge t) \log \sigma(s_{it})
        + \mathbb 1(y_i < t) \log(1 - \sigma(s_{it}))\bigr]

    A network may give n logits an item, as for TF-Ranking and allRank, ``scores [..., L, n]``; the items are then
    ranked by the sum of their σ(s). Or it gives one score an item, ``scores [..., L]``, and s_it = s_i − t + ½: a
    score stands for the label nearest to it, with thresholds between the levels at ½, 1½, …, n − ½.

    Args:
        scores: ``[..., L]`` or ``[..., L, levels]``; with ``offsets``, ``[N]`` or ``[N, levels]``.
        labels, mask, offsets, weights, reduction, empty: as in :func:`~pirank.losses.list_loss`.
        levels: n, the highest label.

    Example:
        >>> ordinal_loss(torch.tensor([2.0, 0.0]), torch.tensor([2.0, 0.0]), levels=2)
        tensor(0.6755)

    References:
        Niu, Zhou, Wang, Gao, Hua: Ordinal regression with multiple output CNN for age estimation, CVPR 2016.
        Pobrotyn, Bartczak, Synowiec, Białobrzeski, Bojar: Context-aware learning to rank with self-attention, 2020.
    """
    if isinstance(levels, bool) or not isinstance(levels, int) or levels < 1:
        raise ValueError(f"levels must be a whole number of at least 1, the highest label: got {levels!r}")
    several = isinstance(labels, Tensor) and isinstance(scores, Tensor) and scores.dim() == labels.dim() + 1
    if several:
        if scores.shape != (*labels.shape, levels):
            raise ValueError(
                f"scores must be one number an item, {list(labels.shape)}, or one for each of {levels} levels, "
                f"{[*labels.shape, levels]}: got {list(scores.shape)}; levels= is the highest label"
            )
        check_scores(scores)
        scores = in_full_precision(scores)
        if mask is not None:
            # What stands at absent items may be anything, and 0 · NaN would reach the gradient.
            scores = torch.where(mask[..., None], scores, 0)
        scores = _cost_of_levels(scores, labels, levels)

    def per_list(scores: Tensor, labels: Tensor, mask: Tensor | None) -> Tensor:
        if several:
            return _mean_over_items(scores, mask)
        level = torch.arange(1, levels + 1, dtype=scores.dtype, device=scores.device)
        return _mean_over_items(_cost_of_levels(scores[..., None] - level + 0.5, labels, levels), mask)

    return list_loss(
        per_list, scores, labels,
        mask=mask, offsets=offsets, weights=weights, reduction=reduction, empty=empty,
    )  # fmt: skip


def _cost_of_levels(logits: Tensor, labels: Tensor, levels: int) -> Tensor:
    """An item's cross-entropies, summed over the levels: ``[..., levels]`` and ``[...]`` to ``[...]``."""
    level = torch.arange(1, levels + 1, device=labels.device)
    return _cross_entropy(logits, (labels[..., None] >= level).to(logits.dtype)).sum(-1)


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
