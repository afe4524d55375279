"""Batch normalisation that can be told which rows are documents, so that padding has no say in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from pirank.kernel_paths import PATHS, interprets, refuse_without_interpreter, runs_kernels
from pirank.lists import check_choice

if TYPE_CHECKING:
    from pirank.models.batch_norm_kernels import Behind

_KERNEL_TYPES = (torch.float32, torch.bfloat16, torch.float16)


class Real:
    """Which rows are real.

    Attributes:
        rows: ``[N, 1]``, 1 at those and 0 at the others.
        by_kernels: whether the Triton kernels normalise them; they count the rows themselves.
        layers: how many layers have drawn what they drop.
    """

    def __init__(self, rows: Tensor, by_kernels: bool) -> None:
        self.rows = rows
        self.by_kernels = by_kernels
        self.layers = 0

    @cached_property
    def count(self) -> Tensor:
        """Their number."""
        return self.rows.sum()

    @cached_property
    def share(self) -> Tensor:
        """One over their number."""
        return 1 / self.count.clamp(min=1)

    @cached_property
    def unbiased(self) -> Tensor:
        """Their number over one less."""
        return self.count / (self.count - 1).clamp(min=1)

    @cached_property
    def seed(self) -> Tensor:
        """A random number for this pass, which the layers' kernels draw from."""
        return torch.randint(1 << 62, (1,), device=self.rows.device)

    def next_layer(self) -> int:
        """The number of a layer that draws from the seed."""
        self.layers += 1
        return self.layers - 1


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
        if self._takes_kernels(input):
            return self._by_kernels(input, None)
        rows = input.to(torch.promote_types(input.dtype, torch.float32))
        normal, mean, variance = _MaskedNorm.apply(
            rows, self.weight, self.bias, self.real.rows, self.real.share, self.eps
        )
        if self.track_running_stats:
            self._follow(mean, variance * self.real.unbiased)
        out: Tensor = normal.to(input.dtype)
        return out

    def rectified(self, input: Tensor, dropout: float = 0.0) -> Tensor:
        """Normalised, rectified, and a share dropped: where kernels normalise, in the same launch.

        Args:
            input: ``[N, C]``.
            dropout: the share; what is left is stretched.
        """
        if not self._takes_kernels(input):
            return nn.functional.dropout(torch.relu(self(input)), dropout, dropout > 0)
        from pirank.models.batch_norm_kernels import Behind

        assert self.real is not None
        drawn = (self.real.seed, self.real.next_layer()) if dropout > 0 else (None, 0)
        return self._by_kernels(input, Behind(dropout, *drawn))

    def _takes_kernels(self, input: Tensor) -> bool:
        real = self.real if self.training else None
        return real is not None and real.by_kernels and input.dtype in _KERNEL_TYPES

    def _by_kernels(self, input: Tensor, behind: Behind | None) -> Tensor:
        assert self.real is not None
        running = (self.running_mean, self.running_var, self.num_batches_tracked)
        out: Tensor = _MaskedNormByKernels.apply(
            input,
            self.weight,
            self.bias,
            self.real.rows,
            running if self.track_running_stats else None,
            self.momentum,
            self.eps,
            behind,
        )
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
def real_rows(network: nn.Module, rows: Tensor, *, path: str = "auto") -> Iterator[None]:
    """Tell every :class:`BatchNorm` of a network which rows are real: ``rows [N, 1]``, 1 or 0.

    What comes out for the other rows must not be used: their gradient is taken to be 0.

    Args:
        network: whatever holds the layers.
        rows: on the network's device.
        path: ``"auto"``: Triton kernels on CUDA devices that can run them; ``"plain"``: PyTorch's own operations;
            ``"kernels"``: kernels on the CPU too, which is for tests and needs ``TRITON_INTERPRET=1``.
    """
    real = Real(rows, _take_kernels(rows.device, check_choice("path", path, PATHS)))
    norms = [module for module in network.modules() if isinstance(module, BatchNorm)]
    for norm in norms:
        norm.real = real
    try:
        yield
    finally:
        for norm in norms:
            norm.real = None


def _take_kernels(device: torch.device, path: str) -> bool:
    if path != "kernels":
        return path == "auto" and runs_kernels(device)
    if device.type == "cpu":
        refuse_without_interpreter(interprets())
    return True


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


class _MaskedNormByKernels(torch.autograd.Function):
    """:class:`_MaskedNorm` in one launch a direction, running statistics included; rows of any precision.

    So are a rectifier and dropout behind it. What is kept for the way back is the rows as they came and, behind a
    rectifier, as they left, and two numbers a column.
    """

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        real: Tensor,
        running: tuple[Tensor, Tensor, Tensor] | None,
        momentum: float | None,
        eps: float,
        behind: Behind | None,
    ) -> Tensor:
        from pirank.models.batch_norm_kernels import normalise

        rows, real = rows.contiguous(), real.contiguous()
        out, mean, scale = normalise(rows, real, weight, bias, running, momentum, eps, behind)
        ctx.save_for_backward(rows, real, weight, mean, scale, None if behind is None else out)
        ctx.stretch = 1.0 if behind is None else behind.stretch
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        from pirank.models.batch_norm_kernels import pull

        rows, real, weight, mean, scale, out = ctx.saved_tensors
        wanted = ctx.needs_input_grad[1:3]
        by_rows = pull(gradients[0].contiguous(), rows, real, weight, mean, scale, out, ctx.stretch, *wanted)
        return *by_rows, None, None, None, None, None
