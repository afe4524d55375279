"""Launches of the kernels that sort inside: sizes, what is allocated, and what is kept for the way back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pirank.sorts.kernels import short
from pirank.sorts.kernels.layout import Layout, Linear, rows_at_once, tickets

# With more lists than this, a list is given fewer threads, so that more lists are worked on at a time.
_MANY_LISTS = 256
_REGISTERS = 128


def _sizes(lists: int, longest: int, k: int) -> dict[str, Any]:
    """How a list is shared out to the threads of its program, from timings on an H200."""
    rows = rows_at_once(min(k, longest))
    warps = 4 if lists > _MANY_LISTS else 8 if longest <= 512 else 16
    if rows > 16:
        warps = 8
    tile = 32 * warps * (16 if rows > 16 else 8) // rows
    more = {"maxnreg": _REGISTERS} if rows == 16 else {}
    return {
        "ROWS": rows,
        "TILE": tile,
        "WIDE": 64 * warps,
        "SEVERAL": min(k, longest) > rows,
        "num_warps": warps,
    } | more


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
    channels = layout.channels
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
        _keys(scores),
        order,
        ordered,
        ordered_values,
        used,
        row_sums,
        shift,
        ranked,
        layout.longest,
        scores.numel(),
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
        **_sizes(layout.lists, layout.longest, k),
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
    gradient = torch.empty_like(ordered)
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
        _keys(ordered),
        ordered.new_empty(layout.lists, k),
        by_sorted,
        by_value,
        gradient,
        layout.longest,
        ordered.numel(),
        layout.per_list,
        layout.channel,
        k,
        CHANNELS=channels,
        FLAT=offsets is not None,
        MASKED=mask is not None,
        SOFT=soft,
        VALUES=with_values,
        **_sizes(layout.lists, layout.longest, k),
    )
    return gradient, by_value


def linear(
    scores: Tensor,
    labels: Tensor,
    metric: Linear,
    mask: Tensor | None,
    offsets: Tensor | None,
    temperatures: Tensor | None,
    temperature: float,
    longest: int,
    relative: bool,
    soft: bool,
    pull: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The mean loss; one loss a list, and 1 where it counts; one over the number of the mean's lists; the gradients."""
    k, items = metric.weights.numel(), scores.numel()
    lists = scores.shape[0] if offsets is None else offsets.shape[0] - 1
    # Keys, twice two numbers; order, scores and values in order.
    scratch = scores.new_empty(7 * items + (lists * k if soft else 0))
    losses = scores.new_empty(2, lists)
    mean, share = scores.new_empty(()), scores.new_empty(())
    gradient = torch.empty_like(scores) if pull else scores.new_empty(0)
    short.linear_short[(lists,)](
        scores,
        labels,
        scores if mask is None else mask,
        scores if offsets is None else offsets,
        scores if temperatures is None else temperatures,
        metric.weights,
        scratch,
        losses,
        mean,
        share,
        tickets(scores.device),
        gradient,
        longest,
        items,
        lists,
        k,
        temperature,
        metric.threshold,
        metric.at_most,
        metric.upper,
        metric.direction,
        FLAT=offsets is not None,
        MASKED=mask is not None,
        RELATIVE=relative,
        PER_LIST=temperatures is not None,
        SOFT=soft,
        GAIN=metric.gain,
        PER=metric.per,
        HARD=metric.hard,
        EVERY=metric.every,
        PULL=pull,
        **_sizes(lists, longest, k),
    )
    return mean, losses, share, gradient


def _keys(scores: Tensor) -> Tensor:
    """Room for every item's key, twice."""
    return torch.empty(2 * scores.numel(), dtype=torch.int64, device=scores.device)
