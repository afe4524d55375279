"""Ordered pair accuracy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pirank.metrics.base import lengths_of, over
from pirank.metrics.order import ranked_values
from pirank.metrics.per_list import ListMetric

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pirank.metrics.conventions import Rules

# Up to so many distinct labels, counting grade by grade is the cheaper way.
_FEW_GRADES = 16


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
    averages_ties = True

    def __init__(self, **rules: Unpack[Rules]) -> None:
        super().__init__(None, **rules)

    def per_list(
        self, scores: Tensor, labels: Tensor, mask: Tensor | None, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        length = scores.shape[-1]
        # Absent items stand behind all others.
        present = torch.arange(length, device=scores.device) < lengths_of(scores, mask)[:, None]
        few = labels.unique().numel() <= _FEW_GRADES
        count = _count_by_grade if few else _count_by_bit

        def right_pairs(labels: Tensor, ties: str) -> tuple[Tensor, Tensor]:
            return count(ranked_values(scores, labels, mask, length, ties, generator), present)

        if self.ties == "average":
            right, pairs = right_pairs(labels, "pessimistic")
            # The best order of the ties is the worst for the labels upside down.
            wrong, _ = right_pairs(-labels, "pessimistic")
            right = (right + pairs - wrong) / 2
        else:
            right, pairs = right_pairs(labels, self.ties)
        return over(right, pairs), pairs, pairs > 0


def _count_by_grade(ranked: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs in order, and all pairs of different labels, of labels in rank order: one grade at a time."""
    right = pairs = ranked.new_zeros(ranked.shape[0])
    for grade in ranked.unique():
        better = ((ranked > grade) & present).to(ranked.dtype)
        worse = ((ranked == grade) & present).to(ranked.dtype)
        right = right + (worse * better.cumsum(-1)).sum(-1)
        pairs = pairs + worse.sum(-1) * better.sum(-1)
    return right, pairs


def _count_by_bit(ranked: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
    """The same in O(L log² L), for labels of many values.

    Numbered from the lowest label up, two labels differ first at one bit: 1 in the better, 0 in the worse. The
    items are grouped by the bits above, in rank order, so what counts is the ones that stand before a zero of
    their group.
    """
    ordered, place = ranked.sort(dim=-1)
    number = torch.zeros_like(place).scatter(-1, place, _changes(ordered).long().cumsum(-1) - 1)
    present = present.long()
    right = torch.zeros_like(number[:, 0])
    for bit in reversed(range(int(number.max()).bit_length())):
        one = (number >> bit & 1) * present
        right = right + _pairs_in_group(one, present - one, number >> (bit + 1))
        order = (number >> bit).argsort(dim=-1, stable=True)
        number, present = number.gather(-1, order), present.gather(-1, order)
    count = present.sum(-1)
    pairs = count * (count - 1) // 2 - _pairs_in_group(present, present, number)
    return right.to(ranked.dtype), pairs.to(ranked.dtype)


def _pairs_in_group(first: Tensor, second: Tensor, group: Tensor) -> Tensor:
    """How many pairs of a ``first`` before a ``second`` stand in the same group of consecutive items."""
    before = first.cumsum(-1) - first
    at_start = torch.where(_changes(group), before, 0).cummax(-1).values
    return ((before - at_start) * second).sum(-1)


def _changes(values: Tensor) -> Tensor:
    """True at the first item, and wherever a value differs from the one before."""
    changes = torch.ones_like(values, dtype=torch.bool)
    changes[:, 1:] = values[:, 1:] != values[:, :-1]
    return changes
