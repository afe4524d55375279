"""Regular svmlight text, a block at a time, without looking at single lines.

A regular line is ``label qid:id index:value index:value …``. Take ``qid:`` away, and every line is a row of
pairs: (label, id), then (index, value) again and again. So one array of the separators' positions gives every
    token of the
block, one cast turns all tokens into numbers, and the separators' kinds prove that the lines had this shape.
Whatever has not is left to the reader of single lines, which knows what is wrong with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_NEWLINE, _SPACE, _COLON = 10, 32, 58
_EXACT = 2.0**53

_COMMENT = re.compile(rb"[ ]*#[^\n]*")
_COMMENT_OF_LINE = re.compile(rb"[^#\n]*(?:#([^\n]*))?\n")
_DOC_ID = re.compile(r"\s*docid\s*=\s*(\S+)")


@dataclass
class Rows:
    """Some consecutive rows of a file, as numbers.

    Attributes:
        labels: ``[n]`` float32.
        query_ids: ``[n]``, int64 or objects (int or str).
        counts: features given in each row, ``[n]``.
        values: ``[n, F]`` float32 where every row gives the features 1 to F; else ``[sum(counts)]``.
        columns: column of each value, from 0; None where ``values`` is dense.
        doc_ids: one str a row, or None where no comment names one.
    """

    labels: np.ndarray
    query_ids: np.ndarray
    counts: np.ndarray
    values: np.ndarray
    columns: np.ndarray | None
    doc_ids: list[str] | None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def width(self) -> int:
        """The number of columns these rows need."""
        if self.columns is None:
            return int(self.values.shape[1])
        return int(self.columns.max()) + 1 if len(self.columns) else 0


def parse_regular(text: bytes) -> Rows | None:
    """The rows of a block of whole lines, or None where any line is not regular."""
    doc_ids = None
    if b"#" in text:
        text = text.replace(b"\r\n", b"\n")
        text = re.sub(rb"(?m)^[ \t]*#[^\n]*\n", b"", text)
        text = re.sub(rb"(?m)^[ \t]*\n", b"", text)
        doc_ids = _doc_ids(text)
        text = _COMMENT.sub(b"", text)
    if b"\r" in text or b"\t" in text:
        text = _tidy(text)
    bare = _without_qid(text) or _without_qid(_tidy(text))
    if bare is None:
        return None
    separators, kinds = _separators(bare)
    if len(separators) == 0 or separators[0] == 0 or (np.diff(separators) == 1).any():
        # Two separators in a row: spaces or lines too many.
        bare = _tidy(bare)
        separators, kinds = _separators(bare)
    starts = _row_starts(kinds)
    if starts is None:
        return None
    numbers = _numbers(bare, separators, starts)
    if numbers is None:
        return None
    pairs, query_ids = numbers
    return _rows(pairs, starts, query_ids, doc_ids)


def _without_qid(text: bytes) -> bytes | None:
    """The text without ``qid:``, if it stands once in each line, after a space, and there is no other q."""
    # Looking for a single letter is many times faster than looking for a word that starts with a space.
    first, *pieces = text.split(b"q")
    before = [first, *pieces[:-1]]
    once = all(piece.startswith(b"id:") and piece.count(b"\n") == 1 for piece in pieces)
    if not pieces or not once or b"\n" in first or not all(piece.endswith(b" ") for piece in before):
        return None
    return b"".join([first, *(piece[3:] for piece in pieces)])


def _separators(text: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Where the separators stand, and what they are."""
    chars = np.frombuffer(text, np.uint8)
    places = np.flatnonzero((chars == _COLON) | (chars <= _SPACE))
    return places, chars[places]


def _tidy(text: bytes) -> bytes:
    """Single spaces, no space at either end of a line, no empty line."""
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n")
    if b"\t" in text:
        text = text.replace(b"\t", b" ")
    if b"  " in text:
        text = re.sub(rb" {2,}", b" ", text)
    if b" \n" in text:
        text = text.replace(b" \n", b"\n")
    if b"\n " in text:
        text = text.replace(b"\n ", b"\n")
    if b"\n\n" in text:
        text = re.sub(rb"\n{2,}", b"\n", text)
    return text.lstrip(b" \n") if text[:1] in (b" ", b"\n") else text


