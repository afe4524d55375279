"""The devices a training runs on, through Lightning Fabric: one, several started here, or several of ``torchrun``."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def make_fabric(devices: int | None = None, accelerator: str = "auto", precision: str = "32-true") -> Fabric:
    """A Fabric, not yet launched.

    Under ``torchrun`` the processes are there already and ``devices`` is theirs to say; otherwise ``devices`` above
    1 starts the other processes at ``launch()``.

    Args:
        devices: processes on this machine, one a GPU where there are some; None: 1, or what ``torchrun`` says.
        accelerator: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        precision: ``"32-true"``, ``"tf32"``, ``"bf16-mixed"`` or ``"16-mixed"``.

    Example:
        >>> make_fabric(accelerator="cpu").world_size
        1
    """
    from lightning_fabric import Fabric  # a second of imports, for those who train

    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it tells of every process it starts
    nodes = 1
    if "TORCHELASTIC_RUN_ID" in os.environ:
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // devices
    elif devices is None:
        devices = 1
    several = devices * nodes > 1
    return Fabric(
        accelerator=accelerator,
        devices=devices,
        num_nodes=nodes,
        strategy="ddp" if several else "auto",
        precision="32-true" if precision == "tf32" else precision,  # type: ignore[arg-type]
    )


@contextmanager
def matrix_products(precision: str, *, rounded: bool = True) -> Iterator[None]:
    """Within it, products of float32 matrices are as exact as ``precision`` asks: rounded for ``"tf32"`` only.

    Args:
        precision: as in the settings; anything but ``"tf32"`` leaves all as it is.
        rounded: False: not from the beginning; see :func:`loss_apart`.

    Example:
        >>> with matrix_products("tf32"):
        ...     torch.get_float32_matmul_precision()
        'high'
    """
    if precision != "tf32":
        yield
        return
    before = torch.get_float32_matmul_precision()
    if rounded:
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def loss_apart(scores: Tensor, precision: str) -> Tensor:
    """The scores, so that matrix products are rounded for ``"tf32"`` in the network, and not in a loss of them.

    The way back begins in the loss and rounds from the scores on: it is made within ``matrix_products(precision,
    rounded=False)``, which ends the rounding.
    """
    if precision != "tf32":
        return scores
    apart: Tensor = _RoundedBackward.apply(scores)
    return apart


class _RoundedBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        return scores.view_as(scores)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        torch.set_float32_matmul_precision("high")
        return gradients[0]
