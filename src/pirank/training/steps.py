"""One step after the other: each batch in its own shape, each step looked at and told."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from pirank.data import FixedSizeBatches, RaggedBatches, RankingData
from pirank.training.batching import FlatBatch, endless, flat_batch
from pirank.training.devices import loss_apart, matrix_products
from pirank.training.divergence import check_finite
from pirank.training.progress import Progress
from pirank.training.schedules import learning_rate_factor, temperature_at
from pirank.training.settings import Settings

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass(frozen=True)
class Steps:
    """Some optimiser steps that were made.

    Attributes:
        count: how many.
        loss: their losses, summed.
        gradient_norm: the norms of their gradients before clipping, summed.
        documents: how many documents they saw, over all processes.
        now: the learning rate of the last one, and the temperature where there is one.
    """

    count: int
    loss: float
    gradient_norm: float
    documents: int
    now: dict[str, float]


@dataclass(frozen=True)
class Task:
    """All that a step is made of.

    Attributes:
        network: the network, on its device.
        model: the network, set up by Fabric.
        optimizer: set up by Fabric.
        loss: the loss.
        train: the queries, where they are gathered.
        batches: their batches, where they stand.
        settings: of the training.
        fabric: the devices.
        weights: one weight a training query, or None.
    """

    network: nn.Module
    model: Any
    optimizer: Any
    loss: nn.Module
    train: RankingData
    batches: RaggedBatches | FixedSizeBatches
    settings: Settings
    fabric: Fabric
    weights: Tensor | None


class Way(Protocol):
    """A way to make optimiser steps; the loop asks it to go on until there is something else to do.

    Attributes:
        captured: whether steps have static shapes.
        why: why this way was chosen.
    """

    captured: bool
    why: str

    def advance(self, progress: Progress, most: int, kept: str) -> Steps:
        """Make at least one step and at most so many; ``kept`` is what an error says about checkpoints."""

    def close(self) -> None:
        """No more steps are made."""


class StepByStep:
    """Each batch in its own shape: any network and loss, accumulation, several processes.

    Args:
        task: what is trained.
        why: why this way was chosen.
    """

    captured = False

    def __init__(self, task: Task, why: str) -> None:
        self.task, self.why = task, why
        self.rates = Rates(task.loss, task.settings)
        self.stream = endless(task.batches)

    def advance(self, progress: Progress, most: int, kept: str) -> Steps:
        """Make one step."""
        task, fabric, settings = self.task, self.task.fabric, self.task.settings
        now = self.rates.at(progress.share)
        self.rates.apply(now, task.optimizer)
        parts = [
            flat_batch(batch, task.weights) for batch in itertools.islice(self.stream, settings.accumulate)
        ]
        total = over_processes(fabric, sum(float(part.mass) for part in parts), "sum")
        step_loss = 0.0
        for i, part in enumerate(parts):
            with fabric.no_backward_sync(task.model, enabled=i < len(parts) - 1 and fabric.world_size > 1):
                with matrix_products(settings.precision):
                    scores = task.model(part.features, part.offsets)
                scores = loss_apart(scores, settings.precision)
                check_finite("scores", scores, progress, now, kept)
                # Weighted by the lists it holds, so that however the lists are spread over batches and processes
                # (whose gradients are averaged), the step is that of one mean over all of them.
                share = float(part.mass) * fabric.world_size / max(total, 1e-30)
                part_loss = _mean_loss(task.loss, scores, part) * share
                check_finite("loss", part_loss, progress, now, kept)
                with matrix_products(settings.precision, rounded=False):
                    fabric.backward(part_loss)
            step_loss += float(part_loss.detach())
        norm = fabric.clip_gradients(
            task.model, task.optimizer, max_norm=settings.clip or math.inf, error_if_nonfinite=False
        )
        assert norm is not None, "clipping by norm gives the norm"
        check_finite("gradient", norm, progress, now, kept)
        task.optimizer.step()
        task.optimizer.zero_grad()
        documents = sum(len(part.labels) for part in parts) * fabric.world_size
        return Steps(1, step_loss, float(norm), documents, now)

    def close(self) -> None:
        """Nothing is left to do."""


class Rates:
    """The learning rate and the loss's temperature at a share of the training that has passed."""

    def __init__(self, loss: nn.Module, settings: Settings) -> None:
        self.settings = settings
        self.sort: Any = getattr(loss, "sort", None)
        self.start = None if self.sort is None else self.sort.temperature

    def at(self, share: float) -> dict[str, float]:
        """Both, by name."""
        settings = self.settings
        factor = learning_rate_factor(settings.schedule, share, settings.warmup)
        now = {"learning_rate": settings.learning_rate * factor}
        if isinstance(self.start, (int, float)):
            now["temperature"] = temperature_at(
                settings.temperature_schedule, self.start, settings.temperature_end, share
            )
        return now

    def apply(self, now: dict[str, float], optimizer: Any) -> None:
        """Set them."""
        for group in optimizer.param_groups:
            group["lr"] = now["learning_rate"]
        if "temperature" in now:
            self.sort.temperature = now["temperature"]


def _mean_loss(loss: nn.Module, scores: Tensor, part: FlatBatch) -> Tensor:
    if float(part.mass) == 0:
        return scores.sum() * 0  # nothing to rank, but other processes wait for this one's gradient
    options = {} if part.weights is None else {"weights": part.weights}
    value: Tensor = loss(scores, part.labels, offsets=part.offsets, **options)
    return value


def over_processes(fabric: Fabric, value: float, how: str) -> float:
    """A number of every process as one, their ``"sum"`` or ``"mean"``."""
    if fabric.world_size == 1:
        return value
    reduced = fabric.all_reduce(torch.tensor(value, device=fabric.device, dtype=torch.float64), reduce_op=how)
    assert isinstance(reduced, Tensor), "a tensor in, a tensor out"
    return float(reduced)
