"""How far a training is: what a checkpoint remembers beside tensors."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from pirank.training.settings import Settings

if TYPE_CHECKING:
    from pirank.training.steps import Steps


@dataclass
class Progress:
    """Counters of one network's training.

    Attributes:
        step: optimiser steps taken.
        steps: optimiser steps to take.
        steps_per_epoch: how many of them see every query once.
        best: the best validation metric; None before the first validation.
        best_step: when it was reached.
        stale: validations since then.
        loss: the loss summed over the steps since the last validation.
        gradient_norm: the gradient's norm before clipping, summed likewise.
        documents: documents seen.
        counted: steps since the last validation.
        seconds: time spent training.
        finished: nothing is left to do.
    """

    step: int = 0
    steps: int = 0
    steps_per_epoch: int = 1
    best: float | None = None
    best_step: int = 0
    stale: int = 0
    loss: float = 0.0
    gradient_norm: float = 0.0
    documents: int = 0
    counted: int = 0
    seconds: float = 0.0
    finished: bool = False

    @classmethod
    def of(cls, batches: int, settings: Settings) -> Progress:
        """The counters of a training that starts, with so many batches an epoch."""
        steps_per_epoch = max(math.ceil(batches / settings.accumulate), 1)
        steps = settings.epochs * steps_per_epoch
        steps = steps if settings.steps is None else min(steps, settings.steps)
        return cls(steps=steps, steps_per_epoch=steps_per_epoch)

    @property
    def epoch(self) -> float:
        """Passes over the training split so far, with the part of the present one."""
        return self.step / self.steps_per_epoch

    @property
    def share(self) -> float:
        """How far the training is at the middle of the present step, from 0 to 1."""
        return (self.step + 0.5) / max(self.steps, 1)

    def add(self, made: Steps, seconds: float) -> None:
        """Count some steps."""
        self.step += made.count
        self.counted += made.count
        self.loss += made.loss
        self.gradient_norm += made.gradient_norm
        self.documents += made.documents
        self.seconds += seconds

    def seen(self) -> dict[str, float]:
        """Where the training is and how fast it goes, for a report."""
        speed = self.documents / self.seconds if self.seconds else 0.0
        left = self.seconds / self.step * (self.steps - self.step) if self.step else 0.0
        return {
            "step": self.step,
            "epoch": self.epoch,
            "seconds": self.seconds,
            "documents_per_second": speed,
            "seconds_left": left,
        }

    def means(self) -> dict[str, float]:
        """Mean loss and gradient norm since the last validation, and start counting anew."""
        count = max(self.counted, 1)
        means = {"loss": self.loss / count, "gradient_norm": self.gradient_norm / count}
        self.loss = self.gradient_norm = 0.0
        self.counted = 0
        return means

    def improves(self, value: float, lower_is_better: bool) -> bool:
        """Take note of a validation metric; whether it is the best so far (a NaN never is)."""
        better = value == value and (
            self.best is None or (value < self.best if lower_is_better else value > self.best)
        )
        if better:
            self.best, self.best_step, self.stale = value, self.step, 0
        else:
            self.stale += 1
        return better

    def as_dict(self) -> dict[str, Any]:
        """All counters, for a checkpoint."""
        return asdict(self)

    def load(self, values: dict[str, Any]) -> None:
        """Take over the counters of a checkpoint."""
        for counter in fields(self):
            setattr(self, counter.name, values[counter.name])
