"""The paper's depth figure: the time of 100 training steps, and of 100 losses, against the list's length."""

from __future__ import annotations

import json
import math
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pirank.data import synthetic
from pirank.experiments.report import LineFigure, Section, Series, Table
from pirank.experiments.reproduce.effort import Effort
from pirank.files import write_text
from pirank.losses import MSELoss, PiRankLoss
from pirank.metrics import NDCG
from pirank.models import get
from pirank.sorts import NeuralSort, Sort, Tree
from pirank.sorts.base import Temperature
from pirank.training import Settings, fit

LIST_SIZES = (5**3, 10**3, 13**3, 15**3)
BEYOND = (20**3, 30**3)
CUTOFFS = (1, 10)
QUERIES = 16
TEMPERATURE = 5.0
QUICK_STEPS, STEPS = 4, 100
_TENSORS_OF_PAIRS = 5

PAIRWISE, EXACT, ALONE = "pairwise, d = 1", "exact, d = 1", "network alone"
TREES = {f"tree of pairwise nodes, d = {depth}": depth for depth in (2, 3)}
VARIANTS = (PAIRWISE, *TREES, EXACT, ALONE)

Clock = Callable[[str, int, int, int], float]
Found = dict[tuple[str, int, int], "float | None"]


class PairwiseNeuralSort(Sort):
    """NeuralSort as the paper computes it, from all pairwise distances: O(L²) in time and memory.

    Example:
        >>> scores = torch.tensor([1.0, 3.0])
        >>> torch.allclose(PairwiseNeuralSort(1.0).matrix(scores), NeuralSort(1.0).matrix(scores))
        True
    """

    def relaxed_matrix(self, scores: Tensor, mask: Tensor | None, k: int, temperature: Temperature) -> Tensor:
        length = scores.shape[1]
        present = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask
        pairs = (scores[:, :, None] - scores[:, None, :]).abs()
        if mask is not None:
            pairs = pairs * present[:, None, :]
        size = present.sum(1)[:, None]
        rank = torch.arange(1, min(k, length) + 1, device=scores.device)
        coefficient = (size + 1 - 2 * rank).to(scores.dtype)
        logits = coefficient[:, :, None] * scores[:, None, :] - pairs.sum(2)[:, None, :]
        tau = temperature[..., None] if isinstance(temperature, Tensor) else temperature
        logits = (logits / tau).masked_fill(~present[:, None, :], -torch.finfo(scores.dtype).max)
        rows = torch.softmax(logits, 2) * ((rank <= size)[:, :, None] & present[:, None, :])
        return torch.nn.functional.pad(rows, (0, 0, 0, k - rows.shape[1]))


def sort_of(variant: str) -> Sort:
    """The sort of a curve."""
    if variant in TREES:
        return Tree(PairwiseNeuralSort(TEMPERATURE), depth=TREES[variant])
    return PairwiseNeuralSort(TEMPERATURE) if variant == PAIRWISE else NeuralSort(TEMPERATURE)


def run(effort: Effort) -> list[Section]:
    """Measure, or take what was measured before; the section."""
    sizes = effort.list_sizes or (LIST_SIZES if effort.quick else (*LIST_SIZES, *BEYOND))
    steps = effort.steps or (QUICK_STEPS if effort.quick else STEPS)
    whole: Found = {}
    alone: Found = {}
    for size in sizes:
        for k in CUTOFFS:
            for variant in VARIANTS:
                whole[variant, size, k] = _measured(effort, "step", time_of, variant, size, k, steps)
                if variant != ALONE:
                    alone[variant, size, k] = _measured(effort, "loss", time_of_loss, variant, size, k, steps)
    longer = (
        "" if effort.list_sizes else ", L = 5³, 10³, 13³ and 15³, and longer lists where the memory allows"
    )
    said = effort.in_words(
        f"100 steps of 16 queries of the synthetic data, 256-256-128-128-64-64{longer}.",
        f"{steps} steps a point, scaled to 100.",
    )
    if effort.list_sizes:
        said += f" L = {', '.join(f'{size:,}' for size in sizes)}, as `--list-sizes` says."
    threads = torch.get_num_threads()
    text = (
        f"{said} One process, {threads} {'thread' if threads == 1 else 'threads'}. The time is that of whole steps, "
        "with the network's forward and backward pass; **network alone** has a loss that does not sort. Below, the "
        "loss and its gradient by themselves, for scores that are there already: the median of "
        f"{steps} runs, a hundred times. Complexity lines start at the longest lists that were measured."
    )
    both = [*whole.items(), *alone.items()]
    left_out = sorted({size for (_, size, _), value in both if value is None})
    if left_out:
        listed = ", ".join(f"{size:,}" for size in left_out)
        text += (
            f"\n\nThe pairwise form at L = {listed} needed more than half of the free memory: left out there."
        )
    items: list[Any] = []
    for what, found in (("training steps", whole), ("losses with their gradient", alone)):
        for k in CUTOFFS:
            title = f"Time of 100 {what}, k = {k}"
            items += [_figure(found, sizes, k, title), _table(found, sizes, k, f"{title}: seconds")]
    return [Section("Depth", text, items)]


