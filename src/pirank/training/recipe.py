"""From settings and data to a ranker: the loss, the transform, and one or several networks trained in turn."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from pirank import losses, metrics
from pirank.data import RankingData
from pirank.models import Ranker
from pirank.training.checkpoint import Checkpoints
from pirank.training.devices import make_fabric
from pirank.training.loop import Measure, Report, fit
from pirank.training.scoring import blocks_of_queries, transformed
from pirank.training.settings import Settings

if TYPE_CHECKING:
    from lightning_fabric import Fabric

# Above this size the features are transformed batch by batch instead of once ahead.
_BYTES_TRANSFORMED_AHEAD = 4 * 2**30
_DOCUMENTS_TO_WEIGH = 50_000


def train_ranker(
    train: RankingData,
    valid: RankingData | None = None,
    *,
    settings: Settings | None = None,
    fabric: Fabric | None = None,
    checkpoints: Path | None = None,
    resume: bool = False,
    report: Report | None = None,
    stop: Callable[[], bool] | None = None,
    weights: Tensor | None = None,
    loss: Callable[[], nn.Module] | None = None,
    measure: Measure | None = None,
) -> Ranker:
    """Train a ranker from its settings; the state of the program's own random numbers is left as it was.

    Args:
        train: the queries to learn from; the feature transform is fitted on them.
        valid: the queries that decide which weights are kept; None: the last ones are.
        settings: everything else; see :class:`Settings`.
        fabric: the launched devices; None: this process alone.
        checkpoints: the folder for one checkpoint file a network; None: no checkpoints.
        resume: go on from the checkpoints that are there.
        report: told what happens, as dictionaries with an ``"event"`` and the number of the ``"member"``.
        stop: asked after every step; True saves and raises :class:`Interrupted`.
        weights: one weight a training query, ``[Q]``.
        loss: makes the loss, instead of the settings' name and options.
        measure: what else is reported at each validation; see :func:`fit`.

    Example:
        >>> from pirank.data import synthetic
        >>> data = synthetic(queries=20, list_size=10, seed=0)
        >>> ranker = train_ranker(data, settings=Settings(epochs=1, n_ensemble=2))
        >>> ranker(data.features, data.offsets).shape
        torch.Size([200])
    """
    settings = settings or Settings()
    fabric = fabric or make_fabric(accelerator="cpu", precision=settings.precision)
    check(settings)
    check_data(train, valid, settings)
    devices = [fabric.device] if fabric.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(settings.seed)
        ranker = Ranker(
            train.features.shape[1],
            model=settings.model,
            options=dict(settings.model_options),
            transform=settings.transform,
            members=settings.n_ensemble,
            feature_names=train.feature_names,
        )
        ranker.transform.fit(train.features)
        ranker.to(fabric.device)
        ahead = len(train.features) * ranker.transform.out_features * 4 <= _BYTES_TRANSFORMED_AHEAD
        if ahead:
            train = transformed(ranker.transform, train.to(fabric.device))
            valid = None if valid is None else transformed(ranker.transform, valid.to(fabric.device))
        for i, member in enumerate(ranker.members):
            path = None if checkpoints is None else checkpoints / f"member-{i}.safetensors"
            fit(
                member if ahead else _WithTransform(ranker.transform, member),
                make_loss(settings) if loss is None else loss(),
                train,
                valid,
                settings=settings.changed(seed=settings.seed + i),
                fabric=fabric,
                checkpoints=None if path is None else Checkpoints(path, settings.checkpoint_seconds),
                resume=resume and path is not None and path.exists(),
                report=_numbered(report, i),
                stop=stop,
                weights=weights,
                measure=measure,
            )
        ranker.eval()
        for member in ranker.members:
            member.eval()
        # Some tens of thousands of documents tell the scale of a network's scores well enough.
        judge = next(blocks_of_queries(train if valid is None else valid, _DOCUMENTS_TO_WEIGH))
        rows = judge.features if ahead else ranker.transform(judge.features, judge.offsets)
        ranker.weigh_equally(rows, judge.offsets)
    return ranker


class _WithTransform(nn.Module):
    """A network that transforms its batches itself, for data too large to transform ahead."""

    row_by_row = True

    def __init__(self, transform: nn.Module, network: nn.Module) -> None:
        super().__init__()
        self.transform = transform
        self.network = network

    def forward(self, features: Tensor, offsets: Tensor | None = None) -> Tensor:
        scores: Tensor = self.network(self.transform(features, offsets), offsets)
        return scores


def make_loss(settings: Settings) -> nn.Module:
    """The loss that the settings name."""
    return losses.get(settings.loss, **settings.loss_options)


def default_loss_options(loss: str, settings: Settings | None = None) -> dict[str, Any]:
    """The options a loss starts from: those of the settings if it is their loss, or its own.

    Losses that sort keep the settings' temperature, which is relative and means the same for each of them.

    Example:
        >>> default_loss_options("pirank-arp")
        {'temperature': 0.02, 'relative': True}
        >>> default_loss_options("softmax")
        {}
    """
    settings = settings or Settings()
    if loss == settings.loss:
        return dict(settings.loss_options)
    made: Any = losses.get(loss)
    if not {"temperature", "relative"} <= set(made.option_names()):
        return {}
    return {
        name: settings.loss_options[name]
        for name in ("temperature", "relative")
        if name in settings.loss_options
    }


def check(settings: Settings) -> None:
    """Make everything that is named once, so that a wrong name is told before any work is done."""
    make_loss(settings)
    metrics.get(settings.metric)
    with torch.random.fork_rng(devices=[]), contextlib.suppress(ZeroDivisionError):
        Ranker(1, model=settings.model, options=dict(settings.model_options), transform=settings.transform)


def check_data(train: RankingData, valid: RankingData | None, settings: Settings) -> None:
    """Refuse splits that nothing can be learned from, that do not fit each other, or labels that mean nothing here."""
    for name, part in (("train", train), ("valid", valid)):
        if part is None:
            continue
        if len(part) == 0:
            raise ValueError(f"the {name} split has no queries")
        if part.labels is None:
            raise ValueError(f"the {name} split has no labels: name their column")
        if not bool((part.labels > 0).any()):
            raise ValueError(
                f"no document of the {name} split has a label above 0: there is nothing to rank by"
            )
        if int(part.lengths.max()) < 2:
            raise ValueError(
                f"every query of the {name} split has one sample, a document alone: there is nothing to rank"
            )
        ends = torch.stack(list(part.labels.aminmax()))
        for judge in (make_loss(settings), metrics.get(settings.metric)):
            judge(torch.zeros(2), ends.cpu())  # refuses labels that it has no meaning for
        if part.features.shape[1] != train.features.shape[1]:
            raise ValueError(
                f"the splits must have the same features: train has {train.features.shape[1]} columns, "
                f"{name} has {part.features.shape[1]}"
            )
        if not bool(torch.isfinite(part.features.sum())) and not bool(torch.isfinite(part.features).all()):
            row = int((~torch.isfinite(part.features).all(1)).nonzero()[0])
            raise ValueError(
                f"the {name} split has NaN or infinite features, first in document {row}: fill them in"
            )


def _numbered(report: Report | None, member: int) -> Report | None:
    if report is None:
        return None
    return lambda record: report({"member": member, **record})
