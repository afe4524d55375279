"""The training loop."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from pirank import metrics
from pirank.data import RankingData
from pirank.training.batching import FlatBatch, endless, flat_batch, make_batches
from pirank.training.checkpoint import Checkpoints
from pirank.training.devices import make_fabric
from pirank.training.divergence import check_finite
from pirank.training.errors import Interrupted
from pirank.training.optimizers import make_optimizer
from pirank.training.progress import Progress
from pirank.training.schedules import learning_rate_factor, temperature_at
from pirank.training.scoring import scores_of
from pirank.training.settings import Settings

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Report = Callable[[dict[str, Any]], None]
Measure = Callable[[nn.Module, nn.Module, RankingData], dict[str, float]]


def fit(
    network: nn.Module,
    loss: nn.Module,
    train: RankingData,
    valid: RankingData | None = None,
    *,
    settings: Settings | None = None,
    fabric: Fabric | None = None,
    checkpoints: Checkpoints | None = None,
    resume: bool = False,
    report: Report | None = None,
    stop: Callable[[], bool] | None = None,
    weights: Tensor | None = None,
    measure: Measure | None = None,
) -> Progress:
    """Train a network on queries, and leave it with the weights of its best validation.

    Args:
        network: maps ``features [N, F]`` and ``offsets [Q + 1]`` to ``scores [N]``.
        loss: called as ``loss(scores [N], labels [N], offsets=[Q + 1])``, the mean over the lists.
        train: the queries to learn from.
        valid: the queries that decide which weights are kept; None: the last ones are.
        settings: everything else; see :class:`Settings`.
        fabric: the launched devices; None: this process alone.
        checkpoints: where to save the state of the training; None: nowhere.
        resume: go on from the checkpoint.
        report: told what happens, as dictionaries with an ``"event"``.
        stop: asked after every step; True saves and raises :class:`Interrupted`.
        weights: one weight a training query, ``[Q]``.
        measure: at each validation it gets the network, the loss and the validation queries; what it finds is
            reported beside the metric.

    Returns:
        The counters of the training, with the best validation metric and its step.

    Example:
        >>> from pirank.data import synthetic
        >>> from pirank.losses import PiRankNDCGLoss
        >>> from pirank.models import MLP
        >>> data = synthetic(queries=32, list_size=10, seed=0)
        >>> network = MLP(data.features.shape[1], hidden=(8,))
        >>> fit(network, PiRankNDCGLoss(k=5), data, data, settings=Settings(epochs=2, batch_size=16)).step
        4
    """
    settings, fabric = settings or Settings(), fabric or make_fabric(accelerator="cpu")
    # Dropout differs from process to process.
    torch.manual_seed(settings.seed * 1_000_003 + fabric.global_rank)
    batches = make_batches(train.to(fabric.device), settings, fabric)
    stream = endless(batches)
    model, optimizer = fabric.setup(network, make_optimizer(network, settings))
    schedule = _Schedule(loss, settings)
    progress = Progress.of(len(batches), settings)
    best = _weights(network)
    if resume and checkpoints is not None:
        best = checkpoints.restore(fabric, network, optimizer, progress, batches)
    kept = "" if checkpoints is None else f"; {checkpoints.last()}"
    model.train()

    while not progress.finished:
        began = time.perf_counter()
        now = schedule.apply(progress.share, optimizer)
        parts = [flat_batch(batch, weights) for batch in itertools.islice(stream, settings.accumulate)]
        total = _over_processes(fabric, sum(float(part.mass) for part in parts), "sum")
        step_loss = 0.0
        for i, part in enumerate(parts):
            with fabric.no_backward_sync(model, enabled=i < len(parts) - 1 and fabric.world_size > 1):
                scores = model(part.features, part.offsets)
                check_finite("scores", scores, progress, now, kept)
                # Weighted by the lists it holds, so that however the lists are spread over batches and processes
                # (whose gradients are averaged), the step is that of one mean over all of them.
                share = float(part.mass) * fabric.world_size / max(total, 1e-30)
                part_loss = _mean_loss(loss, scores, part) * share
                check_finite("loss", part_loss, progress, now, kept)
                fabric.backward(part_loss)
            step_loss += float(part_loss.detach())
        norm = fabric.clip_gradients(
            model, optimizer, max_norm=settings.clip or math.inf, error_if_nonfinite=False
        )
        assert norm is not None, "clipping by norm gives the norm"
        check_finite("gradient", norm, progress, now, kept)
        optimizer.step()
        optimizer.zero_grad()
        progress.add(
            step_loss,
            float(norm),
            sum(len(part.labels) for part in parts) * fabric.world_size,
            time.perf_counter() - began,
        )
        if report is not None:
            report({"event": "step", **progress.seen(), **now})

        last = progress.step >= progress.steps
        if last or progress.step % (settings.validate_every or progress.steps_per_epoch) == 0:
            record = {
                name: _over_processes(fabric, value, "mean") for name, value in progress.means().items()
            }
            if valid is None:
                best = _weights(network)
            else:
                # The first process decides for all, so that none stops before the others.
                value = fabric.broadcast(validate(network, fabric, valid, settings.metric))
                if progress.improves(value, metrics.get(settings.metric).lower_is_better):
                    best = _weights(network)
                record[settings.metric] = value
                if measure is not None:
                    record |= measure(network, loss, valid)
            stale = settings.patience is not None and progress.stale >= settings.patience
            progress.finished = last or stale
            if report is not None:
                report({"event": "validation", **progress.seen(), **record, **now, "best": progress.best})
        asked, due = _anywhere(
            fabric, stop is not None and stop(), checkpoints is not None and checkpoints.due()
        )
        if checkpoints is not None and (asked or due or progress.finished):
            checkpoints.save(fabric, network, optimizer, best, progress, batches)
            kept = f"; {checkpoints.last()}"
        if asked and not progress.finished:
            raise Interrupted(f"stopped at step {progress.step} of {progress.steps}")
    network.load_state_dict(best)
    return progress


def validate(network: nn.Module, fabric: Fabric, valid: RankingData, metric: str) -> float:
    """A metric on a data set, over the lists that have a relevant item."""
    assert valid.labels is not None, "checked before the training"
    with fabric.autocast():
        scores = scores_of(network, valid)
    return float(metrics.get(metric)(scores, valid.labels.cpu(), offsets=valid.offsets.cpu(), empty="skip"))


class _Schedule:
    """Sets the learning rate and the loss's temperature for a share of the training that has passed."""

    def __init__(self, loss: nn.Module, settings: Settings) -> None:
        self.settings = settings
        self.sort: Any = getattr(loss, "sort", None)
        self.start = None if self.sort is None else self.sort.temperature

    def apply(self, share: float, optimizer: Any) -> dict[str, float]:
        settings = self.settings
        rate = settings.learning_rate * learning_rate_factor(settings.schedule, share, settings.warmup)
        for group in optimizer.param_groups:
            group["lr"] = rate
        now = {"learning_rate": rate}
        if isinstance(self.start, (int, float)):
            now["temperature"] = temperature_at(
                settings.temperature_schedule, self.start, settings.temperature_end, share
            )
            self.sort.temperature = now["temperature"]
        return now


def _mean_loss(loss: nn.Module, scores: Tensor, part: FlatBatch) -> Tensor:
    if float(part.mass) == 0:
        return scores.sum() * 0  # nothing to rank, but other processes wait for this one's gradient
    options = {} if part.weights is None else {"weights": part.weights}
    value: Tensor = loss(scores, part.labels, offsets=part.offsets, **options)
    return value


def _weights(network: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


def _anywhere(fabric: Fabric, *answers: bool) -> list[bool]:
    """Whether any process answers yes, each question for itself."""
    if fabric.world_size == 1:
        return list(answers)
    found = fabric.all_reduce(
        torch.tensor(answers, dtype=torch.float32, device=fabric.device), reduce_op="sum"
    )
    assert isinstance(found, Tensor), "a tensor in, a tensor out"
    return [bool(answer > 0) for answer in found]


def _over_processes(fabric: Fabric, value: float, how: str) -> float:
    if fabric.world_size == 1:
        return value
    reduced = fabric.all_reduce(torch.tensor(value, device=fabric.device, dtype=torch.float64), reduce_op=how)
    assert isinstance(reduced, Tensor), "a tensor in, a tensor out"
    return float(reduced)
