"""Batch normalisation that can be told which rows are documents, so that padding has no say in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class Real(NamedTuple):
    """Which rows are real.

    Attributes:
        rows: ``[N, 1]``, 1 at those and 0 at the others.
        share: one over their number.
        unbiased: their number over one less.
    """

    rows: Tensor
    share: Tensor
    unbiased: Tensor


class BatchNorm(nn.BatchNorm1d):
    """:class:`torch.nn.BatchNorm1d`, with the same parameters, buffers and names.

    Within :func:`real_rows`, in training, the statistics are those of the rows that are real.

    Example:
        >>> rows = torch.tensor([[1.0], [3.0], [50.0]])
        >>> norm = BatchNorm(1)
        >>> with real_rows(norm, torch.tensor([[1.0], [1.0], [0.0]])):
        ...     norm(rows)[:2].flatten()
        tensor([-1.0000,  1.0000], grad_fn=<ViewBackward0>)
    """

    real: Real | None = None

    def forward(self, input: Tensor) -> Tensor:
        """``[N, C]`` to ``[N, C]``."""
        if self.real is None or not self.training:
            return super().forward(input)
        normal, mean, variance = _MaskedNorm.apply(
            input.float(), self.weight, self.bias, self.real.rows, self.real.share, self.eps
        )
        if self.track_running_stats:
            self._follow(mean, variance * self.real.unbiased)
        out: Tensor = normal.to(input.dtype)
        return out

    @torch.no_grad()
    def _follow(self, mean: Tensor, variance: Tensor) -> None:
        """Running statistics, as PyTorch keeps them."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        share: float | Tensor = 1 / self.num_batches_tracked if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, share)
        self.running_var.lerp_(variance, share)


@contextmanager
def real_rows(network: nn.Module, rows: Tensor) -> Iterator[None]:
    """Tell every :class:`BatchNorm` of a network which rows are real: ``rows [N, 1]``, 1 or 0.

    What comes out for the other rows must not be used: their gradient is taken to be 0.
    """
    norms = [module for module in network.modules() if isinstance(module, BatchNorm)]
    if norms:
        count = rows.sum()
        real = Real(rows, 1 / count.clamp(min=1), count / (count - 1).clamp(min=1))
    for norm in norms:
        norm.real = real
    try:
        yield
    finally:
        for norm in norms:
            norm.real = None


class _MaskedNorm(torch.autograd.Function):
    r"""Normalise by the statistics of some rows: m_r is 1 at those and 0 elsewhere, n = Σ m.

    .. math:: c_r = m_r (x_r - \tfrac1n \textstyle\sum_s m_s x_s), \quad v = \tfrac1n \sum_r c_r^2, \quad
        y_r = b + w\, c_r / \sqrt{v + \epsilon}

    As one function it passes over the rows fewer times than its parts would: the passes are what it costs.
    """

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        real: Tensor,
        share: Tensor,
        eps: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        kept = rows * real
        mean = kept.sum(0).mul_(share)
        centred = kept.addcmul_(real, mean, value=-1)
        variance = torch.linalg.vector_norm(centred, dim=0).square_().mul_(share)
        scale = (variance + eps).rsqrt_()
        factor = scale if weight is None else scale * weight
        ctx.save_for_backward(centred, scale, factor, real, share)
        ctx.mark_non_differentiable(mean, variance)
        return centred * factor if bias is None else torch.addcmul(bias, centred, factor), mean, variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        # ∂ℓ/∂x_r = w/√(v+ε) ( g_r − m_r Σg/n − c_r Σ(g·c) / (n (v+ε)) ), with g_r = 0 where m_r is
        centred, scale, factor, real, share = ctx.saved_tensors
        total, along = gradients[0].sum(0), (gradients[0] * centred).sum(0).mul_(scale)
        by_rows = torch.addcmul(gradients[0], real, total * share, value=-1)
        by_rows.addcmul_(centred, along * scale * share, value=-1).mul_(factor)
        by_weight = along if ctx.needs_input_grad[1] else None
        by_bias = total if ctx.needs_input_grad[2] else None
        return by_rows, by_weight, by_bias, None, None, None
