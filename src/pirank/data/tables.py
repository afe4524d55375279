"""Arrow record batches, whatever they came from, as ranking data."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from pirank.data.errors import DataError, SkippedLines
from pirank.data.grouping import group_rows
from pirank.data.ranking_data import RankingData


@dataclass(frozen=True)
class Columns:
    """What the columns of a table mean.

    Attributes:
        label: the label column; None: there is none.
        query: the query id column.
        features: the feature columns; None: all that are left.
        doc: the document id column, or None.
    """

    label: str | None = "label"
    query: str = "qid"
    features: Sequence[str] | None = None
    doc: str | None = None

    def feature_names(self, names: Sequence[str], where: str | None) -> list[str]:
        """The feature columns of a table with these columns, after checking that all named ones are there."""
        special = [name for name in (self.label, self.query, self.doc) if name is not None]
        wanted = [*special, *(self.features or [])]
        missing = [name for name in wanted if name not in names]
        if missing:
            hint = ""
            if missing == [self.label]:
                hint = "; name it with label= (--label), None where there are no labels (--label '')"
            elif missing == [self.query]:
                hint = "; name the query column with query= (--query)"
            raise DataError(f"there is no column {missing[0]!r}, only {_listed(names)}{hint}", path=where)
        chosen = list(self.features) if self.features is not None else [n for n in names if n not in special]
        if not chosen:
            raise DataError(f"no feature column is left among {_listed(names)}", path=where)
        self._check_once(names, chosen, where)
        return chosen

    def places(self, names: Sequence[str]) -> list[int]:
        """Where the columns that are needed stand among these."""
        chosen = self.feature_names(names, None)
        special = [name for name in (self.label, self.query, self.doc) if name is not None]
        return [list(names).index(name) for name in dict.fromkeys([*chosen, *special])]

    def _check_once(self, names: Sequence[str], chosen: list[str], where: str | None) -> None:
        """Refuse a column that is there twice, or means two things."""
        used = {self.query, *chosen, *(name for name in (self.label, self.doc) if name is not None)}
        for name, count in Counter(names).items():
            if count > 1 and name in used:
                raise DataError(f"column {name!r} is there {count} times", path=where)
        if self.label == self.query:
            raise DataError(f"column {self.label!r} cannot be both the label and the query id", path=where)
        for name, count in Counter(chosen).items():
            if count > 1:
                raise DataError(f"feature {name!r} is named {count} times", path=where)
            if name in (self.label, self.query):
                what = "label" if name == self.label else "query id"
                raise DataError(f"column {name!r} is the {what} and cannot be a feature", path=where)


def names_of(features: Sequence[str] | None) -> list[str] | None:
    """The feature columns as a list of names; None stays None."""
    if isinstance(features, str):
        raise ValueError(
            f"features must be a list of columns, got {features!r}: did you mean [{features!r}]?"
        )
    return None if features is None else [str(name) for name in features]


def from_batches(
    batches: Iterable[Any],
    names: Sequence[str],
    columns: Columns,
    *,
    errors: str = "raise",
    sort_queries: bool = False,
    where: str | None = None,
) -> RankingData:
    """Ranking data from Arrow record batches that have the columns ``names``.

    Args:
        batches: ``pyarrow.RecordBatch`` objects.
        names: the columns of the table.
        columns: what they mean.
        errors: ``"raise"``, or ``"skip"`` to leave out rows with a bad value.
        sort_queries: bring rows of one query together.
        where: file name for messages.
    """
    chosen = columns.feature_names(names, where)
    skipped = SkippedLines()
    features: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    ids: list[Any] = []
    docs: list[np.ndarray] = []
    row = 0
    for batch in batches:
        numeric = chosen if columns.label is None else [*chosen, columns.label]
        block = np.empty((batch.num_rows, len(numeric)), np.float32)
        for place, name in enumerate(numeric):
            block[:, place] = as_float32(batch.column(name))
        ids_block = _decoded(batch.column(columns.query))
        good = np.isfinite(block).all(1) & ~_nulls(ids_block)
        if not good.all():
            for bad in np.flatnonzero(~good):
                error = _bad_row(batch, int(bad), row, block, numeric, columns, where)
                if errors == "raise":
                    raise error
                skipped.add(error)
            block = block[good]
            ids_block = ids_block.filter(pa.array(good))
        features.append(block[:, : len(chosen)])
        if columns.label is not None:
            labels.append(block[:, -1].copy())
        try:
            ids.append(_plain(ids_block))
        except pa.ArrowException as problem:
            raise DataError(
                f"the query ids {columns.query!r} are {ids_block.type}: expected whole numbers or text ({problem})",
                path=where,
            ) from None
        if columns.doc is not None:
            names_block = [_doc_id(each) for each in batch.column(columns.doc).to_pylist()]
            docs.append(np.array(names_block, object)[good])
        row += batch.num_rows
    if not sum(map(len, features)):
        first = (
            f": all {row} rows were skipped, the first because of: {skipped.examples[0].problem}"
            if row
            else ""
        )
        raise DataError(f"the table holds no rows{first}", path=where)
    if len({each.type for each in ids}) > 1:  # whole numbers in one block, and not in another
        ids = [each.cast(pa.string()) for each in ids]
    all_ids = np.asarray(pa.chunked_array(ids).combine_chunks().to_numpy(zero_copy_only=False))
    try:
        grouped = group_rows(all_ids, sort_queries=sort_queries)
    except DataError as problem:
        raise DataError(problem.problem, path=where) from None
    data = RankingData(
        torch.from_numpy(_stacked(features)),
        torch.from_numpy(np.concatenate(labels)) if labels else None,
        np.array([0, len(all_ids)]),
        None,
        np.concatenate(docs) if docs else None,
        chosen,
        skipped=skipped,
    )
    order = grouped.order
    return RankingData(
        data.features if order is None else data.features[order],
        data.labels if order is None or data.labels is None else data.labels[order],
        grouped.offsets,
        grouped.query_ids,
        data.doc_ids if order is None or data.doc_ids is None else data.doc_ids[order],
        chosen,
        skipped=skipped,
    )


def _stacked(blocks: list[np.ndarray]) -> np.ndarray:
    """The blocks as one array; each is given up once it is copied, so that about one copy exists."""
    result = np.empty((sum(map(len, blocks)), blocks[0].shape[1]), np.float32)
    row = 0
    for place, block in enumerate(blocks):
        result[row : row + len(block)] = block
        row += len(block)
        blocks[place] = block[:0].copy()
    return result


def as_float32(column: Any) -> np.ndarray:
    """A column as float32, with NaN where it holds no number."""
    column = _decoded(column)
    if _is_text(column.type):
        values = np.array([number(text) for text in column.to_pylist()], np.float64)
    elif _numeric(column.type):
        values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    else:
        return np.full(len(column), np.nan, np.float32)
    with np.errstate(over="ignore"):
        return np.asarray(values.astype(np.float32))


def _decoded(column: Any) -> Any:
    """What categories stand for."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _is_text(kind: Any) -> bool:
    views = str(kind) == "string_view"  # which Arrow 15 does not know
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or views)


