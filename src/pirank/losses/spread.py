"""Lists that lie on several processes, each of which holds some items of every list.

:func:`whole_lists` brings the scores together, for any loss. :class:`SpreadLoss` is the paper's divide and conquer with
the processes for leaves: each sends the few values that are left of its part.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed, nn

from pirank.lists import check_finite, check_mask, check_pair, reduce_lists
from pirank.losses.pirank import PiRankLoss
from pirank.metrics import LinearMetric
from pirank.metrics.base import lengths_of


def whole_lists(
    scores: Tensor, labels: Tensor, *, mask: Tensor | None = None, group: Any = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The whole lists, of which every process of the group holds a part, for any loss.

    Every process gets the same, computes the same loss from it, and the gradient goes to its own part. A process may
    hold more items than another: its part's width is made that of the widest, and the mask says what is there.

    Args:
        scores: ``[..., part]``, the scores of this process's items.
        labels: the same shape as ``scores``.
        mask: True at the items that are there, the same shape as ``scores``.
        group: of ``torch.distributed``; None: all processes.

    Returns:
        Scores, labels and mask ``[..., processes × widest part]``, in the order of the processes.

    Example:
        >>> scores, labels, mask = whole_lists(my_scores, my_labels)  # doctest: +SKIP
        >>> loss = softmax_loss(scores, labels, mask=mask)  # doctest: +SKIP
    """
    _check_group(group)
    scores, labels = check_pair(scores, labels)
    mask = check_mask(mask, scores)
    there = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask
    widest = int(_over_all(torch.tensor(scores.shape[-1], device=scores.device), "max", group))
    missing = (0, widest - scores.shape[-1])
    parts = (torch.nn.functional.pad(part, missing) for part in (scores, labels, there))
    whole_scores, whole_labels, whole_mask = (_Gathered.apply(part, group) for part in parts)
    return whole_scores, whole_labels, whole_mask


