"""``pirank predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pirank.commands.display import file_bar
from pirank.commands.failing import guarded
from pirank.commands.reading import Label, Query, column_names
from pirank.terminal import say
from pirank.training.prediction import predict_file
from pirank.training.run import load_ranker


@guarded
def predict(
    run: Annotated[Path, typer.Argument(help="Run folder, or a model.safetensors file.")],
    data: Annotated[
        Path, typer.Argument(help="Rows to rank: svmlight, Parquet or CSV; labels are not needed.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="File to write: .csv or .parquet.", show_default=False)
    ],
    query: Query = None,
    label: Label = None,
    features: Annotated[
        str | None,
        typer.Option(
            "--features", help="Feature columns, joined by commas.", show_default="those of training"
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing.")] = False,
) -> None:
    """Score and rank rows: the input's rows in their order, with score and rank.

    Files larger than memory are fine. The feature columns are left out of the output, all others are kept.

    Example: pirank predict runs/first new.parquet -o ranked.parquet
    """
    ranker = load_ranker(run)
    names = column_names(features)
    with file_bar(data, quiet) as progress:
        rows = predict_file(
            ranker, data, out, query=query or "qid", label=label or "label", features=names, progress=progress
        )
    if not quiet:
        say(f"{rows:,} rows: {out}")
