"""The training loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from pirank import metrics
from pirank.data import RankingData
from pirank.training.batching import make_batches
from pirank.training.checkpoint import Checkpoints
from pirank.training.devices import make_fabric, matrix_products
from pirank.training.errors import Interrupted
from pirank.training.optimizers import make_optimizer
from pirank.training.progress import Progress
from pirank.training.scoring import scores_of
from pirank.training.settings import Settings
from pirank.training.steps import Task, over_processes
from pirank.training.ways import choose

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
        report: told what happens, as dictionaries with an ``"event"``: once the ``"strategy"``, whether steps are
            captured and why; a ``"step"``, or several that were captured; a ``"validation"``.
        stop: asked after every step, or look at captured ones; True saves and raises :class:`Interrupted`.
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
    devices = [fabric.device] if fabric.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), ExitStack() as at_the_end:
        # Dropout differs from process to process.
        torch.manual_seed(settings.seed * 1_000_003 + fabric.global_rank)
        train, valid = train.to(fabric.device), None if valid is None else valid.to(fabric.device)
        batches = make_batches(train, settings, fabric)
        model, optimizer = fabric.setup(network, make_optimizer(network, settings))
        progress = Progress.of(len(batches), settings)
        best = _weights(network)
        if resume and checkpoints is not None:
            best = checkpoints.restore(fabric, network, optimizer, progress, batches)
        kept = "" if checkpoints is None else f"; {checkpoints.last()}"
        model.train()
        task = Task(network, model, optimizer, loss, train, batches, settings, fabric, weights)
        way = choose(task, progress)
        at_the_end.callback(way.close)
        if report is not None and not progress.finished:
            report({"event": "strategy", "captured": way.captured, "why": way.why})

        while not progress.finished:
            began = time.perf_counter()
            every = settings.validate_every or progress.steps_per_epoch
            until = min((progress.step // every + 1) * every, progress.steps)
            made = way.advance(progress, max(until - progress.step, 1), kept)
            progress.add(made, time.perf_counter() - began)
            if report is not None:
                report({"event": "step", **progress.seen(), **made.now})

            last = progress.step >= progress.steps
            if last or progress.step % every == 0:
                record = {
                    name: over_processes(fabric, value, "mean") for name, value in progress.means().items()
                }
                if valid is None:
                    best = _weights(network)
                else:
                    # The first process decides for all, so that none stops before the others.
                    with matrix_products(settings.precision):
                        value = validate(network, fabric, valid, settings.metric)
                    value = fabric.broadcast(value)
                    if progress.improves(value, metrics.get(settings.metric).lower_is_better):
                        best = _weights(network)
                    record[settings.metric] = value
                    if measure is not None:
                        record |= measure(network, loss, valid)
                stale = settings.patience is not None and progress.stale >= settings.patience
                progress.finished = last or stale
                if report is not None:
                    found = progress.seen() | record | made.now | {"best": progress.best}
                    report({"event": "validation", **found})
            asked, due = _anywhere(
                fabric, stop is not None and stop(), checkpoints is not None and checkpoints.due()
            )
            if checkpoints is not None and (asked or due or progress.finished):
                checkpoints.save(fabric, network, optimizer, best, progress, batches)
                kept = f"; {checkpoints.last()}"
            if asked and not progress.finished:
                raise Interrupted(f"stopped at step {progress.step} of {progress.steps}")
    optimizer.zero_grad()
    network.load_state_dict(best)
    return progress


def validate(network: nn.Module, fabric: Fabric, valid: RankingData, metric: str) -> float:
    """A metric on a data set, over the lists that have a relevant item."""
    assert valid.labels is not None, "checked before the training"
    with fabric.autocast():
        scores = scores_of(network, valid, on_device=True)
    labels, offsets = valid.labels.to(scores.device), valid.offsets.to(scores.device)
    return float(metrics.get(metric)(scores, labels, offsets=offsets, empty="skip"))


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
