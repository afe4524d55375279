"""What a figure is made of: lines, bars and grids as plain data, with nothing of how they are drawn."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pirank.experiments.report.formatting import finite

Numbers: TypeAlias = "Sequence[float | None]"


def _same_length(owner: str, **fields: Sequence[object] | None) -> None:
    sizes = {name: len(values) for name, values in fields.items() if values is not None}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"{owner}: one length for all was expected, got {sizes}")


@dataclass(frozen=True)
class Series:
    """One line of a :class:`LineFigure`.

    Args:
        name: As in the legend.
        x: Positions; any order.
        y: Heights; None and NaN leave a gap.
        low: Lower edge of a band around the line.
        high: Upper edge of that band.
        dashed: Draw the line dashed, its markers hollow.
        group: Lines of one group share colour and marker, as a relaxed metric (dashed) and its hard one.

    Example:
        >>> Series("ranknet", [0, 100, 200], [0.30, 0.38, 0.41]).dashed
        False
    """

    name: str
    x: Numbers
    y: Numbers
    low: Numbers | None = None
    high: Numbers | None = None
    dashed: bool = False
    group: str | None = None

    def __post_init__(self) -> None:
        _same_length(f"Series {self.name!r}", x=self.x, y=self.y, low=self.low, high=self.high)


@dataclass(frozen=True)
class LineFigure:
    """Lines over a common horizontal axis.

    Args:
        title: What the figure shows; also its accessible name.
        x_label: Name of the horizontal axis.
        y_label: Name of the vertical axis.
        series: The lines.
        x_log: Logarithmic horizontal axis; points at or below zero are left out, with a note.
        y_log: Logarithmic vertical axis, likewise.
        caption: A sentence or two below.
        digits: Digits after the point of the values shown; None keeps four significant ones.

    Example:
        >>> LineFigure("Learning curves", "step", "NDCG@10", [Series("a", [1, 2], [0.3, 0.4])]).digits
        4
    """

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    x_log: bool = False
    y_log: bool = False
    caption: str = ""
    digits: int | None = 4


@dataclass(frozen=True)
class BarSeries:
    """One value per category of a :class:`BarFigure`, with error intervals where ``low`` and ``high`` are given.

    ``neutral`` draws it in grey: ties between wins and losses.

    Example:
        >>> BarSeries("NDCG@10", [1.2, -0.4], low=[0.8, -0.9], high=[1.6, 0.1]).neutral
        False
    """

    name: str
    values: Numbers
    low: Numbers | None = None
    high: Numbers | None = None
    neutral: bool = False

    def __post_init__(self) -> None:
        _same_length(f"BarSeries {self.name!r}", values=self.values, low=self.low, high=self.high)


@dataclass(frozen=True)
class BarFigure:
    """Horizontal bars, one group per category; stacked when the values are parts of a whole.

    Args:
        title: What the figure shows; also its accessible name.
        value_label: Name of the axis the bars are measured on.
        categories: What each row of bars is called.
        series: The values, one :class:`BarSeries` for each bar of a row.
        stacked: Put a row's bars end to end (values must not be negative) instead of below each other.
        caption: A sentence or two below.
        digits: Digits after the point of the values shown.
        unit: Written after every value.
        signed: Write a plus before positive values, for differences.

    Example:
        >>> BarFigure("Gain over RankNet", "%", ["pirank"], [BarSeries("NDCG@10", [1.2])], unit="%").stacked
        False
    """

    title: str
    value_label: str
    categories: Sequence[str]
    series: Sequence[BarSeries]
    stacked: bool = False
    caption: str = ""
    digits: int = 2
    unit: str = ""
    signed: bool = False

    def __post_init__(self) -> None:
        for series in self.series:
            _same_length(f"BarFigure {self.title!r}", categories=self.categories, values=series.values)
            if self.stacked and any((finite(value) or 0) < 0 for value in series.values):
                raise ValueError(
                    f"BarFigure {self.title!r}: stacked values must be at least 0, "
                    f"got {min(finite(value) or 0 for value in series.values)} in {series.name!r}"
                )


@dataclass(frozen=True)
class HeatMap:
    """A grid of numbers, each on a colour that says where it stands between the lowest and the highest.

    Args:
        title: What the figure shows; also its accessible name.
        x_label: What the columns are.
        y_label: What the rows are.
        columns: Names of the columns.
        rows: Names of the rows.
        values: One sequence per row; None and NaN are shown as a dash.
        bold: Winners as ``(row, column)`` positions.
        centre: Colours diverge from this value, for differences; None runs from lowest to highest.
        caption: A sentence or two below.
        digits: Digits after the point.
        signed: Write a plus before positive values.

    Example:
        >>> HeatMap("NDCG@10", "test", "train", ["10", "20"], ["10"], [[0.41, 0.42]]).digits
        4
    """

    title: str
    x_label: str
    y_label: str
    columns: Sequence[str]
    rows: Sequence[str]
    values: Sequence[Numbers]
    bold: Collection[tuple[int, int]] = ()
    centre: float | None = None
    caption: str = ""
    digits: int = 4
    signed: bool = False

    def __post_init__(self) -> None:
        _same_length(f"HeatMap {self.title!r}", rows=self.rows, values=self.values)
        for row in self.values:
            _same_length(f"HeatMap {self.title!r}", columns=self.columns, row=row)


Figure: TypeAlias = "LineFigure | BarFigure | HeatMap"