def _row_starts(kinds: np.ndarray) -> np.ndarray | None:
    """Index of each row's first pair, if the separators' kinds are those of regular lines."""
    if len(kinds) % 2:
        return None
    ends = np.flatnonzero(kinds == _NEWLINE)
    lines = len(ends)
    if lines == 0 or (ends % 2 == 0).any():
        return None
    starts = np.zeros(lines, np.int64)
    starts[1:] = (ends[:-1] + 1) // 2
    first, second = kinds[0::2], kinds[1::2]
    regular = (
        (first[starts] == _SPACE).all()
        and np.count_nonzero(first == _COLON) == len(first) - lines
        and np.count_nonzero(second == _SPACE) == len(second) - lines
    )
    return starts if regular else None


def _numbers(text: bytes, separators: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """All tokens as pairs ``[pairs, 2]``, and the query ids ``[rows]``; None if one is not a number."""
    offsets = np.zeros(len(separators) + 1, np.int32)
    offsets[1:] = separators
    offsets[1:] -= np.arange(len(separators), dtype=np.int32)
    joined = text.translate(None, b" :\n")
    tokens = pa.Array.from_buffers(
        pa.string(), len(separators), [None, pa.py_buffer(offsets), pa.py_buffer(joined)]
    )
    try:
        pairs = _cast(tokens).reshape(-1, 2)
        ids = pairs[starts, 1]
        whole = (ids == np.floor(ids)) & (np.abs(ids) < _EXACT)
        if whole.all():
            return pairs, ids.astype(np.int64)
    except pa.ArrowInvalid:
        pass
    return _numbers_and_text_ids(tokens, starts)


def _numbers_and_text_ids(tokens: Any, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """As :func:`_numbers`, for query ids that are text or beyond the whole numbers a float holds exactly."""
    places = 2 * starts + 1
    others = np.ones(len(tokens), bool)
    others[places] = False
    flat = np.zeros(len(tokens))
    try:
        flat[others] = _cast(tokens.filter(pa.array(others)))
        ids = [query_id(text) for text in tokens.take(pa.array(places)).to_pylist()]
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    if "" in ids:
        return None
    array = np.empty(len(ids), object)
    array[:] = ids
    return flat.reshape(-1, 2), array


def query_id(text: str) -> int | str:
    """A query id as a whole number where it is one, else as text."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number == np.floor(number) and abs(number) < _EXACT else text


def _cast(tokens: Any) -> np.ndarray:
    return np.asarray(pc.cast(tokens, pa.float64()).to_numpy(zero_copy_only=True))


def _rows(
    pairs: np.ndarray, starts: np.ndarray, query_ids: np.ndarray, doc_ids: list[str] | None
) -> Rows | None:
    counts = np.diff(starts, append=len(pairs)) - 1
    labels = _single(pairs[starts, 0])
    if len(counts) and (counts == counts[0]).all() and counts[0] > 0:
        table = pairs.reshape(len(starts), counts[0] + 1, 2)[:, 1:]
        if (table[:, :, 0] == np.arange(1, counts[0] + 1)).all():
            values = _single(table[:, :, 1])
            finite = bool(np.isfinite(values).all() and np.isfinite(labels).all())
            return Rows(labels, query_ids, counts, values, None, doc_ids) if finite else None
    inside = np.ones(len(pairs), bool)
    inside[starts] = False
    indices, values = pairs[inside, 0], _single(pairs[inside, 1])
    # A row's first index only has to be at least 1; every other must exceed the one before it.
    least = np.empty_like(indices)
    least[1:] = indices[:-1]
    firsts = (np.cumsum(counts) - counts)[counts > 0]
    least[firsts] = 0
    good = (
        np.isfinite(values).all()
        and np.isfinite(labels).all()
        and (indices > least).all()
        and (indices == np.floor(indices)).all()
        and (indices < 2**31).all()
    )
    return Rows(labels, query_ids, counts, values, indices.astype(np.int64) - 1, doc_ids) if good else None


def _single(numbers: np.ndarray) -> np.ndarray:
    """As float32; what does not fit becomes infinite, and is caught with the infinities."""
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32)


def _doc_ids(text: bytes) -> list[str] | None:
    ids = [doc_id(comment) for comment in _COMMENT_OF_LINE.findall(text)]
    return ids if any(ids) else None


def doc_id(comment: bytes) -> str:
    """The document's id in a comment: X of ``docid = X …`` as LETOR writes it, else the whole comment."""
    text = comment.decode("utf-8", "replace")
    found = _DOC_ID.match(text)
    return found[1] if found else text.strip()
