"""The kernels as PyTorch operators, with their gradients: what ``torch.compile``, CUDA graphs and autocast see.

``pirank::ranked_values`` is NeuralSort's and SoftSort's ``apply``; ``pirank::linear_losses`` a metric that is linear in
the ranked values, as a loss, whose gradient is worked out together with its value. Lists are padded,
``scores [lists, list_size]`` with a mask, or flat, ``scores [items]`` with offsets.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pirank.sorts.paths import LONGEST_SHORT

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
    "(Tensor scores, Tensor values, Tensor found, Tensor weights, Tensor? mask, Tensor? offsets, "
    "Tensor? temperatures, float temperature, SymInt longest, bool relative, bool soft, str per, float at_most, "
    "float upper, float direction, bool hard, bool pull) -> (Tensor, Tensor, Tensor)",
)


@torch.library.impl("pirank::ranked_values", ["cpu", "cuda"])
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


@torch.library.register_fake("pirank::ranked_values")
def _(scores: Tensor, values: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    offsets, k, longest = rest[1], rest[4], rest[5]
    lists, channels = _count(scores, offsets), values.shape[1] if offsets is None else values.shape[0]
    order = scores.new_empty(scores.shape, dtype=torch.int32 if longest <= LONGEST_SHORT else torch.int64)
    ordered = scores.new_empty(scores.shape, dtype=torch.float32)
    ordered_values = ordered.new_empty(values.shape)
    rows = ordered.new_empty(lists, k)
    shift = ordered.new_empty(lists, channels, k)
    return torch.empty_like(shift), order, ordered, ordered_values, ordered.new_empty(lists), rows, shift


@torch.library.impl("pirank::ranked_values_backward", ["cpu", "cuda"])
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


@torch.library.impl("pirank::linear_losses", ["cpu", "cuda"])
def _linear_losses(
    scores: Tensor,
    values: Tensor,
    found: Tensor,
    weights: Tensor,
    mask: Tensor | None,
    offsets: Tensor | None,
    temperatures: Tensor | None,
    temperature: float,
    longest: int,
    relative: bool,
    soft: bool,
    per: str,
    at_most: float,
    upper: float,
    direction: float,
    hard: bool,
    pull: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    scores, values = scores.float().contiguous(), values.float().contiguous()
    found, mask = found.contiguous(), None if mask is None else mask.contiguous()
    from pirank.sorts.kernels.layout import Linear

    metric = Linear(weights, per, at_most, upper, direction, hard)
    if longest <= LONGEST_SHORT:
        from pirank.sorts.kernels import launch_short

        return launch_short.linear(
            scores,
            values,
            found,
            metric,
            mask,
            offsets,
            temperatures,
            temperature,
            longest,
            relative,
            soft,
            pull,
        )
    from pirank.sorts.kernels import launch_long

    if temperatures is None:
        temperatures = launch_long.temperatures_of(scores, mask, offsets, temperature, relative)
    return launch_long.linear(scores, values, found, metric, mask, offsets, temperatures, soft, pull)


@torch.library.register_fake("pirank::linear_losses")
def _(scores: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    offsets, pull = rest[4], rest[-1]
    gradient = scores.new_empty(scores.shape if pull else (0,), dtype=torch.float32)
    lists = _count(scores, offsets)
    return gradient.new_empty(lists), gradient.new_empty(lists), gradient


def _keep_linear_losses(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(inputs[5], output[2])
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)
    ctx.type = inputs[0].dtype


def _pull_linear_losses(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
    by_loss = gradients[0]
    if by_loss is None:
        return (None,) * 17
    offsets, gradient = ctx.saved_tensors
    if offsets is None:
        by_loss = by_loss[:, None]
    else:
        items = torch.arange(gradient.numel(), device=gradient.device)
        lists = torch.searchsorted(offsets, items, right=True) - 1
        by_loss = by_loss[lists.clamp(max=by_loss.numel() - 1)]
    return (gradient * by_loss).to(ctx.type), *(None,) * 16


torch.library.register_autograd(
    "pirank::linear_losses", _pull_linear_losses, setup_context=_keep_linear_losses
)


def _count(scores: Tensor, offsets: Tensor | None) -> int:
    return scores.shape[0] if offsets is None else offsets.shape[0] - 1


def ranked_values_by_kernels(
    scores: Tensor, values: Tensor, mask: Tensor | None, k: int, temperature: float | Tensor, *, soft: bool
) -> Tensor:
    """``scores [B, L]``, ``values [B, C, L]`` to relaxed ranked values ``[B, C, k]``."""
    per_list = temperature.reshape(-1).float().contiguous() if isinstance(temperature, Tensor) else None
    single = 1.0 if isinstance(temperature, Tensor) else float(temperature)
    ranked: Tensor = torch.ops.pirank.ranked_values(
        scores, values, mask, None, per_list, single, k, scores.shape[1], False, soft
    )[0]
    return ranked
