"""Features relative to the other documents of their query: z-score and rank.

They learn nothing: they depend on the query at hand alone. Rows are flat, ``[N, F]``, with
``offsets [Q + 1]``; without offsets all rows are one query.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor, nn

from pirank.models.exporting import exporting

# Values sorted at once: keeps the memory of a large file's transform flat.
_VALUES_AT_A_TIME = 4_000_000


class QueryZScore(nn.Module):
    """Each feature minus its mean over the query's documents, over its standard deviation there.

    A feature that is constant within the query becomes 0.

    Example:
        >>> QueryZScore(1)(torch.tensor([[1.0], [4.0], [5.0]]), torch.tensor([0, 2, 3])).flatten()
        tensor([-1.,  1.,  0.])
    """

    def __init__(self, in_features: int) -> None:
        super().__init__()

    def forward(self, features: Tensor, offsets: Tensor | None = None) -> Tensor:
        # In units of the query's largest value, so that neither sums nor squares of large numbers overflow.
        least = torch.finfo(features.dtype).tiny
        if offsets is None:
            unit = features / features.abs().amax(0).clamp(min=least)
            centred = unit - unit.mean(0)
            spread = centred.square().mean(0).sqrt().expand_as(centred)
        else:
            lengths = offsets.diff()
            unit = features / _per_query("max", features.abs(), offsets, lengths).clamp(min=least)
            centred = unit - _per_query("mean", unit, offsets, lengths)
            spread = _per_query("mean", centred.square(), offsets, lengths).sqrt()
        varies = spread > 1e-6
        return torch.where(varies, centred / torch.where(varies, spread, 1), 0)


class QueryRank(nn.Module):
    """Each feature's rank among the query's documents, scaled to -1 (the smallest) to 1 (the largest).

    Equal values share the mean of their ranks; a feature that is constant within the query becomes 0.

    Example:
        >>> QueryRank(1)(torch.tensor([[0.1], [9.0], [5.0], [5.0], [7.0]]), torch.tensor([0, 2, 5])).flatten()
        tensor([-1.0000,  1.0000, -0.5000, -0.5000,  1.0000])
    """

    def __init__(self, in_features: int) -> None:
        super().__init__()

    def forward(self, features: Tensor, offsets: Tensor | None = None) -> Tensor:
        if exporting():
            above = (features[:, None] > features[None]).to(features.dtype).sum(1)
            below = (features[:, None] < features[None]).to(features.dtype).sum(1)
            return (above - below) / (above.new_full((), features.shape[0]) - 1).clamp(min=1)
        if offsets is None:
            offsets = torch.tensor([0, len(features)], device=features.device)
        ranks = torch.empty_like(features)
        lengths = offsets.diff()

        def of_block(block: tuple[Tensor, int]) -> tuple[Tensor, Tensor]:
            queries, width = block
            position = torch.arange(width, device=features.device)
            mask = position < lengths[queries, None]
            rows = torch.where(mask, offsets[:-1][queries, None] + position, 0).reshape(-1)
            values = features.index_select(0, rows).reshape(len(queries), width, -1)
            scaled = _scaled_ranks(values, mask).reshape(len(rows), -1)
            present = mask.reshape(-1)
            return rows[present], scaled[present]

        # NumPy sorts in one thread, so blocks are sorted side by side.
        with ThreadPoolExecutor(torch.get_num_threads() if features.device.type == "cpu" else 1) as pool:
            for rows, scaled in pool.map(of_block, _blocks_of_similar_length(lengths, features.shape[1])):
                ranks.index_copy_(0, rows, scaled)
        return ranks


def _scaled_ranks(values: Tensor, mask: Tensor) -> Tensor:
    """Mean ranks of ``values [B, L, F]`` along L, scaled to [-1, 1]: (below − above) / (n − 1)."""
    batch, length, columns = values.shape
    if not bool(mask.all()):
        values = torch.where(mask[..., None], values, float("inf"))
    values = values.transpose(1, 2).reshape(batch * columns, length)
    order = _argsort(values)
    ordered = values.gather(1, order)
    position = torch.arange(length, dtype=values.dtype, device=values.device)
    last = (mask.sum(1) - 1).to(values.dtype).repeat_interleave(columns)[:, None]
    # Infinities of absent items may tie with infinite features: a tie ends where the list does.
    tied = (ordered[:, 1:] == ordered[:, :-1]) & (position[1:] <= last)
    with_ties = tied.any(1).nonzero()[:, 0]
    scaled = ((2 * position - last) / last.clamp(min=1)).contiguous()
    if len(with_ties):
        scaled[with_ties] = _shared_ranks(tied[with_ties], last[with_ties])
    ranks = torch.empty_like(values).scatter_(1, order, scaled)
    return ranks.reshape(batch, columns, length).transpose(1, 2)


def _shared_ranks(tied: Tensor, last: Tensor) -> Tensor:
    """Scaled ranks where equal neighbours share the mean of theirs: ``tied [R, L − 1]`` to ``[R, L]``."""
    length = tied.shape[1] + 1
    position = torch.arange(length, dtype=torch.int32, device=tied.device)
    first = torch.zeros(len(tied), length, dtype=torch.int32, device=tied.device)
    first[:, 1:] = torch.where(tied, 0, position[1:])
    final = torch.full_like(first, length - 1)
    final[:, :-1] = torch.where(tied, length - 1, position[:-1])
    start = first.cummax(1).values
    stop = final.flip(1).cummin(1).values.flip(1)
    return (start + stop - last) / last.clamp(min=1)


def _argsort(values: Tensor) -> Tensor:
    """The order of each row. NumPy sorts short rows with vector instructions, ten times faster than torch."""
    if values.device.type != "cpu":
        return values.argsort(1)
    return torch.from_numpy(np.argsort(values.numpy(), axis=1))


def _blocks_of_similar_length(lengths: Tensor, columns: int) -> Iterator[tuple[Tensor, int]]:
    """Indices of queries to pad together, shortest first, with the length of the longest."""
    by_length, order = lengths.sort()
    sizes = by_length.tolist()
    start = 0
    while start < len(sizes):
        stop = start + 1
        while (
            stop < len(sizes)
            and (stop + 1 - start) * sizes[stop] * columns <= _VALUES_AT_A_TIME
            and sizes[stop] <= max(8, sizes[start] * 3 // 2)
        ):
            stop += 1
        if sizes[stop - 1]:
            yield order[start:stop], sizes[stop - 1]
        start = stop


def _per_query(reduce: str, values: Tensor, offsets: Tensor, lengths: Tensor) -> Tensor:
    """A reduction over each query's rows, given back to each row: ``[N, F]`` to ``[N, F]``."""
    reduced = torch.segment_reduce(values.contiguous(), reduce, offsets=offsets, axis=0, initial=0)
    return reduced.repeat_interleave(lengths, dim=0, output_size=len(values))
