"""Numbers that are not finite: where, and the likely cause."""

from __future__ import annotations

import math

from torch import Tensor

from pirank.training.errors import TrainingError
from pirank.training.progress import Progress

_CAUSES = {
    "scores": "the weights grew without bound: lower learning_rate, set clip, or scale the features with "
    "transform='standard'",
    "loss": "the labels are too large for the gain 2^label, or the temperature is too low: rescale the labels or "
    "raise the temperature",
    "gradient": "the temperature is too low for scores this close together: raise it, or lower learning_rate",
}


def check_finite(what: str, value: Tensor, progress: Progress, now: dict[str, float], kept: str) -> None:
    """Stop at a number that is not finite.

    Args:
        what: ``"scores"``, ``"loss"`` or ``"gradient"``.
        value: a number, or many.
        progress: where the training is.
        now: the learning rate, and the temperature where there is one.
        kept: what is left on the disk.
    """
    total = float(value.detach().sum())
    if math.isfinite(total) or bool(value.detach().isfinite().all()):
        return
    temperature = f", temperature {now['temperature']:g}" if "temperature" in now else ""
    noun = "the scores are" if what == "scores" else f"the {what} is"
    raise TrainingError(
        f"{noun} {total} at step {progress.step + 1} (epoch {progress.epoch:.2f}), learning rate "
        f"{now['learning_rate']:g}{temperature}. Likely cause: {_CAUSES[what]}{kept}"
    )
