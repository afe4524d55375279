"""Line figures: axes, bands, lines, and names at the lines' ends."""

from __future__ import annotations

from collections.abc import Sequence

from pirank.experiments.report.curves import Curve, Point, positions
from pirank.experiments.report.formatting import number, plain
from pirank.experiments.report.palette import Style
from pirank.experiments.report.plots import LineFigure
from pirank.experiments.report.scales import Scale, fit
from pirank.experiments.report.svg import WIDE, Drawing, View, line, marker, path, shorten, stroke, text


def draw(figure: LineFigure, drawn: Sequence[Curve], view: View) -> Drawing:
    """The figure at one width. On a wide page the lines' names stand at their ends; on a narrow one in a legend.

    Example:
        >>> from pirank.experiments.report.curves import Series, curves
        >>> figure = LineFigure("t", "x", "y", [Series("a", [0, 1], [1, 2])])
        >>> draw(figure, curves(figure)[0], WIDE).places[0]
        [34.2, [[0, 330.0]]]
    """
    points = [point for curve in drawn for point in curve.points]
    height = 372.0 if view is WIDE else 270.0
    top, bottom = 28.0, height - 42.0
    drawing = Drawing(view, height, top=top, bottom=bottom)
    if not points:
        drawing.height = 90.0
        drawing.add(text(view.width / 2, 50, "There is nothing to draw.", "tick", "middle"))
        return drawing
    edges = [edge for p in points for edge in (p.low, p.high) if edge is not None]
    ys = fit([p.y for p in points] + edges, bottom, top, log=figure.y_log, count=6 if view is WIDE else 5)
    left = 12.0 + max(len(label) for label in ys.labels) * view.character if ys.labels else 20.0
    named = ends_are_named(drawn, view)
    right = view.width - (_margin(drawn, view) if named else 14.0)
    count = 8 if view is WIDE else 5
    across = [p.x for p in points]
    if not figure.x_log and 0 < min(across) < 0.05 * max(across):
        across.append(0.0)  # steps are counted from nought, also where the first mark stands at step 100
    xs = fit(across, left, right, log=figure.x_log, count=count, round_ends=False)
    _axes(drawing, figure, xs, ys)
    for curve in drawn:
        for run in curve.runs:
            _band(drawing, run, curve.style, xs, ys)
    for index, curve in enumerate(drawn):
        _line(drawing, index, curve, xs, ys)
    if named:
        _names(drawing, drawn, right, ys)
    drawing.places = [
        [round(xs(x), 1), [[index, round(ys(y), 1)] for index, y in _heights(drawn, x)]]
        for x in positions(drawn)
    ]
    return drawing


def _heights(drawn: Sequence[Curve], x: float) -> list[tuple[int, float]]:
    return [(index, point.y) for index, curve in enumerate(drawn) for point in curve.points if point.x == x]


def readings(figure: LineFigure, drawn: Sequence[Curve]) -> list[tuple[str, list[tuple[int, str]]]]:
    """What to say at each position: the position, and every line's value there.

    Example:
        >>> from pirank.experiments.report.curves import Series, curves
        >>> figure = LineFigure("t", "step", "y", [Series("a", [10], [0.5])])
        >>> readings(figure, curves(figure)[0])
        [('step 10', [(0, '0.5000')])]
    """
    found: dict[float, list[tuple[int, str]]] = {x: [] for x in positions(drawn)}
    for index, curve in enumerate(drawn):
        for point in curve.points:
            shown = number(point.y, figure.digits)
            if point.low is not None:
                shown += f" ({number(point.low, figure.digits)} to {number(point.high, figure.digits)})"
            found[point.x].append((index, shown))
    return [(f"{figure.x_label} {plain(x)}", rows) for x, rows in found.items()]


def _axes(drawing: Drawing, figure: LineFigure, xs: Scale, ys: Scale) -> None:
    for value, label in zip(ys.ticks, ys.labels, strict=True):
        drawing.add(line(xs.start, ys(value), xs.end, ys(value), "grid"))
        drawing.add(text(xs.start - 8, ys(value) + 4, label, "tick", "end"))
    base = drawing.bottom
    drawing.add(line(xs.start, base, xs.end, base, "axis"))
    for value, label in zip(xs.ticks, xs.labels, strict=True):
        drawing.add(line(xs(value), base, xs(value), base + 5, "axis"))
        half = len(label) * drawing.view.character / 2
        x = min(max(xs(value), half), drawing.view.width - half)
        drawing.add(text(x, base + 19, label, "tick", "middle"))
    drawing.add(text(0, 14, figure.y_label, "label"))
    drawing.add(text((xs.start + xs.end) / 2, drawing.height - 5, figure.x_label, "label", "middle"))


