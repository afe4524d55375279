"""Tied scores: the expectation of a metric over all orders of the items that share a score, in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Ties:
    """A batch of lists in rank order, as groups of tied items; every tensor is ``[B, L]``, a number for each rank.

    Attributes:
        values: the item values, in any order within a group.
        start: how many ranks stand before the group of this rank.
        size: how many items its group holds.
        total: the sum of their values.
        earlier: the sum of the values of all groups before.
    """

    values: Tensor
    start: Tensor
    size: Tensor
    total: Tensor
    earlier: Tensor

    @property
    def within(self) -> Tensor:
        """How many ranks of the same group stand before each rank."""
        return torch.arange(self.values.shape[-1], device=self.values.device) - self.start

    @property
    def mean(self) -> Tensor:
        """The expected value at each rank: what a metric that is linear in the ranked values needs."""
        return self.total / self.size

    @property
    def hazard(self) -> Tensor:
        """The probability that a relevant item stands at each rank if none stands before, for values of 0 and 1.

        If none of the i earlier items of the group is relevant, all r relevant ones are among the n − i left.
        """
        return (self.total / (self.size - self.within)).clamp(max=1)

    def survival(self, ranks: int) -> Tensor:
        r"""The expected Π (1 − value) over the first 0, 1, …, ``ranks`` ranks, ``[B, ranks + 1]``, for any values.

        Over the first m of a group of n it is the mean of the products of all choices of m factors. One more item
        with the factor x gives

        .. math:: A_n(m) = \frac{n - m}{n} A_{n-1}(m) + \frac{m}{n}\, x\, A_{n-1}(m - 1)
        """
        lists, length = self.values.shape
        rank = torch.arange(ranks + 1, device=self.values.device)
        result = torch.zeros(lists, ranks + 1, dtype=self.values.dtype, device=self.values.device)
        result[:, 0] = 1
        within = self.within
        for item in range(length):
            column = slice(item, item + 1)
            share = (rank - self.start[:, column]).clamp(min=0) / (within[:, column] + 1)
            one_more = (1 - self.values[:, column]) * torch.nn.functional.pad(result[:, :-1], (1, 0))
            result = (1 - share) * result + share * one_more
        return result


def ties_of(scores: Tensor, values: Tensor, mask: Tensor | None) -> Ties:
    """The groups of tied items of each list, by falling score; absent items, of value 0, stand behind.

    Args:
        scores: ``[B, L]``.
        values: ``[B, L]``, 0 at absent items.
        mask: ``[B, L]``, True at the items that are there.
    """
    keys = scores if mask is None else scores.masked_fill(~mask, float("-inf"))
    keys, order = keys.sort(dim=-1, descending=True)
    values = values.gather(-1, order)
    group = torch.zeros_like(order)
    group[:, 1:] = (keys[:, 1:] != keys[:, :-1]).cumsum(-1)

    def per_group(numbers: Tensor) -> Tensor:
        return torch.zeros_like(numbers).scatter_add(-1, group, numbers)

    sizes, totals = per_group(torch.ones_like(order)), per_group(values)
    starts, earlier = sizes.cumsum(-1) - sizes, totals.cumsum(-1) - totals
    start, size, total, before = (part.gather(-1, group) for part in (starts, sizes, totals, earlier))
    return Ties(values, start, size, total, before)
