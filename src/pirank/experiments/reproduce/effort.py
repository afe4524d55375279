"""How much an experiment of the paper is given to do: the full settings, or minutes on two cores."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pirank.experiments.methods import Method
from pirank.experiments.pool import default_jobs
from pirank.experiments.protocol import Protocol
from pirank.experiments.sources import Source, source_of
from pirank.training import Settings

QUICK_DATA = "synthetic:queries=200:list_size=100:round=true"


@dataclass(frozen=True)
class Effort:
    """What was asked for.

    Attributes:
        root: the folder of the report.
        data: ``NAME=PATH`` and the like; empty: the paper's, where ``$PIRANK_DATA`` has it.
        quick: minutes on two cores instead of the paper's settings.
        steps: training steps, whatever the settings say.
        seeds: seeds a method.
        jobs: trials at a time.
        quiet: say nothing on the way.
        list_sizes: of the depth experiment.
        authors: departures of the authors' code, for PiRank-NDCG.
    """

    root: Path
    data: tuple[str, ...] = ()
    quick: bool = False
    steps: int | None = None
    seeds: int = 1
    jobs: int | None = None
    quiet: bool = False
    list_sizes: tuple[int, ...] = ()
    authors: tuple[str, ...] = ()

    @property
    def processes(self) -> int:
        """Trials at a time."""
        return self.jobs or default_jobs()

    def inside(self, name: str) -> Effort:
        """The same in a folder below."""
        return replace(self, root=self.root / name)

    def settings(self, full: Settings, quick: dict[str, Any]) -> Settings:
        """The paper's settings, or with the changes of a quick run."""
        settings = full.changed(**quick) if self.quick else full
        if self.steps is None:
            return settings
        every = max(1, self.steps // 10)
        return settings.changed(steps=self.steps, epochs=1_000_000, validate_every=every)

    def sources(self, names: Sequence[str]) -> list[Source]:
        """The first fold of the data asked for, or of the paper's data sets that are at hand."""
        if self.data:
            found = [source_of(text) for text in self.data]
            return [source_of(text, source.folds[:1]) for text, source in zip(self.data, found, strict=True)]
        here = [name for name in names if self._is_here(name)]
        if here:
            return [source_of(name, (1,)) for name in here]
        if self.quick:
            return [source_of(QUICK_DATA)]
        wanted = " and ".join(f"--data {name}=FOLDER" for name in names)
        raise ValueError(
            f"the paper's data is not at hand: give {wanted}, or set $PIRANK_DATA to the folder that holds it, or "
            "any other set with --data NAME=PATH, or --quick for the synthetic task"
        )

    def _is_here(self, name: str) -> bool:
        if "PIRANK_DATA" not in os.environ:
            return False
        return source_of(name).is_here()

    def in_words(self, full: str, quick: str) -> str:
        """Which settings these are."""
        if self.quick:
            also = (
                f" `--steps {self.steps}` was given, and takes precedence." if self.steps is not None else ""
            )
            return f"**Quick settings, not the paper's**: {quick}{also}"
        if self.steps is not None:
            return f"**The paper's settings, but for `--steps {self.steps}`**: {full}"
        return f"**The paper's settings**: {full}"


def pirank(label: str, options: dict[str, Any] | None = None, **settings: Any) -> Method:
    """PiRank-NDCG as a row, with options of the loss and settings of its own."""
    return Method(label, "loss", "pirank-ndcg", options or {}, settings)


def whole_or_cut(size: int, *others: int) -> Protocol:
    """The paper's way of judging: lists shuffled and cut, blank lists counted as 0."""
    return Protocol("pirank", (size, *others), "zero")
