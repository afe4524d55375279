"""What a report is made of: sections of tables and figures, as plain data with nothing of how they look."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

Value: TypeAlias = "str | float | None"
Numbers: TypeAlias = "Sequence[float | None]"


def finite(value: object) -> float | None:
    """A number as a float; None for None, NaN and infinities, which a plot has no place for.

    Example:
        >>> finite(3), finite(float("nan")), finite(None)
        (3.0, None, None)
    """
    if value is None:
        return None
    number = float(value)  # type: ignore[arg-type]
    return number if math.isfinite(number) else None


def _same_length(owner: str, **fields: Sequence[object] | None) -> None:
    sizes = {name: len(values) for name, values in fields.items() if values is not None}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"{owner}: one length for all was expected, got {sizes}")


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Args:
        name: The heading.
        digits: Digits after the point; None takes the table's.
        unit: Written after every number, as in ``"%"`` or ``"s"``.
        signed: Write a plus before positive numbers, for differences.
        lower_is_better: The first click on the heading then sorts upwards.
        note: Shown when the heading is pointed at.

    Example:
        >>> Column("ARP", digits=2, lower_is_better=True).name
        'ARP'
    """

    name: str
    digits: int | None = None
    unit: str = ""
    signed: bool = False
    lower_is_better: bool = False
    note: str = ""


@dataclass(frozen=True)
class Cell:
    """A table's value with what belongs to it.

    Args:
        value: What is shown; None and NaN are shown as a dash.
        spread: A standard deviation or half an interval, shown as ``± spread``.
        bold: Marks a winner.
        text: Shown instead of the value, which is then only sorted by and written to CSV.
        note: Shown when the cell is pointed at.
        sort: What to sort by, when it is not the value.

    Example:
        >>> Cell(0.4231, spread=0.0012, bold=True).value
        0.4231
    """

    value: Value
    spread: float | None = None
    bold: bool = False
    text: str | None = None
    note: str = ""
    sort: Value = None


@dataclass(frozen=True)
class Table:
    """Rows under headings. The first column names the row.

    Args:
        columns: Headings, as plain strings or as :class:`Column`.
        rows: One sequence of values or :class:`Cell` per row, as long as ``columns``.
        caption: What the table shows, in a sentence; also its accessible name.
        digits: Digits after the point of every number that is not a whole one.
        bold: Winners as ``(row, column)`` positions, beside those whose Cell says so.
        note: A line of small print below.

    Example:
        >>> table = Table(["loss", "NDCG@10"], [["pirank-ndcg", 0.4231], ["ranknet", 0.4102]], bold={(0, 1)})
        >>> table.cell(0, 1).bold
        True
    """

    columns: Sequence[str | Column]
    rows: Sequence[Sequence[Value | Cell]]
    caption: str = ""
    digits: int = 4
    bold: Collection[tuple[int, int]] = ()
    note: str = ""

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"Table {self.caption!r}: row {number} has {len(row)} values for {len(self.columns)} columns"
                )

    def column(self, index: int) -> Column:
        """The column at a position, with the table's digits where it names none."""
        given = self.columns[index]
        column = given if isinstance(given, Column) else Column(given)
        digits = self.digits if column.digits is None else column.digits
        return Column(column.name, digits, column.unit, column.signed, column.lower_is_better, column.note)

    def cell(self, row: int, column: int) -> Cell:
        """The cell at a position, bold when either the cell or the table says so."""
        given = self.rows[row][column]
        cell = given if isinstance(given, Cell) else Cell(given)
        bold = cell.bold or (row, column) in self.bold
        return Cell(cell.value, cell.spread, bold, cell.text, cell.note, cell.sort)


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
Item: TypeAlias = "Table | LineFigure | BarFigure | HeatMap"


@dataclass(frozen=True)
class Section:
    """A heading, what to say about it, and its tables and figures.

    ``text`` is Markdown of the plainest kind: paragraphs, lists of lines starting with ``- ``, ``**bold**`` and
    code between backticks.

    Example:
        >>> Section("Results", "All losses on **one** protocol.").items
        ()
    """

    title: str
    text: str = ""
    items: Sequence[Item] = ()


@dataclass(frozen=True)
class Report:
    """Everything a reader needs to believe an experiment: what was run, on what, how long, and what came out.

    Args:
        title: The headline.
        summary: The finding, in a few sentences; the same plain Markdown as a section's text.
        sections: In reading order.
        command: The command that makes it again.
        environment: Versions, hardware, data; shown as given.
        started: When the run began.
        seconds: How long it took.

    Example:
        >>> Report("PiRank on MQ2007", "PiRank wins.", [Section("Results")]).command
        ''
    """

    title: str
    summary: str = ""
    sections: Sequence[Section] = ()
    command: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    started: datetime | str | None = None
    seconds: float | None = None
