"""``pirank data``: describe, convert and generate ranking data from the command line."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import DownloadColumn, MofNCompleteColumn, ProgressColumn, Task, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

from pirank.data.ranking_data import RankingData
from pirank.data.reading import read
from pirank.data.sources import expand, format_of
from pirank.data.summary import Summary
from pirank.data.synthetic import synthetic_stream
from pirank.data.writing import check_target, write
from pirank.terminal import console, progress_bar, say

app = typer.Typer(help="Describe, convert and generate ranking data.", no_args_is_help=True)

_DOCUMENTS_PER_PART = 50_000

Label = Annotated[str, typer.Option(help="Label column of a table; empty: documents without labels.")]
Query = Annotated[str, typer.Option(help="Query id column of a table.")]
Doc = Annotated[str | None, typer.Option(help="Document id column of a table.")]
Features = Annotated[
    str | None,
    typer.Option(
        help="Feature columns of a table, joined by commas; or how many features svmlight text has.",
        show_default="all",
    ),
]
Clip = Annotated[
    bool, typer.Option("--clip", help="Take the largest float32 for features of svmlight text beyond it.")
]
Format = Annotated[
    str | None, typer.Option(help="svmlight, parquet, csv or arrow, where the ending does not tell.")
]
SkipErrors = Annotated[bool, typer.Option("--skip-errors", help="Leave out bad lines and count them.")]
SortQueries = Annotated[bool, typer.Option("--sort-queries", help="Bring the rows of each query together.")]
UseCache = Annotated[
    bool, typer.Option("--cache/--no-cache", help="Keep what was read, and use what was kept.")
]


@app.command()
def describe(
    paths: Annotated[list[Path], typer.Argument(help="Files or folders, read as one data set.")],
    label: Label = "label",
    query: Query = "qid",
    doc: Doc = None,
    features: Features = None,
    format: Format = None,
    clip: Clip = False,
    skip_errors: SkipErrors = False,
    sort_queries: SortQueries = False,
    cache: UseCache = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Count queries, documents, labels, list lengths, blank queries and constant features."""
    with _errors_in_words():
        data = _read(paths, label, query, doc, features, format, clip, skip_errors, sort_queries, cache)
        summary = data.describe()
        if as_json:
            typer.echo(json.dumps(dataclasses.asdict(summary)))
            return
        _print_summary(summary)
    _print_skipped(data)


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A file or a folder.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="A .parquet, .txt, .txt.gz, … file.")],
    label: Label = "label",
    query: Query = "qid",
    doc: Doc = None,
    features: Features = None,
    format: Format = None,
    clip: Clip = False,
    skip_errors: SkipErrors = False,
    sort_queries: SortQueries = False,
    sparse: Annotated[bool, typer.Option("--sparse", help="Leave out zeros from svmlight text.")] = False,
) -> None:
    """Convert between svmlight text, Parquet, CSV and Arrow; written are svmlight text and Parquet."""
    with _errors_in_words():
        check_target(target)
        data = _read([source], label, query, doc, features, format, clip, skip_errors, sort_queries, False)
        with _documents_bar(f"writing {target.name}", data.documents) as progress:
            write(data, target, sparse=sparse, progress=progress)
    _say_written(target, len(data), data.documents)
    if data.skipped.count:
        console(errors=True).print(Text(f"{data.skipped.count:,} lines were skipped", style="yellow"))
    _print_skipped(data)


