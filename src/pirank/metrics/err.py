"""Expected reciprocal rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pirank.metrics.base import Metric, rank_numbers
from pirank.metrics.binary import still_looking
from pirank.metrics.labels import check_grades
from pirank.metrics.ties import Ties

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pirank.metrics.conventions import Rules


class ERR(Metric):
    r"""Expected reciprocal rank of the item at which a user, reading down the list, is satisfied.

    .. math::
        \mathrm{ERR@}k = \sum_{j=1}^{k} \frac{R_j}{j} \prod_{i<j} (1 - R_i),
        \qquad R_j = \frac{2^{y_{\pi_j}} - 1}{2^{y_{\max}}}

    Args:
        k: the cutoff; None: the whole list.
        max_label: the top grade, y_max.
        rules: ``ties``, ``average``, ``empty``, ``seed``, ``convention``; see :class:`ListMetric`.

    Example:
        >>> ERR(max_label=1)(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([0.0, 1.0, 1.0]))
        tensor(0.3333)

    References:
        Chapelle, Metzler, Zhang, Grinspan: Expected reciprocal rank for graded relevance, CIKM 2009.
    """

    key = "err"
    averages_ties = True

    def __init__(self, k: int | None = None, *, max_label: float = 4, **rules: Unpack[Rules]) -> None:
        super().__init__(k, **rules)
        if not max_label > 0:
            raise ValueError(f"max_label must be above 0, the top grade of the labels: got {max_label}")
        self.max_label = max_label

    def check_labels(self, labels: Tensor) -> None:
        check_grades(labels, self.max_label)

    def values_of(self, labels: Tensor) -> Tensor:
        return (torch.exp2(labels) - 1) / 2**self.max_label

    def of_ranked(self, ranked: Tensor, normaliser: Tensor) -> Tensor:
        return (ranked * still_looking(ranked) / rank_numbers(ranked.shape[-1], ranked)).sum(-1)

    def of_ties(self, ties: Ties, normaliser: Tensor) -> Tensor:
        # Satisfied at rank j: still looking before it, and no longer after.
        looking = ties.survival(self.ranks(ties.values.shape[-1]))
        satisfied = looking[:, :-1] - looking[:, 1:]
        return (satisfied / rank_numbers(satisfied.shape[-1], satisfied)).sum(-1)
