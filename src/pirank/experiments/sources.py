"""Where a comparison's data comes from: a public set by name, files, a folder of folds, or the synthetic task."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from pirank.commands.changes import value_of
from pirank.data import Splits, load, read, read_parts, synthetic
from pirank.data.cache import content_hash
from pirank.data.catalogue import CATALOGUE
from pirank.data.named import files_of

_ENDINGS = ("", ".txt", ".svm", ".parquet", ".csv", ".tsv", ".arrow", ".feather")
_ARCHIVES = ("", ".gz", ".xz", ".bz2", ".zst")
_VALIDATION_NAMES = ("vali", "valid", "validation")
_SHARES = (0.6, 0.2, 0.2)
_SYNTHETIC = {"queries": 400, "list_size": 100, "reveal_columns": True}

Files = dict[str, list[str]]


@dataclass(frozen=True)
class Source:
    """A data set that can be split into folds.

    Attributes:
        name: as in the tables.
        kind: ``"named"``: a public set; ``"files"``; or ``"synthetic"``.
        folds: the folds there are.
        files: the files of each fold's ``train``, ``vali`` and ``test``; a fold with ``train`` only is split by query.
        folder: where a public set lies.
        options: of the synthetic task.
        reading: how files are read: options of :func:`pirank.data.read`.
    """

    name: str
    kind: str
    folds: tuple[int, ...] = (1,)
    files: dict[int, Files] = field(default_factory=dict)
    folder: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    reading: dict[str, Any] = field(default_factory=dict)

    def splits(self, fold: int, cache: Path | None = None) -> Splits:
        """Training, validation and test queries of a fold; what was read is kept in the folder ``cache``."""
        if self.kind == "synthetic":
            return _synthetic_splits(self.options)
        if self.kind == "named":
            return load(self.name, self.folder, **self._part(fold), cache=cache or False)
        options = {name: value for name, value in self.reading.items() if name != "features"}
        reader = partial(read, cache=cache or False, **options)
        parts = read_parts(self.files[fold], reader, self.reading.get("features"))
        if set(parts) == {"train"}:
            return Splits(*parts["train"].split(_SHARES, seed=fold))
        return Splits(parts["train"], parts["vali"], parts["test"])

    def is_here(self) -> bool:
        """Whether the files of the first fold are where they are looked for."""
        return self.kind == "synthetic" or bool(self._files_of(self.folds[0]))

    def description(self, fold: int) -> dict[str, Any]:
        """What tells the data of a fold from other data: plain values without the place it lies at."""
        contents = {part: [_content(Path(p)) for p in paths] for part, paths in self._files_of(fold).items()}
        how = {"options": self.options, "reading": self.reading}
        return {"name": self.name, "kind": self.kind, **how, "contents": contents}

    def _part(self, fold: int) -> dict[str, Any]:
        about = CATALOGUE[self.name]
        return {about.parts_are: fold} if about.parts else {}

    def _files_of(self, fold: int) -> Mapping[str, Sequence[str | Path]]:
        if self.kind != "named":
            return self.files.get(fold, {})
        try:
            return files_of(self.name, self.folder, **self._part(fold))
        except (OSError, ValueError):
            return {}  # whoever reads it says what is missing


def _content(path: Path) -> str:
    state = path.stat()
    return _content_at(path, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=1000)
def _content_at(path: Path, size: int, time: int) -> str:
    """The hash of a file as long as nobody changes it."""
    return content_hash(path)


def source_of(
    text: str, folds: tuple[int, ...] | None = None, reading: Mapping[str, Any] | None = None
) -> Source:
    """The data set that a command line names.

    ``synthetic`` (also ``synthetic:queries=500:list_size=60``, and ``LABEL=synthetic`` with or without options) is the
    paper's synthetic task. ``NAME`` or ``NAME=FOLDER`` is one of the public sets. ``PATH`` or ``LABEL=PATH`` is a file,
    which is split by query, or a folder that holds ``train``, ``vali`` and ``test`` files, or folds:
    ``Fold1/train.txt`` and so on, or five parts ``S1.txt`` to ``S5.txt`` or ``Fold1.test.txt`` to ``Fold5.test.txt``,
    of which fold k trains on parts k to k + 2, validates on k + 3 and tests on k + 4, in a circle.

    Args:
        text: see above.
        folds: only these; None: all there are.
        reading: options of :func:`pirank.data.read`, for files.

    Example:
        >>> source_of("synthetic:queries=50").options["queries"]
        50
    """
    label, equals, place = text.partition("=")
    if not equals:
        label, place = "", text
    if _is_synthetic(text):
        source = Source("synthetic", "synthetic", options=_synthetic_options(text))
    elif equals and _is_synthetic(place):
        source = Source(label, "synthetic", options=_synthetic_options(place))
    elif (label or text) in CATALOGUE and not (not equals and Path(text).exists()):
        source = _named(label or text, place if equals else None)
    else:
        source = replace(_of_path(label, Path(place)), reading=dict(reading or {}))
    if folds is None:
        return source
    for fold in folds:
        if fold not in source.folds:
            raise ValueError(f"{source.name} has the folds {_listed(source.folds)}, not {fold}")
    kept = {fold: source.files[fold] for fold in folds if fold in source.files}
    return replace(source, folds=folds, files=kept)


@lru_cache(maxsize=2)
def _synthetic_cached(key: tuple[tuple[str, Any], ...]) -> Splits:
    options = dict(key)
    seed, queries = options.pop("seed", 0), options.pop("queries")
    # As many queries as asked for to train on, a quarter as many to validate on, and half as many to test on.
    parts = (
        synthetic(max(round(share * queries), 2), **options, seed=3 * seed + i)
        for i, share in enumerate((1.0, 0.25, 0.5))
    )
    return Splits(*parts)


def _synthetic_splits(options: dict[str, Any]) -> Splits:
    hashable = {name: tuple(v) if isinstance(v, list) else v for name, v in options.items()}
    return _synthetic_cached(tuple(sorted(hashable.items())))


def _is_synthetic(text: str) -> bool:
    return text == "synthetic" or text.startswith("synthetic:")


def _synthetic_options(text: str) -> dict[str, Any]:
    options: dict[str, Any] = dict(_SYNTHETIC)
    for pair in text.split(":")[1:]:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"synthetic takes options as synthetic:queries=500:list_size=60, got {text!r}")
        options[name.replace("-", "_")] = value_of(value)
    return options


def _named(name: str, folder: str | None) -> Source:
    about = CATALOGUE[name]
    folds = tuple(range(1, about.parts + 1)) if about.parts_are == "fold" and about.parts else (1,)
    given = folder if folder is not None else os.environ.get("PIRANK_DATA")
    place = None if given is None else Path(given).expanduser().absolute()
    return Source(name, "named", folds, folder=None if place is None else str(place))


def _of_path(label: str, path: Path) -> Source:
    path = path.expanduser().absolute()
    if not path.exists():
        near = "" if label else f" (and no public data set is called so; known: {', '.join(CATALOGUE)})"
        raise FileNotFoundError(f"{path}: there is no such file or folder{near}")
    name = label or re.split(r"[.]", path.name)[0]
    folds = {1: {"train": [str(path)]}} if path.is_file() else _layout(path)
    return Source(name, "files", tuple(folds), folds)


def _layout(folder: Path) -> dict[int, Files]:
    plain = _three(folder)
    if plain is not None:
        return {1: plain}
    folds = {fold: found for fold in range(1, 21) if (found := _three(folder / f"Fold{fold}")) is not None}
    if folds:
        return folds
    for pattern in ("S{}", "Fold{}.test"):
        parts = [_file(folder, pattern.format(part)) for part in range(1, 6)]
        present = [part for part in parts if part is not None]
        if len(present) == 5:
            return {
                k + 1: {
                    "train": [present[(k + step) % 5] for step in range(3)],
                    "vali": [present[(k + 3) % 5]],
                    "test": [present[(k + 4) % 5]],
                }
                for k in range(5)
            }
    raise ValueError(
        f"{folder} holds no splits that are known: expected train, vali and test files, Fold1/train.txt and so on, "
        "S1.txt to S5.txt, or Fold1.test.txt to Fold5.test.txt (each also compressed, or as .parquet or .csv)"
    )


def _three(folder: Path) -> Files | None:
    train, test = _file(folder, "train"), _file(folder, "test")
    vali = next((found for name in _VALIDATION_NAMES if (found := _file(folder, name))), None)
    if train is None or test is None or vali is None:
        return None
    return {"train": [train], "vali": [vali], "test": [test]}


def _file(folder: Path, stem: str) -> str | None:
    for ending in _ENDINGS:
        for archive in _ARCHIVES:
            path = folder / f"{stem}{ending}{archive}"
            if path.is_file():
                return str(path)
    return None


def check_names(sources: Iterable[Source]) -> None:
    """Refuse two data sets of one name."""
    seen: set[str] = set()
    for source in sources:
        if source.name in seen:
            way = "synthetic:…" if source.kind == "synthetic" else "PATH"
            raise ValueError(f"two data sets are called {source.name!r}: name one of them, as NAME={way}")
        seen.add(source.name)


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def counts_of(source: Source, cache: Path | None = None) -> tuple[dict[str, Any], list[str]]:
    """Queries, documents, features and blank queries of the first fold, and what the reader warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        splits = source.splits(source.folds[0], cache)
    row: dict[str, Any] = {"folds": len(source.folds), "features": splits.train.features.shape[1]}
    for name, part in splits._asdict().items():
        summary = part.describe()
        row[f"{name} queries"] = summary.queries
        row[f"{name} documents"] = summary.documents
        row[f"{name} blank"] = summary.blank_queries
    return row, [str(warning.message) for warning in caught]
