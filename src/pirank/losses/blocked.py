"""Losses over all pairs of a list in memory that grows with the list, not with the number of pairs.

A loss over pairs is worked through in blocks of rows, a block holding the pairs of some items with all
others. Its gradient has a closed form over the same pairs, so it is taken along with the value, and what is
kept for the way back is one number an item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pirank.metrics.labels import may_look

# Elements of a block. On a CPU a block's few temporaries should stay near the caches; a GPU wants wide work.
_CPU_BLOCK = 1 << 18
_GPU_BLOCK = 1 << 24

ValueAndGradient = Callable[[Tensor, bool], tuple[Tensor, Tensor | None]]


def with_gradient(scores: Tensor, compute: ValueAndGradient) -> Tensor:
    """One loss a list from a function that gives the losses together with their gradient.

    Args:
        scores: ``[B, L]``.
        compute: ``(scores [B, L], gradient wanted) -> (losses [B], their gradient [B, L] if wanted)``.
    """
    if torch.is_grad_enabled() and scores.requires_grad:
        value: Tensor = _WithGradient.apply(scores, compute)[0]
        return value
    return compute(scores, False)[0]


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(scores: Tensor, compute: ValueAndGradient) -> tuple[Tensor, Tensor | None]:
        return compute(scores, True)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor, _: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return upstream[:, None] * gradient, None


def row_blocks(scores: Tensor, rows: int) -> Iterator[tuple[int, int]]:
    """Ranges that cut the first ``rows`` rows of the pair matrices of ``scores [B, L]`` into blocks."""
    limit = _CPU_BLOCK if scores.device.type == "cpu" else _GPU_BLOCK
    step = max(1, limit // max(1, scores.numel()))
    for start in range(0, rows, step):
        yield start, min(start + step, rows)


def most(count: Tensor, at_most: int) -> int:
    """The largest count, to shorten a loop; ``at_most`` where looking makes a GPU wait or breaks a graph."""
    return int(count.max()) if may_look(count) else at_most
