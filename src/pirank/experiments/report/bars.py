"""Bar figures: rows of bars from zero with error intervals, or stacked parts of a whole."""

from __future__ import annotations

from collections.abc import Sequence

from pirank.experiments.report.formatting import finite, number
from pirank.experiments.report.palette import Style, styles
from pirank.experiments.report.plots import BarFigure, BarSeries
from pirank.experiments.report.scales import Scale, fit
from pirank.experiments.report.svg import WIDE, Drawing, View, box, line, shorten, text


def win_loss(
    title: str,
    names: Sequence[str],
    wins: Sequence[int],
    ties: Sequence[int],
    losses: Sequence[int],
    baseline: str,
    caption: str = "",
) -> BarFigure:
    """Per-query wins, ties and losses against a baseline, as one stacked bar for each name.

    Example:
        >>> figure = win_loss("By query", ["pirank"], [60], [10], [30], baseline="ranknet")
        >>> [series.name for series in figure.series]
        ['better than ranknet', 'equal', 'worse']
    """
    series = [
        BarSeries(f"better than {baseline}", wins),
        BarSeries("equal", ties, neutral=True),
        BarSeries("worse", losses),
    ]
    return BarFigure(title, "queries", names, series, stacked=True, caption=caption, digits=0)


def bar_styles(figure: BarFigure) -> tuple[Style, ...]:
    """One style a series; a neutral one stands outside the colours' order.

    Example:
        >>> bar_styles(win_loss("t", ["a"], [1], [1], [1], "b"))[2].css
        's1'
    """
    named = [series for series in figure.series if not series.neutral]
    looks = iter(styles([s.name for s in named], [None] * len(named), [False] * len(named)))
    grey = Style(-1, "square", False)
    return tuple(grey if series.neutral else next(looks) for series in figure.series)


def css(style: Style) -> str:
    """The class names of a bar in a style."""
    return "bar neutral" if style.colour < 0 else f"bar {style.css}"


def draw(figure: BarFigure, view: View) -> Drawing:
    """The figure at one width. On a narrow page a row's name stands above its bars.

    Example:
        >>> draw(BarFigure("t", "", ["a"], [BarSeries("b", [1.0])]), WIDE).places
        [[0, 8.0, 860, 34.0]]
    """
    above = view is not WIDE
    thick = 22.0 if figure.stacked else 18.0 if len(figure.series) == 1 else 14.0
    bars = 1 if figure.stacked else len(figure.series)
    row = bars * (thick + 2) + (30.0 if above else 14.0)
    top = 8.0
    bottom = top + row * len(figure.categories)
    drawing = Drawing(view, bottom + (44.0 if figure.value_label else 26.0), top=top, bottom=bottom)
    values = _extent(figure)
    if not values or not figure.categories:
        drawing.add(text(view.width / 2, bottom, "There is nothing to draw.", "tick", "middle"))
        return drawing
    widest = min(max(len(name) for name in figure.categories), 34)
    left = 14.0 if above else 14.0 + widest * view.character
    room = 0.0 if figure.stacked else (16.0 + max(len(label) for label in _labels(figure)) * view.character)
    count = 7 if view is WIDE else 4
    xs = fit([0.0, *values], left, view.width - max(room, 16.0), count=count, round_ends=not figure.stacked)
    for value, label in zip(xs.ticks, xs.labels, strict=True):
        drawing.add(line(xs(value), top, xs(value), bottom, "grid"))
        drawing.add(text(xs(value), bottom + 18, label, "tick", "middle"))
    drawing.add(line(xs(0.0), top, xs(0.0), bottom, "zero"))
    for index, name in enumerate(figure.categories):
        y = top + index * row
        if above:
            drawing.add(text(0, y + 16, shorten(name, int(view.width / view.character)), "name"))
        else:
            drawing.add(text(left - 12, y + row / 2 + 4.5, shorten(name, 34), "name", "end"))
        start = y + (23.0 if above else 7.0)
        if figure.stacked:
            _stack(drawing, figure, index, start, thick, xs)
        else:
            for offset, style in enumerate(bar_styles(figure)):
                _bar(
                    drawing,
                    figure,
                    figure.series[offset],
                    style,
                    index,
                    start + offset * (thick + 2),
                    thick,
                    xs,
                )
        drawing.places.append([0, round(y, 1), view.width, row])
    if figure.value_label:
        label = figure.value_label
        label += f" ({figure.unit})" if figure.unit and figure.unit not in label else ""
        drawing.add(text((xs.start + xs.end) / 2, bottom + 38, label, "label", "middle"))
    return drawing


