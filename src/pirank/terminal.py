"""The terminal, as every command writes to it: names of files and columns stand there as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn


def console(*, errors: bool = False) -> Console:
    """What standard output, or standard error, is now."""
    return Console(stderr=errors, highlight=False, markup=False, emoji=False, soft_wrap=True)


def say(what: Any) -> None:
    """Show a line or a table on standard output."""
    console().print(what)


@contextmanager
def progress_bar(what: str, total: float, *columns: ProgressColumn) -> Iterator[Callable[[int], None]]:
    """A function to be told of progress, which a bar on standard error shows, where that is a terminal.

    The bar goes away at the end.
    """
    screen = console(errors=True)
    shown = (name_column(), BarColumn(), *columns, TimeRemainingColumn())
    with Progress(*shown, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda more: bar.advance(task, more)


def name_column() -> TextColumn:
    """What a bar of progress is about."""
    return TextColumn("{task.description}", markup=False)
