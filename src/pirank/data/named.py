"""The public data sets by name, read from where the user has unpacked them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pirank.data.cache import Cache
from pirank.data.catalogue import CATALOGUE, NamedSet
from pirank.data.errors import DataError
from pirank.data.ranking_data import RankingData
from pirank.data.reading import read
from pirank.data.sources import Progress

_ARCHIVES = ("", ".gz", ".xz", ".zst", ".bz2")
_VALIDATION_SHARE = 0.2


class Splits(NamedTuple):
    """The parts of a data set.

    Attributes:
        train: for training.
        vali: for choosing.
        test: for reporting.
    """

    train: RankingData
    vali: RankingData
    test: RankingData


def load(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    fold: int | None = None,
    set: int | None = None,
    counts: str = "warn",
    cache: Cache = True,
    progress: Progress | None = None,
) -> Splits:
    """Read one of the public data sets, after checking that its files are there and its counts are the published ones.

    ===============  ===========================================================================================
    name             files
    ===============  ===========================================================================================
    ``mslr-web10k``  ``Fold1/train.txt``, ``Fold1/vali.txt``, ``Fold1/test.txt``, and so on for five folds
    ``mslr-web30k``  the same
    ``yahoo-c14``    ``set1.train.txt``, ``set1.valid.txt``, ``set1.test.txt``, and the same for set 2
    ``istella``      ``train.txt``, ``test.txt``; a fifth of the training queries is put aside for validation
    ``istella-s``    ``train.txt``, ``vali.txt``, ``test.txt``
    ``mq2007``       ``S1.txt`` to ``S5.txt``, or ``Fold1/train.txt`` and so on
    ``mq2008``       the same
    ``ohsumed``      the same, in ``QueryLevelNorm`` or ``Feature-min``
    ===============  ===========================================================================================

    Each file may also be compressed (``.gz``, ``.xz``, ``.bz2``, ``.zst``), and the folder may be the one above. From
    the parts S1 to S5 the official folds are made: fold k trains on S_k, S_k+1 and S_k+2, validates on S_k+3 and tests
    on S_k+4, counted in a circle. Istella's sets hold numbers beyond float32; these are read as the largest.

    Args:
        name: see above.
        folder: where the files are, or the folder above; None: ``$PIRANK_DATA``.
        fold: 1 to 5, for the sets that have folds; None: 1.
        set: 1 or 2, for ``yahoo-c14``; None: 1.
        counts: what to do where queries or documents are not as many as published: ``"warn"``, ``"raise"`` or
            ``"ignore"``.
        cache: as for :func:`~pirank.data.read`.
        progress: called with the number of bytes read since the last call.
    """
    if name not in CATALOGUE:
        raise ValueError(f"there is no data set {name!r}, only {', '.join(map(repr, CATALOGUE))}")
    if counts not in ("warn", "raise", "ignore"):
        raise ValueError(f"counts must be 'warn', 'raise' or 'ignore', got {counts!r}")
    about = CATALOGUE[name]
    base = _folder(name, folder)
    files = files_of(name, base, fold=fold, set=set)
    parts = {
        split: read(
            paths, features=about.features, pad=False, clip=about.clip, cache=cache, progress=progress
        )
        for split, paths in files.items()
    }
    problem = _count_problem(about, _part(about, fold, set), parts)
    if problem is not None and counts == "raise":
        raise DataError(problem, path=str(base))
    if problem is not None and counts == "warn":
        warnings.warn(f"{base}: {problem}", stacklevel=2)
    if "vali" not in parts:
        parts["train"], parts["vali"] = parts["train"].split(
            [1 - _VALIDATION_SHARE, _VALIDATION_SHARE], seed=0
        )
    return Splits(parts["train"], parts["vali"], parts["test"])


def files_of(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    fold: int | None = None,
    set: int | None = None,
) -> dict[str, list[Path]]:
    """The files that :func:`load` reads for each part."""
    about = CATALOGUE[name]
    return _found(about, _part(about, fold, set), _folder(name, folder))


def _part(about: NamedSet, fold: int | None, set: int | None) -> int:
    given, other, what = (set, fold, "set") if about.parts_are == "set" else (fold, set, "fold")
    if other is not None or (given is not None and about.parts == 0):
        wrong = "fold" if what == "set" or about.parts == 0 else "set"
        raise ValueError(f"{about.name} has no {wrong}s: leave out {wrong}=")
    part = 1 if given is None else given
    if about.parts and not 1 <= part <= about.parts:
        raise ValueError(f"{what} must be from 1 to {about.parts}, got {part}")
    return part


def _folder(name: str, folder: str | os.PathLike[str] | None) -> Path:
    if folder is not None:
        base = Path(folder)
    elif "PIRANK_DATA" in os.environ:
        base = Path(os.environ["PIRANK_DATA"])
    else:
        raise ValueError(
            f"folder must say where {name} was unpacked, or $PIRANK_DATA where all data sets are"
        )
    if not base.is_dir():
        raise FileNotFoundError(f"{base}: there is no such folder; {_where_to_get(CATALOGUE[name])}")
    return base


def _found(about: NamedSet, part: int, base: Path) -> dict[str, list[Path]]:
    for layout in about.layouts:
        for folder in _candidates(base, about):
            files = {
                split: [_with_archive(folder, names) for names in alternatives]
                for split, alternatives in layout(part).items()
            }
            complete = {s: [p for p in paths if p is not None] for s, paths in files.items()}
            if all(len(complete[split]) == len(paths) for split, paths in files.items()):
                return complete
    wanted = " or ".join(
        ", ".join(" / ".join(names) for each in layout(part).values() for names in each)
        for layout in about.layouts
    )
    raise DataError(
        f"{about.name} is not complete here: expected {wanted} (also compressed), in this folder or in "
        f"{', '.join((about.name, *about.folders))} below it; {_where_to_get(about)}",
        path=str(base),
    )


def _candidates(base: Path, about: NamedSet) -> Iterator[Path]:
    yield base
    for name in (about.name, *about.folders):
        yield base / name


def _with_archive(folder: Path, names: tuple[str, ...]) -> Path | None:
    for name in names:
        for ending in _ARCHIVES:
            path = folder / f"{name}{ending}"
            if path.is_file():
                return path
    return None


def _count_problem(about: NamedSet, part: int, parts: dict[str, RankingData]) -> str | None:
    published = about.counts(part)
    for split, (queries, documents) in published.items():
        chosen = list(parts.values()) if split == "all parts" else [parts[split]]
        found_queries = sum(len(data) for data in chosen)
        found_documents = sum(data.documents for data in chosen)
        wrong = found_queries != queries or (documents is not None and found_documents != documents)
        if wrong:
            documents_text = "" if documents is None else f" and {documents:,} documents"
            return (
                f"{about.name}, {split}: {queries:,} queries{documents_text} were published, here are "
                f"{found_queries:,} queries and {found_documents:,} documents: files are missing rows or were changed"
            )
    return None


def _where_to_get(about: NamedSet) -> str:
    return f"get {about.name} from {about.source} and unpack it"
