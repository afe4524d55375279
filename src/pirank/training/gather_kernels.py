"""Kernels that gather a batch by the tables of a plan, in one launch, and put scores into lists and back.

A row of the table names a step's number of documents, where they begin among the planned ones, and where each list
begins among them and how long it is. A program takes one list, or a tile of rows.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

_ROWS = 256
_MOST_WIDE = 1024


@triton.jit
def _list_at(at, table, columns, which):
    """Where a list of this step begins among its documents, and how long it is: the halves behind two columns."""
    step = table + tl.load(at) * columns
    return tl.load(step + 2 + which), tl.load(step + 1 + columns // 2 + which)


@triton.jit(do_not_specialize=["lists", "width", "rows"])
def _gather(
    at, table, planned, labels, chosen, real, listed, mask, columns, lists, width, rows,
    WIDE: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The documents of a step and which rows they fill; their labels in lists, and which places those fill."""
    step = table + tl.load(at) * columns
    begin = tl.load(step + 1)
    which = tl.program_id(0)
    if which < lists:
        offset, length = _list_at(at, table, columns, which)
        first = 0
        while first < width:
            item = first + tl.arange(0, WIDE)
            there = item < length
            document = tl.load(planned + begin + offset + item, mask=there, other=0)
            label = tl.load(labels + document, mask=there, other=0)
            tl.store(listed + which * width + item, label, mask=item < width)
            tl.store(mask + which * width + item, there, mask=item < width)
            first += WIDE
    else:
        row = (which - lists) * ROWS + tl.arange(0, ROWS)
        tl.store(chosen + row, tl.load(planned + begin + row, mask=row < rows, other=0), mask=row < rows)
        tl.store(real + row, (row < tl.load(step)).to(tl.float32), mask=row < rows)


@triton.jit(do_not_specialize=["width"])
def _into_lists(at, table, scores, listed, columns, width, WIDE: tl.constexpr):
    """The scores of each list in its row, 0 behind them."""
    which = tl.program_id(0)
    offset, length = _list_at(at, table, columns, which)
    first = 0
    while first < width:
        item = first + tl.arange(0, WIDE)
        score = tl.load(scores + offset + item, mask=item < length, other=0.0)
        tl.store(listed + which * width + item, score, mask=item < width)
        first += WIDE


@triton.jit(do_not_specialize=["width", "rows"])
def _out_of_lists(at, table, listed, scores, columns, width, rows, WIDE: tl.constexpr):
    """Back again; the last program gives 0 to the rows that no document fills."""
    which = tl.program_id(0)
    offset, length = _list_at(at, table, columns, which)
    first = 0
    while first < length:
        item = first + tl.arange(0, WIDE)
        score = tl.load(listed + which * width + item, mask=item < length, other=0.0)
        tl.store(scores + offset + item, score, mask=item < length)
        first += WIDE
    if which == tl.num_programs(0) - 1:
        row = tl.load(table + tl.load(at) * columns)
        while row < rows:
            tl.store(scores + row + tl.arange(0, WIDE), tl.zeros([WIDE], tl.float32),
                     mask=row + tl.arange(0, WIDE) < rows)  # fmt: skip
            row += WIDE


def gather(
    at: Tensor, table: Tensor, planned: Tensor, labels: Tensor, rows: int, lists: int, width: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What the table says of step ``at``.

    Args:
        at: ``[1]`` the step.
        table: ``[steps, 2 + 2 · most lists]``.
        planned: the documents of all steps, one step after the other.
        labels: of every document.
        rows: rows of the batch,
        lists: its lists,
        width: and items of the longest.

    Returns:
        The documents ``[rows]``, 1 for the rows that hold one ``[rows, 1]``, labels and a mask ``[lists, width]``.
    """
    chosen = planned.new_empty(rows)
    real = torch.empty(rows, 1, device=planned.device)
    listed = labels.new_empty(lists, width)
    mask = torch.empty(lists, width, dtype=torch.bool, device=planned.device)
    with torch.cuda.device_of(planned):
        _gather[(lists + triton.cdiv(rows, _ROWS),)](
            at, table, planned, labels, chosen, real, listed, mask, table.shape[1], lists, width, rows,
            WIDE=_wide(width), ROWS=_ROWS,
        )  # fmt: skip
    return chosen, real, listed, mask


def into_lists(scores: Tensor, at: Tensor, table: Tensor, lists: int, width: int) -> Tensor:
    """``scores [rows]`` of step ``at`` to ``[lists, width]``, 0 where there is none."""
    listed: Tensor = _IntoLists.apply(scores, at, table, lists, width)
    return listed


class _IntoLists(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, at: Tensor, table: Tensor, lists: int, width: int) -> Tensor:
        ctx.save_for_backward(at, table)
        ctx.rows = scores.numel()
        listed = scores.new_empty(lists, width)
        with torch.cuda.device_of(scores):
            _into_lists[(lists,)](
                at, table, scores.contiguous(), listed, table.shape[1], width, WIDE=_wide(width)
            )
        return listed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        at, table = ctx.saved_tensors
        listed = gradients[0].contiguous()
        lists, width = listed.shape
        scores = listed.new_empty(ctx.rows)
        with torch.cuda.device_of(listed):
            _out_of_lists[(lists,)](
                at, table, listed, scores, table.shape[1], width, ctx.rows, WIDE=_wide(width)
            )
        return scores, None, None, None, None


def _wide(width: int) -> int:
    return min(max(int(triton.next_power_of_2(width)), 32), _MOST_WIDE)
