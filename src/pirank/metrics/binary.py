"""Metrics of relevant and irrelevant items: precision, recall, hit rate, MRR, average precision, RBP.

On relaxed ranked values r_j in [0, 1] each formula reads as an expectation: r_j is the share of relevant
items at rank j, and Π_{i<j} (1 − r_i) that none stands before.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pirank.metrics.base import Metric, over, rank_numbers
from pirank.metrics.linear import LinearMetric
from pirank.metrics.ties import Ties

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pirank.metrics.conventions import Rules


class BinaryMetric(Metric):
    """A metric for which an item is relevant or not.

    Args:
        k: the cutoff; None: the whole list.
        threshold: labels above it are relevant.
        rules: ``ties``, ``average``, ``empty``, ``seed``, ``convention``; see :class:`ListMetric`.
    """

    def __init__(self, k: int | None = None, *, threshold: float = 0.0, **rules: Unpack[Rules]) -> None:
        super().__init__(k, **rules)
        self.threshold = threshold

    def values_of(self, labels: Tensor) -> Tensor:
        return (labels > self.threshold).to(labels.dtype)

    @property
    def gain_rule(self) -> tuple[str, float]:
        """See :attr:`LinearMetric.gain_rule`."""
        return "above", self.threshold


class Precision(BinaryMetric, LinearMetric):
    r"""The share of relevant items among the first k.

    .. math:: \mathrm{P@}k = \frac{1}{k} \sum_{j=1}^{k} r_j

    Args:
        k: the cutoff; None: the length of the list.
        threshold: labels above it are relevant.
        denominator: ``"k"``, also where the list is shorter, or ``"retrieved"``: min(k, length of the list).
        rules: ``ties``, ``average``, ``empty``, ``seed``, ``convention``; see :class:`ListMetric`.

    Example:
        >>> Precision(k=2)(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([1.0, 0.0, 1.0]))
        tensor(0.5000)
    """

    key = "precision"

    def __init__(
        self,
        k: int | None = None,
        *,
        threshold: float = 0.0,
        denominator: str | None = None,
        **rules: Unpack[Rules],
    ) -> None:
        super().__init__(k, threshold=threshold, **rules)
        self.denominator = self._option("denominator", denominator, ("k", "retrieved"))
        self.per = "constant" if k is not None and self.denominator == "k" else "items"
        self.at_most = float("inf") if k is None else float(k)

    def rank_weights(self, ranks: int, like: Tensor) -> Tensor:
        return like.new_ones(ranks)


class _ShareOfRelevant(BinaryMetric):
    """A metric divided by the list's number of relevant items."""

    def __init__(
        self,
        k: int | None = None,
        *,
        threshold: float = 0.0,
        denominator: str | None = None,
        **rules: Unpack[Rules],
    ) -> None:
        super().__init__(k, threshold=threshold, **rules)
        self.denominator = self._option("denominator", denominator, ("relevant", "reachable"))
        self.at_most = float("inf") if self.k is None or self.denominator == "relevant" else float(self.k)

    def normaliser(self, values: Tensor, mask: Tensor | None) -> Tensor:
        relevant = values.sum(-1)
        return relevant if math.isinf(self.at_most) else relevant.clamp(max=self.at_most)


class Recall(_ShareOfRelevant, LinearMetric):
    r"""The share of the list's relevant items that stand among the first k.

    .. math:: \mathrm{R@}k = \frac{\sum_{j=1}^{k} r_j}{\sum_{j=1}^{L} r_j}

    Args:
        k: the cutoff; None: the whole list, where it is 1.
        threshold: labels above it are relevant.
        denominator: ``"relevant"``: all relevant items, or ``"reachable"``: at most k of them.
        rules: ``ties``, ``average``, ``empty``, ``seed``, ``convention``; see :class:`ListMetric`.

    Example:
        >>> Recall(k=1)(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([1.0, 0.0, 1.0]))
        tensor(0.5000)
    """

    key = "recall"
    per = "values"

    def rank_weights(self, ranks: int, like: Tensor) -> Tensor:
        return like.new_ones(ranks)


