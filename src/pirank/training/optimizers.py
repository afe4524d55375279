"""Optimisers by name."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from pirank.training.settings import Settings


def make_optimizer(network: nn.Module, settings: Settings) -> Optimizer:
    """The optimiser that the settings name; weight decay leaves biases and normalisations alone.

    Example:
        >>> type(make_optimizer(nn.Linear(2, 1), Settings(optimizer="sgd"))).__name__
        'SGD'
    """
    parameters = [p for p in network.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    if settings.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=settings.learning_rate, momentum=0.9)
    if settings.optimizer == "adam":
        return torch.optim.Adam(groups, lr=settings.learning_rate)
    return torch.optim.AdamW(groups, lr=settings.learning_rate)


def make_capturable(optimizer: Optimizer, device: torch.device) -> Tensor:
    """Make an optimiser's step one that a CUDA graph can hold, and give the tensor it reads its learning rate from."""
    rate = torch.zeros((), device=device)
    for group in optimizer.param_groups:
        group |= {"lr": rate, "fused": True, "foreach": False}
        if "capturable" in group:
            group["capturable"] = True
        for parameter in group["params"]:
            state = optimizer.state.get(parameter, {})
            if isinstance(state.get("step"), Tensor):
                state["step"] = state["step"].to(device=device, dtype=torch.float32)
    return rate


def make_plain(optimizer: Optimizer, learning_rate: float) -> None:
    """Take back :func:`make_capturable`."""
    for group in optimizer.param_groups:
        group |= {"lr": learning_rate, "fused": None, "foreach": None}
        if "capturable" in group:
            group["capturable"] = False
        for parameter in group["params"]:
            state = optimizer.state.get(parameter, {})
            if isinstance(state.get("step"), Tensor):
                state["step"] = state["step"].cpu()
