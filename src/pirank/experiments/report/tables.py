"""Tables as HTML, Markdown and CSV: the same rows, winners in bold, missing values as a dash."""

from __future__ import annotations

import csv
import io
from html import escape
from numbers import Integral, Real

from pirank.experiments.report.formatting import finite, number
from pirank.experiments.report.parts import Cell, Column, Table
from pirank.experiments.report.plots import BarFigure, Figure, LineFigure

_SPREADS_IN_A_ROW = 4


def shown(cell: Cell, column: Column) -> str:
    """A cell's text without its spread.

    Example:
        >>> shown(Cell(0.42314), Column("NDCG", digits=3))
        '0.423'
    """
    if cell.text is not None:
        return cell.text
    return number(cell.value, column.digits, signed=column.signed, unit=column.unit)


def spread(cell: Cell, column: Column) -> str:
    """A cell's spread as text; empty where it has none.

    Example:
        >>> spread(Cell(0.4, spread=0.0123), Column("NDCG", digits=3))
        '± 0.012'
    """
    value = finite(cell.spread)
    return "" if value is None else f"± {number(value, column.digits)}"


def is_numeric(table: Table, column: int) -> bool:
    """Whether a column holds numbers, which are set to the right and sorted by size.

    Example:
        >>> is_numeric(Table(["loss", "NDCG"], [["a", 0.4], ["b", None]]), 1)
        True
    """
    values = [table.cell(row, column) for row in range(len(table.rows))]
    keys = [cell.value if cell.sort is None else cell.sort for cell in values]
    given = [key for key in keys if key is not None]
    return bool(given) and all(isinstance(key, Real) for key in given)


def to_html(table: Table, name: str) -> str:
    """The table in its own scrolling container; its script makes the headings sort.

    ``name`` is the prefix of the element ids, unique on the page.

    Example:
        >>> "<strong>0.5000</strong>" in to_html(Table(["a", "b"], [["x", 0.5]], bold={(0, 1)}), "t1")
        True
    """
    numeric = [is_numeric(table, column) for column in range(len(table.columns))]
    head = "".join(_heading(table.column(index), numeric[index]) for index in range(len(table.columns)))
    body = "\n".join(
        "<tr>"
        + "".join(_cell(table, row, column, numeric[column]) for column in range(len(table.columns)))
        + "</tr>"
        for row in range(len(table.rows))
    )
    caption = f'<p class="caption" id="{name}-caption">{escape(table.caption)}</p>' if table.caption else ""
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    label = f'aria-labelledby="{name}-caption"' if table.caption else 'aria-label="Table"'
    kind = "sortable stacked" if _spreads(table) > _SPREADS_IN_A_ROW else "sortable"
    return (
        f'<div class="table">{caption}<div class="scroll" role="region" {label}>\n<table class="{kind}" {label}>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>{note}</div>"
    )


def _spreads(table: Table) -> int:
    """Columns that have a spread: many of them fit a page only with the spreads below the values."""
    rows = range(len(table.rows))
    return sum(
        any(finite(table.cell(row, column).spread) is not None for row in rows)
        for column in range(len(table.columns))
    )


def _heading(column: Column, numeric: bool) -> str:
    attributes = ' class="number"' if numeric else ""
    attributes += ' data-lower="1"' if column.lower_is_better else ""
    attributes += f' title="{escape(column.note)}"' if column.note else ""
    return f'<th scope="col" aria-sort="none"{attributes}>{escape(column.name)}</th>'


def _cell(table: Table, row: int, column: int, numeric: bool) -> str:
    cell, heading = table.cell(row, column), table.column(column)
    text, around = escape(shown(cell, heading)), spread(cell, heading)
    if cell.bold:
        text = f"<strong>{text}</strong>"
    if around:
        text += f' <span class="spread">{escape(around)}</span>'
    # A long name in the column that stays in place is set in several lines on a phone.
    kind = "number" if numeric else "long" if column == 0 and len(shown(cell, heading)) > 18 else ""
    attributes = f' class="{kind}"' if kind else ""
    key = cell.value if cell.sort is None else cell.sort
    if numeric:
        size = finite(key)
        attributes += f' data-sort="{size!r}"' if size is not None else ' data-sort=""'
    elif cell.sort is not None or cell.text is not None:
        attributes += f' data-sort="{escape(str(key))}"'
    attributes += f' title="{escape(cell.note)}"' if cell.note else ""
    return f'<th scope="row"{attributes}>{text}</th>' if column == 0 else f"<td{attributes}>{text}</td>"


