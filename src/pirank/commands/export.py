"""``pirank export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pirank.commands.failing import guarded
from pirank.names import unknown
from pirank.terminal import say
from pirank.training.run import load_ranker


@guarded
def export(
    run: Annotated[Path, typer.Argument(help="Run folder, or a model.safetensors file.")],
    format: Annotated[
        str, typer.Option("--format", help="onnx, or torch for a torch.export program.")
    ] = "onnx",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write.", show_default="RUN/model.onnx or RUN/model.pt2"),
    ] = None,
) -> None:
    """Write the model for other programs, feature transform inside, and check it against the model on the spot.

    Example: pirank export runs/first --format onnx
    """
    from pirank.training.export import export_onnx, export_torch

    formats = {"onnx": (export_onnx, ".onnx"), "torch": (export_torch, ".pt2")}
    if format not in formats:
        raise ValueError(unknown("format", format, formats))
    write, ending = formats[format]
    ranker = load_ranker(run)
    target = out or (run / f"model{ending}" if run.is_dir() else run.with_suffix(ending))
    difference = write(ranker, target)
    say(f"{target}: features [documents, {ranker.in_features}] -> scores [documents]")
    if ranker.looks_at_queries:
        say("the documents given together must be those of one query")
    say(f"checked against the model: scores differ by at most {difference:.1e} of their spread")
