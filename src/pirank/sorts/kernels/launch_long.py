"""Launches of the kernels for long lists: the device's sort, then one pass forward and one backward over the chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor

from pirank.sorts.base import length_times_spread
from pirank.sorts.kernels import long
from pirank.sorts.kernels.launch_sort import list_of_items, sorted_lists
from pirank.sorts.kernels.layout import MOST_ROWS, Layout, Linear, rows_at_once, tickets

_LEAST_CHUNK, _MOST_CHUNK = 1024, 4096
# Programs that keep a large device busy.
_PROGRAMS = 1024
_WIDE = 1024
# Of the gradient: items of a program, and those it works on at a time.
_MOST_PART, _WIDE_PART = 2048, 512
_TILE_WEIGHTS = 2048
# Items of a thread at a time, and rows whose sums it holds at most.
_EACH, _MOST_GROUP = 4, 16
# Rows from one weight that is a power of two to the next; those between follow from one another.
_STRIDE = 4
# Registers of a thread beside its two sums a row: with more there is room for fewer programs, and they wait for memory.
_REGISTERS = 76


@dataclass(frozen=True)
class _Chunks:
    """Lists cut into chunks: as a grid where lists are padded, as a table where they are flat.

    Attributes:
        size: items of a chunk.
        grid: of the programs, one a chunk.
        most: chunks of a list, or 0 where lists are flat.
        total: chunks of all lists.
        lists: the list of every chunk, where lists are flat.
        first: the first chunk of every list, where lists are flat.
    """

    size: int
    grid: tuple[int, ...]
    most: int
    total: int
    lists: Tensor | None
    first: Tensor | None


def temperatures_of(
    scores: Tensor,
    mask: Tensor | None,
    offsets: Tensor | None,
    given: Tensor | None,
    temperature: float,
    relative: bool,
) -> Tensor:
    """One temperature a list, in memory of its own."""
    if given is not None:
        return given.clone()
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
    lists = list_of_items(offsets, scores.numel()).clamp(max=offsets.numel() - 2)
    count = offsets.diff().clamp(min=1).to(scores.dtype)
    scale = torch.segment_reduce(scores.abs(), "max", offsets=offsets, initial=0.0).clamp(min=limits.tiny)
    unit = scores / scale[lists]
    mean = _sum_of_lists(unit, offsets) / count
    variance = _sum_of_lists((unit - mean[lists]).square(), offsets) / count
    deviation = variance.sqrt()
    spread = torch.where(deviation > limits.eps, deviation * scale, 1)
    return (count * spread).clamp(min=limits.tiny, max=limits.max)


def most_chunks(items: int, lists: int) -> int:
    """How many chunks there can be at most."""
    return items // _LEAST_CHUNK + lists


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


def _past(k: int, rows: int, soft: bool) -> dict[str, Any]:
    """How the items past the rows are gone through: SoftSort's rows all at once, others in groups of one size."""
    groups = triton.cdiv(k, _MOST_GROUP)
    # An even size, so that few kernels are compiled.
    group = 1 if soft else 2 * triton.cdiv(k, 2 * groups)
    warps = 4 if rows < MOST_ROWS else 8
    return {
        "GROUP": group,
        "SEVERAL": groups > 1 and not soft,
        "EACH": _EACH,
        "LANES": 32 * warps,
        "num_warps": warps,
    }


