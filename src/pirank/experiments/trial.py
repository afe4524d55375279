"""One trial of a comparison: one method, trained on one fold from one seed, judged query by query.

A trial is a folder that appears when it is complete. Its name ends in a digest of everything that decides its numbers,
so that what is finished is never run again, and what was changed is never mistaken for it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import torch
from numpy.typing import NDArray
from torch import Tensor

from pirank import metrics
from pirank.data import Splits
from pirank.data.cache import content_hash
from pirank.experiments.authors_code import AuthorsNDCGLoss
from pirank.experiments.gbdt import gbdt_scores
from pirank.experiments.methods import Method, settings_of, slug
from pirank.experiments.protocol import (
    Protocol,
    averaged_as_tf_ranking,
    cut,
    kept_rows,
    measured,
)
from pirank.experiments.relaxed import relaxed_and_hard
from pirank.experiments.sources import Source
from pirank.training import Run, Settings, make_fabric, scores_of, train_ranker
from pirank.training.checkpoint import read_checkpoint
from pirank.version import __version__

Stop = Callable[[], bool]
_SETTINGS_WITHOUT_INFLUENCE = ("checkpoint_seconds", "capture")


@dataclass(frozen=True)
class Trial:
    """What is run; see the module.

    Attributes:
        source: the data.
        fold: of it.
        method: what is trained.
        seed: of the training.
        settings: how a loss is trained, before the method's own options.
        protocol: how rankings are judged.
        candidate: which of the drawn settings, 0 for those given.
        relaxed: measure the relaxed metric on the validation split, too.
        authors: departures of the authors' code, ``batch_ratio`` and ``counted_padding``, for PiRank-NDCG.
    """

    source: Source
    fold: int
    method: Method
    seed: int
    settings: Settings
    protocol: Protocol
    candidate: int = 0
    relaxed: bool = False
    authors: tuple[str, ...] = ()

    def description(self) -> dict[str, Any]:
        """Everything that decides the numbers, as plain values."""
        plain: dict[str, Any] = {
            "pirank": __version__,
            "data": self.source.description(self.fold),
            "fold": self.fold,
            "method": self.method.description(),
            "seed": self.seed,
            "candidate": self.candidate,
            "protocol": self.protocol.description(),
        }
        if self.method.kind == "loss":
            settings = self.own_settings().as_dict()
            plain["settings"] = {k: v for k, v in settings.items() if k not in _SETTINGS_WITHOUT_INFLUENCE}
            plain["relaxed"], plain["authors"] = self.relaxed, list(self.authors)
        elif self.method.kind == "gbdt":
            plain["transform"] = self.transform_of_trees()
        elif self.scores_path().exists():
            plain["contents"] = content_hash(self.scores_path())
        return plain

    def own_settings(self) -> Settings:
        """The settings of this trial's training."""
        return settings_of(self.method, self.settings, self.seed, self.candidate)

    def scores_path(self) -> Path:
        """The file of somebody else's scores for this data set and fold."""
        return Path(self.method.name.format(data=self.source.name, fold=self.fold))

    def transform_of_trees(self) -> str:
        """What trees see of the features: what the networks see, where their row does not say otherwise."""
        return str(self.method.settings.get("transform", self.settings.transform))

    @property
    def name(self) -> str:
        """The name of its folder."""
        digest = hashlib.sha256(json.dumps(self.description(), sort_keys=True).encode()).hexdigest()[:10]
        tuned = f"-c{self.candidate}" if self.candidate else ""
        parts = f"{slug(self.source.name)}-fold{self.fold}-{slug(self.method.label)}-seed{self.seed}{tuned}"
        return f"{parts}-{digest}"


@dataclass(frozen=True)
class Outcome:
    """What a trial found.

    Attributes:
        facts: seconds, the validation metric, the curves, means: all but the per-query values.
        per_query: list size to metric to ``[Q]``, NaN for a blank query.
    """

    facts: dict[str, Any]
    per_query: dict[int, dict[str, NDArray[np.float64]]]


