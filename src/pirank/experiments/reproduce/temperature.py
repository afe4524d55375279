"""The paper's temperature figures: relaxed and hard validation NDCG while training, by temperature."""

from __future__ import annotations

from typing import Any

import numpy as np

from pirank.experiments.compare import Findings, Plan
from pirank.experiments.comparison_report import failures_in_words, results_table
from pirank.experiments.relaxed import CUTOFFS
from pirank.experiments.report import Column, LineFigure, Section, Series, Table
from pirank.experiments.reproduce.effort import Effort, pirank, whole_or_cut
from pirank.experiments.running import carry_out
from pirank.experiments.sources import Source
from pirank.training import preset

TEMPERATURES = (0.1, 1.0, 5.0, 10.0, 1e12)
ANNEALED_FROM, ANNEALED_TO = 100.0, 0.1
QUICK = {"epochs": 20, "learning_rate": 1e-3}


def plan(effort: Effort) -> Plan:
    """What is trained: Table 4's column "Ablation", once a temperature, and once with annealing."""
    methods = [pirank(f"τ = {tau:g}", {"temperature": tau}) for tau in TEMPERATURES]
    methods.append(
        pirank(
            f"τ from {ANNEALED_FROM:g} to {ANNEALED_TO:g}",
            {"temperature": ANNEALED_FROM},
            temperature_schedule="exponential",
            temperature_end=ANNEALED_TO,
        )
    )
    settings = effort.settings(preset("paper-ablation"), QUICK)
    sources = effort.sources(["mslr-web30k"])
    return Plan(sources, methods, effort.seeds, settings, whole_or_cut(100), relaxed=True)


def run(effort: Effort) -> tuple[list[Section], Findings]:
    """Run the experiment; its sections, and what was found."""
    found = carry_out(plan(effort), effort.root, jobs=effort.jobs, quiet=effort.quiet)
    settings = found.plan.settings
    said = effort.in_words(
        "lists of 100, 100 epochs, 256-256-128-128-64-64, Adam at 0.00001, straight-through estimation, k = 10.",
        f"{settings.epochs:,} epochs at most and a learning rate of {settings.learning_rate:g} instead of 100 epochs "
        "at 0.00001; everything else as in the paper.",
    )
    text = (
        f"{said}\n\nThe annealed temperature falls exponentially from {ANNEALED_FROM:g} to {ANNEALED_TO:g} (the paper "
        "does not print its schedule). The relaxed metric is taken at the temperature of the moment, queries without a "
        "relevant document are left out, and nothing is smoothed."
    )
    sections = []
    for source in found.plan.sources:
        items: list[Any] = [_ends(found, source), *_figures(found, source)]
        items.append(results_table(found, source, caption=f"{source.name}: test metrics by temperature"))
        told = "\n\n".join(filter(None, (text, failures_in_words(found, source))))
        sections.append(Section(f"Temperature, on {source.name}", told, items))
    return sections, found


def _curves(found: Findings, source: Source, label: str, name: str) -> tuple[list[float], list[float]]:
    """Positions and heights, averaged over folds and seeds as far as all go."""
    method = next(m for m in found.plan.methods if m.label == label)
    curves = [o.facts["curve"] for o in found.outcomes(source, method)]
    length = min(map(len, curves))
    heights = np.mean([[row[name] for row in curve[:length]] for curve in curves], axis=0)
    return [row["step"] for row in curves[0][:length]], heights.tolist()


def _figures(found: Findings, source: Source) -> list[LineFigure]:
    labels = [method.label for method in found.methods_of(source)]
    figures = []
    for k in sorted(CUTOFFS, key=lambda k: (k != 10, k)):  # the paper's own figure first
        series = []
        for label in labels:
            for name, dashed in ((f"ndcg@{k}", False), (f"relaxed ndcg@{k}", True)):
                steps, heights = _curves(found, source, label, name)
                shown = f"{label}, relaxed" if dashed else label
                series.append(Series(shown, steps, heights, dashed=dashed, group=label))
        figures.append(
            LineFigure(
                f"{source.name}: validation NDCG@{k} by temperature",
                "step",
                f"NDCG@{k}",
                series,
                caption="Full lines: the metric itself. Dashed: one minus the relaxed loss.",
            )
        )
    loss = [Series(label, *_curves(found, source, label, "loss")) for label in labels]
    figures.append(LineFigure(f"{source.name}: training loss by temperature", "step", "1 − NDCG@10", loss))
    return figures


def _ends(found: Findings, source: Source) -> Table:
    rows = []
    for method in found.methods_of(source):
        hard = _curves(found, source, method.label, "ndcg@10")[1]
        relaxed = _curves(found, source, method.label, "relaxed ndcg@10")[1]
        third = hard[max(0, len(hard) // 3 - 1)]
        together = np.corrcoef(hard, relaxed)[0, 1] if np.std(hard) > 0 and np.std(relaxed) > 1e-9 else None
        gap = float(np.mean(np.abs(np.subtract(hard, relaxed))))
        rows.append([method.label, hard[0], third, max(hard), hard[-1], relaxed[-1], gap, together])
    columns: list[str | Column] = [
        "", "first validation", "after a third", "best", "last", "relaxed, last",
        Column("mean gap", note="of the relaxed metric to the hard one"),
        Column("correlation", digits=2, note="of the relaxed and the hard curve"),
    ]  # fmt: skip
    return Table(columns, rows, f"{source.name}: validation NDCG@10, hard and relaxed")
