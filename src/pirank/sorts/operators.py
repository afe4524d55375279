"""The kernels as PyTorch operators, with their gradients: what ``torch.compile``, CUDA graphs and autocast see.

``pirank::ranked_values`` is NeuralSort's and SoftSort's ``apply``; ``pirank::linear_losses`` a metric that is linear in
the ranked values, as a loss, whose gradient is worked out together with its value. Lists are padded,
``scores [lists, list_size]`` with a mask, or flat, ``scores [items]`` with offsets.

A program that is being compiled or exported sees the operators. One that runs calls what is behind them, as an
``autograd.Function``: PyTorch's way from an operator to its gradient takes ten times as long as a short list's kernel.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pirank.sorts.paths import LONGEST_SHORT, one_launch

torch.library.define(
    "pirank::ranked_values",
    "(Tensor scores, Tensor values, Tensor? mask, Tensor? offsets, Tensor? temperatures, float temperature, "
    "SymInt k, SymInt longest, bool relative, bool soft) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)
torch.library.define(
    "pirank::ranked_values_backward",
    "(Tensor by_ranked, Tensor? mask, Tensor? offsets, Tensor order, Tensor ordered, Tensor ordered_values, "
    "Tensor used, Tensor row_sums, Tensor shift, SymInt longest, bool soft, bool with_values) -> (Tensor, Tensor)",
)
torch.library.define(
    "pirank::linear_losses",
    "(Tensor scores, Tensor labels, Tensor weights, Tensor? mask, Tensor? offsets, Tensor? temperatures, "
    "float temperature, SymInt longest, bool relative, bool soft, str gain, float threshold, str per, float at_most, "
    "float upper, float direction, bool hard, bool every, bool pull) -> (Tensor, Tensor, Tensor, Tensor)",
)


def _ranked_values(
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
    scores, values = scores.float().contiguous(), values.float().contiguous()
    mask = None if mask is None else mask.contiguous()
    if longest <= LONGEST_SHORT:
        from pirank.sorts.kernels import launch_short

        return launch_short.forward(
            scores, values, mask, offsets, temperatures, temperature, k, longest, relative, soft
        )
    from pirank.sorts.kernels import launch_long

    if temperatures is None:
        temperatures = launch_long.temperatures_of(scores, mask, offsets, temperature, relative)
    return launch_long.forward(scores, values, mask, offsets, temperatures, k, soft)


torch.library.impl("pirank::ranked_values", ["cpu", "cuda"], _ranked_values)


@torch.library.register_fake("pirank::ranked_values")
def _(scores: Tensor, values: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    offsets, k = rest[1], rest[4]
    lists, channels = _count(scores, offsets), values.shape[1] if offsets is None else values.shape[0]
    order = scores.new_empty(scores.shape, dtype=torch.int32)
    ordered = scores.new_empty(scores.shape, dtype=torch.float32)
    ordered_values = ordered.new_empty(values.shape)
    rows = ordered.new_empty(lists, k)
    shift = ordered.new_empty(lists, channels, k)
    return torch.empty_like(shift), order, ordered, ordered_values, ordered.new_empty(lists), rows, shift


def _ranked_values_backward(
    by_ranked: Tensor,
    mask: Tensor | None,
    offsets: Tensor | None,
    order: Tensor,
    ordered: Tensor,
    ordered_values: Tensor,
    used: Tensor,
    row_sums: Tensor,
    shift: Tensor,
    longest: int,
    soft: bool,
    with_values: bool,
) -> tuple[Tensor, Tensor]:
    kept = (order, ordered, ordered_values, used, row_sums, shift)
    k = shift.shape[2]
    by_ranked, mask = by_ranked.contiguous(), None if mask is None else mask.contiguous()
    if longest <= LONGEST_SHORT:
        from pirank.sorts.kernels import launch_short

        return launch_short.backward(by_ranked, mask, offsets, kept, k, longest, soft, with_values)
    from pirank.sorts.kernels import launch_long

    return launch_long.backward(by_ranked, mask, offsets, kept, k, soft, with_values)


torch.library.impl("pirank::ranked_values_backward", ["cpu", "cuda"], _ranked_values_backward)


@torch.library.register_fake("pirank::ranked_values_backward")
def _(by_ranked: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    ordered, ordered_values, with_values = rest[3], rest[4], rest[-1]
    by_value = torch.empty_like(ordered_values) if with_values else ordered.new_empty(0)
    return torch.empty_like(ordered), by_value


def _keep_ranked_values(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    scores, values, mask, offsets, _, _, _, longest, _, soft = inputs
    ctx.save_for_backward(mask, offsets, *output[1:])
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)
    ctx.longest, ctx.soft, ctx.types = longest, soft, (scores.dtype, values.dtype)


def _pull_ranked_values(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
    if gradients[0] is None:
        return (None,) * 10
    wanted = ctx.needs_input_grad[1]
    by_score, by_value = torch.ops.pirank.ranked_values_backward(
        gradients[0], *ctx.saved_tensors, ctx.longest, ctx.soft, wanted
    )
    return by_score.to(ctx.types[0]), by_value.to(ctx.types[1]) if wanted else None, *(None,) * 8


torch.library.register_autograd(
    "pirank::ranked_values", _pull_ranked_values, setup_context=_keep_ranked_values
)


class _RankedValues(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        output = _ranked_values(*inputs)
        _keep_ranked_values(ctx, inputs, output)
        return output

    backward = staticmethod(_pull_ranked_values)


def _linear_losses(
    scores: Tensor,
    labels: Tensor,
    weights: Tensor,
    mask: Tensor | None,
    offsets: Tensor | None,
    temperatures: Tensor | None,
    temperature: float,
    longest: int,
    relative: bool,
    soft: bool,
    gain: str,
    threshold: float,
    per: str,
    at_most: float,
    upper: float,
    direction: float,
    hard: bool,
    every: bool,
    pull: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    scores, labels = scores.float().contiguous(), labels.float().contiguous()
    mask = None if mask is None else mask.contiguous()
    from pirank.sorts.kernels.layout import Linear

    metric = Linear(weights, gain, threshold, per, at_most, upper, direction, hard, every)
    if one_launch(scores, longest):
        from pirank.sorts.kernels import launch_short

        return launch_short.linear(
            scores, labels, metric, mask, offsets, temperatures, temperature, longest, relative, soft, pull
        )
    from pirank.sorts.kernels import launch_long

    if temperatures is None:
        temperatures = launch_long.temperatures_of(scores, mask, offsets, temperature, relative)
    return launch_long.linear(scores, labels, metric, mask, offsets, temperatures, soft, pull)


torch.library.impl("pirank::linear_losses", ["cpu", "cuda"], _linear_losses)


@torch.library.register_fake("pirank::linear_losses")
def _(scores: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    offsets, pull = rest[3], rest[-1]
    gradient = scores.new_empty(scores.shape if pull else (0,), dtype=torch.float32)
    lists = _count(scores, offsets)
    return gradient.new_empty(()), gradient.new_empty(2, lists), gradient.new_empty(()), gradient


def _keep_linear_losses(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(inputs[4], *output[2:])
    ctx.mark_non_differentiable(*output[2:])
    ctx.set_materialize_grads(False)
    ctx.type = inputs[0].dtype


def _pull_linear_losses(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
    by_mean, by_loss = gradients[:2]
    offsets, share, gradient = ctx.saved_tensors
    pulled = None
    if by_mean is not None:
        pulled = gradient * (by_mean * share)
    if by_loss is not None:
        each = by_loss[0]
        if offsets is None:
            each = each[:, None]
        else:
            items = torch.arange(gradient.numel(), device=gradient.device)
            lists = torch.searchsorted(offsets, items, right=True) - 1
            each = each[lists.clamp(max=each.numel() - 1)]
        pulled = gradient * each if pulled is None else torch.addcmul(pulled, gradient, each)
    return (None if pulled is None else pulled.to(ctx.type)), *(None,) * 18


torch.library.register_autograd(
    "pirank::linear_losses", _pull_linear_losses, setup_context=_keep_linear_losses
)


class _LinearLosses(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        output = _linear_losses(*inputs)
        _keep_linear_losses(ctx, inputs, output)
        return output

    backward = staticmethod(_pull_linear_losses)


def _count(scores: Tensor, offsets: Tensor | None) -> int:
    return scores.shape[0] if offsets is None else offsets.shape[0] - 1


def ranked_values_by_kernels(
    scores: Tensor, values: Tensor, mask: Tensor | None, k: int, temperature: float | Tensor, *, soft: bool
) -> Tensor:
    """``scores [B, L]``, ``values [B, C, L]`` to relaxed ranked values ``[B, C, k]``."""
    per_list = temperature.reshape(-1).float().contiguous() if isinstance(temperature, Tensor) else None
    single = 1.0 if isinstance(temperature, Tensor) else float(temperature)
    inputs = (scores, values, mask, None, per_list, single, k, scores.shape[1], False, soft)
    compiled = torch.compiler.is_compiling()
    ranked: Tensor = (torch.ops.pirank.ranked_values(*inputs) if compiled else _RankedValues.apply(*inputs))[
        0
    ]
    return ranked


def linear_losses_by_kernels(*inputs: Any) -> tuple[Tensor, Tensor]:
    """The inputs of ``pirank::linear_losses`` to the mean loss, and to each loss and 1 if it counts, ``[2, lists]``."""
    compiled = torch.compiler.is_compiling()
    mean, losses, *_ = torch.ops.pirank.linear_losses(*inputs) if compiled else _LinearLosses.apply(*inputs)
    return mean, losses
