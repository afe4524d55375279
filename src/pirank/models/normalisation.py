"""Batch normalisation that can be told which rows are documents, so that padding has no say in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class BatchNorm(nn.BatchNorm1d):
    """:class:`torch.nn.BatchNorm1d`, with the same parameters, buffers and names.

    Within :func:`real_rows`, in training, the statistics are those of the rows that are real; what other rows become
    does not matter, and their gradient is 0.

    Example:
        >>> rows = torch.tensor([[1.0], [3.0], [50.0]])
        >>> norm = BatchNorm(1)
        >>> with real_rows(norm, torch.tensor([[1.0], [1.0], [0.0]])):
        ...     norm(rows)[:2].flatten()
        tensor([-1.0000,  1.0000], grad_fn=<ViewBackward0>)
    """

    real: Tensor | None = None
    """``[N, 1]``, 1 at the rows that are real and 0 at the others; None: all are."""
    count: Tensor | None = None

    def forward(self, input: Tensor) -> Tensor:
        """``[N, C]`` to ``[N, C]``."""
        if self.real is None or self.count is None or not self.training:
            return super().forward(input)
        rows = input.float()
        normal, mean, variance = _MaskedNorm.apply(
            rows, self.weight, self.bias, self.real, self.count, self.eps
        )
        if self.track_running_stats:
            self._follow(mean, variance, self.count)
        out: Tensor = normal.to(input.dtype)
        return out

    @torch.no_grad()
    def _follow(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        """Running statistics, as PyTorch keeps them: the variance over n − 1."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        share: float | Tensor = 1 / self.num_batches_tracked if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, share)
        self.running_var.lerp_(variance * (count / (count - 1).clamp(min=1)), share)


@contextmanager
def real_rows(network: nn.Module, real: Tensor) -> Iterator[None]:
    """Tell every :class:`BatchNorm` of a network which rows are real: ``real [N, 1]``, 1 or 0."""
    norms = [module for module in network.modules() if isinstance(module, BatchNorm)]
    count = real.sum().clamp(min=1)
    for norm in norms:
        norm.real, norm.count = real, count
    try:
        yield
    finally:
        for norm in norms:
            norm.real = norm.count = None


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
        count: Tensor,
        eps: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        kept = rows * real
        mean = kept.sum(0) / count
        centred = kept.addcmul_(real, mean, value=-1)
        variance = torch.linalg.vector_norm(centred, dim=0).square() / count
        scale = (variance + eps).rsqrt()
        ctx.save_for_backward(centred, weight, scale, real, count)
        ctx.mark_non_differentiable(mean, variance)
        factor = scale if weight is None else scale * weight
        return centred * factor if bias is None else torch.addcmul(bias, centred, factor), mean, variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        centred, weight, scale, real, count = ctx.saved_tensors
        upstream = gradients[0] * real
        total, along = upstream.sum(0), (upstream * centred).sum(0)
        factor = scale if weight is None else scale * weight
        # ∂ℓ/∂x_r = m_r w/√(v+ε) ( g_r − Σg/n − c_r Σ(g·c) / (n (v+ε)) )
        by_rows = upstream.mul_(factor)
        by_rows.addcmul_(real, factor * total / count, value=-1)
        by_rows.addcmul_(centred, factor * along * scale.square() / count, value=-1)
        by_weight = along * scale if ctx.needs_input_grad[1] else None
        by_bias = total if ctx.needs_input_grad[2] else None
        return by_rows, by_weight, by_bias, None, None, None
