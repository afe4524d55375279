"""Doubly stochastic scaling of a matrix by Newton's method, instead of thousands of Sinkhorn's sweeps."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

# Columns at a time of a product of which only the upper triangle is needed.
_BLOCK = 64
# An exchange between two parts of a list below float32's smallest normal number is not refined any more.
_NO_EXCHANGE = 1e-38


def balanced(logits: Tensor, tolerance: float, max_iterations: int) -> Tensor:
    r"""The doubly stochastic matrix ``softmax_j(logits_ij + v_j)``, ``[B, L, L]``, by Newton's method.

    v minimises the smooth, convex :math:`\varphi(v) = \sum_i \log\sum_j e^{M_{ij} + v_j} - \sum_j v_j`, whose
    gradient is the column sums - 1. The unknowns are v's steps between neighbours, one for each *cut* between
    two ranks. The derivative is then the mass that crosses the cut downwards minus the mass that crosses it
    upwards, and the Hessian is :meth:`Exchange.coupling`: sums of non-negative terms, exact to relative
    rounding also at cuts where almost nothing is exchanged, and v's free constant is gone.

    Args:
        logits: M, float64, where the rows' maxima stand on the diagonal and are 0; may be -inf elsewhere.
        tolerance: see :class:`~pirank.sorts.Sinkhorn`.
        max_iterations: how many steps at most.
    """
    shift = _shift_after_sweeps(logits)
    at = Exchange.of(torch.softmax(logits + shift[:, None], dim=-1))
    matrix = at.matrix
    lists = torch.arange(len(logits), device=logits.device)
    for _ in range(max_iterations):
        unfinished = at.is_unbalanced(tolerance)
        if not bool(unfinished.all()):
            lists, logits, shift = lists[unfinished], logits[unfinished], shift[unfinished]
            at = Exchange(*(each[unfinished] for each in at))
        if not len(lists):
            break
        step = -solve_scaled(at.coupling(), at.flux())
        at, shift = _line_search(logits, shift, step, (at.flux() * step).sum(-1))
        matrix[lists] = at.matrix
    return matrix


class Exchange(NamedTuple):
    """Matrices ``[B, R, L]`` and what their rows hold on either side of each cut between two columns."""

    matrix: Tensor
    head: Tensor  # each row's sum before each cut, [B, R, L - 1]
    tail: Tensor  # each row's sum after it
    down: Tensor  # what crosses the cut from rows before it to columns after it, [B, L - 1]
    up: Tensor  # what crosses it from rows after it to columns before it

    @staticmethod
    def of(matrix: Tensor) -> Exchange:
        """The exchange of the matrices ``[B, R, L]``."""
        head = matrix[..., :-1].cumsum(-1)
        tail = matrix[..., 1:].flip(-1).cumsum(-1).flip(-1)
        return Exchange(matrix, head, tail, tail.triu().sum(-2), head.tril(-1).sum(-2))

    def flux(self) -> Tensor:
        """How much more crosses each cut downwards than upwards; 0 where the matrix is doubly stochastic."""
        return self.down - self.up

    def is_unbalanced(self, tolerance: float) -> Tensor:
        """Which row-stochastic matrices of the batch are not doubly stochastic yet, ``[B]``."""
        flux, both = self.flux(), self.down + self.up
        cut_is_off = (flux.abs() > tolerance * both) & (both > _NO_EXCHANGE)
        column_is_off = torch.nn.functional.pad(flux, (1, 1)).diff(dim=-1).abs() > tolerance
        return cut_is_off.any(-1) | column_is_off.any(-1)

    def coupling(self) -> Tensor:
        """The Laplacian I - PᵀP in terms of cuts: ``A[r, q] = Σ_i head_i(r)·tail_i(q)`` for r ≤ q, symmetric."""
        cuts = self.head.shape[-1]
        coupling = self.head.new_empty(len(self.head), cuts, cuts)
        for first in range(0, cuts, _BLOCK):
            block = slice(first, first + _BLOCK)
            coupling[:, block, first:] = self.head[..., block].mT @ self.tail[..., first:]
        upper = coupling.triu()
        return upper + upper.triu(1).mT


def _shift_after_sweeps(logits: Tensor) -> Tensor:
    """Where to start: v after a few sweeps that take half of the logarithm off rows and columns at once.

    They settle what near neighbours exchange and spare Newton one or two of its steps. A step costs as much
    as some number of sweeps that grows with the list.
    """
    kernel = logits.exp()
    row = kernel.new_ones(*kernel.shape[:-1], 1)
    column = row
    for _ in range(max(8, logits.shape[-1] // 25)):
        of_rows, of_columns = row * (kernel @ column), column * (kernel.mT @ row)
        row, column = row * of_rows.rsqrt(), column * of_columns.rsqrt()
    return column[..., 0].log()


def _line_search(logits: Tensor, start: Tensor, step: Tensor, slope: Tensor) -> tuple[Exchange, Tensor]:
    """Go along the step, or so many halves of it that φ is sure to fall."""
    direction = torch.nn.functional.pad(step.cumsum(-1), (1, 0))
    # φ″(t) ≤ φ″(0)·exp(t·spread): where v changes by a spread of at most 1, the whole Newton step descends.
    spread = direction.amax(-1) - direction.amin(-1)
    size = torch.ones_like(slope)
    while True:
        shift = start + size[:, None] * direction
        at = Exchange.of(torch.softmax(logits + shift[:, None], dim=-1))
        # Elsewhere the slope decides. φ itself is not looked at: near its minimum it is all rounding.
        too_far = ((at.flux() * step).sum(-1) > -slope / 2) & (size * spread > 1)
        if not bool(too_far.any()):
            return at, shift
        size = torch.where(too_far, size / 2, size)


def solve_scaled(coupling: Tensor, right: Tensor) -> Tensor:
    """Solve ``coupling x = right`` for batches of badly scaled positive definite matrices.

    Cholesky's error is relative to the diagonal, so that with a unit diagonal weakly coupled cuts are exact
    too. A row of zeros (nothing crosses the cut) gives a 0; a ridge comes in only where rounding left no
    factor.
    """
    diagonal = coupling.diagonal(dim1=-2, dim2=-1)
    scale = torch.where(diagonal > 0, diagonal, 1).rsqrt()
    unit = coupling * scale[:, :, None] * scale[:, None, :]
    ridge = torch.zeros_like(diagonal[:, :1])
    while True:
        unit.diagonal(dim1=-2, dim2=-1).copy_(1 + ridge.expand_as(diagonal))
        factor, failed = torch.linalg.cholesky_ex(unit)
        again = (failed > 0)[:, None] & (ridge <= 1)
        if not bool(again.any()):
            return scale * torch.cholesky_solve((scale * right)[..., None], factor)[..., 0]
        ridge = torch.where(again, (100 * ridge).clamp(min=1e-13), ridge)
