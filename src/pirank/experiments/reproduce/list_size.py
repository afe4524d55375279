"""The paper's list-size tables: trained on lists of one size, judged on lists of another."""

from __future__ import annotations

from typing import Any

from pirank.experiments.compare import Findings, Plan
from pirank.experiments.comparison_report import failures_in_words, metric_name
from pirank.experiments.protocol import AVERAGED_OTHERWISE
from pirank.experiments.report import Cell, Column, LineFigure, Section, Series, Table
from pirank.experiments.reproduce.effort import Effort, pirank, whole_or_cut
from pirank.experiments.reproduce.paper_figures import AVERAGED, LIST_SIZES, TRAINING_LIST_SIZES
from pirank.experiments.running import carry_out
from pirank.experiments.sources import Source
from pirank.metrics import get
from pirank.training import preset

QUICK = {"epochs": 20, "learning_rate": 1e-3}
CUTOFFS = (1, 3, 5, 10)


def plan(effort: Effort) -> Plan:
    """What is trained: Table 4's column "Ablation", once a training list size."""
    methods = [pirank(f"L_train = {size}", list_size=size) for size in LIST_SIZES]
    settings = effort.settings(preset("paper-ablation"), QUICK)
    # The longest lists decide on the validation split; all sizes are tested.
    protocol = whole_or_cut(LIST_SIZES[-1], *LIST_SIZES[:-1])
    return Plan(effort.sources(["mslr-web30k"]), methods, effort.seeds, settings, protocol)


def run(effort: Effort) -> tuple[list[Section], Findings]:
    """Run the experiment; its sections, and what was found."""
    found = carry_out(plan(effort), effort.root, jobs=effort.jobs, quiet=effort.quiet)
    settings = found.plan.settings
    said = effort.in_words(
        "100 epochs, 256-256-128-128-64-64, Adam at 0.00001, τ = 5 with straight-through estimation, k = 10.",
        f"{settings.epochs:,} epochs at most and a learning rate of {settings.learning_rate:g} instead of 100 epochs "
        "at 0.00001; everything else as in the paper.",
    )
    sections = []
    for source in found.plan.sources:
        if len(found.methods_of(source)) < len(LIST_SIZES):  # there is nothing to set side by side
            text = f"{said}\n\n{failures_in_words(found, source)}"
            sections.append(Section(f"Training list size, on {source.name}", text))
            continue
        items: list[Any] = [improvement(found, source, k) for k in CUTOFFS]
        items += [grid(found, source, metric) for metric in TRAINING_LIST_SIZES]
        if source.name == "mslr-web30k":
            items += [difference(found, source, metric) for metric in TRAINING_LIST_SIZES]
        text = f"{said}\n\n{verdict(found, source)}"
        sections.append(Section(f"Training list size, on {source.name}", text, items))
    return sections, found


def _mean(found: Findings, source: Source, trained: int, tested: int, metric: str) -> float:
    method = next(m for m in found.plan.methods if m.label == f"L_train = {trained}")
    return found.mean_and_spread(source, method, metric, tested)[0]


def grid(found: Findings, source: Source, metric: str) -> Table:
    """One of the appendix's tables: rows are test list sizes, columns training list sizes."""
    lower = get(metric).lower_is_better
    rows: list[list[Any]] = []
    for tested in LIST_SIZES:
        compared = found.compared(source, tested).metrics[metric]
        row: list[Any] = [str(tested)]
        for trained in LIST_SIZES:
            value = _mean(found, source, trained, tested, metric)
            row.append(Cell(value, bold=f"L_train = {trained}" in compared.winners))
        rows.append(row)
    columns: list[str | Column] = ["L_test"]
    columns += [Column(f"L_train = {size}", lower_is_better=lower) for size in LIST_SIZES]
    note = "Bold: the best of each row and all not significantly worse (one-sided paired t-test at 95 %)."
    return Table(
        columns, rows, f"{source.name}: {metric_name(metric)} by training and test list size", note=note
    )


def difference(found: Findings, source: Source, metric: str) -> Table:
    """Ours minus the paper's."""
    rows: list[list[Any]] = []
    for tested in LIST_SIZES:
        printed = TRAINING_LIST_SIZES[metric][tested]
        methods = [
            next(m for m in found.plan.methods if m.label == f"L_train = {size}") for size in LIST_SIZES
        ]
        ours = [found.as_the_papers_tool(source, method, metric, tested) for method in methods]
        rows.append([str(tested), *(mine - theirs for mine, theirs in zip(ours, printed, strict=True))])
    columns: list[str | Column] = [
        "L_test",
        *(Column(f"L_train = {size}", signed=True) for size in LIST_SIZES),
    ]
    note = AVERAGED if metric in AVERAGED_OTHERWISE else ""
    return Table(columns, rows, f"{source.name}: {metric_name(metric)}, ours minus the paper's", note=note)


def improvement(found: Findings, source: Source, k: int) -> LineFigure:
    """NDCG@k relative to training on lists of ten."""
    series = []
    for trained in LIST_SIZES[1:]:
        gains = []
        for tested in LIST_SIZES:
            base = _mean(found, source, LIST_SIZES[0], tested, f"ndcg@{k}")
            gains.append(100 * (_mean(found, source, trained, tested, f"ndcg@{k}") / base - 1))
        series.append(Series(f"L_train = {trained}", list(LIST_SIZES), gains))
    return LineFigure(
        f"{source.name}: relative improvement of NDCG@{k} over L_train = {LIST_SIZES[0]}",
        "L_test", "improvement, %", series, x_log=True, digits=2,
    )  # fmt: skip


def verdict(found: Findings, source: Source) -> str:
    """Whether a larger L_train is better, counted."""
    better = significant = total = 0
    for tested in LIST_SIZES:
        compared = found.compared(source, tested).metrics
        for metric in (f"ndcg@{k}" for k in CUTOFFS):
            values = [_mean(found, source, trained, tested, metric) for trained in LIST_SIZES]
            total += 1
            better += values[-1] == max(values)
            significant += f"L_train = {LIST_SIZES[0]}" not in compared[metric].winners
    return (
        f"Of {total} pairs of test list size and NDCG cutoff, training on lists of {LIST_SIZES[-1]} gives the best "
        f"mean in {better}; training on lists of {LIST_SIZES[0]} is significantly worse than the best in {significant}."
    )
