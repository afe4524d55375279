"""DCG and NDCG."""

from __future__ import annotations

import torch
from torch import Tensor

from pirank.metrics.base import Metric


def discounts(ranks: int, like: Tensor) -> Tensor:
    """1/log2(1 + rank) for ranks 1 to ``ranks``."""
    return 1 / torch.log2(torch.arange(2, ranks + 2, dtype=like.dtype, device=like.device))


class NDCG(Metric):
    r"""Normalised discounted cumulative gain.

    .. math:: \mathrm{NDCG@}k = \frac{1}{Z} \sum_{j=1}^{k} \frac{2^{y_{\pi_j}} - 1}{\log_2(1 + j)}

    Example:
        >>> NDCG(k=10)(torch.tensor([2.0, 1.0]), torch.tensor([0.0, 1.0]))
        tensor(0.6309)
    """

    def item_values(self, labels: Tensor) -> Tensor:
        return torch.exp2(labels) - 1

    def normaliser(self, values: Tensor, mask: Tensor | None) -> Tensor:
        ranks = self.ranks(values.shape[-1])
        best = values.topk(ranks, dim=-1).values
        return (best * discounts(ranks, values)).sum(-1)

    def of_ranked(self, ranked: Tensor, normaliser: Tensor) -> Tensor:
        dcg = (ranked * discounts(ranked.shape[-1], ranked)).sum(-1)
        return dcg / torch.where(normaliser > 0, normaliser, 1)
