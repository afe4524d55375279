"""What every ranked metric is: a function of the values in rank order, for hard and relaxed sorts alike."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from pirank.metrics.labels import may_look
from pirank.metrics.order import ranked_values
from pirank.metrics.per_list import ListMetric
from pirank.metrics.ties import Ties, ties_of


class Metric(ListMetric):
    """A ranking metric, defined by three functions.

    - :meth:`item_values`: what each item brings to the metric (a gain, a label, relevant or not);
    - :meth:`normaliser`: a number of the list that does not depend on the ranking (the ideal DCG, ...);
    - :meth:`of_ranked`: the metric from the item values in rank order.

    The hard metric puts the values in the order of a real sort, the relaxed metric in the order of a relaxed
    one: that the relaxation recovers the metric as the temperature falls to 0 therefore holds by
    construction.
    """

    def item_values(self, labels: Tensor) -> Tensor:
        """What each item brings, above 0 where it is relevant: ``labels [B, L]`` to ``[B, L]``.

        The caller sets absent items to 0. Labels that mean nothing to the metric are refused on CPU tensors.
        """
        if may_look(labels):
            self.check_labels(labels)
        return self.values_of(labels)

    @abstractmethod
    def values_of(self, labels: Tensor) -> Tensor:
        """The formula behind :meth:`item_values`, for labels that were checked."""

    def relevant(self, labels: Tensor) -> Tensor:
        """True at the items that are relevant, whatever the others' labels are, elementwise."""
        return self.values_of(labels) > 0

    def normaliser(self, values: Tensor, mask: Tensor | None) -> Tensor:
        """A number of the list that does not depend on the ranking: ``item values [B, L]`` to ``[B]``."""
        return values.new_ones(values.shape[0])

    @abstractmethod
    def of_ranked(self, ranked: Tensor, normaliser: Tensor) -> Tensor:
        """The metric of the first ``min(k, L)`` values by rank, ``[B, ranks]`` and ``[B]`` to ``[B]``.

        Ranks beyond a list's own length hold 0. Relaxed values lie between the items' values, so the formula
        must make sense there, and be differentiable. What a list without a relevant item gets does not
        matter, if it and its gradient are finite: the empty rule decides.
        """

    def of_ties(self, ties: Ties, normaliser: Tensor) -> Tensor:
        """The expectation of the metric over all orders of tied items, for metrics with ``averages_ties``.

        That of a metric that is linear in the ranked values, which need not define it, is its value at their means.
        """
        return self.of_ranked(ties.mean[:, : self.ranks(ties.mean.shape[-1])], normaliser)

    def loss(self, value: Tensor) -> Tensor:
        """The metric as something to minimise."""
        return value if self.lower_is_better else self.upper_bound - value

    def ranks(self, list_size: int) -> int:
        """How many ranks the metric looks at in a list."""
        return list_size if self.k is None else min(self.k, list_size)

    def per_list(
        self, scores: Tensor, labels: Tensor, mask: Tensor | None, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        values = self.item_values(labels)
        if mask is not None:
            values = torch.where(mask, values, 0)
        normaliser = self.normaliser(values, mask)
        if self.ties == "average":
            value = self.of_ties(ties_of(scores, values, mask), normaliser)
        else:
            ranks = self.ranks(scores.shape[-1])
            value = self.of_ranked(
                ranked_values(scores, values, mask, ranks, self.ties, generator), normaliser
            )
        return value, normaliser, values.sum(-1) > 0


def over(numerator: Tensor, denominator: Tensor) -> Tensor:
    """``numerator / denominator``; the numerator where the denominator is 0: finite, with its gradient."""
    return numerator / torch.where(denominator > 0, denominator, 1)


def rank_numbers(ranks: int, like: Tensor) -> Tensor:
    """1, 2, … for each of the ranks, ``[ranks]``."""
    return torch.arange(1, ranks + 1, dtype=like.dtype, device=like.device)


def lengths_of(values: Tensor, mask: Tensor | None) -> Tensor:
    """How many items each list holds, ``[B]``, as floating-point numbers."""
    if mask is None:
        return values.new_full((values.shape[0],), values.shape[-1])
    return mask.sum(-1).to(values.dtype)