class Store:
    """The folder of a comparison's trials.

    Args:
        root: the comparison's folder.
    """

    def __init__(self, root: Path) -> None:
        self.trials = root / "trials"
        self.working = root / "unfinished"
        self.cache = root / "data"

    def finished(self, trial: Trial) -> bool:
        """Whether its folder is there."""
        return (self.trials / trial.name / "trial.json").exists()

    def load(self, trial: Trial) -> Outcome:
        """What was found."""
        folder = self.trials / trial.name
        facts = json.loads((folder / "trial.json").read_text())
        table = pa.parquet.read_table(folder / "per_query.parquet")
        sizes = table.column("list_size").to_numpy()
        per_query = {
            int(size): {
                name: table.column(name).to_numpy()[sizes == size].astype(np.float64)
                for name in table.column_names
                if name not in ("query", "list_size")
            }
            for size in dict.fromkeys(sizes.tolist())
        }
        return Outcome(facts, per_query)

    def save(self, trial: Trial, outcome: Outcome, query_ids: NDArray[Any]) -> None:
        """Write the folder, whole or not at all."""
        partial = self.working / f"{trial.name}.{os.getpid()}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        ids = [str(query) for query in query_ids]
        parts = [
            pa.table({"query": ids, "list_size": [size] * len(ids), **values})
            for size, values in outcome.per_query.items()
        ]
        pa.parquet.write_table(pa.concat_tables(parts), partial / "per_query.parquet")
        facts = {"trial": trial.description(), **outcome.facts}
        (partial / "trial.json").write_text(json.dumps(facts, indent=1) + "\n")
        self.trials.mkdir(parents=True, exist_ok=True)
        target = self.trials / trial.name
        if not target.exists():
            os.replace(partial, target)
        shutil.rmtree(partial, ignore_errors=True)

    def run(self, trial: Trial, *, threads: int = 1, stop: Stop | None = None) -> Outcome:
        """Run a trial, from where it was stopped, and save it."""
        splits = judged_splits(trial.source, trial.fold, trial.protocol, self.cache)
        if trial.method.kind == "loss":
            vali, test, facts = self._trained(trial, splits, stop)
        elif trial.method.kind == "gbdt":
            vali, test, facts = gbdt_scores(
                trial.method.name, splits, options=trial.method.options, transform=trial.transform_of_trees(),
                seed=trial.seed, candidate=trial.candidate, threads=threads,
            )  # fmt: skip
        else:
            vali, test, facts = None, _scores_from_file(trial, len(splits.test.features)), {"seconds": 0.0}
        outcome = _judged(trial, splits, vali, test, facts)
        self.save(trial, outcome, splits.test.query_ids)
        shutil.rmtree(self.working / trial.name, ignore_errors=True)
        return outcome

    def _trained(
        self, trial: Trial, splits: Splits, stop: Stop | None
    ) -> tuple[Tensor, Tensor, dict[str, Any]]:
        settings = trial.own_settings()
        run = Run(self.working / trial.name)
        run.path.mkdir(parents=True, exist_ok=True)
        saved = run.checkpoints / "member-0.safetensors"
        run.forget_after({0: read_checkpoint(saved)[1]["progress"]["step"]} if saved.exists() else {})

        def report(record: dict[str, Any]) -> None:
            if record["event"] == "validation":
                run.log(record)

        ranker = train_ranker(
            splits.train,
            splits.vali,
            settings=settings,
            fabric=make_fabric(precision=settings.precision),
            loss=(lambda: _authors_loss(trial, settings)) if trial.authors else None,
            measure=relaxed_and_hard if trial.relaxed else None,
            checkpoints=run.checkpoints,
            resume=True,
            report=report,
            stop=stop,
        )
        history = run.history()
        unwanted = ("event", "member", "seconds_left", "documents_per_second", "best")
        curve = [{name: value for name, value in row.items() if name not in unwanted} for row in history]
        facts = {"seconds": history[-1]["seconds"], "steps": history[-1]["step"], "curve": curve}
        return scores_of(ranker, splits.vali), scores_of(ranker, splits.test), facts


_held: dict[str, Splits] = {}


def judged_splits(source: Source, fold: int, protocol: Protocol, cache: Path | None) -> Splits:
    """The splits of a fold, with the validation lists cut as the protocol says; the last ones are held."""
    key = json.dumps([source.description(fold), fold, protocol.description(), str(cache)], sort_keys=True)
    if key not in _held:
        _held.clear()  # a process takes the trials of a fold one after another, and two folds may not fit
        splits = source.splits(fold, cache)
        _held[key] = splits._replace(vali=cut(splits.vali, protocol.list_sizes[0], protocol.seed))
    return _held[key]


def _judged(
    trial: Trial, splits: Splits, vali: Tensor | None, test: Tensor, facts: dict[str, Any]
) -> Outcome:
    protocol = trial.protocol
    per_query, as_tf_ranking = {}, {}
    for size in protocol.list_sizes:
        rows, _ = kept_rows(splits.test.offsets, size, protocol.seed)
        part = cut(splits.test, size, protocol.seed)
        per_query[size] = measured(test[rows], part, protocol.metrics)
        as_tf_ranking[str(size)] = averaged_as_tf_ranking(test[rows], part)
    facts = {**facts, "threads": torch.get_num_threads(), "as_tf_ranking": as_tf_ranking}
    if vali is not None:
        labels, offsets = splits.vali.labels, splits.vali.offsets
        assert labels is not None, "checked before the training"
        facts["validation"] = float(metrics.get(trial.settings.metric)(vali, labels, offsets=offsets))
    return Outcome(facts, per_query)


def _authors_loss(trial: Trial, settings: Settings) -> AuthorsNDCGLoss:
    padded = settings.list_size if "counted_padding" in trial.authors else None
    return AuthorsNDCGLoss(
        batch_ratio="batch_ratio" in trial.authors, padded_to=padded, **settings.loss_options
    )


def _scores_from_file(trial: Trial, rows: int) -> Tensor:
    from pirank.commands.evaluate import read_scores

    if not trial.scores_path().is_file():
        raise FileNotFoundError(f"there is no file {trial.scores_path()}")
    return read_scores(trial.scores_path(), rows)
