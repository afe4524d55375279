"""The marks that figures are drawn with, as SVG text, and the two page widths they are drawn for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from pirank.experiments.report.palette import Style


@dataclass(frozen=True)
class View:
    """A width to draw for. Text keeps its size on a phone because a phone gets a drawing of its own.

    Example:
        >>> WIDE.width, NARROW.width
        (860, 360)
    """

    name: str
    width: int
    character: float  # a generous average width of a character at the figure's font size


WIDE = View("wide", 860, 7.4)
NARROW = View("narrow", 360, 7.2)


@dataclass
class Drawing:
    """A figure at one width: its marks, and where the pointer finds each of the figure's stops.

    A stop is a place of a figure with values to read out. ``places`` holds for each either
    ``[x, [[series, y], ...]]``, points above one another, or ``[x, y, width, height]``, a box.
    """

    view: View
    height: float
    marks: list[str] = field(default_factory=list)
    places: list[list[Any]] = field(default_factory=list)
    top: float = 0.0
    bottom: float = 0.0

    def add(self, *marks: str) -> None:
        """Draw marks over what is there."""
        self.marks.extend(marks)


def px(value: float) -> str:
    """A coordinate with one decimal at most.

    Example:
        >>> px(12.04), px(12.5), px(-0.01)
        ('12', '12.5', '0')
    """
    text = f"{value:.1f}"
    text = text[:-2] if text.endswith(".0") else text
    return "0" if text == "-0" else text


def line(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    """A straight line.

    Example:
        >>> line(0, 0, 10, 0, "grid")
        '<path class="grid" d="M0 0L10 0"/>'
    """
    return f'<path class="{css}" d="M{px(x1)} {px(y1)}L{px(x2)} {px(y2)}"/>'


def box(x: float, y: float, width: float, height: float, css: str, round_: float = 0) -> str:
    """A rectangle.

    Example:
        >>> box(0, 0, 10, 5, "bar s0")
        '<rect class="bar s0" x="0" y="0" width="10" height="5"/>'
    """
    corner = f' rx="{px(round_)}"' if round_ else ""
    size = f'x="{px(x)}" y="{px(y)}" width="{px(width)}" height="{px(height)}"'
    return f'<rect class="{css}" {size}{corner}/>'


def text(x: float, y: float, content: str, css: str, anchor: str = "start") -> str:
    """A line of text, escaped.

    Example:
        >>> text(0, 10, "a < b", "tick")
        '<text class="tick" x="0" y="10">a &lt; b</text>'
    """
    where = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text class="{css}" x="{px(x)}" y="{px(y)}"{where}>{escape(content)}</text>'


def path(points: Sequence[tuple[float, float]], css: str, closed: bool = False) -> str:
    """A line through points.

    Example:
        >>> path([(0, 0), (1, 2)], "line s0")
        '<path class="line s0" d="M0 0L1 2"/>'
    """
    steps = "L".join(f"{px(x)} {px(y)}" for x, y in points)
    return f'<path class="{css}" d="M{steps}{"Z" if closed else ""}"/>'


_SHAPES = {
    "circle": "M{l} {y}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0Z",
    "square": "M{l} {t}h{d}v{d}h-{d}Z",
    "triangle": "M{x} {t}L{R} {b}L{l} {b}Z",
    "diamond": "M{x} {T}L{E} {y}L{x} {B}L{W} {y}Z",
    "wedge": "M{l} {t}L{R} {t}L{x} {b}Z",
    "plus": "M{W} {y}H{E}M{x} {T}V{B}",
    "cross": "M{l} {t}L{R} {b}M{R} {t}L{l} {b}",
}


def marker(style: Style, x: float, y: float, radius: float = 3.6) -> str:
    """A series' marker at a place: filled, or hollow when its line is dashed.

    Example:
        >>> marker(Style(2, "square", False), 10, 10, 4)
        '<path class="mark s2" d="M6 6h8v8h-8Z"/>'
    """
    far = radius * 1.3
    places = {
        "x": x, "y": y, "r": radius, "d": 2 * radius, "l": x - radius, "R": x + radius, "t": y - radius,
        "b": y + radius, "W": x - far, "E": x + far, "T": y - far, "B": y + far,
    }  # fmt: skip
    shape = _SHAPES[style.marker].format(**{key: px(value) for key, value in places.items()})
    open_ = " open" if style.marker in ("plus", "cross") else " hollow" if style.dashed else ""
    return f'<path class="mark{open_} {style.css}" d="{shape}"/>'


def stroke(style: Style) -> str:
    """The class names of a series' line.

    Example:
        >>> stroke(Style(1, "square", True))
        'line dashed s1'
    """
    return f"line dashed {style.css}" if style.dashed else f"line {style.css}"


def swatch(style: Style, filled: bool = False) -> str:
    """A small picture of a series for a legend: its line and marker, or its bar.

    Example:
        >>> swatch(Style(0, "circle", False), filled=True).startswith("<svg")
        True
    """
    if filled:
        inside, width = box(0, 1, 12, 10, f"bar {style.css}", 2), 12
    else:
        inside, width = line(1, 6, 25, 6, stroke(style)) + marker(style, 13, 6), 26
    return f'<svg class="swatch" width="{width}" height="12" viewBox="0 0 {width} 12" aria-hidden="true">{inside}</svg>'


def shorten(name: str, characters: int) -> str:
    """A name cut to a number of characters in its middle: names of one kind often differ at the end.

    Example:
        >>> shorten("pirank-ndcg, depth 2, seed 17", 16)
        'pirank-n…seed 17'
    """
    if len(name) <= characters:
        return name
    end = max(0, (characters - 1) // 2)
    return name[: max(0, characters - 1 - end)] + "…" + (name[-end:] if end else "")
