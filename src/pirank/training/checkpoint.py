"""Checkpoints: one safetensors file that holds all a training needs to go on, written whole or not at all.

Tensors are named ``network/…``, ``best/…``, ``optimizer/<parameter>/…`` and ``random/…``; counters and positions are
JSON in the file's metadata. Nothing is pickled.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.optim import Optimizer

from pirank.files import write_tensors
from pirank.training.errors import TrainingError
from pirank.training.progress import Progress

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_METADATA = "pirank-checkpoint"
# How an optimiser works and not what it does: another device, or a training that is not captured, works otherwise.
_NOT_SAVED = ("capturable", "foreach", "fused")


class Checkpoints:
    """Where one network's training is saved, and how often.

    Args:
        path: the file.
        seconds: time between two checkpoints.
    """

    def __init__(self, path: str | os.PathLike[str], seconds: float = 30.0) -> None:
        self.path = Path(path)
        self.seconds = seconds
        self._last = time.monotonic()
        self._step: int | None = None

    def due(self) -> bool:
        """Whether the last checkpoint is old enough for another."""
        return time.monotonic() - self._last >= self.seconds

    def save(
        self,
        fabric: Fabric,
        network: nn.Module,
        optimizer: Optimizer,
        best: dict[str, Tensor],
        progress: Progress,
        batches: Any,
    ) -> None:
        """Write the state of the training; every process calls it, the first one writes."""
        random = _gathered(fabric, torch.get_rng_state())
        tensors = {f"network/{name}": value for name, value in network.state_dict().items()}
        tensors |= {f"best/{name}": value for name, value in best.items()}
        tensors["random/cpu"] = random
        if fabric.device.type == "cuda":
            tensors["random/cuda"] = _gathered(fabric, torch.cuda.get_rng_state(fabric.device))
        state = optimizer.state_dict()
        for parameter, values in state["state"].items():
            tensors |= {f"optimizer/{parameter}/{name}": value for name, value in values.items()}
        position = {
            "progress": progress.as_dict(),
            "batches": batches.state_dict(),
            "optimizer": [_plain(group) for group in state["param_groups"]],
            "processes": fabric.world_size,
        }
        if fabric.is_global_zero:
            self._write({name: t.detach().cpu().clone() for name, t in tensors.items()}, position)
        self._last, self._step = time.monotonic(), progress.step

    def restore(
        self, fabric: Fabric, network: nn.Module, optimizer: Optimizer, progress: Progress, batches: Any
    ) -> dict[str, Tensor]:
        """Put everything back where :meth:`save` found it, and return the best weights so far."""
        tensors, position = read_checkpoint(self.path)
        if position["processes"] != fabric.world_size:
            raise TrainingError(
                f"{self.path} was written by {position['processes']} processes and cannot go on with "
                f"{fabric.world_size}: start as many as before"
            )
        if position["batches"].get("contents", batches.contents) != batches.contents:
            raise TrainingError(
                f"{self.path} was written while training on other data: lists, labels or the number of features have "
                "changed since; bring the data back, or train anew in another folder"
            )
        progress.load(position["progress"])
        batches.load_state_dict(position["batches"])
        network.load_state_dict(_under("network/", tensors))
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in _under("optimizer/", tensors).items():
            parameter, key = name.split("/")
            state.setdefault(int(parameter), {})[key] = value
        optimizer.load_state_dict({"state": state, "param_groups": position["optimizer"]})
        torch.set_rng_state(tensors["random/cpu"][fabric.global_rank].clone())
        if (
            fabric.device.type == "cuda" and "random/cuda" in tensors
        ):  # a training that began on the CPU has none
            torch.cuda.set_rng_state(tensors["random/cuda"][fabric.global_rank].clone(), fabric.device)
        self._step = progress.step
        return _under("best/", tensors)

    def last(self) -> str:
        """What is left on the disk, for an error message."""
        return (
            "there is no checkpoint yet"
            if self._step is None
            else f"the checkpoint of step {self._step} is kept"
        )

    def _write(self, tensors: dict[str, Tensor], position: dict[str, Any]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_tensors(self.path, tensors, {_METADATA: json.dumps(position)})
        except OSError as error:
            raise TrainingError(f"cannot write {self.path}: {error}; {self.last()}") from error


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the JSON of a checkpoint; runs no code of the file's author."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, not a dict
        position: dict[str, Any] = json.loads(metadata[_METADATA])
    except (SafetensorError, OSError, KeyError, json.JSONDecodeError) as error:
        raise TrainingError(
            f"the checkpoint {path} is damaged ({str(error) or type(error).__name__}): "
            "delete it to train this network from its start"
        ) from error
    return tensors, position


def _gathered(fabric: Fabric, state: Tensor) -> Tensor:
    """One random state a process, ``[processes, bytes]``."""
    if fabric.world_size == 1:
        return state[None]
    state = state.to(fabric.device)
    gathered = [torch.empty_like(state) for _ in range(fabric.world_size)]
    torch.distributed.all_gather(gathered, state)
    return torch.stack(gathered).cpu()


def _plain(group: dict[str, Any]) -> dict[str, Any]:
    """An optimiser's group as JSON has it."""
    return {
        name: float(value) if isinstance(value, Tensor) else value
        for name, value in group.items()
        if name not in _NOT_SAVED
    }


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}
