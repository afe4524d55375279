"""Any losses on any data from several seeds under one protocol: the plan, the trials, and the numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pirank import metrics, significance
from pirank.experiments.methods import Method, check_labels
from pirank.experiments.pool import Told, run_all
from pirank.experiments.protocol import AVERAGED_OTHERWISE, Protocol, with_blank_rule
from pirank.experiments.sources import Source, check_names
from pirank.experiments.trial import Outcome, Stop, Store, Trial
from pirank.training import Settings

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """What is compared.

    Attributes:
        sources: the data sets.
        methods: the rows.
        seeds: how many seeds, from 0.
        settings: how losses are trained.
        protocol: how rankings are judged.
        tune: candidates tried a method, fold and seed; the one that is best on the validation split counts.
        relaxed: measure the relaxed metric while training.
        authors: departures of the authors' code, for PiRank-NDCG; see :mod:`pirank.experiments.authors_code`.
    """

    sources: Sequence[Source]
    methods: Sequence[Method]
    seeds: int = 5
    settings: Settings = field(default_factory=Settings)
    protocol: Protocol = field(default_factory=Protocol)
    tune: int = 1
    relaxed: bool = False
    authors: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_labels(self.methods)
        check_names(self.sources)
        for name in ("seeds", "tune"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not self.methods:
            raise ValueError("there is nothing to compare: name losses, trees or scores")

    def trials(self) -> list[Trial]:
        """All trials, fold by fold, so that a process reads each fold once."""
        return [
            trial
            for source in self.sources
            for fold in source.folds
            for method in self.methods
            for seed in self.seeds_of(method)
            for trial in self.candidates(source, fold, method, seed)
        ]

    def seeds_of(self, method: Method) -> range:
        """The seeds a method is trained from."""
        return range(self.seeds if method.trained else 1)

    def candidates(self, source: Source, fold: int, method: Method, seed: int) -> list[Trial]:
        """The trials of which the best on the validation split counts."""
        authors = self.authors if method.kind == "loss" and method.name == "pirank-ndcg" else ()
        relaxed = self.relaxed and method.kind == "loss" and method.name.startswith("pirank")
        return [
            Trial(source, fold, method, seed, self.settings, self.protocol, candidate, relaxed, authors)
            for candidate in range(self.tune if method.trained else 1)
        ]

    def run(
        self, root: Path, *, jobs: int | None = None, told: Told | None = None, stop: Stop | None = None
    ) -> Findings:
        """Run what is not finished, and gather what was found."""
        store, trials = Store(root), self.trials()
        resumed = any(store.finished(trial) for trial in trials)
        failed = run_all(
            trials, root, jobs=jobs, told=told or (lambda *_: None), stop=stop or (lambda: False)
        )
        return Findings(self, store, failed, resumed)


class Findings:
    """The numbers of a comparison.

    Args:
        plan: what was compared.
        store: where the trials are.
        failed: what went wrong, by the name of the trial.
        resumed: whether some trials were finished before, so that the time of this run says nothing.
    """

    def __init__(self, plan: Plan, store: Store, failed: Mapping[str, str], resumed: bool = False) -> None:
        self.plan = plan
        self.resumed = resumed
        self.failed = dict(failed)
        self._found: dict[tuple[str, int, str, int], Outcome] = {}
        for source in plan.sources:
            for fold in source.folds:
                for method in plan.methods:
                    for seed in plan.seeds_of(method):
                        self._choose(store, source, fold, method, seed)

    def _choose(self, store: Store, source: Source, fold: int, method: Method, seed: int) -> None:
        found = [
            store.load(trial)
            for trial in self.plan.candidates(source, fold, method, seed)
            if store.finished(trial)
        ]
        if found:
            lower = metrics.get(self.plan.settings.metric).lower_is_better
            sign = -1 if lower else 1
            best = max(found, key=lambda outcome: sign * outcome.facts.get("validation", 0.0))
            self._found[source.name, fold, method.label, seed] = best

    def failures(self, source: Source | None = None) -> list[str]:
        """What went wrong, of a data set or of all: one line a data set, method and problem."""
        if not self.failed:
            return []
        told = Counter(
            f"{trial.method.label} on {trial.source.name}: {self.failed[trial.name]}"
            for trial in self.plan.trials()
            if trial.source in (source or trial.source,) and trial.name in self.failed
        )
        return [f"{line} ({count} trials)" if count > 1 else line for line, count in told.items()]

    def complete(self, source: Source, method: Method) -> bool:
        """Whether every fold and seed of a method is there."""
        return all(
            (source.name, fold, method.label, seed) in self._found
            for fold in source.folds
            for seed in self.plan.seeds_of(method)
        )

    def methods_of(self, source: Source) -> list[Method]:
        """The methods that every fold and seed is there of."""
        return [method for method in self.plan.methods if self.complete(source, method)]

    def outcome(self, source: Source, fold: int, method: Method, seed: int) -> Outcome:
        """What one trial found."""
        return self._found[source.name, fold, method.label, seed]

    def outcomes(self, source: Source, method: Method) -> list[Outcome]:
        """What all folds and seeds found."""
        return [
            self.outcome(source, fold, method, seed)
            for fold in source.folds
            for seed in self.plan.seeds_of(method)
        ]

    def per_query(
        self, source: Source, method: Method, metric: str, seed: int, size: int | None = None
    ) -> Values:
        """A metric's value for each test query of all folds, under the blank rule; NaN where it is left out."""
        protocol = self.plan.protocol
        size = protocol.list_sizes[0] if size is None else size
        parts = [self.outcome(source, fold, method, seed).per_query[size][metric] for fold in source.folds]
        return with_blank_rule(metric, np.concatenate(parts), protocol.empty)

    def over_seeds(self, source: Source, method: Method, metric: str, size: int | None = None) -> list[float]:
        """The mean over the queries of all folds, one number a seed."""
        values = [self.per_query(source, method, metric, seed, size) for seed in self.plan.seeds_of(method)]
        return [float(np.nanmean(value)) if (~np.isnan(value)).any() else float("nan") for value in values]

    def mean_and_spread(
        self, source: Source, method: Method, metric: str, size: int | None = None
    ) -> tuple[float, float | None]:
        """The mean over seeds, and their standard deviation where there are several."""
        values = self.over_seeds(source, method, metric, size)
        # Rounded, so that equal values of seeds that sum differently have no spread.
        spread = round(float(np.std(values, ddof=1)), 9) if len(values) > 1 else None
        return float(np.mean(values)), spread

    def as_the_papers_tool(
        self, source: Source, method: Method, metric: str, size: int | None = None
    ) -> float:
        """The mean over seeds, ARP and OPA averaged as TF-Ranking does, to stand beside the paper's figures."""
        if metric not in AVERAGED_OTHERWISE:
            return self.mean_and_spread(source, method, metric, size)[0]
        size = self.plan.protocol.list_sizes[0] if size is None else size
        outcomes = self.outcomes(source, method)
        return float(np.mean([outcome.facts["as_tf_ranking"][str(size)][metric] for outcome in outcomes]))

    def query_means(self, source: Source, method: Method, metric: str, size: int | None = None) -> Values:
        """Each query's mean over the seeds."""
        seeds = self.plan.seeds_of(method)
        values = [self.per_query(source, method, metric, seed, size) for seed in seeds]
        means: Values = np.mean(values, axis=0)
        return means

    def compared(self, source: Source, size: int | None = None) -> significance.Comparison:
        """The best of each metric and all not significantly worse: the paper's one-sided paired t-test at 95 %."""
        results = {
            method.label: {
                metric: self.query_means(source, method, metric, size)
                for metric in self.plan.protocol.metrics
            }
            for method in self.methods_of(source)
        }
        return significance.compare(results)

    def seconds(self, source: Source, method: Method) -> float:
        """The mean training time of a trial."""
        return float(np.mean([o.facts["seconds"] for o in self.outcomes(source, method)]))

    def rows(self) -> list[dict[str, Any]]:
        """One row a data set, method, fold, seed, list size and metric: everything, for a CSV file."""
        rows = []
        for source in self.plan.sources:
            for method in self.methods_of(source):
                for fold in source.folds:
                    for seed in self.plan.seeds_of(method):
                        rows += self._rows(source, fold, method, seed)
        return rows

    def _rows(self, source: Source, fold: int, method: Method, seed: int) -> list[dict[str, Any]]:
        outcome = self.outcome(source, fold, method, seed)
        rows = []
        for size, per_metric in outcome.per_query.items():
            for metric, raw in per_metric.items():
                values = with_blank_rule(metric, raw, self.plan.protocol.empty)
                counted = values[~np.isnan(values)]
                rows.append({
                    "data": source.name, "method": method.label, "fold": fold, "seed": seed,
                    "list_size": size or "whole", "metric": metric,
                    "mean": float(counted.mean()) if len(counted) else float("nan"),
                    "queries": len(counted), "blank": int(np.isnan(raw).sum()),
                    "seconds": outcome.facts["seconds"],
                })  # fmt: skip
        return rows
