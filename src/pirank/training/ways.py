"""Which way a training makes its steps, and why."""

from __future__ import annotations

from pirank.training.captured import StaticSteps
from pirank.training.errors import TrainingError
from pirank.training.obstacles import obstacle
from pirank.training.progress import Progress
from pirank.training.steps import StepByStep, Task, Way


def choose(task: Task, progress: Progress) -> Way:
    """The fastest way that the settings ask for and the task allows."""
    capture, gpu = task.settings.capture, task.fabric.device.type == "cuda"
    if capture == "off":
        return StepByStep(task, "capture is 'off'")
    if capture == "auto" and not gpu:
        return StepByStep(task, "the device is a CPU")
    why = obstacle(task.network, task.loss, task.train, task.settings, task.fabric)
    if why is None and not progress.finished:
        try:
            return StaticSteps(task, progress)
        except RuntimeError as error:  # what PyTorch raises where a GPU cannot record or has no room for it
            if not gpu or capture == "on":
                raise TrainingError(
                    f"a step cannot be captured: {_first_line(error)}; train with capture='off'"
                ) from error
            why = f"it cannot be captured: {_first_line(error)}"
    if capture == "on" and why is not None:
        raise ValueError(f"capture='on' is not possible: {why}; capture='auto' trains step by step then")
    return StepByStep(task, why or "nothing is left to do")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
