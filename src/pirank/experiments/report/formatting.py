"""Numbers as a reader wants them: one dash for what is missing, grouped thousands, powers of ten, durations."""

from __future__ import annotations

import math
from datetime import datetime
from numbers import Integral, Real

MISSING = "–"
MINUS = "−"
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


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


def number(value: object, digits: int | None = 4, *, signed: bool = False, unit: str = "") -> str:
    """A value as text: strings as they are, whole numbers grouped, others with ``digits`` after the point.

    ``digits=None`` keeps four significant digits. Very large and very small numbers are written as powers.

    Example:
        >>> number(0.42314), number(100000), number(float("nan")), number(1e12), number(-0.5, 1, unit="%")
        ('0.4231', '100,000', '–', '10¹²', '−0.5 %')
    """
    if value is None:
        return MISSING
    if isinstance(value, bool) or not isinstance(value, Real):
        return str(value)
    real = float(value)
    if math.isnan(real):
        return MISSING
    text = "∞" if math.isinf(real) else _magnitude(value, abs(real), digits)
    is_zero = not any(character in "123456789∞" for character in text)
    sign = MINUS if real < 0 and not is_zero else "+" if signed and real > 0 and not is_zero else ""
    return sign + text + (f" {unit.strip()}" if unit else "")


def _magnitude(value: Real, size: float, digits: int | None) -> str:
    if size >= 1e9 or 0 < size < 10.0 ** -(8 if digits is None else max(digits + 2, 6)):
        return power(size)
    if isinstance(value, Integral):
        return f"{int(size):,}"
    if digits is not None:
        return f"{size:,.{digits}f}"
    decimals = max(0, 3 - math.floor(math.log10(size))) if size else 0
    text = f"{size:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def plain(value: float) -> str:
    """A position on an axis, without digits that say nothing.

    Example:
        >>> plain(2000.0), plain(0.25), plain(1e12)
        ('2,000', '0.25', '10¹²')
    """
    whole = float(value).is_integer() and abs(value) < 1e9
    return number(int(value) if whole else value, None)


def power(size: float) -> str:
    """A positive number as a power of ten, or a multiple of one.

    Example:
        >>> power(1e12), power(2.5e-7)
        ('10¹²', '2.5×10⁻⁷')
    """
    exponent = math.floor(math.log10(size))
    factor = f"{size / 10.0**exponent:.3g}"
    if factor == "10":
        factor, exponent = "1", exponent + 1
    tens = "10" + str(exponent).translate(_SUPERSCRIPT)
    return tens if factor == "1" else f"{factor}×{tens}"


def duration(seconds: float) -> str:
    """A time in the two units that matter.

    Example:
        >>> duration(0.42), duration(75), duration(8000), duration(200000)
        ('0.4 s', '1 min 15 s', '2 h 13 min', '2 d 7 h')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    left = round(seconds)
    if left < 60:
        return f"{left} s"
    for size, name, part, part_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if left >= size:
            rest = left % size // part
            return f"{left // size} {name}" + (f" {rest} {part_name}" if rest else "")
    return f"{left} s"


def moment(when: datetime | str) -> str:
    """A date and time in words; a string stays as it is.

    Example:
        >>> moment(datetime(2026, 3, 9, 14, 5))
        '9 March 2026, 14:05'
    """
    if isinstance(when, str):
        return when
    zone = f" {when.tzname()}" if when.tzinfo else ""
    return f"{when.day} {_MONTHS[when.month - 1]} {when.year}, {when:%H:%M}{zone}"


# strftime's month names follow the machine's locale; a report does not.
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
