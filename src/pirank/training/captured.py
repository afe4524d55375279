"""Steps of static shapes: gathered, made and counted on the device, and on a GPU replayed as CUDA graphs.

A step reads its documents from a plan on the device at a number that it raises itself, so a replay is all that the
program does for it. Losses and norms are written down on the device and looked at a few times a second.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

import torch
from torch import Tensor

from pirank.models.normalisation import real_rows
from pirank.training.devices import loss_apart, matrix_products
from pirank.training.divergence import check_finite
from pirank.training.flat_adam import FlatAdam, share_within
from pirank.training.graphs import Graphs
from pirank.training.obstacles import counts_blank_lists
from pirank.training.optimizers import make_capturable, make_plain
from pirank.training.plan import Plan, Shape
from pirank.training.progress import Progress
from pirank.training.steps import Rates, Steps, Task

SECONDS_BETWEEN_LOOKS = 0.2
# How many times more steps than before may be made before the next look.
_GROWTH = 8
# What is written down of every step, in this order.
_NUMBERS = ("scores", "loss", "gradient")


class StaticSteps:
    """Steps of a few static shapes; what they compute is what :class:`~pirank.training.steps.StepByStep` does.

    Args:
        task: what is trained, with nothing in the way (:func:`~pirank.training.obstacles.obstacle`).
        progress: where the training is.
    """

    def __init__(self, task: Task, progress: Progress) -> None:
        self.task = task
        self.captured = can_record(task.fabric.device)
        self.why = (
            "nothing stands in the way" if self.captured else "a CPU runs static shapes without a graph"
        )
        self.plan = Plan(
            task.train,
            task.batches,
            Rates(task.loss, task.settings),
            task.weights,
            counts_blank_lists(task.loss),
        )
        self.optimizer = task.optimizer.optimizer
        self.parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        steps = len(self.plan.learning_rates)
        self.numbers = torch.zeros(steps, len(_NUMBERS), device=task.fabric.device)
        self.rate: Tensor | None = None
        self.graphs: Graphs | None = None
        self.adam: FlatAdam | None = None
        self.pace = 1
        self.plan.fill(progress)
        if self.captured:
            self._record_first()

    def _record_first(self) -> None:
        self.rate = make_capturable(self.optimizer, self.task.fabric.device)
        self.adam = FlatAdam.of(self.optimizer)
        counters = [self.plan.at, self.numbers]
        self.graphs = Graphs(self._captured_step, self.task.network, self.optimizer, counters)
        try:
            self.graphs.record(self.plan.shapes[0])
        except BaseException:
            self.close()
            make_plain(self.optimizer, self.task.settings.learning_rate)
            self.optimizer.zero_grad()
            raise

    def advance(self, progress: Progress, most: int, kept: str) -> Steps:
        """Make steps for a fraction of a second, and look at what they gave."""
        plan, began = self.plan, time.perf_counter()
        if not plan.left:
            plan.fill(progress)
        first = plan.done
        last = first + min(most, plan.left, self.pace)
        for i in range(first, last):
            if self.graphs is not None:
                self.graphs(plan.shapes[i])
            elif not self._step_on_cpu(i):
                last = i + 1
                break
        count = last - first
        plan.took(count)
        plan.look_ahead()
        numbers = self.numbers[first:last].double().cpu()  # here the program waits for the device
        self._check(numbers, first, progress, kept)
        seconds = max((time.perf_counter() - began) / count, 1e-9)
        self.pace = max(1, min(self.pace * _GROWTH, int(SECONDS_BETWEEN_LOOKS / seconds)))
        _, loss, norm = numbers.sum(0).tolist()
        return Steps(count, loss, norm, sum(plan.documents[first:last]), plan.now[last - 1])

    def _check(self, numbers: Tensor, first: int, progress: Progress, kept: str) -> None:
        broken = (~numbers.isfinite()).nonzero()
        if len(broken):
            step, which = broken[0].tolist()
            there = replace(progress, step=progress.step + step)
            check_finite(_NUMBERS[which], numbers[step, which], there, self.plan.now[first + step], kept)

    def _captured_step(self, shape: Shape) -> None:
        assert self.rate is not None
        self.rate.copy_(self.plan.learning_rates.index_select(0, self.plan.at)[0])
        self._step(shape)

    def _step_on_cpu(self, i: int) -> bool:
        for group in self.optimizer.param_groups:
            group["lr"] = self.plan.now[i]["learning_rate"]
        return self._step(self.plan.shapes[i])

    def _step(self, shape: Shape) -> bool:
        """One step; False if it stopped at scores that are not finite, on a CPU, where looking costs nothing."""
        task, plan = self.task, self.plan
        batch = plan.gather(shape)
        self.optimizer.zero_grad()
        precision = task.settings.precision
        with real_rows(task.network, batch.real), task.fabric.autocast(), matrix_products(precision):
            scores: Tensor = task.network(batch.features, None)
        scores = loss_apart(scores.float(), precision)
        largest = torch.linalg.vector_norm(scores.detach(), math.inf)
        if scores.device.type == "cpu" and not math.isfinite(largest):
            self.numbers[plan.at] = largest
            return False
        listed = batch.listed(scores)
        options = {} if batch.weights is None else {"weights": batch.weights}
        loss: Tensor = task.loss(listed, batch.labels, mask=batch.mask, **options)
        with matrix_products(precision, rounded=False):
            loss.backward()
        norm = self._follow_gradient()
        self.numbers.index_copy_(0, plan.at, torch.stack([largest, loss.detach().float(), norm])[None])
        plan.at.add_(1)
        return True

    def _follow_gradient(self) -> Tensor:
        """The optimiser's step, and the norm of the gradient before it was clipped."""
        clip = self.task.settings.clip
        gradient = None if self.adam is None else self.adam.gradient()
        if self.adam is not None and gradient is not None:
            norm: Tensor = torch.linalg.vector_norm(gradient)
            self.adam.step(gradient, None if clip is None else share_within(clip, norm))
            return norm
        if clip is not None:
            norm = torch.nn.utils.clip_grad_norm_(self.parameters, clip)
        else:
            norm = torch.nn.utils.get_total_norm([p.grad for p in self.parameters if p.grad is not None])
        self.optimizer.step()
        return norm

    def close(self) -> None:
        """Leave the network as any other."""
        if self.adam is not None:
            self.adam.part()


def can_record(device: torch.device) -> bool:
    """Whether steps on a device can be recorded and replayed."""
    return device.type == "cuda"
