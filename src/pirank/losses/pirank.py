"""The PiRank losses: a ranking metric after a relaxed sort."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

import torch
from torch import Tensor, nn

from pirank import sorts
from pirank.lists import check_choice
from pirank.losses.base import list_loss
from pirank.losses.fused import fused_loss, may_fuse
from pirank.metrics import ARP, NDCG, Metric
from pirank.metrics.order import ranked_values
from pirank.sorts import Sort, Tree

if TYPE_CHECKING:
    from typing_extensions import Unpack


class SortOptions(TypedDict, total=False):
    """The options of the PiRank losses that name their sort; see :func:`relaxed_sort`."""

    temperature: float
    relative: bool
    sort: str
    depth: int
    branching: Sequence[int] | None


class BatchOptions(TypedDict, total=False):
    """The layout of a batch and how its lists are averaged; see :func:`~pirank.losses.list_loss`."""

    mask: Tensor | None
    offsets: Tensor | None
    weights: Tensor | None
    reduction: str
    empty: str


class PiRankLoss(nn.Module):
    r"""Any ranked metric after any relaxed sort, as a loss.

    .. math:: \ell = 1 - \mathrm{metric}\bigl(\hat P_{\mathrm{sort}(s)}(\tau)\, v\bigr)

    where v are the items' values (gains, labels, ...). Metrics where lower is better are the loss themselves, and
    DCG, which has no upper bound, is negated. As the temperature falls to 0 the loss becomes that of the hard metric.

    Args:
        metric: a metric of :mod:`pirank.metrics` other than OPA, such as ``NDCG(k=10)``.
        sort: a sort of :mod:`pirank.sorts`, such as ``NeuralSort(temperature=1.0)``. Its ``temperature`` can be set
            between steps.
        straight_through: report the hard metric, with the gradient of the relaxed one. For metrics that are linear
            in the sort (NDCG, DCG, ARP, precision, recall, RBP) this changes what is reported and nothing else.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        empty: what ``"mean"`` does with lists without a relevant item: ``"skip"`` leaves them out, ``"zero"`` counts
            them as 0.

    Example:
        >>> from pirank.metrics import MRR
        >>> from pirank.sorts import SoftSort
        >>> loss = PiRankLoss(metric=MRR(), sort=SoftSort(temperature=0.1))
        >>> scores = torch.tensor([0.3, 0.1, 0.2], requires_grad=True)
        >>> loss(scores, torch.tensor([0.0, 1.0, 0.0]))
        tensor(0.6545, grad_fn=<DivBackward0>)

    References:
        Swezey, Grover, Charron, Ermon: PiRank: scalable learning to rank via differentiable sorting, NeurIPS 2021.
    """

    def __init__(
        self,
        metric: Metric,
        sort: Sort,
        *,
        straight_through: bool = False,
        reduction: str = "mean",
        empty: str = "skip",
    ) -> None:
        super().__init__()
        if not isinstance(metric, Metric):
            raise TypeError(
                f"metric must be a metric of values in rank order, such as NDCG(k=10), got {metric!r}: "
                f"pair metrics such as OPA have no relaxed form"
            )
        if not isinstance(sort, Sort):
            raise TypeError(f"sort must be a pirank sort, such as NeuralSort(temperature=1.0), got {sort!r}")
        self.metric = metric
        self.sort = sort
        self.straight_through = straight_through
        self.reduction = check_choice("reduction", reduction, ("mean", "sum", "none"))
        self.empty = check_choice("empty", empty, ("skip", "zero"))

    def forward(
        self,
        scores: Tensor,
        labels: Tensor,
        *,
        mask: Tensor | None = None,
        offsets: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """The loss of a batch of lists.

        Args:
            scores: ``[..., L]``, or ``[N]`` with ``offsets``.
            labels: the same shape as ``scores``.
            mask: True at the items that are there, the same shape as ``scores``.
            offsets: ``[lists + 1]`` boundaries of flat lists.
            weights: one non-negative number a list.
        """
        return metric_after_sort(
            self.metric,
            self.sort,
            scores,
            labels,
            straight_through=self.straight_through,
            mask=mask,
            offsets=offsets,
            weights=weights,
            reduction=self.reduction,
            empty=self.empty,
        )

    def extra_repr(self) -> str:
        """The metric and the sort."""
        extra = ", straight_through=True" if self.straight_through else ""
        return f"metric={self.metric!r}, sort={self.sort!r}{extra}"


def metric_after_sort(
    metric: Metric,
    sort: Sort,
    scores: Tensor,
    labels: Tensor,
    *,
    straight_through: bool = False,
    **batch: Unpack[BatchOptions],
) -> Tensor:
    """The loss of a metric after a relaxed sort: what :class:`PiRankLoss` computes."""
    if may_fuse(metric, sort):
        fused = fused_loss(metric, sort, scores, labels, straight_through=straight_through, **batch)
        if fused is not None:
            return fused

    def per_list(scores: Tensor, labels: Tensor, mask: Tensor | None) -> Tensor:
        values = metric.item_values(labels)
        if mask is not None:
            values = torch.where(mask, values, 0)
        normaliser = metric.normaliser(values, mask)
        ranks = metric.ranks(scores.shape[-1])
        temperature = sort.temperature_of(scores, mask)
        ranked = sort.sorted_values(scores, values[:, None], mask, ranks, temperature)[:, 0]
        loss = metric.loss(metric.of_ranked(ranked, normaliser))
        if straight_through:
            hard = metric.of_ranked(ranked_values(scores.detach(), values, mask, ranks), normaliser)
            loss = loss + (metric.loss(hard) - loss).detach()
        return loss

    return list_loss(per_list, scores, labels, relevant=metric.relevant, **batch)


def relaxed_sort(
    *,
    temperature: float = 1.0,
    relative: bool = False,
    sort: str = "neural",
    depth: int = 1,
    branching: Sequence[int] | None = None,
) -> Sort:
    """The sort that the options of the PiRank losses name.

    Args:
        temperature: τ of the relaxation.
        relative: τ in units of list length × standard deviation of the list's scores (detached).
        sort: ``"neural"``, ``"soft"`` or ``"sinkhorn"``.
        depth: levels of the paper's divide and conquer; 1: the sort itself.
        branching: the divide and conquer's branching, b_1 to b_d, instead of the depth.

    Example:
        >>> relaxed_sort(temperature=0.1, depth=2)
        Tree(NeuralSort(temperature=0.1), depth=2)
    """
    node = sorts.get(sort, temperature=temperature, relative=relative)
    if branching is not None:
        return Tree(node, branching=branching, depth=None if depth == 1 else depth)
    return node if depth == 1 else Tree(node, depth=depth)


def pirank_ndcg_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    mask: Tensor | None = None,
    offsets: Tensor | None = None,
    weights: Tensor | None = None,
    k: int | None = 10,
    temperature: float = 1.0,
    relative: bool = False,
    sort: str = "neural",
    depth: int = 1,
    branching: Sequence[int] | None = None,
    straight_through: bool = False,
    reduction: str = "mean",
    empty: str = "skip",
) -> Tensor:
    r"""The paper's PiRank-NDCG loss (Eq. neuralrank_loss), exact at any list length.

    .. math:: \ell = 1 - \frac{1}{Z} \sum_{j=1}^{k} \frac{[\hat P_{\mathrm{sort}(s)}(\tau)\, g]_j}{\log_2(1 + j)},
        \qquad g = 2^y - 1

    Args:
        scores: ``[..., list_size]``, or ``[items]`` with ``offsets``.
        labels: the same shape as ``scores``, 0 for an item that is not relevant.
        mask: True at the items that are there, the same shape as ``scores``.
        offsets: ``[lists + 1]`` boundaries of flat lists.
        weights: one non-negative number a list.
        k: the cutoff; None: the whole list.
        temperature: τ of the relaxation.
        relative: τ in units of list length × standard deviation of the list's scores (detached).
        sort: the relaxation, ``"neural"`` (the paper's), ``"soft"`` or ``"sinkhorn"``.
        depth: levels of the paper's divide and conquer; 1: the sort itself.
        branching: the divide and conquer's branching, b_1 to b_d, instead of the depth.
        straight_through: report the hard 1 − NDCG, with the gradient of the relaxed one.
        reduction: ``"mean"``: the (weighted) mean over the lists that have a relevant item; ``"sum"``; ``"none"``: one
            loss a list, 0 for a list without a relevant item.
        empty: ``"zero"``: ``"mean"`` divides by all lists.

    Example:
        >>> scores = torch.tensor([[0.1, 0.9, 0.5]], requires_grad=True)
        >>> loss = pirank_ndcg_loss(scores, torch.tensor([[2.0, 0.0, 1.0]]), k=2, temperature=0.1)
        >>> loss
        tensor(0.8182, grad_fn=<DivBackward0>)

    References:
        Swezey, Grover, Charron, Ermon: PiRank: scalable learning to rank via differentiable sorting, NeurIPS 2021.
    """
    chosen = relaxed_sort(
        temperature=temperature, relative=relative, sort=sort, depth=depth, branching=branching
    )
    return metric_after_sort(
        NDCG(k),
        chosen,
        scores,
        labels,
        straight_through=straight_through,
        mask=mask,
        offsets=offsets,
        weights=weights,
        reduction=reduction,
        empty=empty,
    )


def pirank_arp_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    mask: Tensor | None = None,
    offsets: Tensor | None = None,
    weights: Tensor | None = None,
    k: int | None = None,
    temperature: float = 1.0,
    relative: bool = False,
    sort: str = "neural",
    depth: int = 1,
    branching: Sequence[int] | None = None,
    straight_through: bool = False,
    reduction: str = "mean",
    empty: str = "skip",
) -> Tensor:
    r"""The paper's PiRank-ARP loss (Eq. neuralrank_rp): the relaxed average relevance position.

    .. math:: \ell = \frac{\sum_{j=1}^{k} j\, [\hat P_{\mathrm{sort}(s)}(\tau)\, y]_j}{\sum_{j=1}^{L} y_j}

    The denominator is the sum of all the list's labels: the printed one, over j ≤ k, would depend on the order in
    which the items are given. With a small k the loss rewards pushing relevant items *beyond* rank k, so k defaults to
    the whole list.

    Args:
        scores: ``[..., list_size]``, or ``[items]`` with ``offsets``.
        labels: the same shape as ``scores``, at least 0.
        mask: True at the items that are there, the same shape as ``scores``.
        offsets: ``[lists + 1]`` boundaries of flat lists.
        weights: one non-negative number a list.
        k: the cutoff of the numerator; None: the whole list.
        temperature: τ of the relaxation.
        relative: τ in units of list length × standard deviation of the list's scores (detached).
        sort: the relaxation, ``"neural"`` (the paper's), ``"soft"`` or ``"sinkhorn"``.
        depth: levels of the paper's divide and conquer; 1: the sort itself.
        branching: the divide and conquer's branching, b_1 to b_d, instead of the depth.
        straight_through: report the hard metric, with the gradient of the relaxed one.
        reduction: ``"mean"`` over the lists that have a relevant item, ``"sum"`` or ``"none"``.
        empty: ``"zero"``: ``"mean"`` divides by all lists.

    Example:
        >>> pirank_arp_loss(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([0.0, 1.0, 0.0]), temperature=0.01)
        tensor(2.)
    """
    chosen = relaxed_sort(
        temperature=temperature, relative=relative, sort=sort, depth=depth, branching=branching
    )
    return metric_after_sort(
        ARP(k),
        chosen,
        scores,
        labels,
        straight_through=straight_through,
        mask=mask,
        offsets=offsets,
        weights=weights,
        reduction=reduction,
        empty=empty,
    )


class _NamedPiRankLoss(PiRankLoss):
    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """The names of the options."""
        return ("k", "straight_through", "reduction", "empty", *SortOptions.__annotations__)


class PiRankNDCGLoss(_NamedPiRankLoss):
    """:func:`pirank_ndcg_loss` as a module, with its options; ``loss.sort.temperature`` can be set between steps."""

    def __init__(
        self,
        *,
        k: int | None = 10,
        straight_through: bool = False,
        reduction: str = "mean",
        empty: str = "skip",
        **sort: Unpack[SortOptions],
    ) -> None:
        chosen = relaxed_sort(**sort)
        super().__init__(NDCG(k), chosen, straight_through=straight_through, reduction=reduction, empty=empty)


class PiRankARPLoss(_NamedPiRankLoss):
    """:func:`pirank_arp_loss` as a module, with its options; ``loss.sort.temperature`` can be set between steps."""

    def __init__(
        self,
        *,
        k: int | None = None,
        straight_through: bool = False,
        reduction: str = "mean",
        empty: str = "skip",
        **sort: Unpack[SortOptions],
    ) -> None:
        chosen = relaxed_sort(**sort)
        super().__init__(ARP(k), chosen, straight_through=straight_through, reduction=reduction, empty=empty)