def to_markdown(table: Table) -> str:
    """The table in Markdown, winners in bold.

    Example:
        >>> print(to_markdown(Table(["loss", "NDCG"], [["a|b", 0.5]], bold={(0, 1)})))
        | loss | NDCG |
        | --- | ---: |
        | a\\|b | **0.5000** |
    """
    columns = range(len(table.columns))
    lines = [
        "| " + " | ".join(escape_markdown(table.column(index).name) for index in columns) + " |",
        "| " + " | ".join("---:" if is_numeric(table, index) else "---" for index in columns) + " |",
    ]
    for row in range(len(table.rows)):
        cells = []
        for index in columns:
            cell, heading = table.cell(row, index), table.column(index)
            text = escape_markdown(shown(cell, heading))
            text = f"**{text}**" if cell.bold and text else text
            cells.append(" ".join(filter(None, (text, spread(cell, heading)))))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def escape_markdown(content: str) -> str:
    """Text that Markdown shows as it is, on one line of a table.

    Example:
        >>> escape_markdown("a_b|<c>")
        'a\\\\_b\\\\|&lt;c>'
    """
    for special in "\\`*_|[]":
        content = content.replace(special, "\\" + special)
    return " ".join(content.replace("&", "&amp;").replace("<", "&lt;").split())


def to_csv(item: Table | Figure) -> str:
    """A table, or the numbers behind a figure, at full precision.

    A column with spreads is followed by ``<name> spread``, one with winners by ``<name> winner`` (1 or 0).

    Example:
        >>> to_csv(Table(["loss", "NDCG"], [["a", Cell(0.25, spread=0.5, bold=True)]])).splitlines()
        ['loss,NDCG,NDCG spread,NDCG winner', 'a,0.25,0.5,1']
    """
    table = item if isinstance(item, Table) else numbers_of(item)
    rows, columns = range(len(table.rows)), range(len(table.columns))
    spreads = {c for c in columns if any(finite(table.cell(r, c).spread) is not None for r in rows)}
    winners = {c for c in columns if any(table.cell(r, c).bold for r in rows)}
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    header: list[str] = []
    for c in columns:
        name = table.column(c).name
        header += [name] + [f"{name} spread"] * (c in spreads) + [f"{name} winner"] * (c in winners)
    writer.writerow(header)
    for r in rows:
        line: list[object] = []
        for c in columns:
            cell = table.cell(r, c)
            line.append(_exact(cell.value))
            line += [_exact(cell.spread)] * (c in spreads) + [int(cell.bold)] * (c in winners)
        writer.writerow(line)
    return file.getvalue()


def _exact(value: object) -> object:
    if isinstance(value, str) or value is None:
        return value or ""
    return value if isinstance(value, Integral) else "" if finite(value) is None else finite(value)


def numbers_of(figure: Figure) -> Table:
    """The numbers behind a figure, as a table.

    Example:
        >>> from pirank.experiments.report import HeatMap
        >>> numbers_of(HeatMap("t", "test", "train", ["10"], ["20"], [[0.5]])).rows
        [['20', 0.5]]
    """
    if isinstance(figure, LineFigure):
        return _numbers_of_lines(figure)
    if isinstance(figure, BarFigure):
        columns: list[str | Column] = [""]
        parts = []
        for series in figure.series:
            for suffix, values in (("", series.values), (" low", series.low), (" high", series.high)):
                if values is not None:
                    columns.append(Column(series.name + suffix, unit=figure.unit, signed=figure.signed))
                    parts.append(values)
        rows = [[name, *(part[i] for part in parts)] for i, name in enumerate(figure.categories)]
        return Table(columns, rows, figure.title, digits=figure.digits)
    heads: list[str | Column] = [f"{figure.y_label} \\ {figure.x_label}"]
    heads += [Column(name, signed=figure.signed) for name in figure.columns]
    cells = [[name, *row] for name, row in zip(figure.rows, figure.values, strict=True)]
    bold = {(row, column + 1) for row, column in figure.bold}
    return Table(heads, cells, figure.title, digits=figure.digits, bold=bold)


def _numbers_of_lines(figure: LineFigure) -> Table:
    columns: list[str | Column] = [figure.x_label]
    lookups: list[dict[float, float | None]] = []
    for series in figure.series:
        for suffix, values in (("", series.y), (" low", series.low), (" high", series.high)):
            if values is not None:
                pairs = zip(map(finite, series.x), map(finite, values), strict=True)
                columns.append(series.name + suffix)
                lookups.append({x: y for x, y in pairs if x is not None})
    positions = sorted({x for lookup in lookups for x in lookup})
    rows = [
        [int(x) if x.is_integer() and abs(x) < 1e9 else x, *(lookup.get(x) for lookup in lookups)]
        for x in positions
    ]
    return Table(columns, rows, figure.title, digits=4 if figure.digits is None else figure.digits)
