"""Sinkhorn: NeuralSort's matrix made doubly stochastic, and its gradient in the scores."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pirank.sorts.balanced import Exchange, balanced, solve_scaled
from pirank.sorts.base import Sort, Temperature, lengths_of

# Lists that are balanced together hold at most this many matrix entries, which bounds the work space.
_ENTRIES_AT_ONCE = {"cpu": 2**17, "cuda": 2**24}


class Sinkhorn(Sort):
    r"""NeuralSort made doubly stochastic: each rank is given out once, each item takes one rank in total.

    NeuralSort's rows sum to one, its columns need not: an item may take up 1.15 ranks and another 0.8, so
    that a relaxed metric counts the first one's gain 1.15 times. Normalising the columns and the rows in turn
    (Sinkhorn's algorithm) balances the matrix; here ``P̂`` is the limit of that, to ``tolerance``. With ranks
    i and items j it is the only doubly stochastic matrix of the form

    .. math::
        \hat P_{ij} = a_i\, b_j\, \exp(-2\, i\, s_j / \tau), \qquad a, b > 0,

    because the distances :math:`|s_i - s_j|` of NeuralSort's logits are a factor of the column, which the
    scaling takes away. ``P̂`` is therefore the entropic optimal transport between ranks and scores, and
    smooth also where scores are tied. Adding a constant to the scores changes nothing; items of equal scores
    have equal columns; as τ falls to 0 the matrix tends to that of the hard sort.

    The matrix is banded, and a sweep moves mass along the list by one band only, so that sweeps can be needed
    by the thousand. Here a few sweeps are followed by Newton's method on the convex dual problem, two or three
    steps as a rule, each of one product and one Cholesky factor of an L × L matrix. The gradient takes one
    more: by implicit differentiation of the balanced matrix, with nothing stored of the iterations. All of it
    runs in float64.

    The cost is O(L³) time and **O(L²) memory a list**, whatever k is: 8·L² bytes are kept for the backward
    pass. For long lists use :class:`~pirank.sorts.NeuralSort`, or this sort inside a
    :class:`~pirank.sorts.Tree`.

    Args:
        temperature: τ, how soft the sort is; above 0.
        relative: take τ in units of list length × standard deviation of the list's scores (detached).
        tolerance: how far a column's sum may be from 1; and, between any two neighbouring ranks, how far the
            mass that moves up may be from the mass that moves down, relative to their sum. The last step
            usually lands far below it. Rows sum to one exactly.
        max_iterations: how many of Newton's steps at most; each list stops by itself.

    Example:
        >>> matrix = Sinkhorn(temperature=0.2).matrix(torch.tensor([0.2, 0.5, 0.3]))
        >>> matrix
        tensor([[0.0509, 0.7475, 0.2017],
                [0.3134, 0.2294, 0.4572],
                [0.6357, 0.0232, 0.3411]])
        >>> matrix.sum(0)
        tensor([1., 1., 1.])

    References:
        Grover, Wang, Zweig, Ermon: Stochastic optimization of sorting networks via continuous relaxations,
        ICLR 2019. Pobrotyn, Białobrzeski: NeuralNDCG: direct optimisation of a ranking metric via
        differentiable relaxation of sorting, 2021. Cuturi: Sinkhorn distances, NeurIPS 2013. Cuturi, Teboul,
        Vert: Differentiable ranking and sorting using optimal transport, NeurIPS 2019. Cuturi, Peyré:
        Semidual regularized optimal transport, SIAM Review 2018. Brauer, Clason, Lorenz, Wirth: A
        Sinkhorn-Newton method for entropic optimal transport, 2017.
    """

    def __init__(
        self,
        temperature: float = 1.0,
        *,
        relative: bool = False,
        tolerance: float = 1e-9,
        max_iterations: int = 100,
    ) -> None:
        super().__init__(temperature, relative=relative)
        if not 0 < tolerance < 1:
            raise ValueError(
                f"tolerance must be between 0 and 1, the error a column's sum may have: got {tolerance}"
            )
        if isinstance(max_iterations, bool) or not isinstance(max_iterations, int) or max_iterations < 0:
            raise ValueError(f"max_iterations must be a whole number of Newton steps, got {max_iterations!r}")
        self.tolerance = tolerance
        self.max_iterations = max_iterations

    def relaxed_matrix(self, scores: Tensor, mask: Tensor | None, k: int, temperature: Temperature) -> Tensor:
        """The first k rows of the balanced matrix, ``[B, k, L]``."""
        lists, items = scores.shape
        if lists == 0 or items == 0:
            return scores[:, None, :] * scores.new_zeros(k, 1)
        lengths = lengths_of(scores, mask)
        present, longest = scores.detach(), items
        if mask is not None:
            present = present.masked_fill(~mask, -torch.inf)
            # A compiled graph has fixed shapes; elsewhere shared padding is cut off.
            longest = items if torch.compiler.is_compiling() else max(1, int(lengths.max()))
        rows = min(k, longest)
        order = present.argsort(dim=-1, descending=True, stable=True)[:, :longest]
        tau = torch.as_tensor(temperature, dtype=torch.float64, device=scores.device).expand(lists, 1)
        ranked = scores.gather(-1, order)
        top, _ = _balanced_rows(ranked, lengths, tau, rows, self.tolerance, self.max_iterations)
        rank = torch.arange(rows, device=scores.device)
        top = torch.where((rank < lengths[:, None])[..., None], top, 0)
        by_item = top.new_zeros(lists, rows, items).scatter(-1, order[:, None].expand(-1, rows, -1), top)
        return torch.nn.functional.pad(by_item, (0, 0, 0, k - rows))


# Operators of their own: compilers take them as they are, since how many steps they make depends on the values.
@torch.library.custom_op(
    "pirank::balanced_rows",
    mutates_args=(),
    schema="(Tensor scores, Tensor lengths, Tensor tau, int rows, float tolerance, int max_iterations)"
    " -> (Tensor, Tensor)",
)
def _balanced_rows(
    scores: Tensor, lengths: Tensor, tau: Tensor, rows: int, tolerance: float, max_iterations: int
) -> tuple[Tensor, Tensor]:
    """Scores in descending order ``[B, L]`` to the first rows of their balanced matrices, and these in float64."""
    items = scores.shape[-1]
    gaps = (scores[:, :-1].double() - scores[:, 1:].double()) / tau
    # Absent items stand at the end; infinitely far away, they exchange nothing.
    next_is_absent = torch.arange(1, items, device=scores.device) >= lengths[:, None]
    gaps = torch.where(next_is_absent, torch.inf, gaps)
    parts = gaps.split(_lists_at_once(scores))
    matrix = torch.cat([balanced(neural_sort_logits(part), tolerance, max_iterations) for part in parts])
    return matrix[:, :rows].to(scores.dtype, copy=True), matrix


@_balanced_rows.register_fake
def _(
    scores: Tensor, lengths: Tensor, tau: Tensor, rows: int, tolerance: float, max_iterations: int
) -> tuple[Tensor, Tensor]:
    lists, items = scores.shape
    return scores.new_empty(lists, rows, items), tau.new_empty(lists, items, items)


@torch.library.custom_op(
    "pirank::balanced_rows_backward",
    mutates_args=(),
    schema="(Tensor matrix, Tensor weight, Tensor tau) -> Tensor",
)
def _balanced_rows_backward(matrix: Tensor, weight: Tensor, tau: Tensor) -> Tensor:
    at_once = _lists_at_once(matrix)
    parts = zip(matrix.split(at_once), weight.split(at_once), tau.split(at_once), strict=True)
    return torch.cat([_scores_gradient(part, rows.double(), each) for part, rows, each in parts])


@_balanced_rows_backward.register_fake
def _(matrix: Tensor, weight: Tensor, tau: Tensor) -> Tensor:
    return matrix.new_empty(matrix.shape[:-1])


def _keep_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    top, matrix = output
    ctx.mark_non_differentiable(matrix)
    ctx.save_for_backward(matrix, inputs[2])
    ctx.dtype = top.dtype


def _backward(ctx: Any, weight: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    matrix, tau = ctx.saved_tensors
    gradient = _balanced_rows_backward(matrix, weight, tau)
    return gradient.to(ctx.dtype), None, None, None, None, None


_balanced_rows.register_autograd(_backward, setup_context=_keep_for_backward)


def _lists_at_once(scores: Tensor) -> int:
    at_once = _ENTRIES_AT_ONCE.get(scores.device.type, 2**24)
    return max(1, at_once // scores.shape[-1] ** 2)


def neural_sort_logits(gaps: Tensor) -> Tensor:
    """NeuralSort's logits over τ of scores in descending order, ``gaps/τ [B, L - 1]`` to ``[B, L, L]``.

    Each row is taken relative to its maximum, which stands on the diagonal: row i is largest at rank i. One
    step further away from it, across the gap q, the logit falls by ``gap_q · |2(q - i) + 1|``. These are sums
    of non-negative terms: nothing cancels or overflows to NaN, and an infinite gap separates two parts of a
    list.
    """
    lists, items = gaps.shape[0], gaps.shape[1] + 1
    row = torch.arange(items, device=gaps.device)[:, None]
    gap = torch.arange(items - 1, device=gaps.device)
    falls = gaps[:, None, :] * (2 * (gap - row) + 1).abs()
    logits = gaps.new_zeros(lists, items, items)
    logits[..., 1:] -= torch.where(gap >= row, falls, 0).cumsum(-1)
    logits[..., :-1] -= torch.where(gap < row, falls, 0).flip(-1).cumsum(-1).flip(-1)
    return logits


def _scores_gradient(matrix: Tensor, weight: Tensor, tau: Tensor) -> Tensor:
    r"""The gradient of ``Σ weight · P̂[:rows]`` in the sorted scores, ``[B, L]``.

    With log P̂ = M + u_i + v_j, the implicit function theorem gives :math:`U_{ij} = \partial\ell/\partial
    M_{ij} = \hat P_{ij}(W_{ij} - \alpha_i - \beta_j)`, where α and β make U's rows and columns sum to 0: one
    linear system with the Hessian of :func:`balanced`. Up to terms of rows and columns, which balancing
    removes, M_ij is -2 i s_j/τ. As columns of U sum to 0, the item's own rank may be taken off i, and the
    diagonal drops out.
    """
    rows, items = weight.shape[-2:]
    top = matrix[:, :rows]
    centred = top * (weight - (top * weight).sum(-1, keepdim=True))
    beta = solve_scaled(Exchange.of(matrix).coupling(), Exchange.of(centred).flux())
    beta = torch.nn.functional.pad(beta.cumsum(-1), (1, 0))
    change = matrix * ((matrix @ beta[..., None]) - beta[:, None])
    change[:, :rows] += centred
    rank = torch.arange(items, device=matrix.device)
    return -2 / tau * ((rank[:, None] - rank) * change).sum(-2)
