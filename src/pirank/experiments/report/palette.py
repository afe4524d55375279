"""Colours that hold on white and on black paper and for colour-blind readers, with a marker beside each colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Found by search: of blue, vermilion, teal, purple, gold, ink and petrol the shades that lie furthest apart for
# normal, red-blind, green-blind and blue-blind eyes, at 3 to 1 or more against the page, the first two at 4.5 to 1.
SERIES_LIGHT = ("#2c4fc7", "#c22a08", "#0fa191", "#892482", "#b28a0b", "#1c2325", "#04474b")
SERIES_DARK = ("#88cafe", "#d9560b", "#4da779", "#ce7ac7", "#f1c255", "#d8e7f0", "#447c7e")

_PAPER = {
    "page": ("#ffffff", "#14171b"),
    "raised": ("#f6f7f8", "#1d2126"),
    "ink": ("#16191d", "#e9ecef"),
    "soft": ("#59616b", "#a3acb7"),
    "rule": ("#dfe3e7", "#343a42"),
    "grid": ("#e8ebee", "#2a2f36"),
    "axis": ("#8a929b", "#6d7682"),
    "accent": ("#2c4fc7", "#88cafe"),
    "neutral": ("#c9ced4", "#4a525c"),
    "on-mark": ("#ffffff", "#14171b"),
    "shadow": ("0 2px 14px rgb(20 25 30 / 16%)", "0 2px 14px rgb(0 0 0 / 60%)"),
}

STEPS = 9
_HEAT = {"light": ("#eef2fb", "#1d3a9c"), "dark": ("#1c2b3a", "#9fd0fa")}
_DIVERGING = {
    "light": ("#a63a06", "#f5f5f4", "#1d3a9c"),
    "dark": ("#ffab7d", "#25292e", "#9fd0fa"),
}

MARKERS = ("circle", "square", "triangle", "diamond", "wedge", "plus", "cross")


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def mix(one: str, other: str, share: float) -> str:
    """The colour a share of the way from one to the other.

    Example:
        >>> mix("#000000", "#ffffff", 0.5)
        '#808080'
    """
    pairs = zip(_rgb(one), _rgb(other), strict=True)
    return "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in pairs)


def luminance(colour: str) -> float:
    """Relative luminance of a colour, as WCAG 2 defines it.

    Example:
        >>> luminance("#ffffff")
        1.0
    """
    parts = [value / 255 for value in _rgb(colour)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours, 1 to 21, as WCAG 2 defines it.

    Example:
        >>> round(contrast("#000000", "#ffffff"))
        21
    """
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def heat(theme: str, step: int, diverging: bool = False) -> tuple[str, str]:
    """Background and readable text of one of the ``STEPS`` colours of a heat map.

    Example:
        >>> heat("light", 8)
        ('#1d3a9c', '#ffffff')
    """
    if diverging:
        low, middle, high = _DIVERGING[theme]
        half = (STEPS - 1) / 2
        away = abs(step - half) / half
        fill = mix(middle, high if step > half else low, away)
    else:
        fill = mix(*_HEAT[theme], step / (STEPS - 1))
    return fill, max(("#ffffff", "#000000"), key=lambda text: contrast(fill, text))


def variables(theme: str) -> dict[str, str]:
    """The style sheet's variables in the ``"light"`` or the ``"dark"`` theme.

    Example:
        >>> variables("dark")["s0"]
        '#88cafe'
    """
    named = {name: both[theme == "dark"] for name, both in _PAPER.items()}
    lines = SERIES_DARK if theme == "dark" else SERIES_LIGHT
    named.update({f"s{index}": colour for index, colour in enumerate(lines)})
    for letter, diverging in (("h", False), ("d", True)):
        for step in range(STEPS):
            named[f"{letter}{step}"], named[f"{letter}{step}t"] = heat(theme, step, diverging)
    return named


def declarations(theme: str) -> str:
    """The variables as declarations of a style rule.

    Example:
        >>> declarations("light").split(";")[0]
        'color-scheme:light'
    """
    return f"color-scheme:{theme};" + "".join(
        f"--{name}:{value};" for name, value in variables(theme).items()
    )


def classes() -> str:
    """Style rules that give every series and every heat map's step its colour.

    Example:
        >>> classes().splitlines()[0]
        '.s0{--c:var(--s0)}'
    """
    rules = [f".s{index}{{--c:var(--s{index})}}" for index in range(len(SERIES_LIGHT))]
    for letter in "hd":
        for step in range(STEPS):
            name = f"{letter}{step}"
            rules.append(f".{name}{{--c:var(--{name});--t:var(--{name}t)}}")
    return "\n".join(rules)


@dataclass(frozen=True)
class Style:
    """How one series is told from the others: by colour, by marker, and by a solid or dashed line.

    Example:
        >>> Style(0, "circle", False).css
        's0'
    """

    colour: int
    marker: str
    dashed: bool

    @property
    def css(self) -> str:
        """The class that sets the colour."""
        return f"s{self.colour}"


def styles(names: Sequence[str], groups: Sequence[str | None], dashed: Sequence[bool]) -> tuple[Style, ...]:
    """One style a series. Series of one group share colour and marker; past seven groups the markers shift.

    Example:
        >>> [s.css for s in styles(["a", "b", "c"], [None, "g", "g"], [False, False, True])]
        ['s0', 's1', 's1']
    """
    order: dict[tuple[bool, str], int] = {}
    found = []
    for name, group, dash in zip(names, groups, dashed, strict=True):
        key = (False, name) if group is None else (True, group)
        index = order.setdefault(key, len(order))
        round_, colour = divmod(index, len(SERIES_LIGHT))
        found.append(Style(colour, MARKERS[(colour + round_) % len(MARKERS)], dash))
    return tuple(found)
