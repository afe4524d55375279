"""What a report is made of: sections of tables and figures, as plain data with nothing of how they look."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from pirank.experiments.report.plots import BarFigure, HeatMap, LineFigure

Value: TypeAlias = "str | float | None"


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
