"""Ordered pair accuracy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pirank.metrics.per_list import ListMetric

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pirank.metrics.conventions import Rules

# Beyond so many distinct labels, comparing all pairs is the cheaper way.
_MANY_GRADES = 64
_PAIRS_AT_ONCE = 1 << 24


class OPA(ListMetric):
    r"""Ordered pair accuracy: the share of the pairs with different labels that the scores put in order.

    .. math:: \mathrm{OPA} = \frac{|\{(i, j) : y_i > y_j,\ s_i > s_j\}|}{|\{(i, j) : y_i > y_j\}|}

    A metric of pairs, not of values in rank order, so it has no relaxed form here. A list without a pair of
    different labels is blank.

    Args:
        rules: ``average``, ``empty``, ``seed``, ``convention``; see :class:`ListMetric`. ``ties`` is
            ``"pessimistic"`` by default: a pair with equal scores is wrong, ``"average"`` counts it half, and
            ``"stable"`` and ``"random"`` put it in the input's, or a random, order.

    Example:
        >>> OPA()(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([1.0, 2.0, 0.0]))
        tensor(0.6667)
    """

    key = "opa"
    linear = True

    def __init__(self, **rules: Unpack[Rules]) -> None:
        super().__init__(None, **rules)

    def per_list(
        self, scores: Tensor, labels: Tensor, mask: Tensor | None, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        if mask is None:
            mask = torch.ones_like(scores, dtype=torch.bool)
        keys, order = scores.masked_fill(~mask, float("-inf")).sort(dim=-1, descending=True, stable=True)
        if self.ties == "random":
            shuffle = torch.rand(keys.shape, generator=generator, device=keys.device).argsort(dim=-1)
            again = keys.gather(-1, shuffle).argsort(dim=-1, descending=True, stable=True)
            order = order.gather(-1, shuffle.gather(-1, again))
        labels, present = labels.gather(-1, order), mask.gather(-1, order)
        rank = torch.arange(keys.shape[-1], device=keys.device).expand_as(order)
        if self.ties in ("stable", "random"):
            first, last = rank, rank + 1
        else:
            first, last = _tie_groups(keys, rank)
        grades = labels.unique()
        count = _count_by_grade if grades.numel() <= _MANY_GRADES else _count_by_pair
        above, tied, pairs = count(labels, present, first, last, grades)
        right = above + tied / 2 if self.ties == "average" else above
        return right / torch.where(pairs > 0, pairs, 1), pairs, pairs > 0


def _tie_groups(keys: Tensor, rank: Tensor) -> tuple[Tensor, Tensor]:
    """The first rank of each item's ties, and the first rank after them, from scores in descending order."""
    length = keys.shape[-1]
    starts = torch.ones_like(keys, dtype=torch.bool)
    starts[:, 1:] = keys[:, 1:] != keys[:, :-1]
    first = torch.where(starts, rank, 0).cummax(-1).values if length else rank
    ends = torch.ones_like(starts)
    ends[:, :-1] = starts[:, 1:]
    last = torch.where(ends, rank + 1, length).flip(-1).cummin(-1).values.flip(-1) if length else rank
    return first, last


def _count_by_grade(
    labels: Tensor, present: Tensor, first: Tensor, last: Tensor, grades: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs in order, pairs tied and all pairs of different labels, one grade of the worse item at a time."""
    above = tied = pairs = labels.new_zeros(labels.shape[0])
    for grade in grades:
        better = ((labels > grade) & present).to(labels.dtype)
        worse = ((labels == grade) & present).to(labels.dtype)
        # before[r]: how many better items stand at the first r ranks.
        before = torch.nn.functional.pad(better.cumsum(-1), (1, 0))
        at_first, at_last = before.gather(-1, first), before.gather(-1, last)
        above = above + (worse * at_first).sum(-1)
        tied = tied + (worse * (at_last - at_first)).sum(-1)
        pairs = pairs + worse.sum(-1) * better.sum(-1)
    return above, tied, pairs


def _count_by_pair(
    labels: Tensor, present: Tensor, first: Tensor, last: Tensor, grades: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The same from all pairs, in blocks that bound the memory."""
    lists, length = labels.shape
    rank = torch.arange(length, device=labels.device)
    above = tied = pairs = labels.new_zeros(lists)
    block = max(1, _PAIRS_AT_ONCE // max(1, lists * length))
    for start in range(0, length, block):
        part = slice(start, start + block)
        pair = (labels[:, part, None] < labels[:, None, :]) & present[:, part, None] & present[:, None, :]
        is_above = rank < first[:, part, None]
        is_tied = ~is_above & (rank < last[:, part, None])
        above = above + (pair & is_above).sum((-1, -2))
        tied = tied + (pair & is_tied).sum((-1, -2))
        pairs = pairs + pair.sum((-1, -2))
    return above, tied, pairs
