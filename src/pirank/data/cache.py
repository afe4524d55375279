"""A cache of what was read: one safetensors file, mapped into memory when it is opened again.

The file records its sources (name, size, time of change, content hash) and the reader's options. It is fresh if sizes
and times agree; where only a time differs, the content decides. It is written to a temporary name and renamed, so
that another process sees the old file, the new one or none, never half a file. Whatever is wrong with a cache file,
the sources are read again. Features of more than 64 MiB are mapped into memory and not looked at, so that damage inside
them goes unnoticed.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from pirank.data.errors import DataError, SkippedLines
from pirank.data.ranking_data import RankingData
from pirank.files import write_tensors

_VERSION = 2
# Up to so many bytes of features are looked at when a cache is opened, in less than a tenth of a second.
_CHECKED_BYTES = 1 << 26
_ENDING = ".pirank-cache"

Cache = bool | str | os.PathLike[str]


def cached(
    files: Sequence[Path], options: dict[str, Any], cache: Cache, build: Callable[[], RankingData]
) -> RankingData:
    """What ``build`` reads from ``files``, taken from the cache if it is fresh, else read and put there.

    Args:
        files: the sources.
        options: everything else the result depends on.
        cache: True: beside the first source, or in the user's cache folder if nothing can be written there; a path:
            in that folder.
        build: reads the sources.
    """
    places = _places(files, options, cache)
    for place in places:
        data = _opened(place, files)
        if data is not None:
            return data
    # Taken before reading: a source that changes meanwhile makes the cache stale instead of wrong.
    sources = [_fingerprint(file) for file in files]
    data = build()
    for place in places:
        if _saved(data, place, sources):
            return data
    tried = " or ".join(str(place.parent) for place in places)
    warnings.warn(f"the data was not cached: nothing can be written to {tried}", stacklevel=3)
    return data


def user_cache_folder() -> Path:
    """Where caches go that cannot stand beside their source: $PIRANK_CACHE, or the system's folder for caches."""
    if given := os.environ.get("PIRANK_CACHE"):
        return Path(given)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "pirank" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "pirank"
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "pirank"


def _places(files: Sequence[Path], options: dict[str, Any], cache: Cache) -> list[Path]:
    first = files[0].resolve()
    more = f"+{len(files) - 1}" if len(files) > 1 else ""

    def place(folder: Path, names: list[str]) -> Path:
        key = json.dumps([_VERSION, names, options], sort_keys=True, default=str)
        return (
            folder / f"{first.name}{more}-{hashlib.blake2b(key.encode(), digest_size=8).hexdigest()}{_ENDING}"
        )

    # Beside the sources the name does not depend on where they are: the folder can be moved with its cache.
    absolute = [str(file.resolve()) for file in files]
    if not isinstance(cache, bool):
        return [place(Path(cache), absolute)]
    beside = place(first.parent, [os.path.relpath(file, first.parent) for file in absolute])
    return [beside, place(user_cache_folder(), absolute)]


# --- fresh or stale -----------------------------------------------------------------------------------------------


def _fingerprint(file: Path) -> dict[str, Any]:
    state = file.stat()
    return {"name": file.name, "size": state.st_size, "time": state.st_mtime_ns, "hash": content_hash(file)}


def content_hash(file: Path) -> str:
    """What tells a file from every other, in hexadecimal."""
    digest = hashlib.blake2b(digest_size=16)
    with file.open("rb") as stream:
        while block := stream.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()


def _fresh(files: Sequence[Path], sources: list[dict[str, Any]]) -> bool:
    if len(files) != len(sources):
        return False
    for file, source in zip(files, sources, strict=True):
        state = file.stat()
        if state.st_size != source["size"]:
            return False
        if state.st_mtime_ns != source["time"] and content_hash(file) != source["hash"]:
            return False
    return True


# --- the file -----------------------------------------------------------------------------------------------------


