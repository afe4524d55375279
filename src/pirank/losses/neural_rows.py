"""NeuralSort's whole matrix, a block of rows at a time, and the way back from it to the scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from pirank.losses.blocked import row_blocks
from pirank.metrics.labels import may_look

# Weights below e^−110 are zero in float32, and lost beside their row's sum of 1 in float64.
_NEGLIGIBLE = 110.0


class Rows(NamedTuple):
    """Some rows of the matrix; columns that are left out hold zeros."""

    rows: slice
    columns: slice
    weights: Tensor
    """``[B, rows, columns]``, float64, items by falling score; each row of a present rank sums to 1."""
    log_sums: Tensor
    """``[B, rows]``: minus the logarithm of the weight that each rank gives to its own item."""


class NeuralRows:
    r"""NeuralSort's matrix of each list of a batch, ranks by items in rank order.

    With the scores sorted descending and gaps :math:`d_q = (s_q - s_{q+1})/\tau`, row i's logit falls from
    the rank's own item r = i, where it is largest, by

    .. math::
        c_i(r) = (T_r - T_i) - 2i\,(S_r - S_i), \qquad
        S_r = \sum_{q < r} d_q, \quad T_r = \sum_{q<r} (2q + 1)\, d_q

    which needs neither pairwise distances nor the list's length. Blocks of rows take S and T from their own
    first row, so that little cancels, and leave out the columns at both ends that carry no weight.

    Args:
        scores: ``[B, L]``.
        mask: ``[B, L]`` or None.
        temperature: τ.
    """

    def __init__(self, scores: Tensor, mask: Tensor | None, temperature: float) -> None:
        self.temperature = temperature
        keys = scores.detach().double()
        keys = keys if mask is None else keys.masked_fill(~mask, float("-inf"))
        self.ranked, self.order = keys.sort(dim=-1, descending=True, stable=True)
        self.present = self.ranked > float("-inf")
        self.gaps = (self.ranked[:, :-1] - self.ranked[:, 1:]) / temperature
        self.gaps = torch.where(self.present[:, 1:], self.gaps, 0)
        self.rank = torch.arange(scores.shape[-1], dtype=torch.float64, device=scores.device)

    def sums(self, anchor: int = 0) -> tuple[Tensor, Tensor]:
        """S and T from a rank on, ``[B, L]`` each; before it S is below 0, and T rises on both sides."""
        slope = 2 * (self.rank[:-1] - anchor) + 1
        return _from(anchor, self.gaps), _from(anchor, self.gaps * slope)

    def blocks(self) -> Iterator[Rows]:
        """The matrix from its first row to its last."""
        for start, stop in row_blocks(self.ranked, self.ranked.shape[-1]):
            near, far = self.sums(start)
            rows = slice(start, stop)
            columns = self._columns_with_weight(near, far, start, stop)
            twice = 2 * (self.rank[rows, None] - start)
            falls = far[:, None, columns] - twice * near[:, None, columns]
            falls -= (far[:, rows] - twice[:, 0] * near[:, rows])[..., None]
            weights = falls.neg_().exp_().masked_fill_(~self.present[:, None, columns], 0)
            sums = torch.where(self.present[:, rows], weights.sum(-1), 1)
            weights /= sums[..., None]
            weights.masked_fill_(~self.present[:, rows, None], 0)
            yield Rows(rows, columns, weights, sums.log())

    def _columns_with_weight(self, near: Tensor, far: Tensor, start: int, stop: int) -> slice:
        items = near.shape[-1]
        if not may_look(near):
            return slice(0, items)
        # Of the block's rows the first weighs earlier items most, the last the later ones.
        last = stop - 1
        twice = 2 * (last - start)
        of_last = (far - far[:, last, None]) - twice * (near - near[:, last, None])
        wanted = self.present & (torch.where(self.rank < start, far, of_last) < _NEGLIGIBLE)
        wanted = wanted.any(0)
        wanted[start:stop] = True
        position = wanted.nonzero()
        return slice(int(position[0]), int(position[-1]) + 1)

    def gradient(self, columns: Tensor, by_rank: Tensor) -> Tensor:
        r"""The gradient in the scores, ``[B, L]`` in the input's order, of something that used the matrix.

        With :math:`u_i(r)` its derivative in the logits :math:`-c_i(r)`, the rows of which sum to 0, U and V
        the column sums of :math:`u_i(r)` and :math:`i\, u_i(r)`, C the running sum of U, and lo to hi the
        items tied with m:

        .. math:: \partial\ell/\partial s_m = \bigl((lo + hi)\, U_m - 2 V_m + C_{lo-1} + C_{hi}\bigr) / \tau

        Args:
            columns: U, ``[B, L]``, items by falling score.
            by_rank: V, ``[B, L]``.
        """
        rising = -self.ranked
        low = torch.searchsorted(rising, rising)
        above = torch.searchsorted(rising, rising, right=True)
        before = torch.nn.functional.pad(columns.cumsum(-1), (1, 0))
        of_ranked = (
            (low + above - 1) * columns - 2 * by_rank + before.gather(-1, low) + before.gather(-1, above)
        )
        return torch.empty_like(of_ranked).scatter_(-1, self.order, of_ranked / self.temperature)


def _from(anchor: int, steps: Tensor) -> Tensor:
    """Sums of steps from the anchor to each place, ``[B, L - 1]`` to ``[B, L]``; negative before it."""
    after = steps[:, anchor:].cumsum(-1)
    before = -steps[:, :anchor].flip(-1).cumsum(-1).flip(-1)
    return torch.cat([before, steps.new_zeros(steps.shape[0], 1), after], -1)
