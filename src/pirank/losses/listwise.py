"""Losses of a list's scores as a distribution over items or orders, all in O(L log L)."""

from __future__ import annotations

import torch
from torch import Tensor

from pirank.lists import check_choice
from pirank.losses.base import ListLoss, list_loss
from pirank.metrics.labels import check_not_negative, may_look


def softmax_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    mask: Tensor | None = None,
    offsets: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "mean",
    empty: str = "skip",
) -> Tensor:
    r"""Softmax cross-entropy with graded labels, as they are.

    .. math:: \ell(s, y) = -\sum_i y_i \log \frac{e^{s_i}}{\sum_j e^{s_j}}

    Args:
        scores, labels, mask, offsets, weights, reduction, empty: as in :func:`~pirank.losses.list_loss`.

    Example:
        >>> softmax_loss(torch.tensor([2.0, 1.0, 3.0]), torch.tensor([1.0, 0.0, 0.0]))
        tensor(1.4076)

    References:
        Bruch, Wang, Bendersky, Najork: An analysis of the softmax cross entropy loss for learning-to-rank
        with binary relevance, ICTIR 2019.
    """

    def per_list(scores: Tensor, labels: Tensor, mask: Tensor | None) -> Tensor:
        if may_look(labels):
            check_not_negative(labels, "softmax, which weighs items by labels")
        return -(labels * _log_softmax(scores, mask)).sum(-1)

    return list_loss(
        per_list, scores, labels,
        mask=mask, offsets=offsets, weights=weights, reduction=reduction, empty=empty,
    )  # fmt: skip


def listnet_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    targets: str = "sum",
    mask: Tensor | None = None,
    offsets: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "mean",
    empty: str = "skip",
) -> Tensor:
    r"""ListNet, the cross-entropy of the top-1 distributions of labels and scores.

    .. math:: \ell(s, y) = -\sum_i p_i \log \frac{e^{s_i}}{\sum_j e^{s_j}}

    Args:
        scores, labels, mask, offsets, weights, reduction, empty: as in :func:`~pirank.losses.list_loss`.
        targets: how labels become a distribution: ``"sum"``, p = y/Σy; or ``"softmax"``, p = softmax(y),
            which gives weight to items with label 0 too (the original, and allRank's).

    Example:
        >>> listnet_loss(torch.tensor([2.0, 1.0, 3.0]), torch.tensor([2.0, 0.0, 2.0]))
        tensor(0.9076)

    References:
        Cao, Qin, Liu, Tsai, Li: Learning to rank: from pairwise approach to listwise approach, ICML 2007.
    """
    check_choice("targets", targets, ("sum", "softmax"))

    def per_list(scores: Tensor, labels: Tensor, mask: Tensor | None) -> Tensor:
        if targets == "softmax":
            wanted = _log_softmax(labels, mask).exp()
        else:
            if may_look(labels):
                check_not_negative(labels, "targets='sum'")
            total = labels.sum(-1, keepdim=True)
            wanted = labels / torch.where(total > 0, total, 1)
        return -(wanted * _log_softmax(scores, mask)).sum(-1)

    return list_loss(
        per_list, scores, labels,
        mask=mask, offsets=offsets, weights=weights, reduction=reduction, empty=empty,
    )  # fmt: skip


def listmle_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    ties: str = "input",
    generator: torch.Generator | None = None,
    mask: Tensor | None = None,
    offsets: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "mean",
    empty: str = "skip",
) -> Tensor:
    r"""ListMLE, the likelihood of the order of the labels under the Plackett–Luce model of the scores.

    .. math:: \ell(s, y) = -\sum_i \log \frac{e^{s_{\pi_i}}}{\sum_{j \ge i} e^{s_{\pi_j}}},
        \qquad \pi \text{ sorts } y \text{ in descending order}

    Args:
        scores, labels, mask, offsets, weights, reduction, empty: as in :func:`~pirank.losses.list_loss`.
        ties: the order of items with equal labels: ``"input"`` keeps the input's, ``"shuffle"`` draws one
            anew at every call.
        generator: where ``"shuffle"`` draws from; None: PyTorch's default generator.

    Example:
        >>> listmle_loss(torch.tensor([2.0, 1.0, 3.0]), torch.tensor([1.0, 0.0, 2.0]))
        tensor(0.7209)

    References:
        Xia, Liu, Wang, Zhang, Li: Listwise approach to learning to rank: theory and algorithm, ICML 2008.
    """
    check_choice("ties", ties, ("input", "shuffle"))

    def per_list(scores: Tensor, labels: Tensor, mask: Tensor | None) -> Tensor:
        return _surprise_by_rank(scores, labels, mask, ties, generator).sum(-1)

    return list_loss(
        per_list, scores, labels,
        mask=mask, offsets=offsets, weights=weights, reduction=reduction, empty=empty,
    )  # fmt: skip


