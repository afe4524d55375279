"""Regular svmlight text, a block at a time, without looking at single lines.

A regular line is ``label qid:id index:value index:value …``. Without the word ``qid``, every line is a row of pairs:
(label, id), then (index, value) again and again. So one array of the separators' positions gives every token of the
block, one cast turns all tokens into numbers, and the separators themselves prove that the lines had this shape.
Whatever has not is left to the reader of single lines, which knows what is wrong with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pirank.data.query_ids import query_id

_NEWLINE, _SPACE, _MINUS, _COLON = 10, 32, 45, 58
_EXACT = 2.0**53
_DIGITS = 16  # of the numbers below that
_QID = np.frombuffer(b"qid", np.uint8)
# Tabs and carriage returns separate as spaces do; other control characters are nothing a line may hold.
_SEPARATORS = np.arange(256, dtype=np.uint8)
_SEPARATORS[[9, 11, 12, 13]] = _SPACE

_LINE_WITHOUT_DATA = re.compile(rb"(?m)^[ \t\r\v\f]*(?:#[^\n]*)?\n")
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

    @property
    def widest(self) -> int:
        """The first row that needs all of them."""
        if self.columns is None or not len(self.columns):
            return 0
        return int(np.repeat(np.arange(len(self)), self.counts)[self.columns.argmax()])


def parse_regular(text: bytes, *, clip: bool = False) -> Rows | None:
    """The rows of a block of whole lines, or None where any line is not regular.

    Args:
        text: whole lines.
        clip: take the largest float32 for features beyond it.
    """
    doc_ids = None
    if b"#" in text:
        text = text.replace(b"\r\n", b"\n")
        text = _LINE_WITHOUT_DATA.sub(b"", text)
        doc_ids = _doc_ids(text)
        text = _COMMENT.sub(b"", text)
    tokens = _tokens(text)
    if tokens is None:
        return None
    rows = _row_starts(tokens)
    if rows is None:
        return None
    numbers = _numbers(text, tokens, rows)
    if numbers is None:
        return None
    pairs, query_ids = numbers
    return _rows(pairs, rows, query_ids, doc_ids, clip)


@dataclass
class _Tokens:
    """What stands between separators, ``qid`` left out.

    Attributes:
        starts: where each token starts, ``[n]``.
        ends: where it ends.
        kinds: what separates it from the next: a space, a colon or a newline.
    """

    starts: np.ndarray
    ends: np.ndarray
    kinds: np.ndarray


def _tokens(text: bytes) -> _Tokens | None:
    """The tokens of lines whose second token is ``qid:``; the id starts after it."""
    chars = np.frombuffer(text, np.uint8)
    places = np.flatnonzero((chars == _COLON) | (chars <= _SPACE))
    kinds = _SEPARATORS[chars[places]]
    starts = np.zeros_like(places)
    starts[1:] = places[:-1] + 1
    filled = places > starts
    if not filled.all():
        strongest = _strongest(kinds, filled)
        if strongest is None:
            return None
        starts, places, kinds = starts[filled], places[filled], strongest
    lasts = np.flatnonzero(kinds == _NEWLINE)
    if len(lasts) == 0:
        return None
    words = np.zeros_like(lasts)
    words[1:] = lasts[:-1] + 1
    words += 1
    # Each line has a label, the word qid and an id.
    if (words >= lasts).any() or (places[words] - starts[words] != 3).any() or (kinds[words] != _COLON).any():
        return None
    if (chars[starts[words, None] + np.arange(3)] != _QID).any() or (
        starts[words + 1] != places[words] + 1
    ).any():
        return None
    others = np.ones(len(places), bool)
    others[words] = False
    return _Tokens(starts[others], places[others], kinds[others])


def _strongest(kinds: np.ndarray, filled: np.ndarray) -> np.ndarray | None:
    """What separates the tokens where spaces and newlines stand together; None if anything else does with them."""
    first = np.flatnonzero(filled)
    if len(first) == 0:
        return None
    # A separator after an empty token belongs to the run of separators before it.
    blank = (kinds == _SPACE) | (kinds == _NEWLINE)
    blank_before = np.ones_like(blank)
    blank_before[1:] = blank[:-1]
    if not (blank & blank_before)[~filled].all():
        return None
    ended = np.logical_or.reduceat(kinds == _NEWLINE, first)
    return np.where(ended, _NEWLINE, kinds[first]).astype(np.uint8)


def _row_starts(tokens: _Tokens) -> np.ndarray | None:
    """Index of each row's first pair, if what separates the tokens is what does in regular lines."""
    kinds = tokens.kinds
    ends = np.flatnonzero(kinds == _NEWLINE)
    lines = len(ends)
    if len(kinds) % 2 or (ends % 2 == 0).any():
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


