"""Launches of the kernels for short lists: sizes, what is allocated, and what is kept for the way back."""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor

from pirank.sorts.kernels import short
from pirank.sorts.kernels.layout import TILE_WEIGHTS, Layout, Linear, rows_at_once

_LEAST_BLOCK = 128


def _sizes(longest: int, k: int) -> dict[str, Any]:
    rows = rows_at_once(min(k, longest))
    block = max(int(triton.next_power_of_2(longest)), _LEAST_BLOCK)
    return {
        "BLOCK": block,
        "ROWS": rows,
        "TILE": TILE_WEIGHTS // rows,
        "SEVERAL": min(k, longest) > rows,
        "num_warps": 4 if block <= 1024 and rows < 64 else 8,
    }


def forward(
    scores: Tensor,
    values: Tensor,
    mask: Tensor | None,
    offsets: Tensor | None,
    temperatures: Tensor | None,
    temperature: float,
    k: int,
    longest: int,
    relative: bool,
    soft: bool,
) -> tuple[Tensor, ...]:
    """Ranked values ``[lists, channels, k]``, then order, sorted scores and values, temperatures, row sums, shifts."""
    layout = Layout.of(values, offsets, longest)
    channels = values.shape[1] if offsets is None else values.shape[0]
    order = torch.empty(scores.shape, dtype=torch.int32, device=scores.device)
    ordered = torch.empty(scores.shape, dtype=torch.float32, device=scores.device)
    ordered_values = torch.empty_like(values)
    used = ordered.new_empty(layout.lists)
    row_sums = ordered.new_empty(layout.lists, k)
    shift = ordered.new_empty(layout.lists, channels, k)
    ranked = torch.empty_like(shift)
    short.forward_short[(layout.lists,)](
        scores,
        values,
        scores if mask is None else mask,
        scores if offsets is None else offsets,
        scores if temperatures is None else temperatures,
        order,
        ordered,
        ordered_values,
        used,
        row_sums,
        shift,
        ranked,
        layout.longest,
        layout.per_list,
        layout.channel,
        k,
        temperature,
        CHANNELS=channels,
        FLAT=offsets is not None,
        MASKED=mask is not None,
        RELATIVE=relative,
        PER_LIST=temperatures is not None,
        SOFT=soft,
        **_sizes(layout.longest, k),
    )
    return ranked, order, ordered, ordered_values, used, row_sums, shift


def backward(
    by_ranked: Tensor,
    mask: Tensor | None,
    offsets: Tensor | None,
    kept: tuple[Tensor, ...],
    k: int,
    longest: int,
    soft: bool,
    with_values: bool,
) -> tuple[Tensor, Tensor]:
    """The gradients by scores and values; that by the values is empty if it is not wanted."""
    order, ordered, ordered_values, used, row_sums, shift = kept
    layout = Layout.of(ordered_values, offsets, longest)
    channels = shift.shape[1]
    sums = _scratch(ordered, k, layout)
    gradient = torch.zeros_like(ordered)
    by_sorted = torch.empty_like(ordered_values) if with_values else ordered
    by_value = torch.zeros_like(ordered_values) if with_values else ordered.new_empty(0)
    short.backward_short[(layout.lists,)](
        by_ranked,
        ordered if mask is None else mask,
        ordered if offsets is None else offsets,
        order,
        ordered,
        ordered_values,
        used,
        row_sums,
        shift,
        *sums,
        by_sorted,
        by_value,
        gradient,
        layout.longest,
        layout.per_list,
        layout.channel,
        k,
        CHANNELS=channels,
        FLAT=offsets is not None,
        MASKED=mask is not None,
        SOFT=soft,
        VALUES=with_values,
        **_sizes(layout.longest, k),
    )
    return gradient, by_value


def linear(
    scores: Tensor,
    values: Tensor,
    found: Tensor,
    metric: Linear,
    mask: Tensor | None,
    offsets: Tensor | None,
    temperatures: Tensor | None,
    temperature: float,
    longest: int,
    relative: bool,
    soft: bool,
    pull: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """One loss a list, 1 where it counts, and the gradient of each loss by its scores."""
    k = metric.weights.numel()
    layout = Layout.of(values[:, None] if offsets is None else values[None], offsets, longest)
    order = torch.empty(scores.shape, dtype=torch.int32, device=scores.device)
    ordered = torch.empty(scores.shape, dtype=torch.float32, device=scores.device)
    ordered_values = torch.empty_like(ordered)
    sums = _scratch(ordered, k, layout) if pull else (ordered,) * 4
    losses, counts = ordered.new_empty(2, layout.lists)
    # Flat places beyond the last list belong to nobody.
    gradient = torch.zeros_like(ordered) if pull else ordered.new_empty(0)
    short.linear_short[(layout.lists,)](
        scores,
        values,
        scores if mask is None else mask,
        found,
        scores if offsets is None else offsets,
        scores if temperatures is None else temperatures,
        metric.weights,
        order,
        ordered,
        ordered_values,
        *sums,
        losses,
        counts,
        gradient,
        layout.longest,
        k,
        temperature,
        metric.at_most,
        metric.upper,
        metric.direction,
        FLAT=offsets is not None,
        MASKED=mask is not None,
        RELATIVE=relative,
        PER_LIST=temperatures is not None,
        SOFT=soft,
        PER=metric.per,
        HARD=metric.hard,
        PULL=pull,
        **_sizes(layout.longest, k),
    )
    return losses, counts, gradient


def _scratch(ordered: Tensor, k: int, layout: Layout) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sums by item, twice; their prefix; and what goes to the rows."""
    total, tilt, prefix = torch.empty((3, *ordered.shape), dtype=torch.float32, device=ordered.device)
    return total, tilt, prefix, ordered.new_empty(layout.lists, k)
