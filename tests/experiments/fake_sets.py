"""Small made-up data in the files' own formats."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def write_letor(
    path: Path,
    queries: int,
    *,
    features: int,
    seed: int,
    longest: int = 12,
    first: int = 1,
    sparse: bool = False,
) -> None:
    """A file of LETOR text; a document's grade depends on its first two features, one query has no relevant one."""
    rng = np.random.default_rng(seed)
    lines = []
    for query in range(first, first + queries):
        size = int(rng.integers(3, longest, endpoint=True))
        values = rng.normal(size=(size, features)).round(3)
        grades = np.clip((values[:, 0] + 0.5 * values[:, 1] + 1).round(), 0, 4).astype(int)
        if query == first:
            grades[:] = 0
        elif not grades.any():
            grades[0] = 1
        for grade, row in zip(grades, values.tolist(), strict=True):
            kept = [(i, value) for i, value in enumerate(row, 1) if not sparse or i % 3 or i == features]
            lines.append(f"{grade} qid:{query} " + " ".join(f"{i}:{value:g}" for i, value in kept))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def write_mslr(folder: Path, queries: int = 24) -> Path:
    """A folder as MSLR-WEB30K unpacks to: Fold1/train.txt and so on, 136 features."""
    for i, (split, share) in enumerate((("train", 1.0), ("vali", 0.5), ("test", 0.5))):
        write_letor(
            folder / "Fold1" / f"{split}.txt",
            round(share * queries), features=136, seed=i, longest=30, first=1 + 1000 * i,
        )  # fmt: skip
    return folder


def write_yahoo(folder: Path, queries: int = 24) -> Path:
    """A folder as Yahoo's C14 unpacks to: set1.train.txt and so on, 700 features, zeros left out."""
    for i, (split, share) in enumerate((("train", 1.0), ("valid", 0.5), ("test", 0.5))):
        write_letor(
            folder / f"set1.{split}.txt",
            round(share * queries), features=700, seed=10 + i, first=1 + 1000 * i, sparse=True,
        )  # fmt: skip
    return folder
