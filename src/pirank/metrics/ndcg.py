"""DCG and NDCG."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pirank.metrics.conventions import option_of
from pirank.metrics.labels import Gain, check_gain, check_gains, gains_of
from pirank.metrics.linear import LinearMetric

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pirank.metrics.conventions import Rules


class DCG(LinearMetric):
    r"""Discounted cumulative gain.

    .. math:: \mathrm{DCG@}k = \sum_{j=1}^{k} \frac{g(y_{\pi_j})}{\log_2(1 + j)}, \qquad g(y) = 2^y - 1

    It has no upper bound of its own, so as a loss it is −DCG.

    Args:
        k: the cutoff; None: the whole list.
        gain: ``"exp2"`` (2^y − 1), ``"linear"`` (y), or a function of the labels.
        rules: ``ties``, ``average``, ``empty``, ``seed``, ``convention``; see :class:`ListMetric`.

    Example:
        >>> DCG()(torch.tensor([2.0, 1.0]), torch.tensor([2.0, 1.0]))
        tensor(3.6309)

    References:
        Järvelin, Kekäläinen: Cumulated gain-based evaluation of IR techniques, TOIS 2002.
        Burges et al.: Learning to rank using gradient descent, ICML 2005 (exponential gains).
    """

    key = "dcg"
    upper_bound = 0.0

    def __init__(self, k: int | None = None, *, gain: Gain | None = None, **rules: Unpack[Rules]) -> None:
        super().__init__(k, **rules)
        self.gain: Gain = option_of(self.key, self.convention, "gain") if gain is None else gain
        check_gain(self.gain)

    def check_labels(self, labels: Tensor) -> None:
        check_gains(labels, self.gain)

    def values_of(self, labels: Tensor) -> Tensor:
        return gains_of(labels, self.gain)

    def relevant(self, labels: Tensor) -> Tensor:
        return labels > 0 if isinstance(self.gain, str) else super().relevant(labels)

    @property
    def gain_rule(self) -> tuple[str, float] | None:
        if not isinstance(self.gain, str):
            return None
        return ("exp2", 0.0) if self.gain == "exp2" else ("same", 0.0)

    def rank_weights(self, ranks: int, like: Tensor) -> Tensor:
        return discounts(ranks, like)


class NDCG(DCG):
    r"""Normalised discounted cumulative gain: the DCG over that of the best ranking of the list.

    .. math:: \mathrm{NDCG@}k = \mathrm{DCG@}k \,/\, \max_\pi \mathrm{DCG@}k

    Args:
        k: the cutoff; None: the whole list.
        gain: ``"exp2"`` (2^y − 1), ``"linear"`` (y), or a function of the labels.
        rules: ``ties``, ``average``, ``empty``, ``seed``, ``convention``; see :class:`ListMetric`.

    Example:
        >>> NDCG(k=10)(torch.tensor([2.0, 1.0]), torch.tensor([0.0, 1.0]))
        tensor(0.6309)

    References:
        Järvelin, Kekäläinen: Cumulated gain-based evaluation of IR techniques, TOIS 2002.
    """

    key = "ndcg"
    upper_bound = 1.0
    per = "ideal"


def discounts(ranks: int, like: Tensor) -> Tensor:
    """1/log2(1 + rank) for each of the ranks, ``[ranks]``."""
    make = _make_discounts if torch.compiler.is_compiling() or ranks > _KEPT_UP_TO else _kept_discounts
    return make(ranks, like.dtype, like.device)


# Short lists are made of small steps, and these numbers would be a tenth of them.
_KEPT_UP_TO = 1024


def _make_discounts(ranks: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # what is kept must serve training too
        return 1 / torch.log2(torch.arange(2, ranks + 2, dtype=dtype, device=device))


_kept_discounts = lru_cache(maxsize=64)(_make_discounts)
