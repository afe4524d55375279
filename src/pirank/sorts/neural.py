"""NeuralSort: exact, in linear memory, with its gradient in closed form."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pirank.sorts.anchored import Gradient, SortedLists
from pirank.sorts.base import Sort, Temperature
from pirank.sorts.operators import ranked_values_by_kernels
from pirank.sorts.order import descending
from pirank.sorts.paths import take_kernels

# Up to this many weights are kept for the backward pass; more are made again.
_DENSE = 1 << 18
# Far down the list neighbouring rows weigh almost the same in a metric, and where two items are nearly tied their
# gradients almost cancel: with more rows than this, small batches are worked out in float64.
_MANY_ROWS = 16


class NeuralSort(Sort):
    r"""NeuralSort (Grover et al., 2019), the paper's choice, computed exactly without its pairwise matrix.

    .. math::
        \hat P_{i,\cdot} = \operatorname{softmax}\bigl[((L + 1 - 2i)\, s - A_s \mathbf 1) / \tau\bigr],
        \qquad [A_s]_{ij} = |s_i - s_j|

    ``apply`` takes O(L log L + kL) time and O(L) memory, forward and backward; padding does not take part. At ties
    the gradient is that of the definition with sign(0) = 0, whatever order the items come in.

    Args:
        temperature: τ above 0. At a fixed τ only the items within about τ of the top ranks carry weight.
        relative: τ in units of list length × standard deviation of the list's scores (detached).

    Example:
        >>> sort = NeuralSort(temperature=0.1)
        >>> sort.apply(torch.tensor([1.0, 3.0, 2.0]), torch.tensor([10.0, 30.0, 20.0]), k=2)
        tensor([29.9995, 20.0000])
        >>> NeuralSort(temperature=2.0).matrix(torch.tensor([1.0, 3.0]))
        tensor([[0.2689, 0.7311],
                [0.7311, 0.2689]])

    References:
        Grover, Wang, Zweig, Ermon: Stochastic optimization of sorting networks via continuous relaxations, ICLR 2019.
    """

    def sorted_values(
        self, scores: Tensor, values: Tensor, mask: Tensor | None, k: int, temperature: Temperature
    ) -> Tensor:
        rows = min(k, scores.shape[1])
        if rows == 0:
            ranked = values.new_zeros(*values.shape[:2], 0) + scores.sum() * 0
        elif take_kernels(scores, rows, scores.shape[1]):
            ranked = ranked_values_by_kernels(scores, values, mask, rows, temperature, soft=False)
        else:
            ranked = _SortedValues.apply(scores, values, mask, rows, temperature)
        return torch.nn.functional.pad(ranked, (0, k - rows)) if k > rows else ranked

    def relaxed_matrix(self, scores: Tensor, mask: Tensor | None, k: int, temperature: Temperature) -> Tensor:
        rows = min(k, scores.shape[1])
        if rows == 0:
            return scores.new_zeros(scores.shape[0], k, scores.shape[1])
        matrix: Tensor = _Matrix.apply(scores, mask, rows, temperature)
        return torch.nn.functional.pad(matrix, (0, 0, 0, k - rows)) if k > rows else matrix


def _drop_of_the_last(lists: SortedLists, k: int) -> Tensor:
    """G of the last item: P̂_i(r) ≤ exp(−G_r/τ) for every row i ≤ k, and G never falls."""
    steps = 2 * (lists.rank[k - 1 : -1] - (k - 1)) + 1
    return (lists.gaps[:, k - 1 :] * steps).sum(-1)


class _SortedValues(torch.autograd.Function):
    """scores [B, L], values [B, C, L] → relaxed ranked values [B, C, k].

    Small batches keep the weights [B, k, W]; large ones keep nothing of size kL and go over the list in chunks, once
    forward and once backward.
    """

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, values: Tensor, mask: Tensor | None, k: int, temperature: Temperature
    ) -> Tensor:
        lists, order = descending(scores, mask, k, temperature, _drop_of_the_last)
        ordered = values.gather(2, order[:, None].expand(-1, values.shape[1], -1))
        own = ordered[:, :, :k]
        ctx.dense = torch.compiler.is_compiling() or ordered.numel() * k <= _DENSE
        if ctx.dense and k > _MANY_ROWS and scores.device.type == "cpu":
            lists = SortedLists(lists.scores.double(), lists.present, temperature)
            ordered = ordered.double()
            own = ordered[:, :, :k]
        kept: tuple[Tensor, ...] = ()
        if ctx.dense:
            weight = lists.weights(k)
            away = ordered[:, :, None] - own[..., None]
            row_sums = lists.whole(weight.sum(-1))
            shift = (weight[:, None] * away).sum(-1) / row_sums[:, None]
            kept = (weight, away)
        else:
            sums = _stream_sums(lists, ordered, k)
            row_sums = lists.whole(sums[:, 0])
            shift = sums[:, 1:] / row_sums[:, None]
        ctx.save_for_backward(order, ordered, row_sums, shift, lists.scores, lists.present, *kept)
        ctx.k, ctx.temperature, ctx.list_size = k, temperature, scores.shape[1]
        ranked = (own + shift).to(scores.dtype)
        return ranked if lists.present is None else torch.where(lists.present[:, None, :k], ranked, 0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        order, ordered, row_sums, shift, sorted_scores, present, *kept = ctx.saved_tensors
        lists = SortedLists(sorted_scores, present, ctx.temperature)
        scaled = gradients[0] / row_sums[:, None]
        gradient = Gradient(lists, ctx.k, ordered if ctx.needs_input_grad[1] else None)
        if ctx.dense:
            weight, away = kept
            pull = weight[:, None] * scaled[..., None]
            gradient.add_rows(slice(0, ctx.k), slice(None), pull * (away - shift[..., None]), pull)
        else:
            _stream_gradient(gradient, ordered, ordered[:, :, : ctx.k], shift, scaled)
        by_score, by_value = gradient.by_score().to(gradients[0].dtype), gradient.by_value
        out = by_score.new_zeros(by_score.shape[0], ctx.list_size).scatter_(1, order, by_score)
        if by_value is not None:
            target = by_value.new_zeros(*by_value.shape[:2], ctx.list_size)
            by_value = target.scatter_(2, order[:, None].expand_as(by_value), by_value).to(out.dtype)
        return out, by_value, None, None, None


def _stream_sums(lists: SortedLists, ordered: Tensor, k: int) -> Tensor:
    """``[B, 1 + C, k]``: the rows' weight, and for every channel Σ_r e_i(r) (g_r − g_i), both unnormalised."""
    own = ordered[:, :, :k]
    sums = own.new_empty(own.shape[0], own.shape[1] + 1, k)
    for first, stop in lists.blocks(k):
        inner = lists.inner(first, stop)
        rows = slice(first, stop)
        mine = own[:, :, rows]
        sums[:, 0, rows] = inner.sum(-1)
        # Each row sums differences to its own item's value: exact zeros where neighbours agree.
        sums[:, 1:, rows] = (inner[:, None] * (mine[:, :, :, None].mT - mine[:, :, :, None])).sum(-1)
        for tail in lists.tails(first, stop, inner):
            mass = tail.weight.sum(-1) * tail.factor
            sums[:, 0, rows] += mass
            for channel in range(own.shape[1]):
                reference = ordered[:, channel, tail.anchor, None]
                difference = ordered[:, channel, tail.columns] - reference
                moved = (tail.weight * difference[:, None]).sum(-1) * tail.factor
                sums[:, channel + 1, rows] += moved + (reference - mine[:, channel]) * mass
    return sums


