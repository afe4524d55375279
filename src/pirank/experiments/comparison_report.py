"""What a comparison found, as the parts of a report."""

from __future__ import annotations

import csv
import io
import os
import platform
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats

from pirank import metrics, significance
from pirank.experiments.compare import Findings
from pirank.experiments.methods import Method
from pirank.experiments.report import (
    BarFigure,
    BarSeries,
    Cell,
    Column,
    LineFigure,
    Section,
    Series,
    Table,
    win_loss,
)
from pirank.experiments.sources import Source, counts_of
from pirank.files import write_text
from pirank.version import __version__

_NAMES = {"mrr": "MRR", "arp": "ARP", "opa": "OPA", "map": "MAP"}


def metric_name(metric: str) -> str:
    """A metric's name in a heading.

    Example:
        >>> metric_name("ndcg@10"), metric_name("arp")
        ('NDCG@10', 'ARP')
    """
    return _NAMES.get(metric, metric.replace("ndcg", "NDCG"))


def results_table(findings: Findings, source: Source, size: int | None = None, caption: str = "") -> Table:
    """Means and spreads of all metrics, winners in bold."""
    methods = findings.methods_of(source)
    names = findings.plan.protocol.metrics
    compared = findings.compared(source, size) if len(methods) > 1 else None
    columns: list[str | Column] = [""]
    columns += [Column(metric_name(m), lower_is_better=metrics.get(m).lower_is_better) for m in names]
    columns.append(Column("training", digits=1, unit=" s", lower_is_better=True))
    rows: list[list[Any]] = []
    for method in methods:
        row: list[Any] = [method.label]
        for metric in names:
            mean, spread = findings.mean_and_spread(source, method, metric, size)
            bold = compared is not None and method.label in compared.metrics[metric].winners
            row.append(Cell(mean, spread=spread, bold=bold, note=_p_value(compared, metric, method.label)))
        row.append(findings.seconds(source, method) if method.trained else None)
        rows.append(row)
    for method in findings.plan.methods:
        if method not in methods:
            rows.append([method.label, *(None for _ in range(len(names) + 1))])
    seeds = findings.plan.seeds
    spreads = (
        f" ± is the standard deviation over {seeds} seeds."
        if seeds > 1
        else " One seed: no spread over seeds."
    )
    note = ((compared.note if compared is not None else "") + spreads).strip()
    return Table(columns, rows, caption or f"{source.name}: test metrics", note=note)


def _p_value(compared: significance.Comparison | None, metric: str, label: str) -> str:
    if compared is None:
        return ""
    found = compared.metrics[metric]
    if label == found.best:
        return "the best mean"
    return f"p = {found.p_values[label]:.3g} against {found.best}"


def difference_figure(findings: Findings, source: Source, metric: str, baseline: Method) -> BarFigure:
    """The mean difference to a baseline, query by query, with its 95 % interval."""
    others = [m for m in findings.methods_of(source) if m.label != baseline.label]
    means, low, high = [], [], []
    for method in others:
        difference = _difference(findings, source, metric, method, baseline)
        centre = float(difference.mean())
        reach = float(stats.t.ppf(0.975, len(difference) - 1) * stats.sem(difference))
        means.append(centre)
        low.append(centre - reach)
        high.append(centre + reach)
    bars = BarSeries(f"{metric_name(metric)} minus {baseline.label}'s", means, low=low, high=high)
    title = f"{source.name}: {metric_name(metric)} against {baseline.label}"
    return BarFigure(
        title, f"difference of {metric_name(metric)}", [m.label for m in others], [bars], digits=4, signed=True,
        caption="Mean of the per-query differences (averaged over seeds), with its 95 % interval over queries.",
    )  # fmt: skip


def win_loss_figure(findings: Findings, source: Source, metric: str, baseline: Method) -> BarFigure:
    """On how many queries each method is better than the baseline, and worse."""
    others = [m for m in findings.methods_of(source) if m.label != baseline.label]
    found = [_difference(findings, source, metric, method, baseline) for method in others]
    return win_loss(
        f"{source.name}: queries won and lost against {baseline.label}, {metric_name(metric)}",
        [m.label for m in others],
        [int((d > 1e-12).sum()) for d in found],
        [int((abs(d) <= 1e-12).sum()) for d in found],
        [int((d < -1e-12).sum()) for d in found],
        baseline.label,
    )


def _difference(findings: Findings, source: Source, metric: str, method: Method, baseline: Method) -> Any:
    sign = -1 if metrics.get(metric).lower_is_better else 1
    values = findings.query_means(source, method, metric) - findings.query_means(source, baseline, metric)
    return sign * values[~np.isnan(values)]


def curves_figure(findings: Findings, source: Source) -> LineFigure | None:
    """The validation metric of the weights kept so far, averaged over folds and seeds."""
    metric = findings.plan.settings.metric
    best = np.minimum if metrics.get(metric).lower_is_better else np.maximum
    series = []
    for method in findings.methods_of(source):
        curves = [o.facts["curve"] for o in findings.outcomes(source, method) if o.facts.get("curve")]
        if not curves:
            continue
        longest = max(curves, key=len)
        steps = [row["step"] for row in longest]
        kept = []
        for curve in curves:  # a training that ended early keeps the weights it had
            values = best.accumulate([row[metric] for row in curve])
            kept.append(np.concatenate([values, np.full(len(longest) - len(curve), values[-1])]))
        series.append(Series(method.label, steps, np.mean(kept, axis=0).tolist()))
    if not series or max(len(line.x) for line in series) < 2:
        return None
    return LineFigure(
        f"{source.name}: validation {metric_name(metric)} while training", "step", metric_name(metric), series,
        caption="Of the weights kept so far, averaged over folds and seeds.",
    )  # fmt: skip


