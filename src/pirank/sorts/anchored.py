r"""NeuralSort's weights on sorted lists, in the anchored form: exact, no maximum, no pairwise matrix.

With the scores in descending order, s_0 ≥ s_1 ≥ …, and gaps d_q = s_q − s_{q+1} ≥ 0, row i's logit falls from its
maximum at rank i by

    c_i(r) = Σ_{q=i}^{r−1} d_q (2(q−i)+1)   for r > i,        c_i(r) = Σ_{q=r}^{i−1} d_q (2(i−q)−1)   for r < i,

so that P̂_i(r) = exp(−c_i(r)/τ) / Z_i. Rows are taken in blocks. Inside a block the sums are taken as they stand; an
item to the right of it is reached from the block's last row a, one to the left from its first row a:

    c_i(r) = c_i(a) + G_r + 2|a−i| D_r,    G_r = Σ_{q=a}^{r−1} d_q (2(q−a)+1),    D_r = s_a − s_r      (right)
                                           G_r = Σ_{q=r}^{a−1} d_q (2(a−q)−1),    D_r = s_r − s_a      (left)

Every term is at least 0 and gaps are taken before they are summed, so float32 is enough at any list length.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from pirank.sorts.base import Temperature

# Rows that share an anchor: more would lose digits far from it, fewer would pass over the list more often.
ROWS_PER_BLOCK = 64
# Weights held at a time on the CPU: a chunk stays in the cache.
_CHUNK = 1 << 18
_CHUNK_AT_LEAST = 64
# Lists from which it pays to look how far weights reach, and below which small constants are kept.
_LONG = 1024
# A drop of this many temperatures is a weight of exactly 0 in float64 too; the bound keeps sums finite.
_FAR = 1e6
# Blocks up to this many rows sum their gaps by one product with a constant, larger ones by two cumulative sums.
_ROWS_BY_PRODUCT = 16


@dataclass(frozen=True)
class Tail:
    """Unnormalised weights ``factor · weight`` of a block's rows on the items ``columns`` beyond one of its ends."""

    columns: slice
    anchor: int
    weight: Tensor  # [B, rows, columns]
    factor: Tensor  # [B, rows], exp(−c_i(anchor)/τ)


