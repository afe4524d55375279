"""``pirank compare``: any losses on any data, one protocol, one report."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from pirank import losses as all_losses
from pirank import metrics
from pirank.commands import reading
from pirank.commands.changes import changed, given, value_of
from pirank.commands.failing import guarded
from pirank.experiments import running
from pirank.experiments.compare import Plan
from pirank.experiments.comparison_report import results_table
from pirank.experiments.methods import (
    PAPER_LOSSES,
    Method,
    gbdt_method,
    loss_method,
    scores_method,
)
from pirank.experiments.protocol import METRICS, protocol
from pirank.experiments.sources import source_of
from pirank.names import unknown
from pirank.training import PRESETS, Settings, preset

_WHAT, _HOW, _REPORT = "What is compared", "How it is trained", "Report and machine"
QUICK_SOURCE = "synthetic:queries=300:list_size=60:reveal_columns=false"
"""The paper's own task, which does not tell which features count."""
QUICK: dict[str, Any] = {"steps": 300, "epochs": 10_000, "validate_every": 30, "patience": None}

Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs", "-j", help="Trials at a time.", show_default="one a GPU or core", rich_help_panel=_REPORT
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only the results.", rich_help_panel=_REPORT)]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Any training setting, as NAME=VALUE; repeatable.", rich_help_panel=_HOW,
        show_default=False,
    ),
]  # fmt: skip


