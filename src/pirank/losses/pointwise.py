"""Losses that look at each item alone: the mean over a list's items."""

from __future__ import annotations

import torch
from torch import Tensor

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
        scores: ``[..., list_size]``, or ``[items]`` with ``offsets``.
        labels: the same shape as ``scores``.
        mask: True at the items that are there, the same shape as ``scores``.
        offsets: ``[lists + 1]`` boundaries of flat lists.
        weights: one non-negative number a list.
        reduction: ``"mean"`` over lists, ``"sum"`` or ``"none"``.
        empty: lists without a relevant item are left out of the mean (``"skip"``) or count as 0 (``"zero"``).

    Example:
        >>> mse_loss(torch.tensor([3.0, 1.0]), torch.tensor([1.0, 0.0]))
        tensor(2.5000)
    """
    return list_loss(
        lambda s, y, m: _mean_over_items((s - y).square(), m),
        scores,
        labels,
        mask=mask,
        offsets=offsets,
        weights=weights,
        reduction=reduction,
        empty=empty,
    )


def _mean_over_items(values: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return values.sum(-1) / max(values.shape[-1], 1)
    return torch.where(mask, values, 0).sum(-1) / mask.sum(-1).clamp(min=1)


class MSELoss(ListLoss, function=mse_loss):
    """:func:`mse_loss` as a module."""
