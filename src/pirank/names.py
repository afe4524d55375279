"""What to say to someone who wrote a name that is not there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def unknown(kind: str, name: object, known: Iterable[str]) -> str:
    """One line: what was given, the nearest valid name, and all of them.

    Example:
        >>> unknown("transform", "standrad", ["standard", "quantile"])
        "unknown transform 'standrad': did you mean 'standard'? (known: standard, quantile)"
    """
    return f"unknown {kind} {name!r}{nearest(name, known, joint=':')}"


def nearest(name: object, known: Iterable[str], *, joint: str = ";") -> str:
    """The tail of an error message: the known names, and the one that was probably meant.

    Example:
        >>> nearest("standrad", ["standard", "quantile"])
        "; did you mean 'standard'? (known: standard, quantile)"
    """
    known = list(known)
    near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
    guess = f"{joint} did you mean {near[0]!r}?" if near else ""
    return f"{guess} (known: {', '.join(known)})"
