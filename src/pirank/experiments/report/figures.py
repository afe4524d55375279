"""A figure as HTML: a drawing for each width, a legend, the values to read out, and the numbers in a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any, TypeAlias

from pirank.experiments.report import bars, curves, heat, lines, tables
from pirank.experiments.report.formatting import finite, number
from pirank.experiments.report.palette import STEPS, classes, declarations, styles
from pirank.experiments.report.parts import Table
from pirank.experiments.report.plots import BarFigure, Figure, HeatMap, LineFigure, Series
from pirank.experiments.report.svg import NARROW, WIDE, Drawing, box, shorten, swatch, text

Readings: TypeAlias = "list[tuple[str, list[tuple[int, str]]]]"


def drawings(figure: Figure) -> tuple[tuple[Drawing, Drawing], Readings, tuple[str, ...]]:
    """The figure for both widths, what its stops say, and notes on what was left out.

    Example:
        >>> pair, readings, notes = drawings(HeatMap("t", "x", "y", ["a"], ["b"], [[1.0]]))
        >>> len(pair), readings[0][0], notes
        (2, 'y b, x a', ())
    """
    if isinstance(figure, LineFigure):
        drawn, notes = curves.curves(figure)
        pair = lines.draw(figure, drawn, WIDE), lines.draw(figure, drawn, NARROW)
        return pair, lines.readings(figure, drawn), notes
    if isinstance(figure, BarFigure):
        return (bars.draw(figure, WIDE), bars.draw(figure, NARROW)), bars.readings(figure), ()
    return (heat.draw(figure, WIDE), heat.draw(figure, NARROW)), heat.readings(figure), ()


def describe(figure: Figure) -> str:
    """What a reader who does not see the figure is told of it.

    Example:
        >>> describe(LineFigure("t", "step", "NDCG@10", [Series("a", [0, 100], [0.3, 0.4])]))
        'Line chart of NDCG@10 against step. a: from 0.3000 at step 0 to 0.4000 at step 100.'
    """
    if isinstance(figure, LineFigure):
        said = [f"Line chart of {figure.y_label} against {figure.x_label}."]
        return " ".join(said + [_course(figure, series) for series in figure.series])
    if isinstance(figure, BarFigure):
        names = ", ".join(series.name for series in figure.series)
        rows = [f"{name}: {', '.join(value for _, value in row)}." for name, row in bars.readings(figure)]
        return f"Bar chart of {figure.value_label or 'values'} ({names}). " + " ".join(rows)
    found = [value for row in figure.values for value in map(finite, row) if value is not None]
    span = (
        f" from {number(min(found), figure.digits)} to {number(max(found), figure.digits)}" if found else ""
    )
    return f"Heat map of {figure.y_label} by {figure.x_label}, {len(found)} values{span}."


def _course(figure: LineFigure, series: Series) -> str:
    pairs = zip(map(finite, series.x), map(finite, series.y), strict=True)
    points = sorted((x, y) for x, y in pairs if x is not None and y is not None)
    if not points:
        return f"{series.name}: no values."
    said = [
        f"{number(y, figure.digits)} at {figure.x_label} {number(x, None)}"
        for x, y in (points[0], points[-1])
    ]
    return (
        f"{series.name}: {said[0]}." if len(points) == 1 else f"{series.name}: from {said[0]} to {said[1]}."
    )


def to_html(figure: Figure, name: str) -> str:
    """The figure as a ``<figure>`` element; ``name`` is the prefix of the element ids, unique on the page.

    Example:
        >>> 'role="img"' in to_html(HeatMap("t", "x", "y", ["a"], ["b"], [[1.0]]), "f1")
        True
    """
    pair, readings, notes = drawings(figure)
    images = "\n".join(_image(figure, drawing, name) for drawing in pair)
    said = escape(figure.caption) + "".join(f' <span class="note">{escape(note)}</span>' for note in notes)
    below = f"<figcaption>{said.strip()}</figcaption>\n" if said else ""
    return (
        f'<figure class="figure"><h3 class="figure-title" id="{name}">{escape(figure.title)}</h3>{_legend(figure)}\n'
        f'<div class="plot" tabindex="0" role="group" aria-roledescription="chart" aria-labelledby="{name}" '
        f'aria-describedby="keys">\n{images}\n'
        f'<script type="application/json">{_data(figure, pair, readings)}</script></div>\n{below}'
        f"<details><summary>The numbers</summary>{tables.to_html(_numbers(figure), name + '-numbers')}"
        "</details></figure>"
    )


def _numbers(figure: Figure) -> Table:
    # Of very long curves the page holds what is drawn; the CSV file has every point.
    return tables.numbers_of(curves.shortened(figure) if isinstance(figure, LineFigure) else figure)


def _image(figure: Figure, drawing: Drawing, name: str) -> str:
    view = drawing.view
    ids = f"{name}-{view.name}-title", f"{name}-{view.name}-text"
    return (
        f'<svg class="chart {view.name}" role="img" aria-labelledby="{ids[0]}" aria-describedby="{ids[1]}" '
        f'viewBox="0 0 {view.width} {drawing.height:g}" width="{view.width}" height="{drawing.height:g}">'
        f'<title id="{ids[0]}">{escape(figure.title)}</title><desc id="{ids[1]}">{escape(describe(figure))}</desc>'
        f"{''.join(drawing.marks)}</svg>"
    )


def _entries(figure: Figure) -> list[tuple[str, str, str]]:
    """Every series' picture for the legend, its name, and the class names of its colour."""
    if isinstance(figure, LineFigure):
        series = figure.series
        looks = styles([s.name for s in series], [s.group for s in series], [s.dashed for s in series])
        return [(swatch(look), s.name, look.css) for s, look in zip(series, looks, strict=True)]
    if isinstance(figure, BarFigure):
        found = []
        for bar, look in zip(figure.series, bars.bar_styles(figure), strict=True):
            css = "neutral" if bar.neutral else look.css
            picture = box(0, 1, 11, 10, f"bar {css}", 2)
            svg = f'<svg class="swatch" width="12" height="12" viewBox="0 0 12 12" aria-hidden="true">{picture}</svg>'
            found.append((svg, bar.name, css))
        return found
    return []