def _option(panel: str, help: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


@guarded
def compare(
    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DATA...",
            help="Data sets: a file, a folder of splits or folds, NAME=PATH, a public set by name, or synthetic.",
            show_default=False,
        ),
    ] = None,
    label: reading.Label = None,
    query: reading.Query = None,
    features: reading.Features = None,
    sort_queries: reading.SortQueries = None,
    skip_errors: reading.SkipErrors = None,
    losses: Annotated[
        str, _option(_WHAT, "Losses joined by commas, each with options as NAME:option=value.")
    ] = ",".join(PAPER_LOSSES),
    gbdt: Annotated[
        str | None,
        _option(_WHAT, "Trees joined by commas: lightgbm, xgboost, catboost.", show_default="none"),
    ] = None,
    scores: Annotated[
        list[str] | None,
        _option(
            _WHAT,
            "A file of scores of the test rows as a row, NAME=PATH; {data} and {fold} are filled in.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[int, _option(_WHAT, "Seeds every method is trained from.")] = 5,
    folds: Annotated[
        str | None, _option(_WHAT, "Folds joined by commas.", show_default="all there are")
    ] = None,
    protocol_name: Annotated[
        str,
        _option(_WHAT, "full: whole lists. pirank: lists shuffled and cut to 200, blank = 0.", "--protocol"),
    ] = "full",
    empty: Annotated[
        str | None,
        _option(
            _WHAT,
            "What a query without a relevant document counts: skip, zero, one.",
            show_default="skip, or the protocol's",
        ),
    ] = None,
    preset_name: Annotated[
        str, _option(_HOW, f"Settings to start from: {', '.join(PRESETS)}.", "--preset")
    ] = "default",
    epochs: Annotated[
        int | None, _option(_HOW, "How often every query is seen.", show_default="the preset's")
    ] = None,
    steps: Annotated[
        int | None, _option(_HOW, "Stop after as many steps.", show_default="the preset's")
    ] = None,
    list_size: Annotated[
        int | None, _option(_HOW, "Cut training lists to this size.", show_default="the preset's")
    ] = None,
    setting: Set = None,
    tune: Annotated[
        int, _option(_HOW, "Settings tried for every method, fold and seed; the best on validation counts.")
    ] = 1,
    out: Annotated[Path, _option(_REPORT, "Folder of the report and of the trials.")] = Path("comparison"),
    metric: Annotated[str, _option(_REPORT, "Metric of the figures and of the verdict.")] = "ndcg@10",
    baseline: Annotated[
        str | None,
        _option(_REPORT, "Row the others are compared with, query by query.", show_default="the first one"),
    ] = None,
    jobs: Jobs = None,
    quick: Annotated[
        bool,
        _option(
            _HOW,
            "Minutes on two cores: 300 steps, 2 seeds; the synthetic task if no data is named.",
            "--quick",
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Compare losses, trees and scores on any data, under one protocol, in one report.

    Writes report.html, report.md, results.csv, a CSV file a table and an SVG a figure. In bold: the best of each metric
    and all not significantly worse (one-sided paired t-test at 95 % on the queries). Stopped, the same command goes on.
    The exit code is 1 where a trial failed.

    Example: pirank compare mq2008=MQ2008 --losses ranknet,lambdarank,pirank-ndcg --seeds 5 --out report
    """
    began = datetime.now(), time.perf_counter()
    if metric not in METRICS:
        raise ValueError(unknown("metric", metric, METRICS))
    metrics.get(metric)
    if not data:
        if not quick:
            raise ValueError(
                "no data was named: pirank compare DATA... (see pirank compare --help), or --quick"
            )
        data = [QUICK_SOURCE]
    settings = preset(preset_name)
    if quick:
        settings = settings.changed(**QUICK)
        seeds = min(seeds, 2)
    changes = given({"epochs": epochs, "steps": steps, "list_size": list_size})
    how = {
        "label": label,
        "query": query,
        "features": reading.column_names(features),
        "sort_queries": sort_queries,
    }
    read_as = given({**how, "errors": "skip" if skip_errors else None})
    plan = Plan(
        [source_of(text, numbers(folds), read_as) for text in data],
        _methods(losses, gbdt, scores),
        seeds,
        with_settings(changed(settings, changes, {}, {}), setting),
        protocol(protocol_name, empty),
        tune,
    )
    reference = _baseline(plan, baseline)
    findings = running.carry_out(plan, out, jobs=jobs, quiet=quiet)
    title = f"{len(plan.methods)} rankers on {', '.join(source.name for source in plan.sources)}"
    report = running.comparison(
        findings, out, title=title, metric=metric, baseline=reference, jobs=jobs, began=began
    )
    path = running.write(report, out, [findings])
    for source in plan.sources:
        if findings.methods_of(source):
            running.show_table(results_table(findings, source))
    running.tell_end(path, [findings])


def _methods(losses: str, gbdt: str | None, scores: list[str] | None) -> list[Method]:
    methods = [loss_method(name) for name in listed(losses)]
    methods += [gbdt_method(name) for name in listed(gbdt or "")]
    return methods + [scores_method(text) for text in scores or []]


def _baseline(plan: Plan, name: str | None) -> Method:
    labels = {method.label: method for method in plan.methods}
    if name is None:
        return plan.methods[0]
    if name not in labels:
        raise ValueError(unknown("baseline", name, labels))
    return labels[name]


def listed(text: str) -> list[str]:
    """Names joined by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def numbers(text: str | None) -> tuple[int, ...] | None:
    """Numbers joined by commas."""
    if text is None:
        return None
    try:
        return tuple(int(number) for number in listed(text))
    except ValueError:
        raise ValueError(f"expected numbers joined by commas, such as 1,2,3: got {text!r}") from None


def with_settings(settings: Settings, texts: list[str] | None) -> Settings:
    """Settings with what ``--set`` says; options of the model and the loss as ``model.NAME`` and ``loss.NAME``."""
    of_model: dict[str, Any] = {}
    of_loss: dict[str, Any] = {}
    changes: dict[str, Any] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--set must be NAME=VALUE, got {text!r}")
        room, dot, option = name.strip().replace("-", "_").rpartition(".")
        if dot and room not in ("model", "loss"):
            raise ValueError(f"--set takes NAME, model.NAME or loss.NAME, got {name!r}")
        {"model": of_model, "loss": of_loss, "": changes}[room][option] = value_of(value)
    made = changed(settings, changes, of_model, of_loss)
    all_losses.get(made.loss, **made.loss_options)
    return made