def _numbers(text: bytes, tokens: _Tokens, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """All tokens as pairs ``[pairs, 2]``, and the query ids ``[rows]``; None if one is not a number."""
    try:
        pairs = _cast(text, tokens, None)
        ids = pairs[rows, 1]
        if _written_whole(text, tokens, 2 * rows + 1) and (np.abs(ids) < _EXACT).all():
            return pairs, ids.astype(np.int64)
    except pa.ArrowInvalid:
        pass
    # Query ids that are text, or not written as whole numbers are, or beyond those a float holds exactly.
    places = 2 * rows + 1
    try:
        pairs = _cast(text, tokens, places)
        bounds = zip(tokens.starts[places].tolist(), tokens.ends[places].tolist(), strict=True)
        ids = np.empty(len(rows), object)
        ids[:] = [query_id(text[start:end].decode()) for start, end in bounds]
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    return pairs, ids


def _written_whole(text: bytes, tokens: _Tokens, places: np.ndarray) -> bool:
    """Whether these tokens are digits without a zero before them, with or without a minus."""
    chars = np.frombuffer(text, np.uint8)
    starts, ends = tokens.starts[places], tokens.ends[places]
    negative = chars[starts] == _MINUS
    starts = starts + negative
    lengths = ends - starts
    widest = int(lengths.max(initial=1))
    if widest > _DIGITS or (lengths == 0).any():
        return False
    columns = np.arange(widest)
    found = chars[np.minimum(starts[:, None] + columns, len(chars) - 1)]
    digits = ((found >= ord("0")) & (found <= ord("9"))) | (columns >= lengths[:, None])
    padded = (found[:, 0] == ord("0")) & ((lengths > 1) | negative)
    return bool(digits.all() and not padded.any())


def _cast(text: bytes, tokens: _Tokens, but: np.ndarray | None) -> np.ndarray:
    """The tokens as pairs of numbers, those at ``but`` left out.

    To Arrow the text is an array of strings as it stands: every other one is a token, those between are missing.
    """
    count = len(tokens.ends)
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[0:-1:2], offsets[1::2], offsets[-1] = tokens.starts, tokens.ends, tokens.ends[-1]
    present = np.full((2 * count + 7) // 8, 0b01010101, np.uint8)
    if but is not None:
        np.bitwise_and.at(present, 2 * but // 8, ~(1 << (2 * but % 8)).astype(np.uint8))
    strings = pa.Array.from_buffers(
        pa.string(), 2 * count, [pa.py_buffer(present), pa.py_buffer(offsets), pa.py_buffer(text)]
    )
    numbers = pc.cast(strings, pa.float64())
    return np.frombuffer(numbers.buffers()[1], np.float64, 2 * count).reshape(-1, 2, 2)[:, :, 0]


def _rows(
    pairs: np.ndarray, starts: np.ndarray, query_ids: np.ndarray, doc_ids: list[str] | None, clip: bool
) -> Rows | None:
    counts = np.diff(starts, append=len(pairs)) - 1
    labels = _single(pairs[starts, 0])
    if len(counts) and (counts == counts[0]).all() and counts[0] > 0:
        table = pairs.reshape(len(starts), counts[0] + 1, 2)[:, 1:]
        if (table[:, :, 0] == np.arange(1, counts[0] + 1)).all():
            values = _single(table[:, :, 1], clip)
            finite = bool(np.isfinite(values).all() and np.isfinite(labels).all())
            return Rows(labels, query_ids, counts, values, None, doc_ids) if finite else None
    inside = np.ones(len(pairs), bool)
    inside[starts] = False
    indices, values = pairs[inside, 0], _single(pairs[inside, 1], clip)
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


def _single(numbers: np.ndarray, clip: bool = False) -> np.ndarray:
    """As float32; what does not fit becomes infinite, and is caught with the infinities, or the largest of its sign."""
    with np.errstate(over="ignore"):
        single = numbers.astype(np.float32)
    if clip and not np.isfinite(single).all():
        beyond = ~np.isfinite(single) & np.isfinite(numbers)
        single[beyond] = np.copysign(np.finfo(np.float32).max, single[beyond])
    return single


def _doc_ids(text: bytes) -> list[str] | None:
    ids = [doc_id(comment) for comment in _COMMENT_OF_LINE.findall(text)]
    return ids if any(ids) else None


def doc_id(comment: bytes) -> str:
    """The document's id in a comment: X of ``docid = X …`` as LETOR writes it, else the whole comment."""
    text = comment.decode("utf-8", "replace")
    found = _DOC_ID.match(text)
    return found[1] if found else text.strip()