class _Passes:
    """The passes over the chunks of sorted lists, each a launch.

    Args:
        ordered: scores in descending order within each list.
        order: the places they came from.
        lengths: items of each list.
        offsets: boundaries of flat lists.
        used: one temperature a list.
        k: rows, at most 64.
        channels: values an item.
        longest: places of a padded list.
        soft: SoftSort.
        risen: the heights and rises of passes before these, where they are kept.
    """

    def __init__(
        self,
        ordered: Tensor,
        order: Tensor,
        lengths: Tensor,
        offsets: Tensor | None,
        used: Tensor,
        k: int,
        channels: int,
        soft: bool,
        risen: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        self.ordered, self.order, self.soft, self.k, self.channels = ordered, order, soft, k, channels
        self.chunks = chunks = _chunks_of(ordered, offsets)
        self.lists, self.longest = lengths.numel(), 0 if offsets is not None else ordered.shape[1]
        self.rows = rows_at_once(k)
        self.flat = {"FLAT": offsets is not None}
        self.lists_at = {
            "lengths": lengths,
            "offsets": ordered if offsets is None else offsets,
            "first_chunks": ordered if chunks.first is None else chunks.first,
        }
        self.place = self.lists_at | {"chunk_lists": ordered if chunks.lists is None else chunks.lists}
        self.sizes = self.flat | {"CHUNK": chunks.size, "WIDE": _WIDE}
        per_list, channel = (channels, ordered.shape[1]) if offsets is None else (1, ordered.numel())
        self.strides = {"list_size": self.longest, "value_list": per_list, "value_channel": channel, "k": k}
        self.past: dict[str, Any] = _past(k, self.rows, soft)
        self.sorted = {"ordered": ordered, "used": used}
        self.heights, self.rises = self._risen() if risen is None else risen

    def _risen(self) -> tuple[Tensor, Tensor]:
        """How far G has risen at each item since its chunk began, and over each chunk; SoftSort has no use for them."""
        rises = self.ordered.new_empty(most_chunks(self.ordered.numel(), self.lists), dtype=torch.float64)
        if self.soft:
            return self.ordered.new_empty(0), rises
        heights = torch.empty_like(self.ordered)
        long.heights_of_chunks[self.chunks.grid](
            **self.place,
            **self.sorted,
            rises=rises,
            heights=heights,
            list_size=self.longest,
            k=self.k,
            **self.sizes,
        )
        return heights, rises

    def numbers(self, dtype: torch.dtype, *each: int) -> Tensor:
        """Room for numbers of every chunk."""
        return torch.empty(self.chunks.total, *each, dtype=dtype, device=self.ordered.device)

    def sums(self, labels: Tensor, gain: str = "same", threshold: float = 0.0) -> tuple[Tensor, Tensor]:
        """The values in order, and what each chunk adds to the rows' sums."""
        ordered_values = torch.empty_like(labels)
        partial = self.numbers(torch.float32, 1 + self.channels, self.rows)
        long.sums_of_chunks[self.chunks.grid](
            labels=labels,
            order=self.order,
            ordered_values=ordered_values,
            rises=self.rises,
            heights=self.heights,
            partial=partial,
            threshold=threshold,
            **self.place,
            **self.sorted,
            **self.strides,
            CHANNELS=self.channels,
            ROWS=self.rows,
            SOFT=self.soft,
            GAIN=gain,
            STRIDE=_STRIDE,
            **self.sizes,
            **self.past,
            maxnreg=8 * triton.cdiv(_REGISTERS + 2 * self.past["GROUP"], 8),
        )
        return ordered_values, partial

    def gradient(
        self, by_ranked: Tensor, ordered_values: Tensor, row_sums: Tensor, shift: Tensor, with_values: bool
    ) -> tuple[Tensor, Tensor]:
        """The gradients by scores and values; that by the values is empty if it is not wanted."""
        total, tilt = torch.empty_like(self.ordered), torch.empty_like(self.ordered)
        # With several channels, what pulls at the rows' own items is added to what is there.
        room = torch.empty_like if self.channels == 1 else torch.zeros_like
        by_sorted = room(ordered_values) if with_values else total
        by_value = torch.zeros_like(ordered_values) if with_values else total.new_empty(0)
        pulls, to_rows = self.numbers(torch.float64), total
        if self.soft:
            to_rows = self.numbers(torch.float32, self.rows)
        options = {"CHANNELS": self.channels, "ROWS": self.rows, "SOFT": self.soft, "VALUES": with_values}
        long.pull_of_chunks[self.chunks.grid](
            by_ranked=by_ranked,
            ordered_values=ordered_values,
            rises=self.rises,
            heights=self.heights,
            row_sums=row_sums,
            shift=shift,
            total=total,
            tilt=tilt,
            by_sorted_value=by_sorted,
            pulls=pulls,
            to_rows=to_rows,
            **self.place,
            **self.sorted,
            **self.strides,
            CHUNK=self.chunks.size,
            **self.flat,
            **options,
            **self.past,
        )
        prefix = total
        if not self.soft:
            prefix = torch.empty_like(self.ordered)
            long.prefix_of_chunks[self.chunks.grid](
                rises=self.rises,
                total=total,
                pulls=pulls,
                prefix=prefix,
                list_size=self.longest,
                k=self.k,
                chunks=self.chunks.most,
                ROWS=self.rows,
                **self.place,
                **self.sorted,
                **self.sizes,
            )
        gradient = torch.zeros_like(self.ordered)
        parts = max(self.chunks.size // _MOST_PART, 1)
        long.gradient_of_chunks[(self.chunks.grid[0] * parts, *self.chunks.grid[1:])](
            order=self.order,
            rises=self.rises,
            total=total,
            tilt=tilt,
            prefix=prefix,
            to_rows=to_rows,
            by_sorted_value=by_sorted,
            by_value=by_value,
            gradient=gradient,
            chunks=self.chunks.most,
            **self.place,
            **self.sorted,
            **self.strides,
            PARTS=parts,
            **self.sizes | {"WIDE": _TILE_WEIGHTS // self.rows if self.soft else _WIDE_PART},
            **options,
        )
        return gradient, by_value


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
    ordered, order = sorted_lists(scores, mask, offsets)
    channels = Layout.of(values, offsets, 0).channels
    passes = _Passes(
        ordered, order, _lengths(scores, mask, offsets), offsets, temperatures, k, channels, soft
    )
    ordered_values, partial = passes.sums(values)
    row_sums = ordered.new_empty(passes.lists, k)
    shift = ordered.new_empty(passes.lists, channels, k)
    ranked = torch.empty_like(shift)
    long.rows_of_lists[(passes.lists,)](
        ordered_values=ordered_values,
        partial=partial,
        row_sums=row_sums,
        shift=shift,
        ranked=ranked,
        chunks=passes.chunks.most,
        **passes.lists_at,
        **passes.sorted,
        **passes.strides,
        CHANNELS=channels,
        ROWS=passes.rows,
        SOFT=soft,
        **passes.flat,
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
    lengths = _lengths(ordered, mask, offsets)
    passes = _Passes(ordered, order, lengths, offsets, temperatures, k, shift.shape[1], soft)
    return passes.gradient(by_ranked, ordered_values, row_sums, shift, with_values)


def linear(
    scores: Tensor,
    labels: Tensor,
    metric: Linear,
    mask: Tensor | None,
    offsets: Tensor | None,
    temperatures: Tensor,
    soft: bool,
) -> tuple[Tensor, ...]:
    """The mean loss; one loss a list, and 1 where it counts; one over the number of the mean's lists; then what
    :func:`linear_backward` needs."""
    k = metric.weights.numel()
    ordered, order = sorted_lists(scores, mask, offsets)
    lengths = _lengths(scores, mask, offsets)
    passes = _Passes(ordered, order, lengths, offsets, temperatures, k, 1, soft)
    chunks, lists = passes.chunks, passes.lists
    bests = passes.numbers(torch.float32, k)
    sums = passes.numbers(torch.float64, 2)
    long.bests_of_chunks[chunks.grid](
        labels=labels,
        mask=labels if mask is None else mask,
        bests=bests,
        sums=sums,
        list_size=passes.longest,
        k=k,
        threshold=metric.threshold,
        MASKED=mask is not None,
        GAIN=metric.gain,
        IDEAL=metric.per == "ideal",
        **passes.place,
        **passes.sizes,
    )
    ordered_values, partial = passes.sums(labels, metric.gain, metric.threshold)
    row_sums, shift, by_ranked = (ordered.new_empty(lists, k) for _ in range(3))
    losses = ordered.new_empty(2, lists)
    mean, share = ordered.new_empty(()), ordered.new_empty(())
    long.losses_of_lists[(lists,)](
        ordered_values=ordered_values,
        partial=partial,
        row_sums=row_sums,
        shift=shift,
        by_ranked=by_ranked,
        weights=metric.weights,
        bests=bests,
        sums=sums,
        losses=losses,
        mean=mean,
        share=share,
        ticket=tickets(ordered.device),
        list_size=passes.longest,
        k=k,
        chunks=chunks.most,
        lists=lists,
        at_most=metric.at_most,
        upper=metric.upper,
        direction=metric.direction,
        **passes.lists_at,
        **passes.sorted,
        ROWS=passes.rows,
        WIDE=_WIDE,
        SOFT=soft,
        PER=metric.per,
        HARD=metric.hard,
        EVERY=metric.every,
        **passes.flat,
    )
    kept = (by_ranked, order, ordered, ordered_values, passes.heights, passes.rises, lengths, temperatures)
    return mean, losses, share, *kept, row_sums, shift


def linear_backward(by_loss: Tensor, offsets: Tensor | None, kept: tuple[Tensor, ...], soft: bool) -> Tensor:
    """The gradient of the sum of each loss times ``by_loss [lists]``."""
    by_ranked, order, ordered, ordered_values, heights, rises, lengths, temperatures, row_sums, shift = kept
    k = by_ranked.shape[1]
    passes = _Passes(ordered, order, lengths, offsets, temperatures, k, 1, soft, risen=(heights, rises))
    wanted = by_ranked * by_loss[:, None]
    return passes.gradient(wanted, ordered_values, row_sums, shift, False)[0]


def _lengths(scores: Tensor, mask: Tensor | None, offsets: Tensor | None) -> Tensor:
    """Items of each list, ``[lists]``."""
    if offsets is not None:
        return offsets.diff()
    if mask is None:
        return torch.full((scores.shape[0],), scores.shape[1], device=scores.device)
    return mask.sum(-1)


def _sum_of_lists(values: Tensor, offsets: Tensor) -> Tensor:
    return torch.segment_reduce(values, "sum", offsets=offsets, initial=0.0)