class SortedLists:
    """Scores in descending order, ``[B, W]``, with absent items at the end, and the weights they give.

    Args:
        scores: ``[B, W]``, descending, finite at absent items too.
        present: ``[B, W]``, True at the items that are there; None: all.
        temperature: a number or ``[B, 1]``.
    """

    def __init__(self, scores: Tensor, present: Tensor | None, temperature: Temperature) -> None:
        self.scores = scores
        self.present = present
        self.temperature = temperature
        self.rank = _ranks(scores.shape[1], scores.dtype, scores.device)
        self.limit = drop_limit(scores.dtype)
        self._gaps: Tensor | None = None

    @property
    def gaps(self) -> Tensor:
        """The gaps in temperatures, ``[B, W − 1]``."""
        if self._gaps is None:
            self._gaps = self._scaled(self.scores[:, :-1] - self.scores[:, 1:])
        return self._gaps

    def _scaled(self, difference: Tensor) -> Tensor:
        return (difference / self.temperature).clamp_(max=_FAR)

    def temperature_of_rows(self) -> Temperature:
        """The temperature, to divide ``[B, rows, columns]`` by."""
        return self.temperature[:, :, None] if isinstance(self.temperature, Tensor) else self.temperature

    def blocks(self, k: int) -> Iterator[tuple[int, int]]:
        """Ranges of rows that share their anchors."""
        for first in range(0, k, ROWS_PER_BLOCK):
            yield first, min(first + ROWS_PER_BLOCK, k)

    def inner(self, first: int, stop: int) -> Tensor:
        """exp(−c_i(r)/τ) for the rows and columns ``first`` to ``stop``: ``[B, rows, rows]``."""
        logits = self._inner_logits(first, stop)
        if self.present is not None:
            logits = logits.masked_fill(~self.present[:, None, first:stop], float("-inf"))
        return _exp_(logits)

    def _inner_logits(self, first: int, stop: int) -> Tensor:
        rows = stop - first
        gaps = self.gaps[:, first : stop - 1]
        if rows <= _ROWS_BY_PRODUCT:
            return (gaps[:, None, None] * _steps_between(rows, gaps.dtype, gaps.device)).sum(-1)
        rank = self.rank[:rows]
        steps = 2 * (rank[:-1] - rank[:, None]) + 1
        down = (gaps[:, None] * steps.clamp(min=0)).cumsum(-1)
        up = (gaps[:, None] * steps.clamp(max=0)).flip(-1).cumsum(-1).flip(-1)
        nothing = down.new_zeros(down.shape[0], rows, 1)
        return torch.cat([up, nothing], -1) - torch.cat([nothing, down], -1)

    def tails(self, first: int, stop: int, inner: Tensor) -> Iterator[Tail]:
        """The weights of the rows ``first`` to ``stop`` on everything outside the block, a chunk at a time."""
        width = self.scores.shape[1]
        if stop < width:
            anchor = stop - 1
            drop = (self.gaps[:, anchor:] * _odd_numbers(width - stop, self.rank)).cumsum(-1)
            distance = self._scaled(self.scores[:, anchor, None] - self.scores[:, stop:])
            # G never falls: past the first column where it is out of reach of every list, nothing weighs anything.
            reach = self._within_reach(drop)
            yield from self._tail(
                drop[:, :reach], distance[:, :reach], first, stop, stop, anchor, inner[:, :, -1]
            )
        if first > 0:
            steps = _odd_numbers(first, self.rank).flip(-1)
            drop = (self.gaps[:, :first] * steps).flip(-1).cumsum(-1).flip(-1)
            distance = self._scaled(self.scores[:, :first] - self.scores[:, first, None])
            yield from self._tail(drop, distance, first, stop, 0, first, inner[:, :, 0])

    def _within_reach(self, drop: Tensor) -> int:
        if drop.device.type != "cpu" or torch.compiler.is_compiling() or drop.shape[1] < _LONG:
            return drop.shape[1]
        if not bool((drop[:, -1] > self.limit).all()):
            return drop.shape[1]
        return int((drop <= self.limit).sum(-1).max())

    def _tail(
        self, drop: Tensor, distance: Tensor, first: int, stop: int, start: int, anchor: int, factor: Tensor
    ) -> Iterator[Tail]:
        length = drop.shape[1]
        if self.present is not None:
            drop = drop.masked_fill(~self.present[:, start : start + length], float("inf"))
        steps = -2 * (self.rank[first:stop, None] - anchor).abs()
        for low in range(0, length, size := self._chunk(stop - first, length)):
            chunk = slice(low, min(low + size, length))
            logits = torch.addcmul(-drop[:, None, chunk], steps, distance[:, None, chunk])
            yield Tail(slice(start + chunk.start, start + chunk.stop), anchor, _exp_(logits), factor)

    def _chunk(self, rows: int, length: int) -> int:
        if torch.compiler.is_compiling():
            return length
        budget = _CHUNK if self.scores.device.type == "cpu" else _CHUNK * 64
        return max(_CHUNK_AT_LEAST, budget // max(1, self.scores.shape[0] * rows))

    def weights(self, k: int) -> Tensor:
        """The unnormalised weights of the first k rows as a matrix ``[B, k, W]``; columns of absent items are 0."""
        if k <= ROWS_PER_BLOCK:
            return self._weights_of_one_block(k)
        matrix = self.scores.new_zeros(self.scores.shape[0], k, self.scores.shape[1])
        for first, stop in self.blocks(k):
            inner = self.inner(first, stop)
            matrix[:, first:stop, first:stop] = inner
            for tail in self.tails(first, stop, inner):
                matrix[:, first:stop, tail.columns] = tail.weight.mul_(tail.factor[..., None])
        return matrix

    def _weights_of_one_block(self, k: int) -> Tensor:
        logits = self._inner_logits(0, k)
        width = self.scores.shape[1]
        if k < width:
            drop = (self.gaps[:, k - 1 :] * _odd_numbers(width - k, self.rank)).cumsum(-1)
            distance = self._scaled(self.scores[:, k - 1, None] - self.scores[:, k:])
            steps = 2 * (self.rank[:k, None] - (k - 1))
            beyond = torch.addcmul(logits[:, :, -1:] - drop[:, None], steps, distance[:, None])
            logits = torch.cat([logits, beyond], -1)
        if self.present is not None:
            logits = logits.masked_fill(~self.present[:, None], float("-inf"))
        return _exp_(logits)

    def whole(self, row_sums: Tensor) -> Tensor:
        """Row sums ``[B, k]`` to divide by: infinite at rows beyond the list's own length, whose weights are 0."""
        if self.present is None:
            return row_sums
        return row_sums.masked_fill(~self.present[:, : row_sums.shape[1]], float("inf"))

    def tie_groups(self) -> tuple[Tensor, Tensor] | None:
        """First and last rank of every item's tie group, ``[B, W]`` each; None if it is cheap to see there is none."""
        tied = self.scores[:, :-1] == self.scores[:, 1:]
        if self.present is not None:
            tied = tied & self.present[:, 1:]
        if tied.device.type == "cpu" and not torch.compiler.is_compiling() and not bool(tied.any()):
            return None
        width = self.scores.shape[1]
        rank = torch.arange(width, device=tied.device).expand_as(self.scores)
        edge = tied.new_zeros(tied.shape[0], 1)
        low = rank.masked_fill(torch.cat([edge, tied], -1), 0).cummax(-1).values
        high = rank.masked_fill(torch.cat([tied, edge], -1), width - 1).flip(-1).cummin(-1).values.flip(-1)
        return low, high


def drop_limit(dtype: torch.dtype) -> float:
    """The drop, in temperatures, past which a weight is below the smallest normal number."""
    return -math.log(torch.finfo(dtype).tiny)


def _exp_(logits: Tensor) -> Tensor:
    """exp in place, with 0 for what is below the smallest normal number: subnormal numbers are slow to work with."""
    limit = -drop_limit(logits.dtype)
    return torch.threshold_(logits, limit, float("-inf")).exp_()


def _odd_numbers(count: int, rank: Tensor) -> Tensor:
    """1, 3, 5, … from 0, 1, 2, …"""
    return rank[:count] * 2 + 1


def _ranks(width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """0, 1, … as scores are, ``[width]``."""
    if torch.compiler.is_compiling() or width > _LONG:
        return torch.arange(width, dtype=dtype, device=device)
    return _kept_ranks(width, dtype, device)


@lru_cache(maxsize=256)
def _kept_ranks(width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # what is kept must serve training too
        return torch.arange(width, dtype=dtype, device=device)


def _steps_between(rows: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """``[rows, rows, rows − 1]``: −|2(q−i)+1| where gap q lies between row i and column r, so logits = Σ steps·d."""
    if torch.compiler.is_compiling():
        return _make_steps_between(rows, dtype, device)
    return _kept_steps_between(rows, dtype, device)


def _make_steps_between(rows: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    rank = torch.arange(rows, device=device)
    row, column, gap = rank[:, None, None], rank[None, :, None], rank[None, None, :-1]
    between = (gap >= torch.minimum(row, column)) & (gap < torch.maximum(row, column))
    return torch.where(between, -(2 * (gap - row) + 1).abs(), 0).to(dtype)


_kept_steps_between = lru_cache(maxsize=256)(_make_steps_between)


class Gradient:
    r"""The gradient by the scores, summed up from u_i(r) = τ ∂ℓ/∂f_i(r), that by row i's logit of the item at rank r.

        ∂ℓ/∂s_m = 2( m̄ U_m − V_m ) + C_{lo−1} + C_{hi},     U_r = Σ_i u_i(r),   V_r = Σ_i i·u_i(r)

    with [lo, hi] the tie group of rank m, m̄ its middle and C the prefix sum of U: the gradient of the pairwise
    definition with sign(0) = 0. Kept are U and the tilt r̄U − V, so that no large numbers cancel.

    Args:
        lists: the sorted lists.
        k: how many rows there are.
        values: ``[B, C, W]`` if the gradient by the values is wanted too.
    """

    def __init__(self, lists: SortedLists, k: int, values: Tensor | None) -> None:
        self.lists = lists
        self.k = k
        self.total = torch.zeros_like(lists.scores)
        self.tilt = torch.zeros_like(lists.scores)
        self.by_value = None if values is None else torch.zeros_like(values)
        self.ties = lists.tie_groups()
        self.middle = lists.rank[None]
        if self.ties is not None:
            self.middle = (self.ties[0] + self.ties[1]).to(lists.rank.dtype) / 2

    def add_rows(self, rows: slice, columns: slice, u: Tensor, pull: Tensor | None) -> None:
        """Add ``u [B, C, rows, columns]``, and ``pull``, the weights times the rows' gradient, of the same shape."""
        u = u[:, 0] if u.shape[1] == 1 else u.sum(1)
        self.total[:, columns] += u.sum(1)
        self.tilt[:, columns] += (u * (self.middle[:, None, columns] - self.lists.rank[rows, None])).sum(1)
        if self.by_value is not None and pull is not None:
            self.by_value[:, :, columns] += pull.sum(2)

    def add_tail(
        self, rows: slice, tail: Tail, channel: int, difference: Tensor, pulled: Tensor, offset: Tensor
    ) -> None:
        """Add u_i(r) = e_i(r) (pulled_i (g_r − ḡ) + offset_i) of a tail, with ḡ the anchor's value.

        r̄ − i = (r̄ − a) + (a − i): only numbers of one sign are summed over the rows.
        """
        steps = tail.anchor - self.lists.rank[rows]
        by_weight = _over_rows(tail.weight, pulled)
        u = difference * by_weight + _over_rows(tail.weight, offset)
        lean = difference * _over_rows(tail.weight, pulled * steps) + _over_rows(tail.weight, offset * steps)
        self.total[:, tail.columns] += u
        self.tilt[:, tail.columns] += (self.middle[:, tail.columns] - tail.anchor) * u + lean
        if self.by_value is not None:
            self.by_value[:, channel, tail.columns] += by_weight

    def by_score(self) -> Tensor:
        """∂ℓ/∂s of the sorted scores, ``[B, W]``; 0 at absent items."""
        prefix = self.total.cumsum(-1)
        # u's rows sum to 0: past the rows the sum is better taken from the far end, where it is small.
        prefix[:, self.k :] -= prefix[:, -1:].clone()
        if self.ties is None:
            around = prefix.clone()
            around[:, 1:] += prefix[:, :-1]
        else:
            before = torch.nn.functional.pad(prefix[:, :-1], (1, 0))
            around = before.gather(-1, self.ties[0]) + prefix.gather(-1, self.ties[1])
        gradient = torch.add(around, self.tilt, alpha=2).div_(self.lists.temperature)
        return gradient if self.lists.present is None else torch.where(self.lists.present, gradient, 0)


def _over_rows(weight: Tensor, coefficient: Tensor) -> Tensor:
    """Σ_i coefficient_i · weight_i(r): products, not a matrix product, so that no TF32 or bf16 mode touches them."""
    return (weight * coefficient[:, :, None]).sum(1)
