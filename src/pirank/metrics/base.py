"""What every metric is: a function of the values in rank order, written once for the hard and the relaxed sort."""

from __future__ import annotations

import torch
from torch import Tensor

from pirank.lists import check_choice, check_k, each_list


class Metric:
    """A ranking metric, defined by three functions.

    - :meth:`item_values`: what each item brings to the metric (a gain, a label, relevant or not);
    - :meth:`normaliser`: a number of the list that does not depend on the ranking (the ideal DCG, ...);
    - :meth:`of_ranked`: the metric from the item values in rank order.

    The hard metric puts the values in the order of a real sort, the relaxed metric in the order of a relaxed one:
    that the relaxation recovers the metric as the temperature falls to 0 therefore holds by construction.

    Args:
        k: the cutoff; None: the whole list.
    """

    lower_is_better: bool = False
    upper_bound: float = 1.0

    def __init__(self, k: int | None = None) -> None:
        check_k(k)
        self.k = k

    def item_values(self, labels: Tensor) -> Tensor:
        """What each item brings, above 0 where it is relevant: ``labels [B, L]`` to ``[B, L]``, 0 for a label of 0."""
        raise NotImplementedError

    def normaliser(self, values: Tensor, mask: Tensor | None) -> Tensor:
        """A number of the list that does not depend on the ranking: ``item values [B, L]`` to ``[B]``."""
        return values.new_ones(values.shape[0])

    def of_ranked(self, ranked: Tensor, normaliser: Tensor) -> Tensor:
        """The metric from the first ``min(k, L)`` item values in rank order: ``[B, ranks]`` and ``[B]`` to ``[B]``.

        Ranks beyond a list's own length hold 0. What a list without a relevant item gets does not matter, if it is
        finite: the empty rule decides.
        """
        raise NotImplementedError

    def loss(self, value: Tensor) -> Tensor:
        """The metric as something to minimise."""
        return value if self.lower_is_better else self.upper_bound - value

    def ranks(self, list_size: int) -> int:
        """How many ranks the metric looks at in a list."""
        return list_size if self.k is None else min(self.k, list_size)

    def __call__(
        self,
        scores: Tensor,
        labels: Tensor,
        *,
        mask: Tensor | None = None,
        offsets: Tensor | None = None,
        empty: str | None = None,
        reduction: str = "mean",
    ) -> Tensor:
        """The hard metric. Ties in the scores keep the input's order."""
        check_choice("reduction", reduction, ("mean", "none"))
        empty = "skip" if empty is None else empty
        per_list = each_list(self._hard, scores, labels, mask=mask, offsets=offsets)
        if reduction == "none":
            return per_list
        return per_list.nanmean()

    def _hard(self, scores: Tensor, labels: Tensor, mask: Tensor | None) -> Tensor:
        values = self.item_values(labels)
        keys = scores if mask is None else scores.masked_fill(~mask, float("-inf"))
        order = keys.argsort(dim=-1, descending=True, stable=True)[:, : self.ranks(scores.shape[-1])]
        value = self.of_ranked(values.gather(-1, order), self.normaliser(values, mask))
        return torch.where((values > 0).any(-1), value, float("nan"))