class AveragePrecision(_ShareOfRelevant):
    r"""Average precision: the mean, over the relevant items, of the precision at their ranks.

    .. math:: \mathrm{AP@}k = \frac{1}{\sum_{j=1}^{L} r_j} \sum_{j=1}^{k} r_j \frac{\sum_{i \le j} r_i}{j}

    Args:
        k: the cutoff; None: the whole list.
        threshold: labels above it are relevant.
        denominator: ``"relevant"``: all relevant items, or ``"reachable"``: at most k of them.
        rules: ``ties``, ``average``, ``empty``, ``seed``, ``convention``; see :class:`ListMetric`.

    Example:
        >>> AveragePrecision()(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([1.0, 0.0, 1.0]))
        tensor(0.8333)
    """

    key = "ap"
    averages_ties = True

    def of_ranked(self, ranked: Tensor, normaliser: Tensor) -> Tensor:
        return over((ranked * ranked.cumsum(-1) / rank_numbers(ranked.shape[-1], ranked)).sum(-1), normaliser)

    def of_ties(self, ties: Ties, normaliser: Tensor) -> Tensor:
        # Of the other items of a group of n with r relevant ones, a share (r − 1)/(n − 1) is relevant if this one is.
        others = (ties.total - 1) / (ties.size - 1).clamp(min=1)
        found = ties.mean * (ties.earlier + 1 + ties.within * others)
        return over(
            (found / rank_numbers(found.shape[-1], found))[:, : self.ranks(found.shape[-1])].sum(-1),
            normaliser,
        )


class HitRate(BinaryMetric):
    r"""Whether a relevant item stands among the first k.

    .. math:: \mathrm{HR@}k = 1 - \prod_{j=1}^{k} (1 - r_j)

    Args:
        k: the cutoff; None: the whole list, where it is 1.
        threshold: labels above it are relevant.
        rules: ``ties``, ``average``, ``empty``, ``seed``, ``convention``; see :class:`ListMetric`.

    Example:
        >>> HitRate(k=1)(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([0.0, 0.0, 1.0]))
        tensor(0.)
    """

    key = "hit_rate"
    averages_ties = True

    def of_ranked(self, ranked: Tensor, normaliser: Tensor) -> Tensor:
        return 1 - (1 - ranked).prod(-1)

    def of_ties(self, ties: Ties, normaliser: Tensor) -> Tensor:
        return self.of_ranked(ties.hazard[:, : self.ranks(ties.hazard.shape[-1])], normaliser)


class MRR(BinaryMetric):
    r"""Reciprocal rank of the first relevant item, 0 if it stands beyond rank k.

    .. math:: \mathrm{RR@}k = \sum_{j=1}^{k} \frac{r_j}{j} \prod_{i<j} (1 - r_i)

    Args:
        k: the cutoff; None: the whole list.
        threshold: labels above it are relevant.
        rules: ``ties``, ``average``, ``empty``, ``seed``, ``convention``; see :class:`ListMetric`.

    Example:
        >>> MRR()(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([0.0, 1.0, 1.0]))
        tensor(0.5000)
    """

    key = "mrr"
    averages_ties = True

    def of_ranked(self, ranked: Tensor, normaliser: Tensor) -> Tensor:
        return (ranked * still_looking(ranked) / rank_numbers(ranked.shape[-1], ranked)).sum(-1)

    def of_ties(self, ties: Ties, normaliser: Tensor) -> Tensor:
        return self.of_ranked(ties.hazard[:, : self.ranks(ties.hazard.shape[-1])], normaliser)


class RBP(BinaryMetric, LinearMetric):
    r"""Rank-biased precision: what a user finds who goes on to the next rank with probability p.

    .. math:: \mathrm{RBP@}k = (1 - p) \sum_{j=1}^{k} r_j\, p^{j-1}

    Args:
        k: the cutoff; None: the whole list.
        persistence: p, between 0 and 1.
        threshold: labels above it are relevant.
        rules: ``ties``, ``average``, ``empty``, ``seed``, ``convention``; see :class:`ListMetric`.

    Example:
        >>> RBP(persistence=0.5)(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([1.0, 0.0, 1.0]))
        tensor(0.6250)

    References:
        Moffat, Zobel: Rank-biased precision for measurement of retrieval effectiveness, TOIS 2008.
    """

    key = "rbp"

    def __init__(
        self,
        k: int | None = None,
        *,
        persistence: float = 0.8,
        threshold: float = 0.0,
        **rules: Unpack[Rules],
    ) -> None:
        super().__init__(k, threshold=threshold, **rules)
        if not 0 < persistence < 1:
            raise ValueError(
                f"persistence must lie between 0 and 1, the chance to read on: got {persistence}"
            )
        self.persistence = persistence

    def rank_weights(self, ranks: int, like: Tensor) -> Tensor:
        return (1 - self.persistence) * self.persistence ** (rank_numbers(ranks, like) - 1)


def still_looking(found: Tensor) -> Tensor:
    """The probability that nothing was found before each rank, Π_{i<j} (1 − found_i): ``[B, ranks]``."""
    survival = (1 - found).cumprod(-1)
    return torch.cat([torch.ones_like(survival[:, :1]), survival[:, :-1]], dim=-1)
