"""Sums over the pairs of a list in which one item has the higher label."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from pirank.losses.blocked import most, row_blocks, with_gradient

PairPenalty = Callable[[Tensor], tuple[Tensor, Tensor]]
"""The penalty of a pair and its derivative, from its margin: the better item's score less the other's."""

PairWeight = Callable[[Sequence[Tensor], Sequence[Tensor]], Tensor]
"""The weight of pairs, the same for (i, j) and (j, i), from what is known of one item and of the other."""


def logistic(margin: Tensor) -> tuple[Tensor, Tensor]:
    """log(1 + e^−margin)."""
    return -F.logsigmoid(margin), -torch.sigmoid(-margin)


def hinge(margin: Tensor) -> tuple[Tensor, Tensor]:
    """max(0, 1 − margin)."""
    return F.relu(1 - margin), -(margin < 1).to(margin.dtype)


def sum_over_pairs(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor | None,
    penalty: PairPenalty,
    weight: PairWeight | None = None,
    known: Sequence[Tensor] = (),
    first: Tensor | None = None,
    rows: int | None = None,
) -> Tensor:
    """Σ w_ij · penalty(s_i − s_j) over the pairs with y_i > y_j, ``[B]``; the weights are not differentiated.

    Each pair is met once, in the row of whichever item comes earlier in an order of the items.

    Args:
        scores: ``[B, L]``.
        labels: ``[B, L]``.
        mask: ``[B, L]`` or None.
        penalty: what a pair costs.
        weight: what a pair weighs; None: 1.
        known: what ``weight`` knows of an item, ``[B, L]`` each.
        first: ``[B, L]``, the order: only pairs with an item among its first ``rows`` count. None: by label,
            in which only items above the list's lowest label need a row.
        rows: how many rows, with ``first``.
    """
    # An absent item compares as neither above nor below any other.
    labels = labels if mask is None else labels.masked_fill(~mask, float("nan"))
    if first is None:
        order, rows = _by_label(labels)
    else:
        order, rows = first, min(rows or 0, scores.shape[-1])
    by_label = first is None
    labels = labels.gather(-1, order)
    known = [value.gather(-1, order) for value in known]

    def compute(scores: Tensor, wanted: bool) -> tuple[Tensor, Tensor | None]:
        scores = scores.gather(-1, order)
        total = scores.new_zeros(scores.shape[0])
        gradient = torch.zeros_like(scores) if wanted else None
        position = torch.arange(scores.shape[-1], device=scores.device)
        for start, stop in row_blocks(scores, rows):
            row, rest = slice(start, stop), slice(start, None)
            margin = scores[:, row, None] - scores[:, None, rest]
            counts = labels[:, row, None] > labels[:, None, rest]
            sign = None
            if not by_label:
                below = labels[:, row, None] < labels[:, None, rest]
                sign = counts.to(scores.dtype) - below.to(scores.dtype)
                margin = margin * sign
                counts = (counts | below) & (position[row, None] < position[None, rest])
            cost, slope = penalty(margin)
            factor = counts.to(scores.dtype)
            if weight is not None:
                factor = factor * weight(
                    [value[:, row, None] for value in known], [value[:, None, rest] for value in known]
                )
            total = total + (cost * factor).sum((1, 2))
            if gradient is not None:
                slope = slope * factor if sign is None else slope * factor * sign
                gradient[:, row] += slope.sum(2)
                gradient[:, rest] -= slope.sum(1)
        if gradient is not None:
            gradient = torch.empty_like(gradient).scatter_(-1, order, gradient)
        return total, gradient

    return with_gradient(scores, compute)


def count_pairs(labels: Tensor, mask: Tensor | None) -> Tensor:
    """How many pairs of a list have different labels, ``[B]``."""
    present = torch.ones_like(labels) if mask is None else mask.to(labels.dtype)
    # A tie group of m items lacks m(m − 1)/2 of the n(n − 1)/2 pairs: Σ over its items of (m − 1)/2.
    lowest_first = (labels if mask is None else labels.masked_fill(~mask, float("inf"))).sort(-1).values
    labels = labels.contiguous()
    tied = torch.searchsorted(lowest_first, labels, right=True) - torch.searchsorted(lowest_first, labels)
    items = present.sum(-1)
    return (items * (items - 1) - ((tied - 1) * present).sum(-1)) / 2


def _by_label(labels: Tensor) -> tuple[Tensor, int]:
    """Items by falling label, absent ones (NaN) last, and how many of them can be the better of a pair."""
    keys = labels.nan_to_num(nan=float("-inf"))
    order = keys.argsort(dim=-1, descending=True, stable=True)
    lowest = labels.nan_to_num(nan=float("inf")).amin(-1, keepdim=True) if labels.shape[-1] else labels
    return order, most((labels > lowest).sum(-1), labels.shape[-1])
