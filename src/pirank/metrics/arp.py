"""Average relevance position."""

from __future__ import annotations

from torch import Tensor

from pirank.metrics.base import rank_numbers
from pirank.metrics.labels import check_not_negative
from pirank.metrics.linear import LinearMetric


class ARP(LinearMetric):
    r"""Average relevance position: the mean rank of a list's items, weighed by label. Lower is better.

    .. math:: \mathrm{RP} = \frac{\sum_{j=1}^{L} y_{\pi_j}\, j}{\sum_{j=1}^{L} y_j}

    With ``k``, only the first k ranks enter the numerator. That is what a loss with a cutoff can see, but as
    a metric it rewards pushing relevant items *beyond* rank k: leave ``k`` at None to evaluate.

    Args:
        k: the cutoff of the numerator; None: the whole list.
        rules: ``ties``, ``average``, ``empty``, ``seed``, ``convention``; see :class:`ListMetric`.

    Example:
        >>> import torch
        >>> ARP()(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([0.0, 2.0, 1.0]))
        tensor(2.3333)

    References:
        Zhu: Recall, precision and average precision, 2004.
        Swezey, Grover, Charron, Ermon: PiRank, NeurIPS 2021, Eq. ranked_precision.
    """

    key = "arp"
    lower_is_better = True
    upper_bound = float("inf")
    per = "values"
    at_most = float("inf")

    def check_labels(self, labels: Tensor) -> None:
        check_not_negative(labels, "ARP, which weighs ranks by labels")

    def values_of(self, labels: Tensor) -> Tensor:
        return labels

    @property
    def gain_rule(self) -> tuple[str, float]:
        return "same", 0.0

    def rank_weights(self, ranks: int, like: Tensor) -> Tensor:
        return rank_numbers(ranks, like)
