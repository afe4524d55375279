"""Kernels of batch normalisation over the rows that are real: a program for every few columns, a launch a direction.

A rectifier and dropout behind it take part in the same launch. A program goes over its columns three times on the way
there and twice on the way back. Up to 2,048 rows, or 4,096 of a narrow layer, are read once and held in registers; of
more, it is the first time that costs, for they stay in its multiprocessor's cache. Every lane has sums of its own,
which are added up at the end, always in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

# Eight columns of float32 are the 32 bytes that memory hands out at a time.
_COLUMNS = 8
# Rows at a time: with 16 warps, 16 numbers a thread, which are enough on their way to keep it from waiting.
_ROWS = 1024
_WARPS = 16
# Rows of eight columns that are held, 32 numbers a thread; twice as many of four columns, where that leaves no more
# programs than a large device runs at once.
_MOST_HELD = 2048
_MOST_PROGRAMS = 128


@triton.jit
def _places(first, rows, column, width, ROWS: tl.constexpr, HELD: tl.constexpr):
    """Where the numbers of a tile stand, ``[ROWS, COLUMNS]``, and which of them there are."""
    row = first + tl.arange(0, ROWS)
    at = row[:, None] if HELD else row.to(tl.int64)[:, None]
    return at * width + column[None, :], (row < rows)[:, None] & (column < width)[None, :]


@triton.jit
def _real_rows(real, first, rows, ROWS: tl.constexpr):
    """Which rows of a tile are real, ``[ROWS]``."""
    row = first + tl.arange(0, ROWS)
    return tl.load(real + row, mask=row < rows, other=0) != 0


@triton.jit
def _tile(values, at, inside):
    return tl.load(values + at, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _above(values, at, inside, there, level, held, HELD: tl.constexpr):
    """How far a tile's values, read or held, stand above a level; 0 in rows that are not real, whatever they hold."""
    if HELD:
        found = held
    else:
        found = _tile(values, at, inside)
    return tl.where(there[:, None], found - level, 0.0)


@triton.jit
def _tile_if(held: tl.constexpr, values, rows, column, width, ROWS: tl.constexpr):
    """The only tile of a program, if it is to be held."""
    found = 0.0
    if held:
        at, inside = _places(0, rows, column, width, ROWS, True)
        found = _tile(values, at, inside)
    return found


@triton.jit
def _factor(weight, scale, column, width):
    """w / √(v+ε) of each column."""
    if weight is not None:
        scale *= tl.load(weight + column, mask=column < width, other=0.0).to(tl.float32)
    return scale


@triton.jit
def _move(running, column, width, towards, share):
    """Move a running statistic a share of the way towards this batch's."""
    before = tl.load(running + column, mask=column < width, other=0.0).to(tl.float32)
    tl.store(running + column, before + share * (towards - before), mask=column < width)


@triton.jit
def _follow(
    running_mean, running_var, batches, mean, variance, column, width, momentum, CUMULATIVE: tl.constexpr
):
    """Running statistics, as PyTorch keeps them; with CUMULATIVE this batch is counted in ``batches`` already."""
    if CUMULATIVE:
        share = 1 / tl.load(batches).to(tl.float32)
    else:
        share = momentum
        if tl.program_id(0) == 0:
            tl.store(batches, tl.load(batches) + 1)
    _move(running_mean, column, width, mean, share)
    _move(running_var, column, width, variance, share)


