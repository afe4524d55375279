"""What can end a training before its time."""

from __future__ import annotations


class TrainingError(RuntimeError):
    """Training cannot go on; the message names the step, the likely cause and what to do."""


class Interrupted(TrainingError):
    """Someone asked the training to stop, and it did, after saving."""
