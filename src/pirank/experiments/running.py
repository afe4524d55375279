"""From a plan to its report: run the trials, show how far they are, write everything, say where it is."""

from __future__ import annotations

import shlex
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Table as TerminalTable
from rich.text import Text

from pirank.commands.display import duration
from pirank.commands.training_run import stop_on_interrupt
from pirank.experiments import comparison_report as parts
from pirank.experiments.compare import Findings, Plan
from pirank.experiments.methods import Method
from pirank.experiments.pool import Told, check_jobs, default_jobs
from pirank.experiments.report import Report, Section, Table, write_folder
from pirank.experiments.report.formatting import number
from pirank.experiments.trial import Store, Trial
from pirank.terminal import console, name_column, say

_WIDE = 240
_ROOM_FOR_SPREADS = 140


def carry_out(plan: Plan, root: Path, *, jobs: int | None, quiet: bool = False) -> Findings:
    """Run what is not finished of a plan, and show how far it is."""
    check_jobs(jobs)
    check_folder(root)
    trials, store = plan.trials(), Store(root)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the report tells them
        for source in plan.sources:  # what is wrong with the data is told once, before any work
            source.splits(source.folds[0], store.cache)
    finished = sum(store.finished(trial) for trial in trials)
    if not quiet:
        already = f", {finished:,} of them finished already" if finished else ""
        say(f"{len(trials):,} trials{already}; folder: {root}")
    with stop_on_interrupt() as stop, _shown(len(trials), finished, quiet) as told:
        return plan.run(root, jobs=jobs, told=told, stop=stop)


def check_folder(root: Path) -> None:
    """Refuse a folder that holds something else than a comparison."""
    if root.is_file():
        raise ValueError(f"{root} is a file, not a folder for a report")
    if root.is_dir() and any(root.iterdir()):
        known = ("trials", "unfinished", "data", "timings", "report.html")
        if not any((root / name).exists() for name in known):
            raise ValueError(f"the folder {root} is not empty: choose another --out")


@contextmanager
def _shown(total: int, finished: int, quiet: bool) -> Iterator[Told]:
    screen = console()
    done = finished

    def line(trial: Trial, problem: str | None, seconds: float) -> str:
        nonlocal done
        done += 1
        tuned = f", candidate {trial.candidate}" if trial.candidate else ""
        what = f"{trial.source.name} fold {trial.fold}, {trial.method.label}, seed {trial.seed}{tuned}"
        return f"{done}/{total}  {what}: " + (f"failed: {problem}" if problem else duration(seconds))

    if quiet or not screen.is_terminal:

        def tell(trial: Trial, problem: str | None, seconds: float) -> None:
            text = line(trial, problem, seconds)
            if not quiet:
                screen.print(text)

        yield tell
        return
    columns = (name_column(), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("training", total=total, completed=finished)

        def advance(trial: Trial, problem: str | None, seconds: float) -> None:
            text = line(trial, problem, seconds)
            bar.advance(task)
            if problem:
                bar.console.print(text)

        yield advance


def comparison(
    findings: Findings, root: Path, *, title: str, metric: str, baseline: Method | None, jobs: int | None,
    began: tuple[datetime, float], extra: Sequence[Section] = (),
) -> Report:  # fmt: skip
    """The report of a comparison."""
    plan = findings.plan
    sections = [parts.source_section(findings, source, metric, baseline) for source in plan.sources]
    told = parts.verdict(findings, metric)
    return Report(
        title,
        told,
        [
            *extra,
            *sections,
            parts.method_section(findings),
            parts.data_section(plan.sources, Store(root).cache),
        ],
        command=command_line(),
        environment=parts.environment(jobs or default_jobs()),
        started=began[0],
        seconds=None if findings.resumed else time.perf_counter() - began[1],
    )


def command_line() -> str:
    """The command that is being run."""
    return " ".join(["pirank", *(shlex.quote(argument) for argument in sys.argv[1:])])


def write(report: Report, root: Path, findings: Sequence[Findings] = ()) -> Path:
    """Write a report in every form; the path of the HTML file."""
    for each in findings:
        name = "results.csv" if len(findings) == 1 else f"results-{findings.index(each) + 1}.csv"
        parts.write_rows(each, root / name)
    return write_folder(report, root)


def tell_end(path: Path, findings: Sequence[Findings]) -> None:
    """What failed and where the report is.

    Raises:
        typer.Exit: with 1 where a trial failed.
    """
    for line in (line for each in findings for line in each.failures()):
        say(f"failed: {line}")
    say(f"report: {path}")
    if any(each.failed for each in findings):
        raise typer.Exit(1)


def show_table(table: Table) -> None:
    """A table on the terminal, winners in bold, and in a file between asterisks; spreads beside or below the means."""
    screen = console()
    if not screen.is_terminal:
        screen.width = _WIDE  # a file has no edge to fold at
    shown = TerminalTable(
        title=table.caption, title_justify="left", box=None, pad_edge=False, padding=(0, 1, 0, 0)
    )
    for index in range(len(table.columns)):
        shown.add_column(table.column(index).name, justify="left" if index == 0 else "right", no_wrap=True)
    for row in range(len(table.rows)):
        cells = []
        for index in range(len(table.columns)):
            cell, column = table.cell(row, index), table.column(index)
            text = _in_cell(cell.value, column.digits or 3, column.unit)
            if cell.bold and not screen.is_terminal:
                text = f"**{text}**"
            whole = Text.assemble((text, "bold" if cell.bold else ""))
            if cell.spread is not None:
                gap = " " if screen.width >= _ROOM_FOR_SPREADS else "\n"
                whole.append(f"{gap}±{_in_cell(cell.spread, column.digits or 3, '')}", style="dim")
            cells.append(whole)
        shown.add_row(*cells)
    screen.print(shown)
    if table.note:
        say(table.note)


def _in_cell(value: str | float | None, digits: int, unit: str) -> str:
    if isinstance(value, str):
        return value
    return "–" if value is None else number(value, min(digits, 3)) + unit