@triton.jit
def _kept(seed, place, first, dropped, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Which numbers of a tile are not dropped, ``[ROWS, COLUMNS]``: 16 random bits each, at least ``dropped``.

    One draw of Philox, 128 bits, serves the eight columns of a row.
    """
    row = first + tl.arange(0, ROWS)
    nothing = tl.zeros([ROWS], tl.int32)
    a, b, c, d = tl.philox(
        tl.load(seed), row, nothing + tl.program_id(0), nothing + place, nothing, n_rounds=7
    )
    column = tl.arange(0, COLUMNS)[None, :]
    word = tl.where(column < 2, a[:, None], tl.where(column < 4, b[:, None], c[:, None]))
    word = tl.where(column < 6, word, d[:, None])
    return ((word >> (16 * (column % 2)).to(tl.uint32)) & 0xFFFF).to(tl.int32) >= dropped


@triton.jit(do_not_specialize=["rows"])
def _normalise(
    values, real, weight, bias, running_mean, running_var, batches, seed, out, means, scales,
    rows, width, momentum, eps, place, dropped, stretch,
    CUMULATIVE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, TILES: tl.constexpr, RECTIFY: tl.constexpr,
):  # fmt: skip
    """b + w (x − mean) / √(v+ε) in real rows and b in others; ``means`` and ``scales`` = 1/√(v+ε) are kept.

    With RECTIFY what is below 0 becomes 0, and with a ``seed`` some of the rest, which is stretched instead.
    """
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    HELD: tl.constexpr = TILES == 1
    held = _tile_if(HELD, values, rows, column, width, ROWS)
    counts = tl.zeros([ROWS], tl.int32)
    totals = tl.zeros([ROWS, COLUMNS], tl.float32)
    for tile in range(TILES):
        first = tile * ROWS
        at, inside = _places(first, rows, column, width, ROWS, HELD)
        there = _real_rows(real, first, rows, ROWS)
        counts += there.to(tl.int32)
        totals += _above(values, at, inside, there, 0.0, held, HELD)
    count = tl.sum(counts, 0).to(tl.float32)
    divisor = tl.maximum(count, 1.0)
    mean = tl.div_rn(tl.sum(totals, 0), divisor)

    squares = tl.zeros([ROWS, COLUMNS], tl.float32)
    slips = tl.zeros([ROWS, COLUMNS], tl.float32)
    for tile in range(TILES):
        first = tile * ROWS
        at, inside = _places(first, rows, column, width, ROWS, HELD)
        there = _real_rows(real, first, rows, ROWS)
        centred = _above(values, at, inside, there, mean[None, :], held, HELD)
        squares += centred * centred
        slips += centred
    # The sum that the mean was made of was rounded; what stands above that mean says by how much.
    slip = tl.div_rn(tl.sum(slips, 0), divisor)
    square = tl.sum(squares, 0) - count * slip * slip
    square = tl.where(square < 0, 0.0, square)
    mean += slip
    scale = tl.rsqrt(tl.div_rn(square, divisor) + eps)
    tl.store(means + column, mean, mask=column < width)
    tl.store(scales + column, scale, mask=column < width)
    if running_mean is not None:
        unbiased = tl.div_rn(square, tl.maximum(count - 1, 1.0))
        _follow(running_mean, running_var, batches, mean, unbiased, column, width, momentum, CUMULATIVE)

    factor = _factor(weight, scale, column, width)
    shift = tl.zeros([COLUMNS], tl.float32)
    if bias is not None:
        shift = tl.load(bias + column, mask=column < width, other=0.0).to(tl.float32)
    for tile in range(TILES):
        first = tile * ROWS
        at, inside = _places(first, rows, column, width, ROWS, HELD)
        there = _real_rows(real, first, rows, ROWS)
        centred = _above(values, at, inside, there, mean[None, :], held, HELD)
        found = shift[None, :] + centred * factor[None, :]
        if RECTIFY:
            found = tl.where(found <= 0, 0.0, found)  # a NaN stays one
        if seed is not None:
            found = tl.where(_kept(seed, place, first, dropped, ROWS, COLUMNS), found * stretch, 0.0)
        tl.store(out + at, found, mask=inside)


@triton.jit
def _pulled(by_out, out, at, inside, stretch):
    """The gradient by what was normalised: that of the numbers that a rectifier and dropout let through."""
    if out is not None:
        through = inside & (tl.load(out + at, mask=inside, other=0.0) > 0)
        return _tile(by_out, at, through) * stretch
    return _tile(by_out, at, inside)


@triton.jit(do_not_specialize=["rows"])
def _pull(
    by_out, values, out, real, weight, means, scales, by_values, by_weight, by_bias, rows, width, stretch,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """The gradients by values, 0 in rows that are not real, and by weight and bias where there are such.

    With ``out``, what a rectifier and dropout let through, the others pull at nothing.
    """
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    mean = tl.load(means + column, mask=column < width, other=0.0)
    scale = tl.load(scales + column, mask=column < width, other=0.0)
    HELD: tl.constexpr = TILES == 1
    held = _tile_if(HELD, values, rows, column, width, ROWS)
    pulled = tl.zeros([ROWS, COLUMNS], tl.float32)
    counts = tl.zeros([ROWS], tl.int32)
    totals = tl.zeros([ROWS, COLUMNS], tl.float32)
    alongs = tl.zeros([ROWS, COLUMNS], tl.float32)
    for tile in range(TILES):
        first = tile * ROWS
        at, inside = _places(first, rows, column, width, ROWS, HELD)
        there = _real_rows(real, first, rows, ROWS)
        counts += there.to(tl.int32)
        pulled = tl.where(there[:, None], _pulled(by_out, out, at, inside, stretch), 0.0)
        totals += pulled
        alongs += pulled * _above(values, at, inside, there, mean[None, :], held, HELD)
    divisor = tl.maximum(tl.sum(counts, 0).to(tl.float32), 1.0)
    total = tl.sum(totals, 0)
    along = tl.sum(alongs, 0) * scale
    if by_weight is not None:
        tl.store(by_weight + column, along, mask=column < width)
    if by_bias is not None:
        tl.store(by_bias + column, total, mask=column < width)

    # ∂ℓ/∂x_r = w/√(v+ε) ( g_r − Σg/n − c_r Σ(g·c) / (n (v+ε)) )
    factor = _factor(weight, scale, column, width)
    level = tl.div_rn(total, divisor)
    slope = tl.div_rn(along, divisor) * scale
    for tile in range(TILES):
        first = tile * ROWS
        at, inside = _places(first, rows, column, width, ROWS, HELD)
        there = _real_rows(real, first, rows, ROWS)
        centred = _above(values, at, inside, there, mean[None, :], held, HELD)
        if not HELD:
            pulled = _pulled(by_out, out, at, inside, stretch)
        pull = tl.where(there[:, None], pulled - level[None, :], 0.0)
        tl.store(by_values + at, (pull - centred * slope[None, :]) * factor[None, :], mask=inside)


@dataclass(frozen=True)
class Behind:
    """What comes behind a normalisation: a rectifier, and dropout where there is a seed.

    Attributes:
        dropout: the share that is dropped, of which 16 bits count.
        seed: one number on the device, another in every step.
        place: tells this layer's draw from that of others with the same seed.
    """

    dropout: float
    seed: Tensor | None
    place: int

    @property
    def dropped(self) -> int:
        """How many of 65,536 numbers are dropped."""
        return 0 if self.seed is None else min(round(self.dropout * 65536), 65535)

    @property
    def stretch(self) -> float:
        """What the others are multiplied by."""
        return 65536 / (65536 - self.dropped)


def normalise(
    values: Tensor,
    real: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running: tuple[Tensor, Tensor, Tensor] | None,
    momentum: float | None,
    eps: float,
    behind: Behind | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The rows normalised, ``[N, C]``, and what :func:`pull` needs: each column's mean and 1/√(v+ε), ``[C]``.

    Running mean, variance and number of batches, if there are such, are moved on.
    """
    rows, width = values.shape
    columns, sizes = _sizes(rows, width)
    out = torch.empty_like(values)
    mean, scale = torch.empty((2, width), dtype=torch.float32, device=values.device)
    if running is not None and momentum is None:
        # All programs read this number: it must not change under them.
        running[2].add_(1)
    with torch.cuda.device_of(values):
        _normalise[(triton.cdiv(width, columns),)](
            values,
            real,
            weight,
            bias,
            *(running or (None, None, None)),
            None if behind is None else behind.seed,
            out,
            mean,
            scale,
            rows,
            width,
            float(momentum or 0),
            eps,
            0 if behind is None else behind.place,
            0 if behind is None else behind.dropped,
            1.0 if behind is None else behind.stretch,
            CUMULATIVE=momentum is None,
            RECTIFY=behind is not None,
            COLUMNS=columns,
            **sizes,
        )
    return out, mean, scale


def pull(
    by_out: Tensor,
    values: Tensor,
    real: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    scale: Tensor,
    out: Tensor | None,
    stretch: float,
    with_weight: bool,
    with_bias: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The gradients by the rows, the weight and the bias; the last two where they are wanted.

    ``out`` is what came of a rectifier and dropout behind the normalisation, if there were such.
    """
    rows, width = values.shape
    columns, sizes = _sizes(rows, width)
    by_values = torch.empty_like(values)
    by_weight = torch.empty_like(mean) if with_weight else None
    by_bias = torch.empty_like(mean) if with_bias else None
    with torch.cuda.device_of(values):
        _pull[(triton.cdiv(width, columns),)](
            by_out,
            values,
            out,
            real,
            weight,
            mean,
            scale,
            by_values,
            by_weight,
            by_bias,
            rows,
            width,
            stretch,
            COLUMNS=columns,
            **sizes,
        )
    return by_values, by_weight, by_bias


def _sizes(rows: int, width: int) -> tuple[int, dict[str, int]]:
    """The columns of a program, and the rest of what its tiles are like."""
    columns, at_a_time = _COLUMNS, max(int(triton.next_power_of_2(rows)), 64)
    if at_a_time == 2 * _MOST_HELD and 2 * width <= _MOST_PROGRAMS * _COLUMNS:
        columns = _COLUMNS // 2
    elif at_a_time > _MOST_HELD:
        at_a_time = _ROWS
    warps = min(max(at_a_time * columns // 512, 4), _WARPS)
    return columns, {"ROWS": at_a_time, "TILES": triton.cdiv(rows, at_a_time), "num_warps": warps}
