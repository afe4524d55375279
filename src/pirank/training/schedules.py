"""Learning rates and temperatures as functions of how far the training is, from 0 to 1."""

from __future__ import annotations

import math
from collections.abc import Callable

# Progress to the share of the full learning rate.
LEARNING_RATE_SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda progress: 1.0,
    "cosine": lambda progress: 0.5 * (1 + math.cos(math.pi * progress)),
    "step": lambda progress: 0.1 ** sum(progress >= mark for mark in (0.5, 0.75)),
}

# Start, end and progress to the temperature.
TEMPERATURE_SCHEDULES: dict[str, Callable[[float, float, float], float]] = {
    "constant": lambda start, end, progress: start,
    "exponential": lambda start, end, progress: start * (end / start) ** progress,
    "linear": lambda start, end, progress: start + (end - start) * progress,
    "cosine": lambda start, end, progress: end + (start - end) * 0.5 * (1 + math.cos(math.pi * progress)),
}


def learning_rate_factor(schedule: str, progress: float, warmup: float = 0.0) -> float:
    """The share of the full learning rate at ``progress``: a linear rise over ``warmup``, then the schedule.

    ``"step"`` divides by 10 at half and at three quarters of the way.

    Example:
        >>> [round(learning_rate_factor("cosine", p, warmup=0.1), 3) for p in (0.05, 0.1, 0.55, 1.0)]
        [0.5, 1.0, 0.5, 0.0]
    """
    if progress < warmup:
        return progress / warmup
    if warmup < 1:
        progress = (progress - warmup) / (1 - warmup)
    return LEARNING_RATE_SCHEDULES[schedule](min(progress, 1.0))


def temperature_at(schedule: str, start: float, end: float | None, progress: float) -> float:
    """The temperature at ``progress``; ``"exponential"`` is the annealing of the paper's appendix.

    Example:
        >>> temperature_at("exponential", 100.0, 1.0, 0.5)
        10.0
    """
    return TEMPERATURE_SCHEDULES[schedule](start, start if end is None else end, min(progress, 1.0))
