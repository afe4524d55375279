"""Lines made ready to draw: in order, gaps apart, what an axis cannot show left out, very long ones summed up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from pirank.experiments.report.formatting import finite
from pirank.experiments.report.palette import Style, styles
from pirank.experiments.report.plots import LineFigure, Series

MOST = 480
"""Positions a figure draws one by one; with more it draws stretches."""

STRETCHES = 160
"""How many stretches very long curves are drawn in."""


@dataclass(frozen=True)
class Point:
    """A point that can be drawn."""

    x: float
    y: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Curve:
    """A series ready to draw: its runs of points between gaps, in the order of x."""

    name: str
    style: Style
    runs: tuple[tuple[Point, ...], ...]

    @property
    def points(self) -> tuple[Point, ...]:
        """All points."""
        return tuple(point for run in self.runs for point in run)


def curves(figure: LineFigure) -> tuple[tuple[Curve, ...], tuple[str, ...]]:
    """The figure's lines as they are drawn, and notes on what was left out.

    Example:
        >>> drawn, notes = curves(LineFigure("t", "x", "y", [Series("a", [0, 1], [1, 2])], x_log=True))
        >>> len(drawn[0].points), notes
        (1, ('1 point at or below zero is not shown on the logarithmic axis.',))
    """
    looks = styles(
        [s.name for s in figure.series], [s.group for s in figure.series], [s.dashed for s in figure.series]
    )
    rows = [_rows(series) for series in figure.series]
    dropped, made = 0, []
    stretches = _stretches(rows)
    for series, style, given in zip(figure.series, looks, rows, strict=True):
        runs: list[list[Point]] = [[]]
        for x, y, low, high in given if stretches is None else _summary(given, stretches):
            if (figure.x_log and x <= 0) or (y is not None and figure.y_log and y <= 0):
                dropped += 1
            elif y is None:
                runs.append([])
            else:
                runs[-1].append(Point(x, y, *_edges(low, high, y, figure.y_log)))
        made.append(Curve(series.name, style, tuple(tuple(run) for run in runs if run)))
    notes = []
    if dropped:
        verb = "points at or below zero are" if dropped > 1 else "point at or below zero is"
        notes.append(f"{dropped:,} {verb} not shown on the logarithmic axis.")
    if stretches is not None:
        notes.append(
            f"{max(map(len, rows)):,} points are drawn in {max(stretches.values()) + 1:,} stretches: "
            "the line is their mean, the band runs from the lowest to the highest."
        )
    return tuple(made), tuple(notes)


Row: TypeAlias = "tuple[float, float | None, float | None, float | None]"


def _rows(series: Series) -> list[Row]:
    """A series' x, y, low and high in the order of x; what has no x has no place."""
    blank = [None] * len(series.x)
    low, high = (blank if edge is None else edge for edge in (series.low, series.high))
    columns = zip(series.x, series.y, low, high, strict=True)
    found = [(finite(x), finite(y), finite(a), finite(b)) for x, y, a, b in columns]
    return sorted(((x, y, a, b) for x, y, a, b in found if x is not None), key=lambda row: row[0])


def _stretches(rows: Sequence[Sequence[Row]]) -> dict[float, int] | None:
    """The stretch that each position falls in, equally many in each; None when there are few enough to draw."""
    positions = sorted({row[0] for given in rows for row in given if row[1] is not None})
    if len(positions) <= MOST:
        return None
    return {x: index * STRETCHES // len(positions) for index, x in enumerate(positions)}


def _summary(rows: Sequence[Row], stretches: dict[float, int]) -> list[Row]:
    """One row for each stretch: at its middle, the mean with the lowest and the highest."""
    middles = _middles(stretches)
    groups: dict[int, list[Row]] = {}
    for row in rows:
        if row[1] is not None:
            groups.setdefault(stretches[row[0]], []).append(row)
    found: list[Row] = []
    for index, group in sorted(groups.items()):
        heights = [row[1] for row in group if row[1] is not None]
        edges = heights + [edge for row in group for edge in row[2:] if edge is not None]
        low, high = (min(edges), max(edges)) if len(edges) > 1 else (None, None)
        found.append((middles[index], math.fsum(heights) / len(heights), low, high))
    return found


def _middles(stretches: dict[float, int]) -> list[float]:
    ends = [[math.inf, -math.inf] for _ in range(STRETCHES)]
    for x, index in stretches.items():
        ends[index] = [min(ends[index][0], x), max(ends[index][1], x)]
    # Steps are counted in whole numbers: so are the middles of stretches of them.
    whole = all(x.is_integer() for x in stretches)
    return [float((low + high) // 2) if whole else (low + high) / 2 for low, high in ends]


def _edges(low: float | None, high: float | None, y: float, log: bool) -> tuple[float | None, float | None]:
    if low is None or high is None:
        return None, None
    # A band that reaches zero has no lower edge on a logarithmic axis: it ends a thousandth below its line.
    return (max(low, y / 1e3) if log else low), high


def shortened(figure: LineFigure) -> LineFigure:
    """The figure with very long curves as they are drawn, by stretches; any other figure as it is.

    Example:
        >>> many = Series("a", list(range(1000)), list(range(1000)))
        >>> len(shortened(LineFigure("t", "x", "y", [many])).series[0].x)
        160
    """
    rows = [_rows(series) for series in figure.series]
    stretches = _stretches(rows)
    if stretches is None:
        return figure
    made = []
    for series, given in zip(figure.series, rows, strict=True):
        columns = list(zip(*_summary(given, stretches), strict=True)) or [(), (), (), ()]
        made.append(replace(series, x=columns[0], y=columns[1], low=columns[2], high=columns[3]))
    return replace(figure, series=made)


def positions(drawn: Sequence[Curve]) -> list[float]:
    """Every x at which some line has a point."""
    return sorted({point.x for curve in drawn for point in curve.points})
