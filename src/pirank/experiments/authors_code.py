"""Two departures of the paper authors' code from their paper that may matter for its Table 1, off by default.

``batch_ratio``: the loss is one minus the sum of the batch's DCG over the sum of its ideal DCG, so that lists with
much relevance weigh more, instead of the mean of the lists' NDCG. ``padded_to``: short lists are filled with items
just below the lowest score that take part in the sort, so that the loss depends on how much a list is padded.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pirank.lists import in_full_precision, padded
from pirank.losses.pirank import relaxed_sort
from pirank.metrics import NDCG
from pirank.metrics.order import ranked_values

DEPARTURES = ("batch_ratio", "counted_padding")
_BELOW_LOWEST = 1e-6


class AuthorsNDCGLoss(nn.Module):
    """PiRank-NDCG with the departures of the authors' code; without them it is :class:`~pirank.losses.PiRankNDCGLoss`.

    Args:
        k: the cutoff.
        batch_ratio: see the module.
        padded_to: fill lists up to this size with items that take part in the sort; None: no padding.
        straight_through: report the hard value, with the gradient of the relaxed one.
        **sort: ``temperature``, ``relative``, ``sort``, ``depth`` and ``branching``.

    Example:
        >>> loss = AuthorsNDCGLoss(k=2, temperature=0.01, batch_ratio=True)
        >>> scores, labels = torch.tensor([1.0, 2.0, 2.0, 1.0]), torch.tensor([0.0, 1.0, 0.0, 2.0])
        >>> round(loss(scores, labels, offsets=torch.tensor([0, 2, 4])).item(), 4)
        0.2768
    """

    def __init__(
        self,
        *,
        k: int | None = 10,
        batch_ratio: bool = False,
        padded_to: int | None = None,
        straight_through: bool = False,
        **sort: object,
    ) -> None:
        super().__init__()
        self.metric = NDCG(k)
        self.sort = relaxed_sort(**sort)  # type: ignore[arg-type]
        self.batch_ratio = batch_ratio
        self.padded_to = padded_to
        self.straight_through = straight_through

    def forward(self, scores: Tensor, labels: Tensor, *, offsets: Tensor) -> Tensor:
        """``scores [N]``, ``labels [N]`` and ``offsets [Q + 1]`` to the loss of the batch."""
        scores, mask = padded(in_full_precision(scores), offsets)
        labels, _ = padded(labels.to(scores.dtype), offsets)
        if self.padded_to is not None:
            scores, labels, mask = _filled(scores, labels, mask, self.padded_to)
        values = torch.where(mask, self.metric.item_values(labels), 0)
        ideal = self.metric.normaliser(values, mask)
        dcg = self._relaxed(scores, values, mask)
        if self.straight_through:
            hard = ranked_values(scores.detach(), values, mask, self.metric.ranks(scores.shape[-1]))
            dcg = dcg + (self.metric.of_ranked(hard, torch.ones_like(ideal)) - dcg).detach()
        if self.batch_ratio:
            return 1 - dcg.sum() / ideal.sum().clamp(min=1e-30)
        counted = ideal > 0
        return (torch.where(counted, 1 - dcg / ideal.clamp(min=1e-30), 0)).sum() / counted.sum().clamp(min=1)

    def _relaxed(self, scores: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        temperature = self.sort.temperature_of(scores, mask)
        ranks = self.metric.ranks(scores.shape[-1])
        ranked = self.sort.sorted_values(scores, values[:, None], mask, ranks, temperature)[:, 0]
        return self.metric.of_ranked(ranked, torch.ones_like(scores[:, 0]))


def _filled(scores: Tensor, labels: Tensor, mask: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Lists of ``size`` items, those that were missing just below each list's lowest score, with label 0."""
    if size > scores.shape[-1]:
        more = (0, size - scores.shape[-1])
        pad = torch.nn.functional.pad
        scores, labels, mask = pad(scores, more), pad(labels, more), pad(mask, more)
    lowest = torch.where(mask, scores, torch.inf).amin(-1, keepdim=True)
    lowest = torch.where(lowest.isfinite(), lowest, 0)
    return torch.where(mask, scores, lowest - _BELOW_LOWEST), labels, torch.ones_like(mask)
