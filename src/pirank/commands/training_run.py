"""A training from its plan to its results: what ``pirank train`` does once it knows what to do."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from pirank.commands.display import results_table, training_display
from pirank.commands.reading import Reading
from pirank.data import RankingData, read_parts
from pirank.files import write_text
from pirank.terminal import say
from pirank.training.batching import check_processes
from pirank.training.checkpoint import read_checkpoint
from pirank.training.devices import make_fabric
from pirank.training.errors import Interrupted, TrainingError
from pirank.training.evaluation import evaluate
from pirank.training.recipe import check, check_data, train_ranker
from pirank.training.run import Run
from pirank.training.scoring import scores_of
from pirank.training.settings import Settings
from pirank.version import __version__

VALID_SHARE = 0.2


@dataclass(frozen=True)
class RunPlan:
    """All that ``config.yaml`` holds.

    Attributes:
        paths: the files of ``"train"``, ``"valid"`` and ``"test"``.
        reading: how they are read.
        settings: how the ranker is trained.
        machine: ``devices`` and ``accelerator``.
    """

    paths: dict[str, list[str]]
    reading: Reading
    settings: Settings
    machine: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for ``config.yaml``."""
        return {
            "pirank": __version__,
            "data": {**self.paths, **self.reading.as_dict()},
            "settings": self.settings.as_dict(),
            "machine": self.machine,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> RunPlan:
        """What :meth:`as_dict` wrote."""
        source = dict(config["data"])
        paths = {name: list(source.pop(name, None) or []) for name in ("train", "valid", "test")}
        if source.get("features") is not None:
            source["features"] = tuple(source["features"])
        try:
            reading = Reading(**source)
        except TypeError:
            raise ValueError(
                f"the configuration's data has an unknown key among {', '.join(source)}"
            ) from None
        return cls(
            paths, reading, Settings().changed(**config["settings"]), dict(config.get("machine") or {})
        )


def carry_out(
    plan: RunPlan,
    run: Run,
    *,
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
    tensorboard: bool | None = None,
) -> None:
    """Train what the plan says into the run's folder, and show the results."""
    check(plan.settings)
    fabric = make_fabric(
        plan.machine.get("devices"), plan.machine.get("accelerator") or "auto", plan.settings.precision
    )
    check_processes(plan.settings, fabric)
    fabric.launch()
    first = fabric.is_global_zero
    train, valid, test = read_splits(plan, quiet or not first)
    check_data(train, valid, plan.settings)
    if first:
        if resume:
            run.forget_after(steps_of_checkpoints(run))
        else:
            run.create(plan.as_dict(), overwrite)
    fabric.barrier()
    quiet = quiet or not first
    with (
        stop_on_interrupt() as stop,
        training_display(plan, train, run, quiet, tensorboard if first else False) as show,
    ):

        def report(record: dict[str, Any]) -> None:
            if record["event"] == "validation" and first:
                run.log(record)
            show(record)

        try:
            ranker = train_ranker(
                train,
                valid,
                settings=plan.settings,
                fabric=fabric,
                checkpoints=run.checkpoints,
                resume=resume,
                report=report,
                stop=stop,
            )
        except Interrupted as stopped:
            raise Interrupted(f"{stopped}, saved; go on with: pirank train --resume {run.path}") from None
        except RuntimeError as error:
            if fabric.world_size == 1 or (
                not isinstance(error, torch.distributed.DistError) and "gloo" not in str(error)
            ):
                raise
            raise TrainingError(
                f"process {fabric.global_rank} lost the others: one of them died or was killed; go on with the same "
                f"number of processes and --resume {run.path}"
            ) from error
    if not first:
        return
    judged, name = (test, "test") if test is not None else (valid, "validation")
    try:
        ranker.cpu().save(run.model_path)
        evaluation = evaluate(scores_of(ranker, judged), judged)
        write_text(run.results_path, json.dumps({"split": name, **evaluation.as_dict()}, indent=2) + "\n")
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted after the training; evaluate with: pirank train --resume {run.path}"
        ) from None
    say(results_table(evaluation, name))
    say(f"model: {run.model_path}")
    say(f"rank new rows with: pirank predict {run.path} DATA -o ranked.csv")


def read_splits(plan: RunPlan, quiet: bool) -> tuple[RankingData, RankingData, RankingData | None]:
    """Training, validation and test; without a validation file a fifth of the training queries is held out."""
    paths = {name: [Path(p) for p in given] for name, given in plan.paths.items() if given}
    parts = read_parts(paths, partial(plan.reading.read, quiet=quiet), plan.reading.features)
    train, valid, test = parts["train"], parts.get("valid"), parts.get("test")
    if valid is not None:
        return train, valid, test
    if len(train) < 2:
        raise ValueError("one query cannot be split into training and validation: name a --valid file")
    train, valid = train.split([1 - VALID_SHARE, VALID_SHARE], seed=plan.settings.seed)
    return train, valid, test


def steps_of_checkpoints(run: Run) -> dict[int, int]:
    """Where each network of an unfinished run goes on."""
    return {
        int(path.stem.split("-")[1]): read_checkpoint(path)[1]["progress"]["step"]
        for path in sorted(run.checkpoints.glob("member-*.safetensors"))
    }


@contextmanager
def stop_on_interrupt() -> Iterator[Any]:
    """The first Ctrl-C (or SIGTERM) asks the training to stop and save; the second ends it at once."""
    asked: list[int] = []

    def ask(number: int, frame: Any) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    previous = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