def _stream_gradient(gradient: Gradient, ordered: Tensor, own: Tensor, shift: Tensor, scaled: Tensor) -> None:
    """Add u_i(r) = Σ_c scaled_ci e_i(r) ((g_cr − g_ci) − δ_ci) of every row and item."""
    lists = gradient.lists
    for first, stop in lists.blocks(own.shape[2]):
        rows = slice(first, stop)
        inner = lists.inner(first, stop)
        mine, moved = own[:, :, rows, None], shift[:, :, rows]
        pull = inner[:, None] * scaled[:, :, rows, None]
        gradient.add_rows(rows, rows, pull * (mine.mT - mine - moved[..., None]), pull)
        for tail in lists.tails(first, stop, inner):
            for channel in range(ordered.shape[1]):
                reference = ordered[:, channel, tail.anchor, None]
                pulled = scaled[:, channel, rows] * tail.factor
                offset = reference - own[:, channel, rows] - moved[:, channel]
                difference = ordered[:, channel, tail.columns] - reference
                gradient.add_tail(rows, tail, channel, difference, pulled, pulled * offset)


class _Matrix(torch.autograd.Function):
    """scores [B, L] → the first k rows of the matrix [B, k, L], columns in the order of the input."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, mask: Tensor | None, k: int, temperature: Temperature) -> Tensor:
        lists, order = descending(scores, mask, k, temperature, None)
        weights = lists.weights(k)
        weights = weights / lists.whole(weights.sum(-1))[..., None]
        ctx.save_for_backward(order, weights, lists.scores, lists.present)
        ctx.temperature = temperature
        return torch.zeros_like(weights).scatter_(2, order[:, None].expand_as(weights), weights)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        order, weights, sorted_scores, present = ctx.saved_tensors
        by_weight = gradients[0].gather(2, order[:, None].expand_as(weights))
        mean = (by_weight * weights).sum(-1, keepdim=True)
        k = weights.shape[1]
        gradient = Gradient(SortedLists(sorted_scores, present, ctx.temperature), k, None)
        gradient.add_rows(slice(0, k), slice(None), (weights * (by_weight - mean))[:, None], None)
        by_score = gradient.by_score()
        return torch.zeros_like(by_score).scatter_(1, order, by_score), None, None, None
