"""Metrics that are linear in the ranked values: a weighted sum over a normaliser."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from pirank.metrics.base import Metric, lengths_of, over


class LinearMetric(Metric):
    r"""A metric :math:`\frac{1}{n} \sum_{j=1}^{k} w_j r_j` of the values r in rank order.

    A subclass says the weights of the ranks, and what n is by :attr:`per` and :attr:`at_most`. A relaxed metric of
    this form has a gradient that can be worked out together with its value.
    """

    averages_ties = True
    per: str = "constant"
    """What the sum is divided by: ``"ideal"``, the most it can be; ``"values"``, the sum of the list's values;
    ``"items"``, the number of its items; ``"constant"``, :attr:`at_most` itself."""
    at_most: float = 1.0
    """An upper bound of the normaliser, unless that is the ideal."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if {"values_of", "relevant"} & cls.__dict__.keys() and "gain_rule" not in cls.__dict__:
            cls.gain_rule = LinearMetric.gain_rule  # type: ignore[method-assign]

    @property
    def gain_rule(self) -> tuple[str, float] | None:
        """How kernels make a value of a label: ``"same"``, ``"exp2"`` (2^y − 1) or ``"above"``, whether it is above a
        threshold; and that threshold, above which a label makes an item relevant. None: by :meth:`values_of`."""
        return None

    @abstractmethod
    def rank_weights(self, ranks: int, like: Tensor) -> Tensor:
        """The weight of each rank, ``[ranks]``, in the type and on the device of ``like``."""

    def normaliser(self, values: Tensor, mask: Tensor | None) -> Tensor:
        if self.per == "ideal":
            best = values.topk(self.ranks(values.shape[-1]), dim=-1).values
            return (best * self.rank_weights(best.shape[-1], best)).sum(-1)
        if self.per == "constant":
            return torch.full_like(values[:, 0] if values.shape[1] else values.sum(-1), self.at_most)
        return self.bounded(self.amount(values, mask))

    def amount(self, values: Tensor, mask: Tensor | None) -> Tensor:
        """What the list has of that which its metric is divided by, ``[B]``: a sum over its items."""
        return values.sum(-1) if self.per == "values" else lengths_of(values, mask)

    def bounded(self, amount: Tensor) -> Tensor:
        """The amount, at most :attr:`at_most`."""
        return amount if math.isinf(self.at_most) else amount.clamp(max=self.at_most)

    def of_ranked(self, ranked: Tensor, normaliser: Tensor) -> Tensor:
        total = (ranked * self.rank_weights(ranked.shape[-1], ranked)).sum(-1)
        return total if self.per == "constant" and self.at_most == 1 else over(total, normaliser)