def save(data: RankingData, path: Path, sources: list[dict[str, Any]] | None = None) -> None:
    """Write data as one safetensors file, under a temporary name that is then renamed."""
    tensors = {"features": data.features.cpu().contiguous(), "offsets": data.offsets.cpu().contiguous()}
    if data.labels is not None:
        tensors["labels"] = data.labels.cpu().contiguous()
    tensors.update(_ids_as_tensors("query_ids", data.query_ids))
    if data.doc_ids is not None:
        tensors.update(_ids_as_tensors("doc_ids", data.doc_ids))
    about = {
        "version": _VERSION,
        "sources": sources or [],
        "feature_names": data.feature_names,
        "skipped": data.skipped.count,
        "examples": [[e.problem, e.path, e.line, e.text] for e in data.skipped.examples],
        "check": _checksum(tensors),
        "features": _features_checksum(tensors) if tensors["features"].nbytes <= _CHECKED_BYTES else None,
    }
    write_tensors(path, tensors, {"pirank": json.dumps(about)})


def load(path: Path) -> tuple[RankingData, list[dict[str, Any]]]:
    """Data from a file :func:`save` wrote, and its sources. The features are mapped into memory, not read."""
    try:
        with safe_open(path, "pt") as file:
            about = json.loads((file.metadata() or {}).get("pirank", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 not a dict
    except (SafetensorError, ValueError) as problem:
        raise DataError(f"not a whole data file: {problem}", path=str(path)) from None
    version = about.get("version") if isinstance(about, dict) else None
    if version != _VERSION:
        raise DataError(f"written by another version of the format: {version}", path=str(path))
    small = tensors["features"].nbytes <= _CHECKED_BYTES
    if about["check"] != _checksum(tensors) or (small and about["features"] != _features_checksum(tensors)):
        raise DataError("the file is damaged: its checksum is wrong", path=str(path))
    skipped = SkippedLines(
        about["skipped"], [DataError(p, path=f, line=n, text=t) for p, f, n, t in about["examples"]]
    )
    data = RankingData(
        tensors["features"],
        tensors.get("labels"),
        tensors["offsets"],
        _ids_from_tensors("query_ids", tensors),
        _ids_from_tensors("doc_ids", tensors),
        about["feature_names"],
        skipped=skipped,
    )
    return data, about["sources"]


def _opened(place: Path, files: Sequence[Path]) -> RankingData | None:
    try:
        data, sources = load(place)
        return data if _fresh(files, sources) else None
    except (OSError, DataError, KeyError, TypeError):
        return None


def _saved(data: RankingData, place: Path, sources: list[dict[str, Any]]) -> bool:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        save(data, place, sources)
    except OSError:
        return False
    return True


def _checksum(tensors: dict[str, Tensor]) -> str:
    """A hash of everything but the features, which are not to be read, and of their shape."""
    digest = hashlib.blake2b(str(list(tensors["features"].shape)).encode(), digest_size=16)
    for name in sorted(tensors):
        if name != "features":
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(tensors[name].numpy()).data)
    return digest.hexdigest()


def _features_checksum(tensors: dict[str, Tensor]) -> str:
    return hashlib.blake2b(np.ascontiguousarray(tensors["features"].numpy()).data, digest_size=16).hexdigest()


def _ids_as_tensors(name: str, ids: np.ndarray) -> dict[str, Tensor]:
    """Ids as one tensor of whole numbers, or as UTF-8 text and the ends of the pieces."""
    if ids.dtype.kind in "iu" and ids.dtype != np.uint64:
        return {name: torch.from_numpy(np.ascontiguousarray(ids, np.int64))}
    pieces = [str(each).encode() for each in ids]
    ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    text = np.frombuffer(b"".join(pieces), np.uint8).copy()
    return {f"{name}_text": torch.from_numpy(text), f"{name}_ends": torch.from_numpy(ends)}


def _ids_from_tensors(name: str, tensors: dict[str, Tensor]) -> np.ndarray | None:
    if name in tensors:
        return tensors[name].numpy()
    if f"{name}_text" not in tensors:
        return None
    text, ends = tensors[f"{name}_text"].numpy().tobytes(), tensors[f"{name}_ends"].tolist()
    ids = np.empty(len(ends), object)
    ids[:] = [text[start:end].decode() for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    return ids
