"""The devices a training runs on, through Lightning Fabric: one, several started here, or several of ``torchrun``."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def make_fabric(devices: int | None = None, accelerator: str = "auto", precision: str = "32-true") -> Fabric:
    """A Fabric, not yet launched.

    Under ``torchrun`` the processes are there already and ``devices`` is theirs to say; otherwise ``devices`` above
    1 starts the other processes at ``launch()``.

    Args:
        devices: processes on this machine, one a GPU where there are some; None: 1, or what ``torchrun`` says.
        accelerator: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        precision: ``"32-true"`` or ``"bf16-mixed"``.

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
        precision=precision,  # type: ignore[arg-type]
    )
