"""Heat maps: a grid of numbers on colours."""

from __future__ import annotations

from pirank.experiments.report.formatting import finite, number
from pirank.experiments.report.palette import STEPS
from pirank.experiments.report.plots import HeatMap
from pirank.experiments.report.svg import WIDE, Drawing, View, box, shorten, text


def step_of(figure: HeatMap, value: float) -> int:
    """Which of the colours a value stands on.

    Example:
        >>> figure = HeatMap("t", "x", "y", ["a", "b"], ["c"], [[1.0, 2.0]])
        >>> step_of(figure, 1.0), step_of(figure, 2.0)
        (0, 8)
    """
    found = [number for row in figure.values for number in map(finite, row) if number is not None]
    if figure.centre is None:
        low, high = min(found), max(found)
    else:
        reach = max(abs(number - figure.centre) for number in found)
        low, high = figure.centre - reach, figure.centre + reach
    if high == low:
        return STEPS // 2
    return min(STEPS - 1, int((value - low) / (high - low) * STEPS))


def _shown(figure: HeatMap, value: float | None) -> str:
    return number(value, figure.digits, signed=figure.signed)


def draw(figure: HeatMap, view: View) -> Drawing:
    """The figure at one width.

    Example:
        >>> draw(HeatMap("t", "x", "y", ["a"], ["c"], [[1.0]]), WIDE).places
        [[40.2, 54.0, 118.0, 44.0]]
    """
    widest = min(max((len(name) for name in figure.rows), default=1), 18)
    # The rows' title stands on the line of the column names, above the row names.
    left = min(18.0 + max(widest, len(figure.y_label) + 2) * view.character, view.width * 0.4)
    top = 54.0
    columns = max(1, len(figure.columns))
    size = min(118.0, (view.width - left - 2) / columns)
    tall = 44.0 if view is WIDE else 38.0
    bottom = top + tall * len(figure.rows)
    drawing = Drawing(view, bottom + 6, top=top, bottom=bottom)
    rows = shorten(figure.y_label, int(left / view.character) - 2)
    drawing.add(text(left, 14, f"{figure.x_label} →", "label"), text(0, 42, f"{rows} ↓", "label"))
    fits = max(1, int(size / view.character))
    # Names that would touch are left out: every second stays, or every third.
    every = -(-min(6, max(map(len, figure.columns), default=1)) // fits)
    for index, name in enumerate(figure.columns[::every]):
        x = left + (index * every + 0.5) * size
        drawing.add(text(x, 42, shorten(name, fits * every), "tick", "middle"))
    letter = "h" if figure.centre is None else "d"
    for r, (name, row) in enumerate(zip(figure.rows, figure.values, strict=True)):
        y = top + r * tall
        drawing.add(text(left - 10, y + tall / 2 + 4.5, shorten(name, 18), "tick", "end"))
        for c, value in enumerate(row):
            x = left + c * size
            real = finite(value)
            css = "empty" if real is None else f"{letter}{step_of(figure, real)}"
            bold, edge = (" best", " winner") if (r, c) in figure.bold else ("", "")
            drawing.add(box(x + 1, y + 1, size - 2, tall - 2, f"cell {css}{edge}", 3))
            shown = _shown(figure, value)
            wide = len(shown) * view.character
            look = f"cell-text {css}{bold}" + (" small" if wide > size - 6 else "")
            # Where a number has no room, its colour and the pointer tell it.
            if 0.8 * wide <= size:
                drawing.add(text(x + size / 2, y + tall / 2 + 4.5, shown, look, "middle"))
            drawing.places.append([round(x, 1), round(y, 1), round(size, 1), tall])
    return drawing


def readings(figure: HeatMap) -> list[tuple[str, list[tuple[int, str]]]]:
    """What to say of each cell: where it stands, and its value.

    Example:
        >>> readings(HeatMap("t", "test", "train", ["10"], ["20"], [[0.5]]))
        [('train 20, test 10', [(-1, '0.5000')])]
    """
    return [
        (f"{figure.y_label} {name}, {figure.x_label} {column}", [(-1, _shown(figure, value))])
        for name, row in zip(figure.rows, figure.values, strict=True)
        for column, value in zip(figure.columns, row, strict=True)
    ]
