"""The kernel of :mod:`pirank.training.flat_adam`."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

_ITEMS = 1024


@triton.jit
def _left_of(log2_beta, steps):
    """1 − β^steps, steps in float64: float32 would keep few digits at first."""
    return (1 - tl.exp2(steps * log2_beta)).to(tl.float32)


@triton.jit(do_not_specialize=["items", "decayed"])
def _adam(
    weights, gradients, first, second, steps, rate, share, items, decayed, decay,
    log2_beta1, log2_beta2, rest1, rest2, eps,
    DECOUPLED: tl.constexpr, ITEMS: tl.constexpr,
):  # fmt: skip
    """m ← m + (1−β₁)(g − m), v ← v + (1−β₂)(g² − v), w ← w − λ m̂ / (√v̂ + ε)."""
    at = tl.program_id(0) * ITEMS + tl.arange(0, ITEMS)
    there = at < items
    weight = tl.load(weights + at, mask=there, other=0.0)
    gradient = tl.load(gradients + at, mask=there, other=0.0)
    if share is not None:
        gradient *= tl.load(share)
    made = tl.load(steps).to(tl.float64)
    step = tl.load(rate)
    if DECOUPLED:
        weight -= tl.where(at < decayed, step * decay * weight, 0.0)
    else:
        gradient += tl.where(at < decayed, decay * weight, 0.0)
    mean = tl.load(first + at, mask=there, other=0.0)
    mean += rest1 * (gradient - mean)
    square = tl.load(second + at, mask=there, other=0.0)
    square += rest2 * (gradient * gradient - square)
    size = tl.sqrt_rn(square) / tl.sqrt_rn(_left_of(log2_beta2, made)) + eps
    weight -= step / _left_of(log2_beta1, made) * tl.div_rn(mean, size)
    tl.store(weights + at, weight, mask=there)
    tl.store(first + at, mean, mask=there)
    tl.store(second + at, square, mask=there)


def adam(
    weights: Tensor,
    gradient: Tensor,
    first: Tensor,
    second: Tensor,
    steps: Tensor,
    rate: Tensor,
    share: Tensor | None,
    decayed: int,
    betas: tuple[float, float],
    eps: float,
    decay: float,
    decoupled: bool,
) -> None:
    """One step, in place; ``steps`` counts it already, and the first ``decayed`` weights decay."""
    with torch.cuda.device_of(weights):
        _adam[(triton.cdiv(weights.numel(), _ITEMS),)](
            weights,
            gradient,
            first,
            second,
            steps,
            rate,
            share,
            weights.numel(),
            decayed,
            float(decay),
            math.log2(betas[0]),
            math.log2(betas[1]),
            1 - betas[0],
            1 - betas[1],
            eps,
            DECOUPLED=decoupled,
            ITEMS=_ITEMS,
        )