def _numeric(kind: Any) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )


def number(text: str | None) -> float:
    """A cell as a number, NaN where it is none."""
    try:
        return float("nan") if text is None or "_" in text else float(text)
    except ValueError:
        return float("nan")


def _nulls(column: Any) -> np.ndarray:
    missing = pc.is_null(column, nan_is_null=True).to_numpy(zero_copy_only=False)
    if _is_text(column.type):
        missing |= pc.equal(column.cast(pa.large_string()), "").fill_null(True).to_numpy(zero_copy_only=False)
    return np.asarray(missing)


def _doc_id(value: object) -> str:
    """A document's id, "" where it has none."""
    if value is None:
        return ""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _plain(ids: Any) -> Any:
    """Query ids as int64 or text, so that blocks of one file can be put together."""
    kind = ids.type
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return ids.cast(pa.int64())
    if pa.types.is_floating(kind):
        # What pandas makes of whole numbers in a column that once had gaps.
        with contextlib.suppress(pa.ArrowInvalid):
            return ids.cast(pa.int64())
    return ids.cast(pa.string())


def wanted(value: object) -> str:
    """What was expected where this value is."""
    large = isinstance(value, (int, float)) and math.isfinite(value)
    return "expected a number that float32 can hold" if large else "expected a finite number"


def _bad_row(
    batch: Any,
    bad: int,
    first_row: int,
    block: np.ndarray,
    numeric: list[str],
    columns: Columns,
    where: str | None,
) -> DataError:
    wrong = [name for name, good in zip(numeric, np.isfinite(block[bad]), strict=True) if not good]
    if wrong:
        column = _decoded(batch.column(wrong[0]))
        value, kind = column[bad].as_py(), column.type
        what = "label" if wrong[0] == columns.label else "feature"
        if value is None or _numeric(kind) or _is_text(kind):
            problem = f"{what} {wrong[0]!r} is {value!r}: {wanted(value)}"
        else:
            problem = f"{what} {wrong[0]!r} is a column of {kind}: expected numbers"
        if isinstance(value, str) and what == "feature" and columns.features is None:
            problem += "; if it is not a feature, name those that are with features=[…] (--features)"
    else:
        problem = f"the query id {columns.query!r} is missing"
    return DataError(f"{problem} (row {first_row + bad}, from 0)", path=where)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:8])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"