@app.command()
def synthetic(
    target: Annotated[Path, typer.Argument(metavar="OUT", help="A .parquet, .txt, .txt.gz, … file.")],
    queries: Annotated[int, typer.Option(help="Number of queries.")] = 1000,
    list_size: Annotated[
        str, typer.Option(help="Documents a query; or shortest:longest, drawn uniformly.")
    ] = "100",
    document_features: Annotated[int, typer.Option(help="Features of a document.")] = 25,
    query_features: Annotated[
        int, typer.Option(help="Features of a query, the weights of as many columns.")
    ] = 10,
    low: Annotated[float, typer.Option(help="Smallest label.")] = 0.0,
    high: Annotated[float, typer.Option(help="Largest label.")] = 5.0,
    round: Annotated[bool, typer.Option("--round", help="Round labels to whole grades.")] = False,
    documents: Annotated[str, typer.Option(help="Distribution of document features.")] = "normal",
    weights: Annotated[str, typer.Option(help="Distribution of query features.")] = "gamma",
    reveal_columns: Annotated[
        bool,
        typer.Option("--reveal-columns", help="Tell which columns count, so that labels can be learned."),
    ] = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same data.")] = 0,
) -> None:
    """Write synthetic data, as in the PiRank paper's Appendix D, of any size."""
    with _errors_in_words():
        check_target(target)
        sizes = _sizes(list_size)
        longest = sizes if isinstance(sizes, int) else sizes[1]
        parts = synthetic_stream(
            queries,
            sizes,
            queries_per_part=max(_DOCUMENTS_PER_PART // max(longest, 1), 1),
            document_features=document_features,
            query_features=query_features,
            low=low,
            high=high,
            round=round,
            documents=documents,
            weights=weights,
            reveal_columns=reveal_columns,
            seed=seed,
        )
        expected = queries * (sizes if isinstance(sizes, int) else sum(sizes) // 2)
        written = 0
        with _documents_bar(f"writing {target.name}", expected) as progress:

            def count(more: int) -> None:
                nonlocal written
                written += more
                progress(more)

            write(parts, target, progress=count)
    _say_written(target, queries, written)


def _read(
    paths: list[Path],
    label: str,
    query: str,
    doc: str | None,
    features: str | None,
    format: str | None,
    clip: bool,
    skip_errors: bool,
    sort_queries: bool,
    cache: bool,
) -> RankingData:
    files = expand(paths)
    size = sum(file.stat().st_size for file in files)
    name = paths[0].name if len(paths) == 1 else f"{len(files)} files"
    with progress_bar(f"reading {name}", size, DownloadColumn(), TransferSpeedColumn()) as progress:
        return read(
            files,
            label=label or None,
            query=query,
            doc=doc,
            features=_features(features, format_of(files[0], format) == "svmlight"),
            format=format,
            clip=clip,
            errors="skip" if skip_errors else "raise",
            sort_queries=sort_queries,
            cache=cache,
            progress=progress,
        )


def _features(text: str | None, number: bool) -> int | list[str] | None:
    if text is None:
        return None
    if not number:
        return [name.strip() for name in text.split(",")]
    if not text.isdecimal():
        raise ValueError(f"--features says how many features svmlight text has, got {text!r}")
    return int(text)


class _Rate(ProgressColumn):
    """Documents a second."""

    def render(self, task: Task) -> Text:
        return Text(
            "" if task.speed is None else f"{task.speed:,.0f} documents/s", style="progress.data.speed"
        )


def _documents_bar(what: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
    return progress_bar(what, total, MofNCompleteColumn(), _Rate())


@contextlib.contextmanager
def _errors_in_words() -> Iterator[None]:
    """What the user got wrong is said in one line, without a traceback."""
    try:
        yield
    except (ValueError, OSError, ImportError) as error:
        console(errors=True).print(Text(f"error: {error}", style="red"))
        raise typer.Exit(2) from None


def _sizes(text: str) -> int | tuple[int, int]:
    shortest, colon, longest = text.partition(":")
    try:
        return (int(shortest), int(longest)) if colon else int(text)
    except ValueError:
        raise ValueError(f"--list-size is a number or shortest:longest, got {text!r}") from None


def _print_skipped(data: RankingData) -> None:
    for example in data.skipped.examples:
        console(errors=True).print(Text(f"skipped: {example}", style="yellow"))


def _say_written(target: Path, queries: int, documents: int) -> None:
    typer.echo(f"{target}: {queries:,} queries, {documents:,} documents, {target.stat().st_size:,} bytes")


def _print_summary(summary: Summary) -> None:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column()
    table.add_row("queries", f"{summary.queries:,}")
    table.add_row("documents", f"{summary.documents:,}")
    table.add_row("features", f"{summary.features:,}")
    if summary.list_lengths is not None:
        shortest, middle, high, longest = summary.list_lengths
        spread = f"{shortest:,} to {longest:,}, mean {summary.mean_length:.1f}, median {middle:g}, 95 % up to {high:g}"
        table.add_row("documents a query", spread)
    if summary.labels is not None:
        table.add_row("labels", ", ".join(f"{label:g}: {count:,}" for label, count in summary.labels.items()))
    elif summary.label_range is not None:
        low, high_label = summary.label_range
        table.add_row("labels", f"{low:g} to {high_label:g}, more than 32 different ones")
    else:
        table.add_row("labels", "none")
    if summary.blank_queries is not None:
        table.add_row("blank queries", f"{summary.blank_queries:,} (no document of label above 0)")
    constant = summary.constant_features
    listed = ", ".join(str(column + 1) for column in constant[:20]) + (", …" if len(constant) > 20 else "")
    table.add_row(
        "constant features", f"{len(constant):,}" + (f": {listed} (counted from 1)" if constant else "")
    )
    if summary.skipped_lines:
        table.add_row("skipped lines", f"{summary.skipped_lines:,}")
    say(table)
