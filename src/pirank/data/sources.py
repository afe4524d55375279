"""Files, folders and archives as blocks of whole lines."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pirank.data.errors import DataError

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Progress = Callable[[int], None]
"""Called with the number of bytes of the files on disk that were read since the last call."""

BLOCK_BYTES = 1 << 20
_LONGEST_LINE = 1 << 26
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ARCHIVES = (".gz", ".xz", ".lzma", ".bz2", ".zst")
_TEXT = (".txt", ".svm", ".svmlight", ".libsvm", ".letor", ".dat")
_COLUMNS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
}
_FORMATS = ("svmlight", "parquet", "csv", "arrow")


def expand(paths: Paths) -> list[Path]:
    """The data files of one path or many; a folder gives those in it, in name order."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not given:
        raise DataError("no path was given: name at least one file or folder")
    files: list[Path] = []
    for each in map(Path, given):
        if each.is_dir():
            inside = sorted(entry for entry in each.iterdir() if entry.is_file() and _known(entry))
            if not inside:
                endings = ", ".join((*_TEXT, *_COLUMNS))
                raise DataError(f"the folder holds no data file ({endings}, also compressed)", path=str(each))
            files += inside
        elif each.exists():
            files.append(each)
        else:
            raise FileNotFoundError(f"{each}: there is no such file or folder")
    _check_once(files)
    return files


def _check_once(files: list[Path]) -> None:
    seen: set[Path] = set()
    for file in files:
        if file.resolve() in seen:
            raise DataError("the file is named twice", path=str(file))
        seen.add(file.resolve())


def format_of(path: Path, given: str | None) -> str:
    """The format of a file: the one given, or by its ending; unknown endings are svmlight text."""
    if given is not None:
        if given not in _FORMATS:
            raise ValueError(f"format must be one of {', '.join(map(repr, _FORMATS))}, got {given!r}")
        return given
    return _COLUMNS.get(_inner_suffix(path), "svmlight")


def _inner_suffix(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _ARCHIVES:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _known(path: Path) -> bool:
    return not path.name.startswith((".", "_")) and _inner_suffix(path) in (*_TEXT, *_COLUMNS)


@dataclass(frozen=True)
class TextBlock:
    """Whole lines of a file.

    Attributes:
        path: the file.
        first_line: the number of the first line, from 1.
        text: the lines, each ended by a newline.
    """

    path: Path
    first_line: int
    text: bytes

    def first_data_line(self) -> tuple[int, str]:
        """Number and text of the first line that is more than a comment."""
        lines = self.text.split(b"\n")
        at = next((i for i, line in enumerate(lines) if line.partition(b"#")[0].strip()), 0)
        return self.first_line + at, lines[at].decode("utf-8", "replace").rstrip("\r")


@contextlib.contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A file for reading, decompressed; whatever a damaged archive raises becomes a :class:`DataError`."""
    with opened_packed(path) as (stream, _):
        yield stream


@contextlib.contextmanager
def opened_packed(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """As :func:`opened`, and the file as it is on disk, whose position says how far the reading is."""
    try:
        with path.open("rb") as packed, contextlib.closing(_unpacked(path, packed)) as stream:
            yield stream, packed
    except (EOFError, lzma.LZMAError, zlib.error, OSError) as problem:
        # bz2 and gzip report damage as an OSError without a number; with one, the operating system speaks.
        if isinstance(problem, OSError) and problem.errno is not None:
            raise
        raise DataError(f"the archive is damaged or cut short ({problem})", path=str(path)) from None


def _unpacked(path: Path, packed: IO[bytes]) -> Any:
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return gzip.GzipFile(fileobj=packed)
    if suffix in (".xz", ".lzma"):
        return Frames(packed, lzma.LZMADecompressor, lzma.LZMAError)
    if suffix == ".bz2":
        return Frames(packed, bz2.BZ2Decompressor, OSError)
    if suffix == ".zst":
        try:
            import zstandard
        except ImportError:
            raise ImportError(f'{path}: reading .zst needs zstandard: pip install "pirank[zstd]"') from None
        return Frames(packed, zstandard.ZstdDecompressor().decompressobj, zstandard.ZstdError)
    return packed


class Frames(io.RawIOBase):
    """An archive of one frame or several, read front to back; whatever is wrong with it raises EOFError.

    Python's own readers of .xz and .bz2 take a damaged frame after a whole one for the end of the archive.

    Args:
        packed: the archive.
        start: makes a decompressor for the next frame.
        damage: what it raises where the frame is damaged.
    """

    def __init__(self, packed: IO[bytes], start: Callable[[], Any], damage: type[Exception]) -> None:
        super().__init__()
        self._file = packed
        self._start = start
        self._damage = damage
        self._frame = start()
        self._ready = b""
        self._begun = False

    def readable(self) -> bool:
        """It is there to be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Up to ``size`` decompressed bytes, all of them for -1; empty at the end."""
        pieces = [self._ready]
        held = len(self._ready)
        while size < 0 or held < size:
            packed = self._file.read(1 << 17)
            if not packed:
                if self._begun:
                    raise EOFError("the file ends inside a frame")
                break
            piece = self._decompressed(packed)
            pieces.append(piece)
            held += len(piece)
        ready = b"".join(pieces)
        if size < 0:
            self._ready = b""
            return ready
        self._ready = ready[size:]
        return ready[:size]

    def _decompressed(self, packed: bytes) -> bytes:
        pieces = []
        # Zeros may stand between the frames of .xz.
        while packed := packed if self._begun else packed.lstrip(b"\0"):
            try:
                pieces.append(self._frame.decompress(packed))
            except self._damage as problem:
                raise EOFError(str(problem)) from None
            self._begun = not self._frame.eof
            packed = self._frame.unused_data if self._frame.eof else b""
            if self._frame.eof:
                self._frame = self._start()
        return b"".join(pieces)


def text_blocks(
    path: Path, *, block_bytes: int = BLOCK_BYTES, progress: Progress | None = None
) -> Iterator[TextBlock]:
    """A text file as blocks of whole lines, decompressed. A byte order mark is dropped."""
    line = 1
    rest = b""
    seen = 0
    with opened_packed(path) as (stream, packed):
        while chunk := stream.read(max(block_bytes, len(_BYTE_ORDER_MARK))):
            if line == 1 and not rest:
                chunk = chunk.removeprefix(_BYTE_ORDER_MARK)
            if progress is not None:
                progress(packed.tell() - seen)
                seen = packed.tell()
            end = chunk.rfind(b"\n") + 1
            if end == 0:
                rest += chunk
                if len(rest) > _LONGEST_LINE:
                    raise DataError(
                        "the line is longer than 64 MiB: is this a text file?", path=str(path), line=line
                    )
                continue
            text = rest + chunk[:end] if rest else chunk[:end]
            rest = chunk[end:]
            yield TextBlock(path, line, text)
            line += text.count(b"\n")
    if rest:
        yield TextBlock(path, line, rest + b"\n")
