"""Launches of the kernels for long lists: the device's sort, then one pass forward and one backward over the chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor

from pirank.sorts.base import length_times_spread
from pirank.sorts.kernels import long
from pirank.sorts.kernels.layout import TILE_WEIGHTS, Layout, Linear, rows_at_once

_LEAST_CHUNK, _MOST_CHUNK = 1024, 8192
# Programs that keep a large device busy.
_PROGRAMS = 1024
_WIDE = 1024


@dataclass(frozen=True)
class _Chunks:
    """Lists cut into chunks: as a grid where lists are padded, as a table where they are flat."""

    size: int
    grid: tuple[int, ...]
    most: int  # chunks of a list, or of all lists where they are flat
    total: int
    lists: Tensor | None
    first: Tensor | None


def sorted_keys(scores: Tensor, mask: Tensor | None, offsets: Tensor | None) -> tuple[Tensor, Tensor]:
    """Scores in descending order within each list, absent items last, and their places in the list."""
    if offsets is None:
        keys = scores if mask is None else scores.masked_fill(~mask, float("-inf"))
        return keys.sort(dim=-1, descending=True, stable=True)
    lists = _list_of_items(offsets, scores.numel())
    bits = torch.where(scores == 0, 0, scores).view(torch.int32)
    rising = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(torch.int64)
    order = ((lists << 33) - rising).argsort(stable=True)
    starts = torch.nn.functional.pad(offsets, (0, 1), value=0)[lists]  # items beyond the last list: any start
    return scores[order], order - starts


def _list_of_items(offsets: Tensor, items: int) -> Tensor:
    """The list each flat item is in; the number of lists for an item beyond the last."""
    return torch.searchsorted(offsets, torch.arange(items, device=offsets.device), right=True) - 1


def temperatures_of(
    scores: Tensor, mask: Tensor | None, offsets: Tensor | None, temperature: float, relative: bool
) -> Tensor:
    """One temperature a list."""
    if offsets is None:
        lists = scores.shape[0]
        if not relative:
            return scores.new_full((lists,), temperature)
        return temperature * length_times_spread(scores, mask)[:, 0]
    if not relative:
        return scores.new_full((offsets.numel() - 1,), temperature)
    return temperature * _flat_spread(scores, offsets)


def _flat_spread(scores: Tensor, offsets: Tensor) -> Tensor:
    """:func:`~pirank.sorts.base.length_times_spread` of flat lists."""
    limits = torch.finfo(scores.dtype)
    lists = _list_of_items(offsets, scores.numel()).clamp(max=offsets.numel() - 2)
    count = offsets.diff().clamp(min=1).to(scores.dtype)
    scale = torch.segment_reduce(scores.abs(), "max", offsets=offsets, initial=0.0).clamp(min=limits.tiny)
    unit = scores / scale[lists]
    mean = _sum_of_lists(unit, offsets) / count
    variance = _sum_of_lists((unit - mean[lists]).square(), offsets) / count
    deviation = variance.sqrt()
    spread = torch.where(deviation > limits.eps, deviation * scale, 1)
    return (count * spread).clamp(min=limits.tiny, max=limits.max)


def _chunks_of(scores: Tensor, offsets: Tensor | None) -> _Chunks:
    wanted = int(triton.next_power_of_2(max(scores.numel() // _PROGRAMS, 1)))
    size = min(max(wanted, _LEAST_CHUNK), _MOST_CHUNK)
    if offsets is None:
        lists, list_size = scores.shape
        most = triton.cdiv(list_size, size)
        return _Chunks(size, (most, lists), most, most * lists, None, None)
    counts = ((offsets.diff() + (size - 1)) // size).clamp(min=1)
    first = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    # As many programs as there can be at most: the number that is needed is known on the device only.
    total = triton.cdiv(scores.numel(), size) + offsets.numel() - 1
    which = torch.searchsorted(first, torch.arange(total, device=scores.device), right=True) - 1
    which = torch.where(which < counts.numel(), which, -1)
    return _Chunks(size, (total,), 0, total, which.to(torch.int32), first.to(torch.int32))


def forward(
    scores: Tensor,
    values: Tensor,
    mask: Tensor | None,
    offsets: Tensor | None,
    temperatures: Tensor,
    k: int,
    soft: bool,
) -> tuple[Tensor, ...]:
    """As :func:`pirank.sorts.kernels.launch_short.forward`."""
    layout = Layout.of(values, offsets, 0)
    channels = values.shape[1] if offsets is None else values.shape[0]
    chunks = _chunks_of(scores, offsets)
    ordered, order = sorted_keys(scores, mask, offsets)
    lengths = _lengths(scores, mask, offsets)
    rows = rows_at_once(k)
    rises = torch.empty(chunks.total, dtype=torch.float64, device=scores.device)
    place = _place(ordered, lengths, offsets, chunks, temperatures, rises)
    sizes: dict[str, Any] = {"CHUNK": chunks.size, "FLAT": offsets is not None}
    if not soft:
        long.rises_of_chunks[chunks.grid](**place, list_size=layout.longest, k=k, WIDE=_WIDE, **sizes)
    ordered_values = torch.empty_like(values)
    partial = ordered.new_empty(chunks.total, 1 + channels, rows)
    strides = {
        "list_size": layout.longest,
        "value_list": layout.per_list,
        "value_channel": layout.channel,
        "k": k,
    }
    sizes |= {"CHANNELS": channels, "ROWS": rows, "SOFT": soft}
    long.sums_of_chunks[chunks.grid](
        values=values,
        order=order,
        ordered_values=ordered_values,
        partial=partial,
        **place,
        **strides,
        TILE=TILE_WEIGHTS // rows,
        WIDE=_WIDE,
        **sizes,
        num_warps=_warps(rows),
    )
    row_sums = ordered.new_empty(layout.lists, k)
    shift = ordered.new_empty(layout.lists, channels, k)
    ranked = torch.empty_like(shift)
    long.rows_of_lists[(layout.lists,)](
        ordered=ordered,
        ordered_values=ordered_values,
        lengths=lengths,
        offsets=place["offsets"],
        first_chunks=place["first_chunks"],
        used=temperatures,
        partial=partial,
        row_sums=row_sums,
        shift=shift,
        ranked=ranked,
        chunks=chunks.most,
        **strides,
        **sizes,
    )
    return ranked, order, ordered, ordered_values, temperatures, row_sums, shift


def backward(
    by_ranked: Tensor,
    mask: Tensor | None,
    offsets: Tensor | None,
    kept: tuple[Tensor, ...],
    k: int,
    soft: bool,
    with_values: bool,
) -> tuple[Tensor, Tensor]:
    """As :func:`pirank.sorts.kernels.launch_short.backward`."""
    order, ordered, ordered_values, temperatures, row_sums, shift = kept
    layout = Layout.of(ordered_values, offsets, 0)
    chunks = _chunks_of(ordered, offsets)
    lengths = _lengths(ordered, mask, offsets)
    rows = rows_at_once(k)
    rises = torch.empty(chunks.total, dtype=torch.float64, device=ordered.device)
    place = _place(ordered, lengths, offsets, chunks, temperatures, rises)
    sizes: dict[str, Any] = {"CHUNK": chunks.size, "FLAT": offsets is not None, "WIDE": _WIDE}
    if not soft:
        long.rises_of_chunks[chunks.grid](**place, list_size=layout.longest, k=k, **sizes)
    total, tilt = torch.empty((2, *ordered.shape), dtype=torch.float32, device=ordered.device)
    prefix = total if soft else torch.zeros_like(ordered)
    by_sorted = torch.empty_like(ordered_values) if with_values else total
    by_value = torch.zeros_like(ordered_values) if with_values else total.new_empty(0)
    pulls = torch.empty_like(rises)
    to_rows = total.new_empty(chunks.total, rows)
    gradient = torch.zeros_like(ordered)
    strides = {
        "list_size": layout.longest,
        "value_list": layout.per_list,
        "value_channel": layout.channel,
        "k": k,
    }
    options = {"CHANNELS": shift.shape[1], "ROWS": rows, "SOFT": soft, "VALUES": with_values}
    long.pull_of_chunks[chunks.grid](
        by_ranked=by_ranked,
        ordered_values=ordered_values,
        row_sums=row_sums,
        shift=shift,
        total=total,
        tilt=tilt,
        by_sorted_value=by_sorted,
        pulls=pulls,
        to_rows=to_rows,
        **place,
        **strides,
        TILE=TILE_WEIGHTS // rows,
        **sizes,
        **options,
        num_warps=_warps(rows),
    )
    if not soft:
        long.prefix_of_chunks[chunks.grid](
            total=total,
            pulls=pulls,
            prefix=prefix,
            list_size=layout.longest,
            k=k,
            chunks=chunks.most,
            ROWS=rows,
            **place,
            **sizes,
        )
    long.gradient_of_chunks[chunks.grid](
        order=order,
        total=total,
        tilt=tilt,
        prefix=prefix,
        to_rows=to_rows,
        by_sorted_value=by_sorted,
        by_value=by_value,
        gradient=gradient,
        chunks=chunks.most,
        **place,
        **strides,
        **{**sizes, "WIDE": TILE_WEIGHTS // rows if soft else _WIDE},
        **options,
    )
    return gradient, by_value


def _lengths(scores: Tensor, mask: Tensor | None, offsets: Tensor | None) -> Tensor:
    """Items of each list, ``[lists]``."""
    if offsets is not None:
        return offsets.diff()
    if mask is None:
        return torch.full((scores.shape[0],), scores.shape[1], device=scores.device)
    return mask.sum(-1)


def _place(
    ordered: Tensor,
    lengths: Tensor,
    offsets: Tensor | None,
    chunks: _Chunks,
    temperatures: Tensor,
    rises: Tensor,
) -> dict[str, Tensor]:
    """What every pass is told of the lists."""
    return {
        "ordered": ordered,
        "lengths": lengths,
        "offsets": ordered if offsets is None else offsets,
        "chunk_lists": ordered if chunks.lists is None else chunks.lists,
        "first_chunks": ordered if chunks.first is None else chunks.first,
        "used": temperatures,
        "rises": rises,
    }


def _warps(rows: int) -> int:
    return 4 if rows < 64 else 8


def linear(
    scores: Tensor,
    values: Tensor,
    found: Tensor,
    metric: Linear,
    mask: Tensor | None,
    offsets: Tensor | None,
    temperatures: Tensor,
    soft: bool,
    pull: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """As :func:`pirank.sorts.kernels.launch_short.linear`."""
    k = metric.weights.numel()
    if mask is not None:
        values, found = torch.where(mask, values, 0), found & mask
    shaped = values[:, None] if offsets is None else values[None]
    ranked, *kept = forward(scores, shaped, mask, offsets, temperatures, k, soft)
    lengths = _lengths(scores, mask, offsets)
    if metric.hard:
        ranked = ranked - kept[5]  # leaves each row its own item's value
    normaliser = _normaliser(values, metric, lengths, offsets)
    counted = _any_of(found, offsets)
    loss = metric.upper + metric.direction * (ranked[:, 0] * metric.weights).sum(-1) / normaliser
    gradient = ranked.new_empty(0)
    if pull:
        by_ranked = torch.where(counted[:, None], metric.direction * metric.weights / normaliser[:, None], 0)
        gradient, _ = backward(by_ranked, mask, offsets, tuple(kept), k, soft, False)
    return torch.where(counted, loss, 0), counted.float(), gradient


def _normaliser(values: Tensor, metric: Linear, lengths: Tensor, offsets: Tensor | None) -> Tensor:
    """What a linear metric is divided by, 1 where that would be 0."""
    if metric.per == "constant":
        return values.new_full((lengths.numel(),), metric.at_most)
    if metric.per == "items":
        found = lengths.to(values.dtype).clamp(max=metric.at_most)
    elif metric.per == "values":
        total = values.sum(-1) if offsets is None else _sum_of_lists(values, offsets)
        found = total.clamp(max=metric.at_most)
    else:
        best = _best_values(values, metric.weights.numel(), lengths, offsets)
        found = (best * metric.weights).sum(-1)
    return torch.where(found > 0, found, 1)


def _best_values(values: Tensor, k: int, lengths: Tensor, offsets: Tensor | None) -> Tensor:
    """The k largest values of each list, ``[lists, k]``, 0 beyond its length."""
    if offsets is None:
        return values.topk(k, dim=-1).values
    best, _ = sorted_keys(values, None, offsets)
    rank = torch.arange(k, device=values.device)
    index = (offsets[:-1, None] + rank).clamp(max=values.numel() - 1)
    return torch.where(rank < lengths[:, None], best[index], 0)


def _sum_of_lists(values: Tensor, offsets: Tensor) -> Tensor:
    return torch.segment_reduce(values, "sum", offsets=offsets, initial=0.0)


def _any_of(found: Tensor, offsets: Tensor | None) -> Tensor:
    if offsets is None:
        return found.any(-1)
    return torch.nn.functional.pad(found.cumsum(0), (1, 0))[offsets].diff() > 0
