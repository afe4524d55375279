"""The kernels as PyTorch operators, with their gradients: what ``torch.compile``, CUDA graphs and autocast see.

``pirank::ranked_values`` is NeuralSort's and SoftSort's ``apply``. ``pirank::linear_losses`` is a metric that is linear
in the ranked values, as a loss, whose gradient is worked out together with its value, in one launch;
``pirank::linear_losses_of_long`` is the same of longer lists, whose gradient is worked out when it is asked for. Lists
are padded, ``scores [lists, list_size]`` with a mask, or flat, ``scores [items]`` with offsets.

A program that is being compiled or exported sees the operators. One that runs calls what is behind them, as an
``autograd.Function``: PyTorch's way from an operator to its gradient takes ten times as long as a short list's kernel.
Even a function's way takes longer than that kernel, the longer the more it is given and gives: the tensors that may
have a gradient are given one by one and all else as one thing, and only what is used comes out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pirank.sorts.paths import LONGEST_SHORT, one_launch


def _directly(
    run: Callable[..., tuple[Tensor, ...]],
    save: Callable[..., None],
    pull: Callable[..., tuple[Tensor | None, ...]],
    given: int,
    used: int,
) -> Callable[..., tuple[Tensor, ...]]:
    """An operator's function: its first ``given`` inputs and a tuple of the others, to its first ``used`` outputs."""

    class Directly(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
            inputs = (*inputs[:given], *inputs[given])
            output = run(*inputs)
            save(ctx, inputs, output)
            return output[:used]

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
            return *pull(ctx, *gradients)[:given], None

    def call(*inputs: Any) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = Directly.apply(*inputs[:given], inputs[given:])
        return found

    return call


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
_OF_LISTS = (
    "Tensor scores, Tensor labels, Tensor weights, Tensor? mask, Tensor? offsets, Tensor? temperatures, "
    "float temperature, SymInt longest, bool relative, bool soft, str gain, float threshold, str per, float at_most, "
    "float upper, float direction, bool hard, bool every"
)
torch.library.define("pirank::linear_losses", f"({_OF_LISTS}, bool pull) -> (Tensor, Tensor, Tensor, Tensor)")
torch.library.define(
    "pirank::linear_losses_of_long",
    f"({_OF_LISTS}) -> ({', '.join(['Tensor'] * 13)})",
)
torch.library.define(
    "pirank::linear_losses_of_long_backward",
    "(Tensor by_loss, Tensor? offsets, Tensor by_ranked, Tensor order, Tensor ordered, Tensor ordered_values, "
    "Tensor heights, Tensor rises, Tensor lengths, Tensor used, Tensor row_sums, Tensor shift, bool soft) -> Tensor",
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

    used = launch_long.temperatures_of(scores, mask, offsets, temperatures, temperature, relative)
    return launch_long.forward(scores, values, mask, offsets, used, k, soft)


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


def _save_ranked_values(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    scores, values, mask, offsets, _, _, _, longest, _, soft = inputs
    ctx.save_for_backward(mask, offsets, *output[1:])
    ctx.set_materialize_grads(False)
    ctx.longest, ctx.soft, ctx.types = longest, soft, (scores.dtype, values.dtype)


def _keep_ranked_values(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _save_ranked_values(ctx, inputs, output)
    ctx.mark_non_differentiable(*output[1:])


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


_ranked_values_directly = _directly(_ranked_values, _save_ranked_values, _pull_ranked_values, 2, 1)


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
    *metric_and_pull: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    from pirank.sorts.kernels import launch_short
    from pirank.sorts.kernels.layout import Linear

    *metric, pull = metric_and_pull
    return launch_short.linear(
        scores.float().contiguous(),
        labels.float().contiguous(),
        Linear(weights, *metric),
        None if mask is None else mask.contiguous(),
        offsets,
        temperatures,
        temperature,
        longest,
        relative,
        soft,
        pull,
    )


torch.library.impl("pirank::linear_losses", ["cpu", "cuda"], _linear_losses)


@torch.library.register_fake("pirank::linear_losses")
def _(scores: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    offsets, pull = rest[3], rest[-1]
    gradient = scores.new_empty(scores.shape if pull else (0,), dtype=torch.float32)
    lists = _count(scores, offsets)
    return gradient.new_empty(()), gradient.new_empty(2, lists), gradient.new_empty(()), gradient


def _save_linear_losses(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(inputs[4], *output[2:])
    ctx.set_materialize_grads(False)
    ctx.type, ctx.soft = inputs[0].dtype, inputs[9]


def _keep_linear_losses(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _save_linear_losses(ctx, inputs, output)
    ctx.mark_non_differentiable(*output[2:])


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


_linear_losses_directly = _directly(_linear_losses, _save_linear_losses, _pull_linear_losses, 1, 2)


def _linear_losses_of_long(
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
    *metric: Any,
) -> tuple[Tensor, ...]:
    from pirank.sorts.kernels import launch_long
    from pirank.sorts.kernels.layout import Linear

    scores, labels = scores.float().contiguous(), labels.float().contiguous()
    mask = None if mask is None else mask.contiguous()
    used = launch_long.temperatures_of(scores, mask, offsets, temperatures, temperature, relative)
    return launch_long.linear(scores, labels, Linear(weights, *metric), mask, offsets, used, soft)


torch.library.impl("pirank::linear_losses_of_long", ["cpu", "cuda"], _linear_losses_of_long)


@torch.library.register_fake("pirank::linear_losses_of_long")
def _(scores: Tensor, labels: Tensor, weights: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    from pirank.sorts.kernels.launch_long import most_chunks

    offsets, soft = rest[1], rest[6]
    lists, k = _count(scores, offsets), weights.shape[0]
    ordered = scores.new_empty(scores.shape, dtype=torch.float32)
    order, values = torch.empty_like(ordered, dtype=torch.int32), torch.empty_like(ordered)
    heights = ordered.new_empty(0 if soft else scores.shape)
    rises = ordered.new_empty(most_chunks(scores.numel(), lists), dtype=torch.float64)
    lengths, used = ordered.new_empty(lists, dtype=torch.int64), ordered.new_empty(lists)
    by_ranked, row_sums, shift = (ordered.new_empty(lists, k) for _ in range(3))
    mean, losses, share = ordered.new_empty(()), ordered.new_empty(2, lists), ordered.new_empty(())
    kept = (by_ranked, order, ordered, values, heights, rises, lengths, used, row_sums, shift)
    return mean, losses, share, *kept


def _linear_losses_of_long_backward(by_loss: Tensor, offsets: Tensor | None, *kept_and_soft: Any) -> Tensor:
    from pirank.sorts.kernels import launch_long

    *kept, soft = kept_and_soft
    return launch_long.linear_backward(by_loss, offsets, tuple(kept), soft)


torch.library.impl("pirank::linear_losses_of_long_backward", ["cpu", "cuda"], _linear_losses_of_long_backward)


@torch.library.register_fake("pirank::linear_losses_of_long_backward")
def _(by_loss: Tensor, offsets: Tensor | None, by_ranked: Tensor, order: Tensor, *rest: Any) -> Tensor:
    return torch.empty_like(rest[0])


def _pull_linear_losses_of_long(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
    by_mean, by_losses = gradients[:2]
    offsets, share, *kept = ctx.saved_tensors
    by_loss = None if by_losses is None else by_losses[0]
    if by_mean is not None:
        each = by_mean * share
        by_loss = each.expand(kept[0].shape[0]) if by_loss is None else by_loss + each
    if by_loss is None:
        return (None,) * 18
    gradient = torch.ops.pirank.linear_losses_of_long_backward(by_loss, offsets, *kept, ctx.soft)
    return gradient.to(ctx.type), *(None,) * 17


torch.library.register_autograd(
    "pirank::linear_losses_of_long", _pull_linear_losses_of_long, setup_context=_keep_linear_losses
)


_linear_losses_of_long_directly = _directly(
    _linear_losses_of_long, _save_linear_losses, _pull_linear_losses_of_long, 1, 2
)


def _count(scores: Tensor, offsets: Tensor | None) -> int:
    return scores.shape[0] if offsets is None else offsets.shape[0] - 1


def ranked_values_by_kernels(
    scores: Tensor, values: Tensor, mask: Tensor | None, k: int, temperature: float | Tensor, *, soft: bool
) -> Tensor:
    """``scores [B, L]``, ``values [B, C, L]`` to relaxed ranked values ``[B, C, k]``."""
    per_list = temperature.reshape(-1).float().contiguous() if isinstance(temperature, Tensor) else None
    single = 1.0 if isinstance(temperature, Tensor) else float(temperature)
    inputs = (scores, values, mask, None, per_list, single, k, scores.shape[1], False, soft)
    call = torch.ops.pirank.ranked_values if torch.compiler.is_compiling() else _ranked_values_directly
    ranked: Tensor = call(*inputs)[0]
    return ranked


def linear_losses_by_kernels(*inputs: Any) -> tuple[Tensor, Tensor]:
    """The inputs of ``pirank::linear_losses`` to the mean loss, and to each loss and 1 if it counts, ``[2, lists]``."""
    compiled = torch.compiler.is_compiling()
    if one_launch(inputs[0], inputs[7]):
        call = torch.ops.pirank.linear_losses if compiled else _linear_losses_directly
    else:
        call = torch.ops.pirank.linear_losses_of_long if compiled else _linear_losses_of_long_directly
        inputs = inputs[:-1]  # its gradient waits until it is asked for
    mean, losses, *_ = call(*inputs)
    return mean, losses
