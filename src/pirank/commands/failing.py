"""How a command fails: one clear line and exit code 2, or, with ``--debug``, the traceback."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import typer

from pirank.training.errors import Interrupted

P = ParamSpec("P")
R = TypeVar("R")

# What user input can raise; anything else is a bug and says so.
_EXPECTED = (ValueError, TypeError, OSError, RuntimeError, MemoryError, ImportError, KeyError)


class Debug:
    """Whether tracebacks are shown; set by ``pirank --debug``."""

    on = False


def guarded(command: Callable[P, R]) -> Callable[P, R]:
    """A command whose errors are one line on standard error."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except typer.Exit:
            raise
        except Interrupted as stopped:
            print(stopped, file=sys.stderr)
            raise typer.Exit(130) from None
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            raise typer.Exit(130) from None
        except BrokenPipeError:
            raise typer.Exit(0) from None
        except _EXPECTED as error:
            if Debug.on:
                raise
            print(f"error: {one_line(error)}", file=sys.stderr)
            raise typer.Exit(2) from None

    return wrapped


def one_line(error: BaseException) -> str:
    """An error as a line of text."""
    if isinstance(error, KeyError):
        return f"internal error, KeyError: {error}; --debug shows where"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    text = " ".join(str(error).split())
    return text or f"{type(error).__name__}; --debug shows where"