def _measured(
    effort: Effort, what: str, clock: Clock, variant: str, size: int, k: int, steps: int
) -> float | None:
    """Seconds for 100 of them; None where the memory does not allow it."""
    words = "".join(letter if letter.isalnum() else "-" for letter in variant)
    path = effort.root / "timings" / f"{what}-{words}-L{size}-k{k}-{steps}-times.json"
    if path.exists():
        return float(json.loads(path.read_text())["seconds"]) * 100 / steps
    pairs = 4 * QUERIES * size**2 * _TENSORS_OF_PAIRS
    if variant == PAIRWISE and pairs > _free_bytes() / 2:
        return None
    seconds = clock(variant, size, k, steps)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps({"seconds": seconds, "times": steps, "threads": torch.get_num_threads()}))
    return seconds * 100 / steps


def _loss_of(variant: str, k: int) -> torch.nn.Module:
    if variant == ALONE:
        return MSELoss()
    return PiRankLoss(NDCG(k), sort_of(variant), straight_through=True)


def time_of(variant: str, size: int, k: int, steps: int) -> float:
    """Seconds of so many training steps of 16 synthetic queries, after one step that does not count."""
    data = synthetic(QUERIES, size, seed=0)
    torch.manual_seed(0)
    network = get("paper-ablation", data.features.shape[1])
    settings = Settings(
        epochs=steps + 1, batch_size=QUERIES, optimizer="adam", schedule="constant", warmup=0.0, clip=None
    )
    seconds: list[float] = []

    def report(record: dict[str, Any]) -> None:
        if record["event"] == "step":
            seconds.append(record["seconds"])

    fit(network, _loss_of(variant, k), data, settings=settings, report=report)
    return seconds[-1] - seconds[0]


def time_of_loss(variant: str, size: int, k: int, times: int) -> float:
    """The median time of a loss and its gradient for 16 lists of random scores, times ``times``."""
    labels = synthetic(QUERIES, size, seed=0).labels
    assert labels is not None, "synthetic data has labels"
    labels = labels.view(QUERIES, size)
    scores = torch.randn(QUERIES, size, generator=torch.Generator().manual_seed(0), requires_grad=True)
    loss = _loss_of(variant, k)
    seconds = []
    for _ in range(times + 1):
        began = time.perf_counter()
        torch.autograd.grad(loss(scores, labels), scores)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[1:]) * times


def _free_bytes() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 8 * 2**30


def _figure(found: Found, sizes: tuple[int, ...], k: int, title: str) -> LineFigure:
    series = []
    lines = (
        (PAIRWISE, "L²", lambda L: L**2),
        (list(TREES)[-1], "L^(4/3)", lambda L: L ** (4 / 3)),
        (EXACT, "L log L", lambda L: L * math.log(L)),
    )
    for variant in _variants(found):
        seconds = [found[variant, size, k] for size in sizes]
        series.append(Series(variant, sizes, seconds, group=variant))
    for variant, name, grows in lines:
        known = [(size, value) for size in sizes if (value := found[variant, size, k]) is not None]
        if known:
            longest, last = known[-1]
            line = [last * grows(size) / grows(longest) for size in sizes]
            series.append(Series(name, sizes, line, dashed=True, group=variant))
    return LineFigure(title, "list length L", "seconds", series, x_log=True, y_log=True, digits=None)


def _table(found: Found, sizes: tuple[int, ...], k: int, caption: str) -> Table:
    rows = [[variant, *(found[variant, size, k] for size in sizes)] for variant in _variants(found)]
    return Table(["", *(f"L = {size:,}" for size in sizes)], rows, caption, digits=2)


def _variants(found: Found) -> list[str]:
    measured = {variant for variant, _, _ in found}
    return [variant for variant in VARIANTS if variant in measured]