class SpreadLoss(nn.Module):
    r"""A PiRank loss of lists that lie on several processes: the paper's tree, with a leaf on each of them.

    Every process sorts its own part of each list with the loss's sort and keeps the top k. Those of all processes are
    brought together and sorted once more: what is sent is 3k numbers a list and process, whatever the length of the
    lists. It is the loss after ``Tree(sort, branching=(part, processes))`` on one device; the exact loss of whole lists
    is that of :func:`whole_lists`.

    All processes get the same loss, and the gradient for their own scores. The gradients by the weights of a network
    that all of them have are to be summed over the processes; ``DistributedDataParallel`` takes their mean, so multiply
    the loss by the number of processes there.

    Args:
        loss: with a metric that is linear in the ranked values (NDCG, DCG, ARP, precision, recall, RBP), and a sort
            whose temperature is not relative.
        group: of ``torch.distributed``; None: all processes.

    Example:
        >>> loss = SpreadLoss(PiRankNDCGLoss(k=10, temperature=5.0))  # doctest: +SKIP
        >>> loss(scores_of_my_items, labels_of_my_items).backward()  # doctest: +SKIP

    References:
        Swezey, Grover, Charron, Ermon: PiRank: scalable learning to rank via differentiable sorting, NeurIPS 2021,
        section 3.3.
    """

    def __init__(self, loss: PiRankLoss, *, group: Any = None) -> None:
        super().__init__()
        if not isinstance(loss, PiRankLoss):
            raise TypeError(
                f"loss must be a PiRank loss, got {type(loss).__name__}: use whole_lists for others"
            )
        if not isinstance(loss.metric, LinearMetric):
            raise ValueError(
                f"metric must be linear in the ranked values, {loss.metric!r} is not: use whole_lists for it"
            )
        if loss.sort.relative:
            raise ValueError(
                "the sort's temperature must not be relative: no process knows the spread of all scores; give an "
                "absolute temperature, or use whole_lists"
            )
        self.loss = loss
        self.group = group

    def forward(
        self, scores: Tensor, labels: Tensor, *, mask: Tensor | None = None, weights: Tensor | None = None
    ) -> Tensor:
        """The loss of the whole lists.

        Args:
            scores: ``[..., part]``, the scores of this process's items, any number of them.
            labels: the same shape as ``scores``.
            mask: True at the items that are there, the same shape as ``scores``.
            weights: one non-negative number a list, the same in all processes.
        """
        _check_group(self.group)
        scores, labels = check_pair(scores, labels)
        mask = check_mask(mask, scores)
        if mask is not None:
            scores, labels = torch.where(mask, scores, 0), torch.where(mask, labels, 0)
        check_finite(scores, mask, "scores")
        check_finite(labels, mask, "labels")
        shape, part = scores.shape[:-1], scores.shape[-1]
        lists = shape.numel()
        flat_mask = None if mask is None else mask.reshape(lists, part)
        with torch.autocast(scores.device.type, enabled=False):
            per_list, counted = self._per_list(
                scores.reshape(lists, part), labels.reshape(lists, part), flat_mask
            )
        counted = torch.ones_like(counted) if self.loss.empty == "zero" else counted
        return reduce_lists(
            per_list.reshape(shape), counted.reshape(shape), weights=weights, reduction=self.loss.reduction
        )

    def _per_list(self, scores: Tensor, labels: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """One loss a list, and whether it has a relevant item anywhere."""
        metric, sort, group = self.loss.metric, self.loss.sort, self.group
        assert isinstance(metric, LinearMetric), "checked when it was made"
        values = metric.item_values(labels)
        found = metric.relevant(labels)
        if mask is not None:
            values, found = torch.where(mask, values, 0), found & mask
        ranks = metric.ranks(
            int(_over_all(torch.tensor(scores.shape[-1], device=scores.device), "sum", group))
        )
        counted = _over_all(found.any(-1).to(values.dtype), "max", group) > 0
        normaliser = self._normaliser(metric, values, mask, ranks)

        def top(keys: Tensor, ride: Tensor, there: Tensor | None) -> Tensor:
            return sort.sorted_values(keys, ride, there, ranks, sort.temperature)

        kept = torch.arange(ranks, device=scores.device) < lengths_of(values, mask)[:, None]
        scores = torch.where(counted[:, None], scores, 0)
        # Scores and values, [lists, 2, ranks] of each process, side by side.
        left = _Gathered.apply(top(scores, torch.stack([scores, values], 1), mask), group)
        there = _Gathered.apply(kept, group)
        loss = metric.loss(metric.of_ranked(top(left[:, 0], left[:, 1:], there)[:, 0], normaliser))
        if self.loss.straight_through:
            hard = metric.of_ranked(_hard_top(scores.detach(), values, mask, ranks, group), normaliser)
            loss = loss + (metric.loss(hard) - loss).detach()
        return torch.where(counted, loss, 0), counted

    def _normaliser(self, metric: LinearMetric, values: Tensor, mask: Tensor | None, ranks: int) -> Tensor:
        if metric.per == "ideal":
            return metric.normaliser(_Gathered.apply(_best(values, ranks), self.group), None)
        if metric.per == "constant":
            return metric.normaliser(values, mask)
        return metric.bounded(_over_all(metric.amount(values, mask), "sum", self.group))


def _best(values: Tensor, ranks: int) -> Tensor:
    """The greatest values of each list, filled with 0, ``[B, ranks]``."""
    best = values.topk(min(ranks, values.shape[-1]), dim=-1).values
    return torch.nn.functional.pad(best, (0, ranks - best.shape[-1]))


def _hard_top(scores: Tensor, values: Tensor, mask: Tensor | None, ranks: int, group: Any) -> Tensor:
    """The values in the order of a real sort of the whole lists; equal scores in the order of processes and items."""
    keys = scores if mask is None else scores.masked_fill(~mask, float("-inf"))
    keys, values = (_Gathered.apply(part, group) for part in _in_order(keys, values, ranks))
    return _in_order(keys, values, ranks)[1]


def _in_order(keys: Tensor, values: Tensor, ranks: int) -> tuple[Tensor, Tensor]:
    """The greatest keys and their values, ``[B, ranks]``; −∞ and 0 where there are no more."""
    order = keys.argsort(dim=-1, descending=True, stable=True)[:, :ranks]
    missing = (0, ranks - order.shape[-1])
    return (
        torch.nn.functional.pad(keys.gather(-1, order), missing, value=float("-inf")),
        torch.nn.functional.pad(values.gather(-1, order), missing),
    )


def _check_group(group: Any) -> None:
    if not (distributed.is_available() and distributed.is_initialized()):
        raise RuntimeError(
            "lists over several processes need torch.distributed: start them with torchrun and call "
            "torch.distributed.init_process_group()"
        )


def _over_all(values: Tensor, how: str, group: Any) -> Tensor:
    """The sum or maximum over processes, elementwise."""
    total = values.clone()
    distributed.all_reduce(
        total, distributed.ReduceOp.SUM if how == "sum" else distributed.ReduceOp.MAX, group
    )
    return total


class _Gathered(torch.autograd.Function):
    """``[..., n]`` of every process to ``[..., processes × n]``.

    All compute the same from it, so the gradient of a process is its part of its own computation.
    """

    @staticmethod
    def forward(ctx: Any, part: Tensor, group: Any) -> Tensor:
        part = part.contiguous()
        parts = [torch.empty_like(part) for _ in range(distributed.get_world_size(group))]
        distributed.all_gather(parts, part, group)
        ctx.place, ctx.width = distributed.get_rank(group), part.shape[-1]
        return torch.cat(parts, -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0].narrow(-1, ctx.place * ctx.width, ctx.width), None
