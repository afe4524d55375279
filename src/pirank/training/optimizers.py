"""Optimisers by name."""

from __future__ import annotations

import torch
from torch import nn
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
