"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor


@contextlib.contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """A name to write to, beside ``path``, that becomes ``path`` at the end, and goes if there was an error.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "scores.txt")
        >>> with appearing(path) as partial:
        ...     _ = partial.write_text("0.5")
        ...     path.exists()
        False
        >>> path.read_text()
        '0.5'
    """
    partial = path.with_name(f".{os.getpid()}-{secrets.token_hex(4)}.partial.{path.name}")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


def write_text(path: Path, text: str) -> Path:
    """Write a text file in UTF-8 with plain newlines, in a folder that is made where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with appearing(path) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
    return path


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write a safetensors file; what cannot be written is an OSError, as for every other file."""
    with appearing(path) as partial:
        try:
            save_file(tensors, partial, metadata=metadata)
            with partial.open("rb+") as file:
                os.fsync(
                    file.fileno()
                )  # a machine that stops right after the renaming must not leave an empty file
        except SafetensorError as error:
            raise OSError(f"{path} cannot be written: {error}") from error
