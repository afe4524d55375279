"""``pirank info`` and ``pirank losses``."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated

import typer
import yaml
from rich.table import Table

from pirank import losses as all_losses
from pirank.commands.failing import guarded
from pirank.terminal import say
from pirank.training.run import Run, load_ranker


@guarded
def info(run: Annotated[Path, typer.Argument(help="Run folder, or a model.safetensors file.")]) -> None:
    """Say what a run or a model is."""
    folder = Run(run)
    if run.is_dir():
        config = folder.config()
        say(
            yaml.safe_dump({"data": config["data"], "settings": config["settings"]}, sort_keys=False).rstrip()
        )
        history = folder.history()
        if history:
            last = history[-1]
            where = f"network {last['member'] + 1}, step {last['step']}, epoch {last['epoch']:g}"
            say(f"trained: {where}, best {last['best']}")
        if not folder.model_path.exists():
            say(f"no model yet; go on with: pirank train --resume {run}")
            return
    ranker = load_ranker(run)
    parameters = sum(p.numel() for p in ranker.parameters())
    say(f"model: {ranker.description['members']} × {ranker.description['model']}, {parameters:,} parameters")
    say(
        f"transform: {ranker.transform.steps}, {ranker.in_features} features -> {ranker.transform.out_features}"
    )
    if ranker.feature_names:
        say(f"features: {', '.join(ranker.feature_names)}")


@guarded
def losses() -> None:
    """List the losses, with their options."""
    table = Table(box=None, pad_edge=False)
    table.add_column("loss")
    table.add_column("what it is", overflow="fold")
    table.add_column("options", overflow="fold")
    for name in all_losses.names():
        made = all_losses.get(name)
        function = getattr(type(made), "function", None) or type(made)
        summary = (inspect.getdoc(function) or "").strip().splitlines()
        table.add_row(name, summary[0] if summary else "", options_of(made))
    say(table)


def options_of(loss: object) -> str:
    """A loss's options with their defaults."""
    parameters = inspect.signature(type(loss)).parameters.values()
    return ", ".join(f"{p.name}={p.default!r}" for p in parameters if p.default is not p.empty)
