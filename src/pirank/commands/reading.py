"""The options that say how data files are read, the same for every command."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import DownloadColumn, TransferSpeedColumn

from pirank import data
from pirank.commands.changes import given
from pirank.data import RankingData
from pirank.data.sources import expand, format_of
from pirank.models import Ranker
from pirank.terminal import console, progress_bar

_PANEL = "Data"


def _option(name: str, help: str, **more: Any) -> Any:
    return typer.Option(name, help=help, rich_help_panel=_PANEL, **more)


Label = Annotated[str | None, _option("--label", "Label column of a table.", show_default="label")]
Query = Annotated[str | None, _option("--query", "Query id column of a table.", show_default="qid")]
Features = Annotated[
    str | None,
    _option("--features", "Feature columns of a table, joined by commas.", show_default="all others"),
]
SortQueries = Annotated[
    bool | None,
    _option("--sort-queries", "Accept rows of a query that do not follow each other.", show_default=False),
]
SkipErrors = Annotated[
    bool | None, _option("--skip-errors", "Leave out bad lines, and say how many.", show_default=False)
]
Cache = Annotated[
    bool | None,
    _option("--cache", "Keep what was read beside the file, and use it the next time.", show_default=False),
]


@dataclass(frozen=True)
class Reading:
    """How data files are read; the fields are those of :func:`pirank.data.read`."""

    label: str = "label"
    query: str = "qid"
    features: tuple[str, ...] | None = None
    sort_queries: bool = False
    skip_errors: bool = False
    cache: bool = False

    def changed(self, *, features: str | None, **options: str | bool | None) -> Reading:
        """The same but for the options that were given, those that are not None."""
        changes = given({**options, "features": column_names(features)})
        return replace(self, **changes)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for ``config.yaml``."""
        return {**asdict(self), "features": None if self.features is None else list(self.features)}

    def read(
        self,
        paths: Sequence[Path],
        *,
        features: int | Sequence[str] | None = None,
        pad: bool = True,
        quiet: bool = False,
    ) -> RankingData:
        """Read labelled files, with these features where given instead of the option's."""
        files = expand(list(paths))
        with contextlib.ExitStack() as stack:
            found = data.read(
                files,
                label=self.label,
                query=self.query,
                features=features if _is_text(files) else features or self.features,
                pad=pad,
                sort_queries=self.sort_queries,
                errors="skip" if self.skip_errors else "raise",
                cache=self.cache,
                progress=None if quiet else stack.enter_context(_bar(files)),
            )
        if found.skipped.count and not quiet:
            first = f"; the first: {found.skipped.examples[0]}" if found.skipped.examples else ""
            console(errors=True).print(f"{found.skipped.count:,} bad lines were left out{first}")
        return found

    def read_for_model(self, paths: Sequence[Path], ranker: Ranker) -> RankingData:
        """Read labelled files with the features a model was trained on."""
        text = _is_text(expand(list(paths)))
        return self.read(paths, features=ranker.in_features if text else ranker.feature_names, pad=False)


def _is_text(files: Sequence[Path]) -> bool:
    return format_of(files[0], None) == "svmlight"


def column_names(text: str | None) -> tuple[str, ...] | None:
    """``"a, b"`` as names; None stays None."""
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


def _bar(files: Sequence[Path]) -> AbstractContextManager[Callable[[int], None]]:
    name = files[0].name if len(files) == 1 else f"{len(files)} files"
    size = sum(file.stat().st_size for file in files)
    return progress_bar(f"reading {name}", size, DownloadColumn(), TransferSpeedColumn())
