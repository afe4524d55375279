"""SoftSort: the simplest relaxation, a softmax of distances to the sorted scores."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pirank.sorts.anchored import SortedLists
from pirank.sorts.base import Sort, Temperature
from pirank.sorts.operators import ranked_values_by_kernels
from pirank.sorts.order import descending
from pirank.sorts.paths import take_kernels

# Weights held at a time.
_CHUNK = 1 << 18


class SoftSort(Sort):
    r"""SoftSort (Prillo and Eisenschlos, 2020), with the absolute distance.

    .. math:: \hat P_{i,\cdot} = \operatorname{softmax}\bigl[-|s_{[i]} - s| / \tau\bigr]

    where s_[i] is the i-th largest score. ``apply`` takes O(L log L + kL) time and O(L) memory, forward and backward.
    Items with equal scores share the gradient of the ranks they hold, so it does not depend on their order.

    Args:
        temperature: τ above 0, in units of the scores.
        relative: τ in units of list length × standard deviation of the list's scores (detached).

    Example:
        >>> SoftSort(temperature=1.0).matrix(torch.tensor([1.0, 3.0]))
        tensor([[0.1192, 0.8808],
                [0.8808, 0.1192]])

    References:
        Prillo, Eisenschlos: SoftSort: a continuous relaxation for the argsort operator, ICML 2020.
    """

    def sorted_values(
        self, scores: Tensor, values: Tensor, mask: Tensor | None, k: int, temperature: Temperature
    ) -> Tensor:
        rows = min(k, scores.shape[1])
        if rows == 0:
            ranked = values.new_zeros(*values.shape[:2], 0) + scores.sum() * 0
        elif take_kernels(scores, rows, scores.shape[1]):
            ranked = ranked_values_by_kernels(scores, values, mask, rows, temperature, soft=True)
        else:
            ranked = _SoftValues.apply(scores, values, mask, rows, temperature)
        return torch.nn.functional.pad(ranked, (0, k - rows)) if k > rows else ranked

    def relaxed_matrix(self, scores: Tensor, mask: Tensor | None, k: int, temperature: Temperature) -> Tensor:
        eye = torch.eye(scores.shape[1], dtype=scores.dtype, device=scores.device)
        values = eye.expand(scores.shape[0], -1, -1)
        if mask is not None:
            values = torch.where(mask[:, None], values, 0)
        return self.sorted_values(scores, values, mask, k, temperature).mT


class _SoftValues(torch.autograd.Function):
    """scores [B, L], values [B, C, L] → relaxed ranked values [B, C, k]."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, values: Tensor, mask: Tensor | None, k: int, temperature: Temperature
    ) -> Tensor:
        lists, order = descending(scores, mask, k, temperature, _drop_of_the_last)
        ordered = values.gather(2, order[:, None].expand(-1, values.shape[1], -1))
        own = ordered[:, :, :k]
        row_sums = own.new_zeros(own.shape[0], k)
        moved = torch.zeros_like(own)
        for columns in _chunks(lists, k):
            weight = _weight(lists, k, columns)
            row_sums += weight.sum(-1)
            for channel in range(own.shape[1]):
                difference = ordered[:, channel, None, columns] - own[:, channel, :, None]
                moved[:, channel] += (weight * difference).sum(-1)
        row_sums = lists.whole(row_sums)
        shift = moved / row_sums[:, None]
        ctx.save_for_backward(order, ordered, row_sums, shift, lists.scores, lists.present)
        ctx.k, ctx.temperature, ctx.list_size = k, temperature, scores.shape[1]
        ranked = own + shift
        return ranked if lists.present is None else torch.where(lists.present[:, None, :k], ranked, 0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        order, ordered, row_sums, shift, sorted_scores, present = ctx.saved_tensors
        k = ctx.k
        lists = SortedLists(sorted_scores, present, ctx.temperature)
        scaled = gradients[0] / row_sums[:, None]
        own = ordered[:, :, :k]
        by_item = torch.zeros_like(sorted_scores)
        by_row = torch.zeros_like(sorted_scores)
        by_value = torch.zeros_like(ordered) if ctx.needs_input_grad[1] else None
        for columns in _chunks(lists, k):
            weight = _weight(lists, k, columns)
            u = torch.zeros_like(weight)
            for channel in range(own.shape[1]):
                pull = weight * scaled[:, channel, :, None]
                away = (
                    ordered[:, channel, None, columns] - own[:, channel, :, None] - shift[:, channel, :, None]
                )
                u += pull * away
                if by_value is not None:
                    by_value[:, channel, columns] = pull.sum(1)
            # ∂/∂s of −|s_i − s_r|, with sign(0) = 0.
            u *= (sorted_scores[:, :k, None] - sorted_scores[:, None, columns]).sign()
            by_item[:, columns] = u.sum(1)
            by_row[:, :k] -= u.sum(2)
        ties = lists.tie_groups()
        if ties is not None:
            low, high = ties
            prefix = torch.nn.functional.pad(by_row.cumsum(-1), (1, 0))
            by_row = (prefix.gather(-1, high + 1) - prefix.gather(-1, low)) / (high - low + 1)
        by_score = (by_item + by_row) / ctx.temperature
        if present is not None:
            by_score = torch.where(present, by_score, 0)
        out = by_score.new_zeros(by_score.shape[0], ctx.list_size).scatter_(1, order, by_score)
        if by_value is not None:
            target = by_value.new_zeros(*by_value.shape[:2], ctx.list_size)
            by_value = target.scatter_(2, order[:, None].expand_as(by_value), by_value)
        return out, by_value, None, None, None


def _drop_of_the_last(lists: SortedLists, k: int) -> Tensor:
    """By how many temperatures the last item's logit lies below every row's maximum, at the least."""
    return (lists.scores[:, k - 1 : k] - lists.scores[:, -1:]) / lists.temperature


def _chunks(lists: SortedLists, k: int) -> list[slice]:
    width = lists.scores.shape[1]
    if torch.compiler.is_compiling():
        return [slice(0, width)]
    size = max(64, _CHUNK // max(1, lists.scores.shape[0] * k))
    return [slice(low, min(low + size, width)) for low in range(0, width, size)]


def _weight(lists: SortedLists, k: int, columns: slice) -> Tensor:
    """exp(−|s_i − s_r|/τ): ``[B, k, columns]``; the row's maximum is 1, at its own item."""
    distance = (lists.scores[:, :k, None] - lists.scores[:, None, columns]).abs()
    weight = distance.div_(lists.temperature_of_rows()).neg_().exp_()
    return weight if lists.present is None else torch.where(lists.present[:, None, columns], weight, 0)
