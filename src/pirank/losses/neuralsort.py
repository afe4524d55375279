"""The cross-entropy between the true permutation matrix of a list and its relaxation."""

from __future__ import annotations

import torch
from torch import Tensor

from pirank.losses.base import ListLoss, list_loss
from pirank.losses.blocked import with_gradient
from pirank.losses.neural_rows import NeuralRows
from pirank.sorts.base import check_temperature


def neuralsort_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    temperature: float = 1.0,
    label_temperature: float | None = None,
    mask: Tensor | None = None,
    offsets: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "mean",
    empty: str = "skip",
) -> Tensor:
    r"""NeuralSort: the cross-entropy of the relaxed permutation matrix with the true one.

    .. math:: \ell(s, y) = -\frac1L \sum_{i=1}^{L} \sum_{j=1}^{L} P_{ij}(y) \log \hat P_{ij}(s)

    with P̂(s) NeuralSort's relaxed permutation matrix, and P(y) the one that sorts the labels. Where m items
    have the same label, the ranks they share are given to each of them in equal parts, :math:`P_{ij} = 1/m`:
    the limit of P̂(y) as its temperature falls to 0. The loss then wants their scores to be equal too.

    The whole matrix takes part, O(L²) in time and O(L) in memory.

    Args:
        scores, labels, mask, offsets, weights, reduction, empty: as in :func:`~pirank.losses.list_loss`.
        temperature: τ, how soft P̂(s) is; above 0.
        label_temperature: take P̂(y) at this temperature as the true matrix, as TF-Ranking does at 1; None: the
            permutation matrix itself, in equal parts where labels are tied.

    Example:
        >>> neuralsort_loss(torch.tensor([1.0, 3.0]), torch.tensor([0.0, 1.0]))
        tensor(0.1269)

    References:
        Grover, Wang, Zweig, Ermon: Stochastic optimization of sorting networks via continuous relaxations,
        ICLR 2019.
    """
    check_temperature(temperature)
    if label_temperature is not None:
        check_temperature(label_temperature)

    def per_list(scores: Tensor, labels: Tensor, mask: Tensor | None) -> Tensor:
        def compute(scores: Tensor, wanted: bool) -> tuple[Tensor, Tensor | None]:
            value, gradient = _cross_entropy(scores, labels, mask, temperature, label_temperature, wanted)
            return value.to(scores.dtype), None if gradient is None else gradient.to(scores.dtype)

        return with_gradient(scores, compute)

    return list_loss(
        per_list, scores, labels,
        mask=mask, offsets=offsets, weights=weights, reduction=reduction, empty=empty,
    )  # fmt: skip


class NeuralSortLoss(ListLoss, function=neuralsort_loss):
    """:func:`neuralsort_loss` as a module."""


def _cross_entropy(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor | None,
    temperature: float,
    label_temperature: float | None,
    wanted: bool,
) -> tuple[Tensor, Tensor | None]:
    matrix = NeuralRows(scores, mask, temperature)
    rank, present = matrix.rank, matrix.present
    near, far = matrix.sums()
    # −log P̂_i(r) = c_i(r) + log Σ e^−c_i is linear in S_r and T_r: a row of P enters through their means.
    means, column_sums, by_rank = _target(
        matrix, labels, mask, label_temperature, torch.stack([near, far], 1)
    )
    cost = (means[:, 1] - far) - 2 * rank * (means[:, 0] - near)
    total = torch.where(present, cost, 0).sum(-1)
    columns, ranks = torch.zeros_like(near), torch.zeros_like(near)
    for block in matrix.blocks():
        total = total + block.log_sums.sum(-1)
        if wanted:
            columns[:, block.columns] += block.weights.sum(1)
            ranks[:, block.columns] += rank[block.rows] @ block.weights
    items = present.sum(-1).clamp(min=1)
    if not wanted:
        return total / items, None
    gradient = matrix.gradient(columns - column_sums, ranks - by_rank)
    return total / items, gradient / items[:, None]


def _target(
    matrix: NeuralRows, labels: Tensor, mask: Tensor | None, label_temperature: float | None, values: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """What the cross-entropy needs of the true matrix P, with ``values [B, 2, L]``, items by falling score.

    Returns ``P values``, ranks first to last; and, by falling score, P's column sums and those of ``i·P_ij``.
    """
    by_label = NeuralRows(labels, mask, 1.0 if label_temperature is None else label_temperature)
    # The rank by score of the item at each rank by label.
    place = matrix.order.argsort(-1).gather(-1, by_label.order)
    values = values.gather(-1, place[:, None].expand(-1, 2, -1))
    if label_temperature is None:
        means, column_sums, by_rank = _equal_parts(by_label, values)
    else:
        means, column_sums = torch.zeros_like(values), torch.zeros_like(by_label.ranked)
        by_rank = torch.zeros_like(column_sums)
        for block in by_label.blocks():
            means[:, :, block.rows] = values[:, :, block.columns] @ block.weights.mT
            column_sums[:, block.columns] += block.weights.sum(1)
            by_rank[:, block.columns] += by_label.rank[block.rows] @ block.weights
    return (
        means,
        torch.empty_like(column_sums).scatter_(-1, place, column_sums),
        torch.empty_like(by_rank).scatter_(-1, place, by_rank),
    )


def _equal_parts(by_label: NeuralRows, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The matrix that gives the ranks of tied labels to each of them in equal parts."""
    rising = -by_label.ranked
    low = torch.searchsorted(rising, rising)
    above = torch.searchsorted(rising, rising, right=True)
    size = above - low
    group = low[:, None].expand_as(values)
    means = torch.zeros_like(values).scatter_add_(-1, group, values).gather(-1, group) / size[:, None]
    return means, by_label.present.double(), (low + above - 1).double() / 2 * by_label.present
