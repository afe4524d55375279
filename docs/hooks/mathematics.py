"""Formulas become MathML when the site is built: browsers draw it themselves, without scripts and offline."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.S)
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.S)


def on_page_content(content: str, **_: Any) -> str:
    """Replace the formulas of a rendered page."""
    content = BLOCK.sub(lambda found: mathml(found[1], "block"), content)
    return INLINE.sub(lambda found: mathml(found[1], "inline"), content)


def mathml(escaped: str, display: str) -> str:
    """One formula, from LaTeX as it stands in HTML."""
    latex = html.unescape(escaped).strip()
    drawn = convert(latex, display=display)
    # What the formula says, for who reads or copies the source.
    return drawn.replace("<math ", f'<math alttext="{html.escape(latex)}" ', 1)
