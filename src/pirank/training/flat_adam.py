"""Adam and AdamW in one launch over all weights: what a graph of small kernels would spend most of its time in.

Weights and moments lie in one piece of memory each, of which every parameter and every state of PyTorch's optimiser is
a view: checkpoints, and PyTorch's own steps, see what they always see.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam, AdamW, Optimizer

from pirank.kernel_paths import runs_kernels


@dataclass(frozen=True)
class FlatAdam:
    """The steps of an optimiser whose weights lie in one piece.

    Attributes:
        parameters: of all groups, those that decay first.
        decayed: how many numbers those are.
        weights: all parameters,
        first: the first moments,
        second: the second moments,
        steps: and one number of steps a parameter, always the same.
        options: of the first group.
        decoupled: AdamW's decay, which the moments do not see.
    """

    parameters: list[Tensor]
    decayed: int
    weights: Tensor
    first: Tensor
    second: Tensor
    steps: Tensor
    options: dict[str, Any]
    decoupled: bool

    @classmethod
    def of(cls, optimizer: Optimizer) -> FlatAdam | None:
        """Lay an optimiser's weights and moments in one piece; None, with nothing changed, where they do not fit.

        They fit on a GPU that runs kernels, in float32, where the groups differ in their decay only, that of all but
        the first being 0, and where all parameters have made as many steps.
        """
        if not isinstance(optimizer, (Adam, AdamW)) or not _fits(optimizer):
            return None
        groups = optimizer.param_groups
        parameters: list[Tensor] = [p for group in groups for p in group["params"]]
        states = [_state_of(optimizer, p) for p in parameters]
        if len({float(state["step"]) for state in states}) > 1:
            return None
        weights, first, second = (
            torch.cat([each.detach().flatten() for each in parts])
            for parts in (
                parameters,
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
            )
        )
        steps = torch.stack([state["step"].to(weights) for state in states])
        sizes = [p.numel() for p in parameters]
        views = (flat.split(sizes) for flat in (weights, first, second))
        for i, (p, weight, average, square) in enumerate(zip(parameters, *views, strict=True)):
            p.data = weight.view_as(p)
            optimizer.state[p] = {
                "step": steps[i],
                "exp_avg": average.view_as(p),
                "exp_avg_sq": square.view_as(p),
            }
        decayed = sum(p.numel() for p in groups[0]["params"]) if groups[0]["weight_decay"] else 0
        return cls(
            parameters, decayed, weights, first, second, steps, groups[0], isinstance(optimizer, AdamW)
        )

    def gradient(self) -> Tensor | None:
        """All gradients in one piece; None where a parameter has none."""
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        if len(gradients) < len(self.parameters):
            return None
        return torch.cat([gradient.flatten() for gradient in gradients])

    def step(self, gradient: Tensor, share: Tensor | None = None) -> None:
        """A step along ``gradient``, or a share of it.

        Args:
            gradient: as :meth:`gradient` gives it.
            share: one number on the device, such as what clipping leaves.
        """
        from pirank.training.adam_kernels import adam

        self.steps.add_(1)
        beta1, beta2 = self.options["betas"]
        adam(
            self.weights,
            gradient,
            self.first,
            self.second,
            self.steps,
            self.options["lr"],
            share,
            self.decayed,
            (beta1, beta2),
            self.options["eps"],
            self.options["weight_decay"],
            self.decoupled,
        )

    def part(self) -> None:
        """Give every parameter memory of its own again."""
        for p in self.parameters:
            p.data = p.data.clone()


def share_within(clip: float, norm: Tensor) -> Tensor:
    """What is left of a gradient of this norm: as :func:`torch.nn.utils.clip_grad_norm_` clips it."""
    return (clip / (norm + 1e-6)).clamp(max=1.0)


def _fits(optimizer: Optimizer) -> bool:
    groups = optimizer.param_groups
    same = ("betas", "eps", "amsgrad", "maximize")
    parameters = [p for group in groups for p in group["params"]]
    return (
        bool(parameters)
        and all(group[name] == groups[0][name] for group in groups for name in same)
        and not (groups[0]["amsgrad"] or groups[0]["maximize"])
        and not any(group["weight_decay"] for group in groups[1:])
        and all(isinstance(group["lr"], Tensor) for group in groups)
        and all(p.dtype == torch.float32 and p.is_contiguous() and runs_kernels(p.device) for p in parameters)
        and math.prod(groups[0]["betas"]) > 0
    )


def _state_of(optimizer: Optimizer, parameter: Tensor) -> dict[str, Tensor]:
    """A parameter's state, or what it starts from."""
    state: dict[str, Tensor] = optimizer.state.get(parameter, {})
    nothing = torch.zeros_like(parameter, memory_format=torch.preserve_format).detach()
    return {"step": torch.zeros(()), "exp_avg": nothing, "exp_avg_sq": nothing} | state