def data_section(sources: Sequence[Source], cache: Path) -> Section:
    """What the data sets hold."""
    found = [counts_of(source, cache) for source in sources]
    names = list(found[0][0])
    rows = [
        [source.name, *(row[name] for name in names)] for source, (row, _) in zip(sources, found, strict=True)
    ]
    warnings = [f"- {text}" for _, notes in found for text in notes]
    text = "\n".join(["A blank query has no relevant document.", "", *warnings])
    return Section("Data", text, [Table(["", *names], rows, "The data sets; counts of the first fold")])


def source_section(findings: Findings, source: Source, metric: str, baseline: Method | None) -> Section:
    """Everything about one data set."""
    items: list[Any] = [results_table(findings, source)]
    complete = [method.label for method in findings.methods_of(source)]
    if baseline is not None and baseline.label in complete and len(complete) > 1:
        items.append(difference_figure(findings, source, metric, baseline))
        items.append(win_loss_figure(findings, source, metric, baseline))
    curves = curves_figure(findings, source)
    if curves is not None:
        items.append(curves)
    if len(source.folds) > 1:
        items.append(_folds_table(findings, source, metric))
    return Section(source.name, failures_in_words(findings, source), items)


def failures_in_words(findings: Findings, source: Source) -> str:
    """What went wrong on a data set, and what follows from it; empty where nothing did."""
    failed = [f"- {line}" for line in findings.failures(source)]
    if not failed:
        return ""
    first = "**Some trials failed.** A method that has no result for some fold or seed is not compared."
    return "\n".join([first, "", *failed])


def _folds_table(findings: Findings, source: Source, metric: str) -> Table:
    rows: list[list[Any]] = []
    for method in findings.methods_of(source):
        row: list[Any] = [method.label]
        for fold in source.folds:
            parts = [
                findings.outcome(source, fold, method, seed).per_query[findings.plan.protocol.list_sizes[0]]
                for seed in findings.plan.seeds_of(method)
            ]
            row.append(float(np.nanmean([np.nanmean(part[metric]) for part in parts])))
        rows.append(row)
    columns = ["", *(f"fold {fold}" for fold in source.folds)]
    return Table(
        columns,
        rows,
        f"{source.name}: {metric_name(metric)} by fold, blank queries left out, mean over seeds",
    )


def verdict(findings: Findings, metric: str) -> str:
    """Who won where, in a sentence a data set."""
    lines = []
    for source in findings.plan.sources:
        if len(findings.methods_of(source)) < 2:
            continue
        found = findings.compared(source).metrics[metric]
        also = [winner for winner in found.winners if winner != found.best]
        others = (
            f"; not significantly worse: {', '.join(also)}"
            if also
            else "; all others are significantly worse"
        )
        lines.append(
            f"- **{source.name}**: best {metric_name(metric)} {found.means[found.best]:.4f} by {found.best}{others} "
            f"({found.queries:,} queries)"
        )
    return "\n".join(lines)


def method_section(findings: Findings) -> Section:
    """How methods were trained and judged."""
    plan = findings.plan
    unsaid = ("seed", "checkpoint_seconds", "loss", "loss_options")
    shown = {k: v for k, v in plan.settings.as_dict().items() if k not in unsaid}
    changed = ", ".join(f"`{name}: {value}`" for name, value in shown.items())
    options = ", ".join(f"`{name}: {value}`" for name, value in plan.settings.loss_options.items())
    lines = [
        plan.protocol.in_words(),
        "",
        f"Every loss trains the same network on the same batches: {changed}. The weights of the best validation "
        f"{metric_name(plan.settings.metric)} are kept. Options of PiRank's loss, where its row does not say others: "
        f"{options}.",
    ]
    if any(method.kind == "gbdt" for method in plan.methods):
        lines += [
            "",
            "Gradient-boosted trees see the same features as the networks, or with `features=raw` those of the files. "
            "They have up to 1,000 trees, and stop where NDCG@10 of the same validation split has not risen for 50.",
        ]
    tuned = (
        "Nothing was tuned for any method in this comparison: the settings are those above."
        if plan.tune == 1
        else f"Every method had the same budget of {plan.tune} settings a fold and seed, the given ones and "
        f"{plan.tune - 1} drawn at random; the best on the validation split is reported."
    )
    return Section("How it was run", "\n".join([*lines, "", tuned]))


def environment(jobs: int | None) -> dict[str, str]:
    """Versions and hardware, and how trials shared it where there were some."""
    found = {
        "pirank": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "processor": f"{_processor()}, {os.cpu_count()} cores",
    }
    if jobs is not None:
        found["trials at a time"] = str(jobs)
        found["threads a trial"] = str(max(1, (os.cpu_count() or 1) // jobs))
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name(0)
    return {**found, "date": date.today().isoformat()}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def write_rows(findings: Findings, path: Path) -> Path:
    """Everything that was found, as CSV: one row a data set, method, fold, seed and metric."""
    rows = findings.rows()
    file = io.StringIO()
    if rows:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return write_text(path, file.getvalue())
