"""Docstrings are written in reStructuredText's roles; the site is Markdown: this translates one to the other."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

MATH_BLOCK = re.compile(
    r"^(?P<indent> *)\.\. math::(?P<same_line>.*)\n(?P<block>(?:\n|(?P=indent) +.*(?:\n|$))*)", re.M
)
MATH_ROLE = re.compile(r":math:`([^`]+)`")
EXAMPLE = re.compile(r"^( *)Example:$", re.M)
REFERENCE = re.compile(r":(?:func|class|meth|mod|attr|data):`(?P<short>~?)(?P<name>[^`]+)`")


class Markdown(griffe.Extension):
    """Translates the docstrings of a package once it is loaded, when every name can be resolved."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Translate all docstrings of a package."""
        seen: set[str] = set()
        waiting: list[Any] = [pkg]
        while waiting:
            found = waiting.pop()
            if found.is_alias or found.path in seen:
                continue
            seen.add(found.path)
            if found.docstring is not None:
                found.docstring.value = markdown(found.docstring.value, found)
            waiting.extend(found.members.values())


def markdown(text: str, found: Any) -> str:
    """The docstring of an object, in Markdown."""
    text = EXAMPLE.sub(r"\1Examples:", text)
    text = MATH_BLOCK.sub(_math_block, text + "\n")
    text = MATH_ROLE.sub(r"\\(\1\\)", text)
    return REFERENCE.sub(lambda reference: _reference(reference, found), text).rstrip("\n")


def _math_block(block: re.Match[str]) -> str:
    formula = f"{block['same_line'].strip()}\n{textwrap.dedent(block['block']).strip()}".strip()
    lines = ["", r"\[", *(line for line in formula.splitlines() if line.strip()), r"\]", "", ""]
    return "\n".join(block["indent"] + line if line else "" for line in lines)


def _reference(reference: re.Match[str], found: Any) -> str:
    name = reference["name"]
    shown = name.rsplit(".", 1)[-1] if reference["short"] else name
    try:
        target = name if name.startswith("pirank.") else found.resolve(name)
    except griffe.NameResolutionError:
        target = f"{found.path}.{name}"
    # Optional: a name that has no place on the site is shown, but is not a link.
    return f'<autoref identifier="{target}" optional><code>{shown}</code></autoref>'