def _extent(figure: BarFigure) -> list[float]:
    if figure.stacked:
        rows = zip(*(series.values for series in figure.series), strict=True)
        return [sum(finite(value) or 0.0 for value in row) for row in rows]
    given = [part for s in figure.series for part in (s.values, s.low, s.high) if part is not None]
    return [value for part in given for value in map(finite, part) if value is not None]


def _labels(figure: BarFigure) -> list[str]:
    return [_shown(figure, value) for series in figure.series for value in series.values]


def _shown(figure: BarFigure, value: float | None) -> str:
    return number(value, figure.digits, signed=figure.signed, unit=figure.unit)


def _stack(drawing: Drawing, figure: BarFigure, index: int, y: float, thick: float, xs: Scale) -> None:
    start = 0.0
    for series, style in zip(figure.series, bar_styles(figure), strict=True):
        value = finite(series.values[index]) or 0.0
        x, width = xs(start), xs(start + value) - xs(start)
        if width > 0:
            drawing.add(box(x, y, max(width - 1, 0.5), thick, css(style)))
        label = _shown(figure, value)
        if width > len(label) * drawing.view.character + 10:
            shade = "on-neutral" if series.neutral else "on-mark"
            drawing.add(text(x + width / 2, y + thick / 2 + 4.5, label, shade, "middle"))
        start += value


def _bar(
    drawing: Drawing,
    figure: BarFigure,
    series: BarSeries,
    style: Style,
    index: int,
    y: float,
    thick: float,
    xs: Scale,
) -> None:
    value = finite(series.values[index])
    middle = y + thick / 2
    reach = xs(0.0)
    if value is not None:
        x1, x2 = sorted((xs(0.0), xs(value)))
        drawing.add(box(x1, y, max(x2 - x1, 0.5), thick, css(style)))
        reach = max(reach, x2)
    low = finite(series.low[index]) if series.low is not None else None
    high = finite(series.high[index]) if series.high is not None else None
    if low is not None and high is not None:
        # On a strip of paper, so that it is seen on the bar as well.
        drawing.add(line(xs(low), middle, xs(high), middle, "error under"))
        drawing.add(line(xs(low), middle, xs(high), middle, "error"))
        drawing.add(line(xs(low), middle - 4, xs(low), middle + 4, "error"))
        drawing.add(line(xs(high), middle - 4, xs(high), middle + 4, "error"))
        reach = max(reach, xs(high))
    drawing.add(text(reach + 7, middle + 4.5, _shown(figure, series.values[index]), "value"))


def readings(figure: BarFigure) -> list[tuple[str, list[tuple[int, str]]]]:
    """What to say of each row: its name, and every series' value with its interval or share.

    Example:
        >>> readings(win_loss("t", ["a"], [60], [10], [30], "b"))[0][1][0]
        (0, '60 (60.0 %)')
    """
    found = []
    for index, name in enumerate(figure.categories):
        total = sum(finite(series.values[index]) or 0.0 for series in figure.series)
        rows = []
        for place, series in enumerate(figure.series):
            value = series.values[index]
            shown = _shown(figure, value)
            if figure.stacked and total > 0:
                shown += f" ({number(100 * (finite(value) or 0.0) / total, 1, unit='%')})"
            elif series.low is not None and series.high is not None:
                shown += f" ({_shown(figure, series.low[index])} to {_shown(figure, series.high[index])})"
            rows.append((place, shown))
        found.append((name, rows))
    return found