def _band(drawing: Drawing, run: Sequence[Point], style: Style, xs: Scale, ys: Scale) -> None:
    banded = [p for p in run if p.low is not None and p.high is not None]
    if len(banded) == 1 and banded[0].low is not None and banded[0].high is not None:
        x = xs(banded[0].x)
        drawing.add(line(x, ys(banded[0].low), x, ys(banded[0].high), f"whisker {style.css}"))
    elif banded:
        upper = [(xs(p.x), ys(p.high)) for p in banded if p.high is not None]
        lower = [(xs(p.x), ys(p.low)) for p in banded if p.low is not None]
        drawing.add(path(upper + lower[::-1], f"band {style.css}", closed=True))


def _line(drawing: Drawing, index: int, curve: Curve, xs: Scale, ys: Scale) -> None:
    marks = [
        path([(xs(p.x), ys(p.y)) for p in run], stroke(curve.style)) for run in curve.runs if len(run) > 1
    ]
    points = curve.points
    # Few points are all marked; of many, enough for the marker to tell the line where colour does not.
    every = 1 if len(points) <= 12 else len(points) / 6
    first = every * (0.15 + 0.7 * (index % 5) / 4)
    chosen = {round(every * step + first) for step in range(6)} if every > 1 else range(len(points))
    alone = [run[0] for run in curve.runs if len(run) == 1]
    marked = [points[i] for i in chosen if i < len(points)] + [p for p in alone if every > 1]
    marks += [marker(curve.style, xs(p.x), ys(p.y)) for p in sorted(marked, key=lambda p: p.x)]
    drawing.add(f'<g data-series="{index}">{"".join(marks)}</g>')


def ends_are_named(drawn: Sequence[Curve], view: View) -> bool:
    """Whether the lines' names stand beside the plot at this width: it is wide, and there is room for all."""
    return view is WIDE and 1 < len(drawn) <= 14


def _margin(drawn: Sequence[Curve], view: View) -> float:
    longest = max(len(curve.name) for curve in drawn)
    return 54.0 + min(longest, 30) * view.character


def _names(drawing: Drawing, drawn: Sequence[Curve], right: float, ys: Scale) -> None:
    ends = [(ys(curve.points[-1].y), index, curve) for index, curve in enumerate(drawn) if curve.points]
    ends.sort(key=lambda end: end[:2])
    places = spread([end[0] for end in ends], 17.0, drawing.top, drawing.bottom)
    for y, (_, index, curve) in zip(places, ends, strict=True):
        swatch = line(right + 14, y, right + 38, y, stroke(curve.style)) + marker(curve.style, right + 26, y)
        name = text(right + 45, y + 4.5, shorten(curve.name, 30), "name")
        drawing.add(f'<g data-series="{index}">{swatch}{name}</g>')


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places near the wanted ones (ascending), at least a gap apart, between two ends where they fit.

    Example:
        >>> spread([10.0, 12.0, 60.0], 10.0, 0.0, 100.0)
        [6.0, 16.0, 60.0]
    """
    # Clusters of names that touch are placed as one, around their mean, until none touch.
    clusters: list[list[float]] = []
    for want in wanted:
        clusters.append([want])
        while (
            len(clusters) > 1
            and _start(clusters[-1], gap) < _start(clusters[-2], gap) + len(clusters[-2]) * gap
        ):
            clusters[-2:] = [clusters[-2] + clusters[-1]]
    places = [_start(cluster, gap) + gap * step for cluster in clusters for step in range(len(cluster))]
    for index, place in enumerate(places):
        places[index] = max(place, low if index == 0 else places[index - 1] + gap)
    for index in range(len(places) - 1, -1, -1):
        ceiling = high if index == len(places) - 1 else places[index + 1] - gap
        places[index] = min(places[index], ceiling)
    return places


def _start(cluster: Sequence[float], gap: float) -> float:
    return sum(cluster) / len(cluster) - gap * (len(cluster) - 1) / 2
