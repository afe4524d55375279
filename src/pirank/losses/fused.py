"""PiRank losses by kernels: a linear metric after a sort, value and gradient in one pass over the lists."""

from __future__ import annotations

import torch
from torch import Tensor

from pirank.lists import (
    check_choice,
    check_finite,
    check_mask,
    check_offsets,
    check_pair,
    longest_list,
    reduce_lists,
)
from pirank.metrics import LinearMetric, Metric
from pirank.metrics.labels import may_look
from pirank.sorts import NeuralSort, SoftSort, Sort
from pirank.sorts.operators import linear_losses_by_kernels
from pirank.sorts.paths import LONGEST_SHORT, may_take_kernels, take_kernels


def may_fuse(metric: Metric, sort: Sort) -> bool:
    """Whether there is a kernel for this metric after this sort; a subclass's own sort has none."""
    return isinstance(metric, LinearMetric) and type(sort) in (NeuralSort, SoftSort)


def fused_loss(
    metric: Metric,
    sort: Sort,
    scores: Tensor,
    labels: Tensor,
    *,
    straight_through: bool = False,
    mask: Tensor | None = None,
    offsets: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "mean",
    empty: str = "skip",
) -> Tensor | None:
    """The loss of :func:`~pirank.losses.pirank.metric_after_sort`; None where kernels do not serve these lists."""
    if not isinstance(scores, Tensor) or not may_take_kernels(scores):
        return None
    assert isinstance(metric, LinearMetric), "asked before"
    check_choice("reduction", reduction, ("mean", "sum", "none"))
    check_choice("empty", empty, ("skip", "zero"))
    scores, labels = check_pair(scores, labels)
    if offsets is not None and mask is not None:
        raise ValueError("mask and offsets exclude each other: flat lists hold no padding")
    mask = check_mask(mask, scores)
    shape = scores.shape[:-1]
    if offsets is None:
        longest = scores.shape[-1]
    else:
        given = torch.as_tensor(offsets)
        offsets = check_offsets(given, scores)
        longest = longest_list(given, scores.numel(), ask_beyond=LONGEST_SHORT)
        shape = torch.Size([offsets.numel() - 1])
    ranks = metric.ranks(longest)
    if not take_kernels(scores, ranks, longest, whole=True):
        return None
    if may_look(scores) and mask is not None:
        labels = torch.where(mask, labels, 0)
    for name, values in (("scores", scores), ("labels", labels)):
        check_finite(values, None if offsets is not None else mask, name)
    if may_look(labels):
        metric.check_labels(labels)
    if offsets is None:
        scores, labels = scores.reshape(-1, longest), labels.reshape(-1, longest)
        mask = None if mask is None else mask.reshape(-1, longest)
    gain, threshold = metric.gain_rule or ("same", 0.0)
    if metric.gain_rule is None:
        labels = metric.item_values(labels)
    mean, losses = linear_losses_by_kernels(
        scores,
        labels,
        metric.rank_weights(ranks, scores),
        mask,
        offsets,
        None,
        float(sort.temperature),
        longest,
        sort.relative,
        isinstance(sort, SoftSort),
        gain,
        threshold,
        metric.per,
        metric.at_most,
        0.0 if metric.lower_is_better else metric.upper_bound,
        1.0 if metric.lower_is_better else -1.0,
        straight_through,
        empty == "zero",
        torch.is_grad_enabled() and scores.requires_grad,
    )
    if reduction == "mean" and weights is None:
        return mean
    counted = losses[1].reshape(shape) > 0
    counted = torch.ones_like(counted) if empty == "zero" else counted
    return reduce_lists(losses[0].reshape(shape), counted, weights=weights, reduction=reduction)