def position_aware_listmle_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    positions: str = "exp2",
    ties: str = "input",
    generator: torch.Generator | None = None,
    mask: Tensor | None = None,
    offsets: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "mean",
    empty: str = "skip",
) -> Tensor:
    r"""p-ListMLE: ListMLE in which the first ranks weigh more.

    .. math:: \ell(s, y) = -\sum_i \alpha_i \log \frac{e^{s_{\pi_i}}}{\sum_{j \ge i} e^{s_{\pi_j}}}

    Args:
        scores, labels, mask, offsets, weights, reduction, empty: as in :func:`~pirank.losses.list_loss`.
        positions: the weights α of ranks 1 to n: ``"exp2"``, (2^(n−i) − 1)/(2^(n−1) − 1), the published
            weights over the largest of them, so that long lists do not overflow; or ``"log2"``, NDCG's
            1/log2(1 + i).
        ties: as in :func:`listmle_loss`.
        generator: as in :func:`listmle_loss`.

    Example:
        >>> position_aware_listmle_loss(torch.tensor([2.0, 1.0, 3.0]), torch.tensor([1.0, 0.0, 2.0]))
        tensor(0.5120)

    References:
        Lan, Zhu, Guo, Niu, Cheng: Position-aware ListMLE: a sequential learning process for ranking, UAI
        2014.
    """
    check_choice("ties", ties, ("input", "shuffle"))
    check_choice("positions", positions, ("exp2", "log2"))

    def per_list(scores: Tensor, labels: Tensor, mask: Tensor | None) -> Tensor:
        surprise = _surprise_by_rank(scores, labels, mask, ties, generator)
        rank = torch.arange(1, scores.shape[-1] + 1, dtype=scores.dtype, device=scores.device)
        if positions == "log2":
            return (surprise / torch.log2(1 + rank)).sum(-1)
        items = scores.new_full(scores.shape[:1], scores.shape[-1]) if mask is None else mask.sum(-1)
        last = torch.exp2(1 - items.clamp(min=2).to(scores.dtype))[:, None]
        return (surprise * (torch.exp2(1 - rank) - last).clamp(min=0) / (1 - last)).sum(-1)

    return list_loss(
        per_list, scores, labels,
        mask=mask, offsets=offsets, weights=weights, reduction=reduction, empty=empty,
    )  # fmt: skip


def _log_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """log softmax over the items that are there; 0 at the others."""
    if mask is None:
        return scores.log_softmax(-1)
    # The lowest number instead of −inf: a list of absent items only must not become NaN.
    lowest = torch.finfo(scores.dtype).min
    return torch.where(mask, scores.masked_fill(~mask, lowest).log_softmax(-1), 0)


def _surprise_by_rank(
    scores: Tensor, labels: Tensor, mask: Tensor | None, ties: str, generator: torch.Generator | None
) -> Tensor:
    """log Σ_{j ≥ i} e^s_j − s_i for the items in the order of their labels, ``[B, L]``; 0 for absent ones."""
    keys = labels if mask is None else labels.masked_fill(~mask, float("-inf"))
    if ties == "shuffle":
        drawn = torch.rand(keys.shape, generator=generator, device=keys.device)
        shuffled = drawn.argsort(-1)
        order = shuffled.gather(-1, keys.gather(-1, shuffled).argsort(dim=-1, descending=True, stable=True))
    else:
        order = keys.argsort(dim=-1, descending=True, stable=True)
    scores = scores.gather(-1, order)
    if mask is None:
        return scores.flip(-1).logcumsumexp(-1).flip(-1) - scores
    present = mask.gather(-1, order)
    lowest = torch.finfo(scores.dtype).min
    remaining = scores.masked_fill(~present, lowest).flip(-1).logcumsumexp(-1).flip(-1)
    return torch.where(present, remaining - scores, 0)


class SoftmaxLoss(ListLoss, function=softmax_loss):
    """:func:`softmax_loss` as a module."""


class ListNetLoss(ListLoss, function=listnet_loss):
    """:func:`listnet_loss` as a module."""


class ListMLELoss(ListLoss, function=listmle_loss):
    """:func:`listmle_loss` as a module."""


class PositionAwareListMLELoss(ListLoss, function=position_aware_listmle_loss):
    """:func:`position_aware_listmle_loss` as a module."""
