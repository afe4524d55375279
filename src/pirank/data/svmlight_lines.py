"""svmlight text line by line: slow, accepts every legal line, and says what is wrong with the others."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from pirank.data.errors import DataError, SkippedLines
from pirank.data.query_ids import query_id
from pirank.data.sources import TextBlock, text_blocks
from pirank.data.svmlight_blocks import Rows, doc_id

# The smallest number that float32 rounds to infinity: its largest, 3.4028235e38 in short, and half a step.
_BEYOND = float(np.finfo(np.float32).max) + 2.0**103


def parse_lines(
    block: TextBlock, skipped: SkippedLines | None, features: int | None = None, *, clip: bool = False
) -> Rows:
    """The rows of a block.

    Args:
        block: whole lines.
        skipped: where bad lines are counted; None: the first one is raised.
        features: the largest feature index allowed.
        clip: take the largest float32 for features beyond it.
    """
    labels: list[float] = []
    ids: list[int | str] = []
    counts: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    doc_ids: list[str] = []
    for number, line in enumerate(block.text.split(b"\n")[:-1], start=block.first_line):
        content, _, comment = line.partition(b"#")
        if not content.strip():
            continue
        try:
            label, qid, row_columns, row_values = _parse_line(content, features, clip)
        except _LineError as problem:
            error = DataError(str(problem), path=str(block.path), line=number, text=_as_text(line))
            if skipped is None:
                raise error from None
            skipped.add(error)
            continue
        labels.append(label)
        ids.append(qid)
        counts.append(len(row_columns))
        columns += row_columns
        values += row_values
        doc_ids.append(doc_id(comment))
    query_ids = np.empty(len(ids), object)
    query_ids[:] = ids
    return Rows(
        np.array(labels, np.float32),
        query_ids,
        np.array(counts, np.int64),
        np.array(values, np.float32),
        np.array(columns, np.int64),
        doc_ids if any(doc_ids) else None,
    )


def line_of_row(
    path: Path, first_line: int, row: int, features: int | None = None, *, clip: bool = False
) -> tuple[int | None, str | None]:
    """Number and text of a row, counted from 0 among the legal lines from ``first_line`` on; reads the file again."""
    if not path.is_file():  # a pipe is read once
        return None, None
    for block in text_blocks(path):
        for number, line in enumerate(block.text.split(b"\n")[:-1], start=block.first_line):
            content = line.partition(b"#")[0]
            if number < first_line or not content.strip():
                continue
            try:
                _parse_line(content, features, clip)
            except _LineError:
                continue
            if row == 0:
                return number, _as_text(line)
            row -= 1
    return None, None


class _LineError(Exception):
    """What is wrong with a line."""


def _parse_line(
    content: bytes, features: int | None, clip: bool
) -> tuple[float, int | str, list[int], list[float]]:
    tokens = content.split()
    label = _number(tokens[0], "the label")
    if len(tokens) < 2 or not tokens[1].startswith(b"qid:"):
        raise _LineError("no query id: 'qid:…' must follow the label")
    try:
        qid = tokens[1][4:].decode()
    except UnicodeDecodeError:  # replacing what cannot be read could make one query of two
        raise _LineError(f"query id {_shown(tokens[1][4:])} is not UTF-8") from None
    if not qid or ":" in qid:
        raise _LineError(f"query id {qid!r}: expected 'qid:' and an id without ':'")
    columns: list[int] = []
    values: list[float] = []
    last = 0
    for token in tokens[2:]:
        index_text, colon, value_text = token.partition(b":")
        if not colon:
            raise _LineError(f"{_shown(token)} is not a feature: expected index:value")
        index = _index(index_text)
        if index == 0:
            raise _LineError("feature index 0: indices start at 1")
        if index <= last:
            raise _LineError(f"feature index {index} follows {last}: indices must rise within a line")
        if features is not None and index > features:
            raise _LineError(f"feature index {index}: there are {features} features")
        columns.append(index - 1)
        values.append(_number(value_text, f"the value of feature {index}", clip))
        last = index
    return label, query_id(qid), columns, values


def _index(text: bytes) -> int:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if b"_" in text or not 0 <= number < 2**31 or number != int(number):
        raise _LineError(f"feature index {_shown(text)} is not a whole number from 1 to 2147483647")
    return int(number)


def _number(text: bytes, what: str, clip: bool | None = None) -> float:
    """A number; one beyond float32 is an error, or with ``clip`` the largest; None: there is no choice."""
    try:
        number = float(text)
    except ValueError:
        number = None
    if number is None or b"_" in text:
        raise _LineError(f"{what} is {_shown(text)}, not a number")
    if clip and abs(number) >= _BEYOND and any(sign in b"0123456789" for sign in text):
        return math.copysign(float(np.finfo(np.float32).max), number)
    if not math.isfinite(number):
        raise _LineError(f"{what} is {_shown(text)}: only finite numbers can be ranked")
    if abs(number) >= _BEYOND:
        hint = "" if clip is None else ": clip=True (pirank data convert --clip) takes the largest"
        raise _LineError(f"{what} is {_shown(text)}, beyond the largest float32{hint}")
    return number


def _as_text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")


def _shown(text: bytes) -> str:
    shown = text.decode("utf-8", "replace")
    return repr(shown if len(shown) <= 40 else shown[:39] + "…")
