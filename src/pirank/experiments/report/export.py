"""The same report as Markdown, CSV files and pictures, for a repository or a paper."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from pirank.experiments.report import tables
from pirank.experiments.report.figures import to_svg
from pirank.experiments.report.formatting import duration, moment
from pirank.experiments.report.page import asset, write_report
from pirank.experiments.report.parts import Item, Report, Table
from pirank.experiments.report.plots import Figure
from pirank.files import write_text

LONGEST = 30
"""Rows of a figure's numbers that Markdown shows in full."""


def to_markdown(report: Report, pictures: Mapping[int, str] | None = None) -> str:
    """The report in Markdown, winners in bold.

    Args:
        report: What to write.
        pictures: Where the pictures of figures are, by the figure's place among the report's items (from 0); a
            figure without one becomes a table of its numbers when that is short.

    Example:
        >>> print(to_markdown(Report("PiRank", "It *wins*.")))
        # PiRank
        <BLANKLINE>
        It *wins*.
        <BLANKLINE>
    """
    blocks = [f"# {_line(report.title)}", report.summary.strip()]
    facts = [moment(report.started)] if report.started else []
    facts += [f"took {duration(report.seconds)}"] if report.seconds is not None else []
    blocks.append(" · ".join(facts))
    place = 0
    for section in report.sections:
        blocks += [f"## {_line(section.title)}", section.text.strip()]
        for item in section.items:
            blocks += _blocks(item, (pictures or {}).get(place))
            place += 1
    if report.command or report.environment:
        blocks.append("## How this was made")
    if report.command:
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", report.command)), default=0))
        blocks.append(f"{fence}\n{report.command.strip()}\n{fence}")
    if report.environment:
        rows = [[name, str(value)] for name, value in report.environment.items()]
        blocks.append(tables.to_markdown(Table(["", ""], rows)))
    return "\n\n".join(block for block in blocks if block) + "\n"


def _line(text: str) -> str:
    return " ".join(text.replace("&", "&amp;").replace("<", "&lt;").split())


def _blocks(item: Item, picture: str | None) -> list[str]:
    if isinstance(item, Table):
        return [_line(item.caption), tables.to_markdown(item), _line(item.note)]
    blocks = [f"### {_line(item.title)}"]
    if picture:
        blocks.append(f"![{tables.escape_markdown(item.title)}]({picture})")
    else:
        numbers = tables.numbers_of(item)
        if len(numbers.rows) <= LONGEST:
            blocks.append(tables.to_markdown(numbers))
        else:
            blocks.append(f"({len(numbers.rows):,} rows of numbers: see the CSV file or the HTML report.)")
    return [*blocks, _line(item.caption)]


def write_csv(item: Table | Figure, path: str | os.PathLike[str]) -> Path:
    """Write a table, or the numbers behind a figure, to a CSV file.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> print(write_csv(Table(["a"], [[1]]), folder.name + "/a.csv").read_text(), end="")
        a
        1
        >>> folder.cleanup()
    """
    return write_text(Path(path), tables.to_csv(item))


def write_svg(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure as a picture of its own, which is light or dark as its reader prefers.

    Example:
        >>> import tempfile
        >>> from pirank.experiments.report import HeatMap
        >>> folder = tempfile.TemporaryDirectory()
        >>> figure = HeatMap("NDCG", "test", "train", ["10"], ["20"], [[0.5]])
        >>> write_svg(figure, folder.name + "/ndcg.svg").read_text()[:4]
        '<svg'
        >>> folder.cleanup()
    """
    return write_text(Path(path), to_svg(figure, asset("chart.css")))


def write_folder(report: Report, folder: str | os.PathLike[str]) -> Path:
    """Write a report in every form: ``report.html``, ``report.md``, ``tables/*.csv`` and ``figures/*.svg``.

    Returns:
        The path of the HTML file.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = write_folder(Report("PiRank"), folder.name)
        >>> sorted(file.name for file in path.parent.iterdir())
        ['report.html', 'report.md']
        >>> folder.cleanup()
    """
    root = Path(folder)
    pictures: dict[int, str] = {}
    items = [item for section in report.sections for item in section.items]
    taken: set[str] = set()
    for place, item in enumerate(items):
        name = _file_name(item.caption if isinstance(item, Table) else item.title, place, taken)
        write_csv(item, root / "tables" / f"{name}.csv")
        if not isinstance(item, Table):
            write_svg(item, root / "figures" / f"{name}.svg")
            pictures[place] = f"figures/{name}.svg"
    write_text(root / "report.md", to_markdown(report, pictures))
    return write_report(report, root / "report.html")


def _file_name(title: str, place: int, taken: set[str]) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60].strip("-") or f"item-{place + 1}"
    name = words if words not in taken else f"{words}-{place + 1}"
    taken.add(name)
    return name
