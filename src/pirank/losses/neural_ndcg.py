"""NDCG after a NeuralSort whose matrix is scaled until its columns sum to one too."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pirank.lists import check_k
from pirank.losses.base import ListLoss, list_loss
from pirank.losses.blocked import with_gradient
from pirank.losses.neural_rows import NeuralRows
from pirank.metrics import NDCG
from pirank.metrics.labels import may_look
from pirank.sorts.base import check_temperature


def neural_ndcg_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    temperature: float = 1.0,
    k: int | None = None,
    transposed: bool = False,
    max_iterations: int = 50,
    tolerance: float = 1e-6,
    mask: Tensor | None = None,
    offsets: Tensor | None = None,
    weights: Tensor | None = None,
    reduction: str = "mean",
    empty: str = "skip",
) -> Tensor:
    r"""NeuralNDCG, 1 − NDCG of the list sorted by NeuralSort's matrix after Sinkhorn scaling.

    .. math::
        \ell(s, y) = 1 - \frac{1}{\mathrm{maxDCG@}k(y)} \sum_{i=1}^{k} \frac{\sum_j \tilde P_{ij}\,(2^{y_j} - 1)}
        {\log_2(1 + i)}

    with P̃ the matrix P̂ of NeuralSort, its columns and its rows divided by their sums in turn.

    The transposed form weighs each item's gain by the discount it expects,
    :math:`\sum_j (2^{y_j} - 1) \sum_i \tilde P_{ij} / \log_2(1 + i)`: the same double sum, taken the other
    way round. Value and gradient are those of the plain form up to rounding.

    P̂ is kept for the length of the call, up to 4·L² bytes a list in float32, less where its far corners are
    zero; for the way back only the gradient is. To go to the limit of the scaling use
    ``PiRankLoss(NDCG(), Sinkhorn())``; to do without the matrix, :func:`~pirank.losses.pirank_ndcg_loss`.

    Args:
        scores, labels, mask, offsets, weights, reduction, empty: as in :func:`~pirank.losses.list_loss`.
        temperature: τ, how soft P̂ is; above 0.
        k: the cutoff; None: the whole list.
        transposed: take the double sum over items first.
        max_iterations: how often columns and rows are scaled at most; 0 is PiRank's NDCG.
        tolerance: a list is done when its columns sum to 1 up to this.

    Example:
        >>> neural_ndcg_loss(torch.tensor([0.1, 0.2, 0.3]), torch.tensor([1.0, 0.0, 0.0]))
        tensor(0.3225)

    References:
        Pobrotyn, Białobrzeski: NeuralNDCG: direct optimisation of a ranking metric via differentiable
        relaxation of sorting, 2021.
    """
    check_temperature(temperature)
    check_k(k)
    if isinstance(max_iterations, bool) or not isinstance(max_iterations, int) or max_iterations < 0:
        raise ValueError(f"max_iterations must be a whole number of at least 0, got {max_iterations!r}")
    if not 0 <= tolerance < 1:
        raise ValueError(f"tolerance must be from 0 to 1, the error a column's sum may have: got {tolerance}")
    ndcg = NDCG(k=k)

    def per_list(scores: Tensor, labels: Tensor, mask: Tensor | None) -> Tensor:
        gains = ndcg.item_values(labels)
        ideal = ndcg.normaliser(gains, mask)
        gains = gains / torch.where(ideal > 0, ideal, 1)[:, None]

        def compute(scores: Tensor, wanted: bool) -> tuple[Tensor, Tensor | None]:
            matrix = ScaledMatrix(NeuralRows(scores, mask, temperature), scores.dtype)
            scaling = matrix.scale(max_iterations, tolerance)
            by_rank = gains.gather(-1, matrix.sort.order)
            discounts = 1 / torch.log2(2 + matrix.sort.rank)
            discounts = torch.where(matrix.sort.rank < ndcg.ranks(scores.shape[-1]), discounts, 0)
            value = matrix.form(scaling, discounts.to(scores.dtype), by_rank, transposed)
            if not wanted:
                return 1 - value, None
            gradient = matrix.gradient(scaling, discounts.to(scores.dtype), by_rank)
            return 1 - value, -gradient.to(scores.dtype)

        return with_gradient(scores, compute)

    return list_loss(
        per_list, scores, labels,
        mask=mask, offsets=offsets, weights=weights, reduction=reduction, empty=empty,
    )  # fmt: skip


class NeuralNDCGLoss(ListLoss, function=neural_ndcg_loss):
    """:func:`neural_ndcg_loss` as a module."""


class Step(NamedTuple):
    """One scaling of the columns and then of the rows, P̃ = diag(rows) P̂ diag(columns)."""

    columns: Tensor
    rows: Tensor
    active: Tensor
    """``[B, 1]``: the lists that were not done before it."""


class ScaledMatrix:
    """NeuralSort's matrix P̂, kept in blocks of rows, and what Sinkhorn's scaling makes of it."""

    def __init__(self, sort: NeuralRows, dtype: torch.dtype) -> None:
        self.sort = sort
        self.present = sort.present.to(dtype)
        self.blocks = [block._replace(weights=block.weights.to(dtype)) for block in sort.blocks()]

    def times(self, items: Tensor) -> Tensor:
        """P̂ v, ``[B, L]`` items to ``[B, L]`` ranks."""
        # A row times the transposed matrix: on a CPU many times faster than the matrix times a column.
        parts = [(items[:, None, block.columns] @ block.weights.mT)[:, 0] for block in self.blocks]
        return torch.cat(parts, dim=-1)

    def transposed_times(self, ranks: Tensor) -> Tensor:
        """P̂ᵀ u, ``[B, L]`` ranks to ``[B, L]`` items."""
        total = torch.zeros_like(ranks)
        for block in self.blocks:
            total[:, block.columns] += (ranks[:, None, block.rows] @ block.weights)[:, 0]
        return total

    def scale(self, max_iterations: int, tolerance: float) -> list[Step]:
        """The scaling step by step, first the identity; each list stops where its columns sum to 1."""
        columns = rows = self.present
        active = torch.ones_like(columns[:, :1], dtype=torch.bool)
        steps = [Step(columns, rows, active)]
        for _ in range(max_iterations):
            sums = self.transposed_times(rows)
            active = active & ((sums * columns - self.present).abs().amax(-1, keepdim=True) > tolerance)
            if may_look(active) and not bool(active.any()):
                break
            columns = torch.where(active, _inverse(sums), columns)
            rows = torch.where(active, _inverse(self.times(columns)), rows)
            steps.append(Step(columns, rows, active))
        return steps

    def form(self, scaling: list[Step], ranks: Tensor, items: Tensor, transposed: bool) -> Tensor:
        """Σ_ij ranks_i P̃_ij items_j, ``[B]``."""
        left, right = ranks * scaling[-1].rows, items * scaling[-1].columns
        if transposed:
            return (self.transposed_times(left) * right).sum(-1)
        return (left * self.times(right)).sum(-1)

    def gradient(self, scaling: list[Step], ranks: Tensor, items: Tensor) -> Tensor:
        """The gradient of :meth:`form` in the scores, ``[B, L]`` in the order of the input."""
        last = scaling[-1]
        left, right = ranks * last.rows, items * last.columns
        # The derivative in P̂ is a sum of outer products, one for the form and two for each step back.
        lefts, rights = [left], [right]
        of_rows, of_columns = ranks * self.times(right), items * self.transposed_times(left)
        for before, step in zip(scaling[-2::-1], scaling[:0:-1], strict=True):
            # rows = 1 / P̂ columns, columns = 1 / P̂ᵀ rows_before
            of_sums = torch.where(step.active, -of_rows * step.rows.square(), 0)
            lefts.append(of_sums)
            rights.append(step.columns)
            of_columns = of_columns + self.transposed_times(of_sums)
            of_sums = torch.where(step.active, -of_columns * step.columns.square(), 0)
            lefts.append(before.rows)
            rights.append(of_sums)
            of_rows = torch.where(step.active, self.times(of_sums), of_rows)
            of_columns = torch.where(step.active, 0, of_columns)
        return self._through_softmax(torch.stack(lefts, -1), torch.stack(rights, 1))

    def _through_softmax(self, lefts: Tensor, rights: Tensor) -> Tensor:
        """From the derivative ``lefts [B, L, n] @ rights [B, n, L]`` in P̂ to that in the scores."""
        columns, by_rank = torch.zeros_like(self.sort.ranked), torch.zeros_like(self.sort.ranked)
        for block in self.blocks:
            of_weights = lefts[:, block.rows] @ rights[:, :, block.columns]
            of_logits = (of_weights - (of_weights * block.weights).sum(-1, keepdim=True)) * block.weights
            of_logits = of_logits.double()
            columns[:, block.columns] += of_logits.sum(1)
            by_rank[:, block.columns] += self.sort.rank[block.rows] @ of_logits
        return self.sort.gradient(columns, by_rank)


def _inverse(sums: Tensor) -> Tensor:
    """1 over the sums; 0 for the rows and columns of absent items."""
    return torch.where(sums > 0, 1 / torch.where(sums > 0, sums, 1), 0)
