"""The ``pirank`` program."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from pirank.commands.evaluate import evaluate
from pirank.commands.export import export
from pirank.commands.failing import Debug
from pirank.commands.info import info, losses
from pirank.commands.predict import predict
from pirank.commands.train import train
from pirank.data.commands import app as data_commands
from pirank.experiments.commands import compare
from pirank.experiments.reproduce.commands import app as reproduce_commands
from pirank.version import __version__

app = typer.Typer(
    name="pirank",
    help="Learning to rank by optimising the ranking metric itself.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        print(f"pirank {__version__}")
        raise typer.Exit


@app.callback()
def program(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Learning to rank by optimising the ranking metric itself."""
    Debug.on = debug


app.add_typer(data_commands, name="data")
app.add_typer(reproduce_commands, name="reproduce")
for command in (train, evaluate, predict, compare, export, info, losses):
    app.command(command.__name__)(command)


def main() -> None:
    """Run the program; ``--debug`` may stand anywhere on the command line."""
    arguments = sys.argv[1:]
    if "--debug" in arguments:
        arguments.remove("--debug")
        arguments.insert(0, "--debug")
    app(arguments, prog_name="pirank")
