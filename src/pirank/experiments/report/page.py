"""The report as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from pirank.experiments.report import figures, tables
from pirank.experiments.report.formatting import duration, moment
from pirank.experiments.report.palette import classes, declarations
from pirank.experiments.report.parts import Item, Report, Section, Table
from pirank.files import write_text
from pirank.version import __version__


def write_report(report: Report, path: str | os.PathLike[str]) -> Path:
    """Write a report to one HTML file, which opens without a network; a file that is there is replaced at once.

    Args:
        report: What to write.
        path: The file; its folder is made when it is not there.

    Returns:
        The file's path.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> write_report(Report("PiRank on MQ2007"), folder.name + "/report.html").name
        'report.html'
        >>> folder.cleanup()
    """
    return write_text(Path(path), to_html(report))


@cache
def asset(name: str) -> str:
    """The text of a file that lies beside this module."""
    return resources.files(__package__ or "").joinpath(name).read_text(encoding="utf-8")


def to_html(report: Report) -> str:
    """The report as the text of an HTML page.

    Example:
        >>> "<title>PiRank &amp; co</title>" in to_html(Report("PiRank & co"))
        True
    """
    script = asset("page.js").strip()
    # The page runs this one script and no other, whatever a name in it may contain, and asks for no other file.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return Template(asset("page.html")).substitute(
        policy=f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:",
        title=escape(report.title),
        style=_style(),
        script=script,
        summary=prose(report.summary),
        facts=_facts(report),
        contents=_contents(report),
        sections="\n".join(_section(section, index) for index, section in enumerate(report.sections, 1)),
        making=_making(report),
        version=escape(__version__),
    )


def _style() -> str:
    light, dark = declarations("light"), declarations("dark")
    themes = (
        f":root{{{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}\n"
        f"@media screen{{:root[data-theme=dark]{{{dark}}}}}\n"
    )
    return themes + classes() + "\n" + asset("chart.css") + asset("page.css")


def prose(text: str) -> str:
    """Paragraphs, lists of lines that start with ``- ``, ``**bold**`` and code between backticks, as HTML.

    Example:
        >>> prose("**Better** than `a<b`.")
        '<p><strong>Better</strong> than <code>a&lt;b</code>.</p>'
    """
    blocks = []
    for block in re.split(r"\n\s*\n", text.strip()):
        rows = [row.strip() for row in block.splitlines()]
        listed = [row for row in rows if row.startswith("- ")]
        plain = " ".join(row for row in rows if not row.startswith("- "))
        if plain:
            blocks.append(f"<p>{_inline(plain)}</p>")
        if listed:
            blocks.append("<ul>" + "".join(f"<li>{_inline(row[2:])}</li>" for row in listed) + "</ul>")
    return "\n".join(blocks)


def _inline(text: str) -> str:
    pieces = re.split(r"`([^`]+)`", text)
    for index, piece in enumerate(pieces):
        safe = escape(piece)
        if index % 2:
            pieces[index] = f"<code>{safe}</code>"
        else:
            pieces[index] = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", safe)
    return "".join(pieces)


def _facts(report: Report) -> str:
    facts = [moment(report.started)] if report.started else []
    if report.seconds is not None:
        facts.append(f"took {duration(report.seconds)}")
    return f'<p class="facts">{" · ".join(escape(fact) for fact in facts)}</p>' if facts else ""


def _contents(report: Report) -> str:
    if len(report.sections) < 2:
        return ""
    links = [(f"section-{index}", section.title) for index, section in enumerate(report.sections, 1)]
    if report.command or report.environment:
        links.append(("making", "How this was made"))
    rows = "".join(f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title in links)
    return f'<nav class="contents" aria-label="Contents"><ol>{rows}</ol></nav>'


def _section(section: Section, index: int) -> str:
    items = "\n".join(_item(item, f"item-{index}-{place}") for place, item in enumerate(section.items, 1))
    said = f'<div class="prose">{prose(section.text)}</div>\n' if section.text.strip() else ""
    return f'<section id="section-{index}"><h2>{escape(section.title)}</h2>\n{said}{items}</section>'


def _item(item: Item, name: str) -> str:
    return tables.to_html(item, name) if isinstance(item, Table) else figures.to_html(item, name)


def _making(report: Report) -> str:
    if not report.command and not report.environment:
        return ""
    command = f'<div class="command"><pre tabindex="0"><code>{escape(report.command)}</code></pre></div>'
    rows = "".join(f"<dt>{escape(k)}</dt><dd>{escape(str(v))}</dd>" for k, v in report.environment.items())
    return (
        '<section id="making"><h2>How this was made</h2>\n'
        + (command if report.command else "")
        + (f"<dl>{rows}</dl>" if rows else "")
        + "</section>"
    )
