"""The paper's Table 1: six losses on MSLR-WEB30K and Yahoo C14, its figures beside ours."""

from __future__ import annotations

from typing import Any

from pirank.experiments.compare import Findings, Plan
from pirank.experiments.comparison_report import failures_in_words, metric_name, results_table
from pirank.experiments.methods import PAPER_LOSSES, loss_method
from pirank.experiments.report import Cell, Column, Section, Table
from pirank.experiments.report.formatting import number
from pirank.experiments.reproduce.effort import Effort, whole_or_cut
from pirank.experiments.reproduce.paper_figures import AVERAGED, METRICS, TABLE_1, TABLE_1_WINNERS
from pirank.experiments.running import carry_out
from pirank.experiments.sources import Source
from pirank.metrics import get
from pirank.training import preset

QUICK = {"steps": 200, "validate_every": 50}
LIST_SIZE = 200


def plan(effort: Effort) -> Plan:
    """What is trained: Table 4's column "Benchmark"."""
    settings = effort.settings(preset("paper-benchmark"), QUICK)
    return Plan(
        effort.sources(["mslr-web30k", "yahoo-c14"]),
        [loss_method(name) for name in PAPER_LOSSES],
        effort.seeds,
        settings,
        whole_or_cut(LIST_SIZE),
        authors=effort.authors,
    )


def run(effort: Effort) -> tuple[list[Section], Findings]:
    """Run the experiment; its sections, and what was found."""
    found = carry_out(plan(effort), effort.root, jobs=effort.jobs, quiet=effort.quiet)
    steps = found.plan.settings.steps
    said = effort.in_words(
        "lists of 200, batches of 16, 100,000 steps, 1024-512-256 with batch normalisation and dropout 0.3, Adam at "
        "0.001, τ = 1000 with straight-through estimation, k = 10.",
        f"{steps:,} steps instead of 100,000; everything else as in the paper.",
    )
    departures = (
        f" With the departures of the authors' code: {', '.join(effort.authors)}." if effort.authors else ""
    )
    text = f"{said}{departures}\n\n{found.plan.protocol.in_words()}"
    items = []
    for source in found.plan.sources:
        if found.methods_of(source):
            items.append(results_table(found, source, caption=f"Table 1 on {source.name}, ours"))
            if source.name in TABLE_1:
                items.append(beside_paper(found, source))
    failed = (failures_in_words(found, source) for source in found.plan.sources)
    return [
        Section("Benchmark (the paper's Table 1)", "\n\n".join(filter(None, (text, *failed))), items)
    ], found


def beside_paper(found: Findings, source: Source) -> Table:
    """Ours, the paper's and the difference, one row each a loss."""
    columns: list[str | Column] = ["", ""]
    columns += [Column(metric_name(m), lower_is_better=get(m).lower_is_better) for m in METRICS]
    compared = found.compared(source) if len(found.methods_of(source)) > 1 else None
    rows: list[list[Any]] = []
    for method in found.methods_of(source):
        ours, theirs = (
            [found.as_the_papers_tool(source, method, m) for m in METRICS],
            TABLE_1[source.name][method.label],
        )
        winners = TABLE_1_WINNERS[source.name].get(method.label, ())
        rows += [
            [method.label, "ours", *(
                Cell(value, bold=compared is not None and method.label in compared.metrics[m].winners)
                for m, value in zip(METRICS, ours, strict=True)
            )],
            [method.label, "paper", *(
                Cell(value, bold=m in winners) for m, value in zip(METRICS, theirs, strict=True)
            )],
            [method.label, "difference", *(
                Cell(mine - value, text=number(mine - value, signed=True))
                for mine, value in zip(ours, theirs, strict=True)
            )],
        ]  # fmt: skip
    return Table(
        columns, rows, f"{source.name}: ours beside the paper's",
        note=f"{AVERAGED}; the tests behind the bold cells are on per-query values.",
    )  # fmt: skip