def _legend(figure: Figure) -> str:
    entries = _entries(figure)
    if isinstance(figure, HeatMap):
        return _heat_legend(figure)
    if len(entries) < 2:
        return ""
    beside = isinstance(figure, LineFigure) and lines.ends_are_named(curves.curves(figure)[0], WIDE)
    css = "legend beside" if beside else "legend"
    items = "".join(
        f'<li data-series="{index}">{picture}{escape(name)}</li>'
        for index, (picture, name, _) in enumerate(entries)
    )
    return f'<ul class="{css}">{items}</ul>'


def _heat_legend(figure: HeatMap) -> str:
    found = [value for row in figure.values for value in map(finite, row) if value is not None]
    if not found:
        return ""
    low, high, letter = min(found), max(found), "h"
    if figure.centre is not None:
        reach, letter = max(abs(value - figure.centre) for value in found), "d"
        low, high = figure.centre - reach, figure.centre + reach
    ends = [escape(number(value, figure.digits, signed=figure.signed)) for value in (low, high)]
    boxes = "".join(f'<span class="step {letter}{step}"></span>' for step in range(STEPS))
    return f'<p class="legend ramp">{ends[0]} <span class="steps" aria-hidden="true">{boxes}</span> {ends[1]}</p>'


def _data(figure: Figure, pair: Sequence[Drawing], readings: Readings) -> str:
    entries = _entries(figure)
    data: dict[str, Any] = {
        "near": "x" if isinstance(figure, LineFigure) else "y" if isinstance(figure, BarFigure) else "xy",
        "series": [[name, css, picture] for picture, name, css in entries],
        "views": {d.view.name: [d.view.width, d.height, d.top, d.bottom, d.places] for d in pair},
        "stops": readings,
    }
    # "<" could end the script element early; two separators end a line in old JavaScript.
    packed = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return packed.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def to_svg(figure: Figure, style: str) -> str:
    """The figure at its wide size as a file of its own, light or dark as its reader prefers.

    ``style`` is the style sheet of charts. A legend that a page shows above the chart is drawn into it.
    """
    drawing = drawings(figure)[0][0]
    beside = isinstance(figure, LineFigure) and lines.ends_are_named(curves.curves(figure)[0], WIDE)
    above, x, y = [text(0, 18, figure.title, "headline")], 0.0, 40.0
    entries = [] if beside else _entries(figure)
    for picture, name, _ in entries if len(entries) > 1 else []:
        room = 32 if isinstance(figure, LineFigure) else 18
        wide = room + 8 + len(name) * WIDE.character
        if x and x + wide > WIDE.width:
            x, y = 0.0, y + 20
        above.append(f'<g transform="translate({x:g} {y - 10:g})">{picture}</g>')
        above.append(text(x + room, y, shorten(name, 90), "name"))
        x += wide + 14
    top = y + 14 if len(above) > 1 else 30.0
    height = drawing.height + top
    dark = f"@media (prefers-color-scheme:dark){{svg{{{declarations('dark')}}}}}"
    sheet = f"svg{{{declarations('light')}}}\n{dark}\n{classes()}\n{style}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" aria-labelledby="title text" '
        f'viewBox="-16 -12 {WIDE.width + 32} {height + 24:g}" width="{WIDE.width + 32}" height="{height + 24:g}">'
        f'<title id="title">{escape(figure.title)}</title><desc id="text">{escape(describe(figure))}</desc>'
        f"<style>{sheet}</style>"
        f'<rect class="paper" x="-16" y="-12" width="{WIDE.width + 32}" height="{height + 24:g}"/>'
        f'{"".join(above)}<g transform="translate(0 {top:g})">{"".join(drawing.marks)}</g></svg>\n'
    )
