"""``pirank reproduce``: the paper's experiments, each with one command."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from pirank.commands.failing import guarded
from pirank.experiments import running
from pirank.experiments.commands import Jobs, Quiet, numbers
from pirank.experiments.compare import Findings
from pirank.experiments.comparison_report import environment
from pirank.experiments.report import Report, Section, Table
from pirank.experiments.reproduce import depth as depth_experiment
from pirank.experiments.reproduce import list_size as list_size_experiment
from pirank.experiments.reproduce import table1 as table1_experiment
from pirank.experiments.reproduce import temperature as temperature_experiment
from pirank.experiments.reproduce.effort import Effort

app = typer.Typer(
    help="Reproduce the paper's experiments: its settings, or --quick for minutes on two cores.",
    no_args_is_help=True,
)

Data = Annotated[
    list[str] | None,
    typer.Option(
        "--data", help="Data as NAME=PATH, such as mslr-web30k=MSLR-WEB30K; repeatable.",
        show_default="the paper's, from $PIRANK_DATA",
    ),
]  # fmt: skip
Quick = Annotated[
    bool, typer.Option("--quick", help="Minutes on two cores; the synthetic task if the data is not here.")
]
Steps = Annotated[int | None, typer.Option(help="Training steps.", show_default="the experiment's")]
Seeds = Annotated[int, typer.Option(help="Seeds every method is trained from.")]
BatchRatio = Annotated[
    bool,
    typer.Option(
        "--batch-ratio",
        help="As the authors' code: PiRank's loss is the ratio of the batch's summed DCG to its ideal.",
    ),
]
CountedPadding = Annotated[
    bool,
    typer.Option(
        "--counted-padding",
        help="As the authors' code: the padding of short lists takes part in PiRank's sort.",
    ),
]
ListSizes = Annotated[
    str | None, typer.Option(help="List lengths joined by commas.", show_default="125,1000,2197,3375,…")
]


@app.command()
@guarded
def table1(
    data: Data = None,
    quick: Quick = False,
    steps: Steps = None,
    seeds: Seeds = 1,
    batch_ratio: BatchRatio = False,
    counted_padding: CountedPadding = False,
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("table1"),
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Table 1: six losses on MSLR-WEB30K Fold 1 and Yahoo C14 Set 1, the paper's figures beside ours.

    Example: pirank reproduce table1 --data mslr-web30k=MSLR-WEB30K --data yahoo-c14=ltrc_yahoo
    """
    effort = Effort(
        out,
        tuple(data or ()),
        quick,
        steps,
        seeds,
        jobs,
        quiet,
        authors=_authors(batch_ratio, counted_padding),
    )
    began = datetime.now(), time.perf_counter()
    sections, found = table1_experiment.run(effort)
    _write("The paper's Table 1", sections, effort, [found], began)


@app.command()
@guarded
def temperature(
    data: Data = None,
    quick: Quick = False,
    steps: Steps = None,
    seeds: Seeds = 1,
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("temperature"),
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Relaxed and hard validation NDCG at τ = 0.1, 1, 5, 10 and 1e12, and annealed."""
    effort = Effort(out, tuple(data or ()), quick, steps, seeds, jobs, quiet)
    began = datetime.now(), time.perf_counter()
    sections, found = temperature_experiment.run(effort)
    _write("The paper's temperature ablation", sections, effort, [found], began)


@app.command("list-size")
@guarded
def list_size(
    data: Data = None,
    quick: Quick = False,
    steps: Steps = None,
    seeds: Seeds = 1,
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("list-size"),
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Training lists of 10, 20, 40 and 100 against test lists of 10, 20, 40 and 100."""
    effort = Effort(out, tuple(data or ()), quick, steps, seeds, jobs, quiet)
    began = datetime.now(), time.perf_counter()
    sections, found = list_size_experiment.run(effort)
    _write("The paper's list-size ablation", sections, effort, [found], began)


@app.command()
@guarded
def depth(
    quick: Quick = False,
    steps: Steps = None,
    list_sizes: ListSizes = None,
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("depth"),
) -> None:
    """The time of 100 training steps against list length: pairwise, the paper's tree, and exact."""
    effort = Effort(out, (), quick, steps, jobs=1, list_sizes=numbers(list_sizes) or ())
    began = datetime.now(), time.perf_counter()
    running.check_folder(out)
    _write("The paper's depth ablation", depth_experiment.run(effort), effort, [], began)


@app.command("all")
@guarded
def everything(
    data: Data = None,
    quick: Quick = False,
    steps: Steps = None,
    seeds: Seeds = 1,
    batch_ratio: BatchRatio = False,
    counted_padding: CountedPadding = False,
    list_sizes: ListSizes = None,
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("reproduction"),
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """All experiments in one report."""
    began = datetime.now(), time.perf_counter()
    named = tuple(data or ())
    effort = Effort(
        out,
        named,
        quick,
        steps,
        seeds,
        jobs,
        quiet,
        numbers(list_sizes) or (),
        _authors(batch_ratio, counted_padding),
    )
    first = Effort(out, named[:1], quick, steps, seeds, jobs, quiet)
    sections, found = table1_experiment.run(effort.inside("table1"))
    findings = [found]
    # The ablations of the paper are on one data set, the first that was named.
    for name, experiment in (("temperature", temperature_experiment), ("list-size", list_size_experiment)):
        more, found = experiment.run(first.inside(name))
        sections, findings = [*sections, *more], [*findings, found]
    sections += depth_experiment.run(effort.inside("depth"))
    _write("The paper's experiments", sections, effort, findings, began)


def _authors(batch_ratio: bool, counted_padding: bool) -> tuple[str, ...]:
    return ("batch_ratio",) * batch_ratio + ("counted_padding",) * counted_padding


def _write(
    title: str,
    sections: Sequence[Section],
    effort: Effort,
    findings: Sequence[Findings],
    began: tuple[datetime, float],
) -> None:
    kind = "quick settings" if effort.quick else "the paper's settings"
    if effort.steps is not None:
        kind += f", {effort.steps:,} steps"
    report = Report(
        f"{title}, {kind}",
        "PiRank (Swezey, Grover, Charron, Ermon, NeurIPS 2021). Each section says which settings were used.",
        sections,
        command=running.command_line(),
        environment=environment(effort.processes if findings else None),
        started=began[0],
        seconds=None if any(each.resumed for each in findings) else time.perf_counter() - began[1],
    )
    path = running.write(report, effort.root, findings)
    for section in sections:
        tables = [item for item in section.items if isinstance(item, Table)]
        for table in tables[:2]:
            running.show_table(table)
    running.tell_end(path, findings)
