"""The parts of one data set, training, validation and test: all must have the same features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pirank.data.errors import DataError
from pirank.data.ranking_data import RankingData
from pirank.data.reading import read
from pirank.data.sources import Paths, expand, format_of


def read_parts(
    files: Mapping[str, Paths],
    reader: Callable[..., RankingData] = read,
    features: Sequence[str] | None = None,
) -> dict[str, RankingData]:
    """Read the parts of one data set, with the same features in each.

    Tables give the columns of the first by name. svmlight text that leaves out zeros gets as many features as the part
    with the most; text that leaves out nothing, and has fewer, is refused.

    Args:
        files: part to file, files or folder.
        reader: :func:`~pirank.data.read`, with other options.
        features: the feature columns of tables; None: all others.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "train.txt").write_text("2 qid:1 2:0.5\\n0 qid:1 1:1\\n")
        >>> _ = (folder / "test.txt").write_text("1 qid:2 1:3 3:0.5\\n0 qid:2 2:1\\n")
        >>> parts = read_parts({"train": folder / "train.txt", "test": folder / "test.txt"})
        >>> parts["train"].features
        tensor([[0.0000, 0.5000, 0.0000],
                [1.0000, 0.0000, 0.0000]])
    """
    paths = {part: expand(given) for part, given in files.items()}
    found: dict[str, RankingData] = {}
    names = features
    for part, chosen in paths.items():
        found[part] = reader(chosen, features=None if _is_text(chosen) else names)
        names = names or found[part].feature_names
    width = max(data.features.shape[1] for data in found.values())
    for part, chosen in paths.items():
        if found[part].features.shape[1] != width and _is_text(chosen):
            found[part] = reader(chosen, features=width, pad=False)
    check_same_features(**found)
    return found


def check_same_features(**parts: RankingData) -> None:
    """Refuse parts with different numbers of features, or other names of them.

    Example:
        >>> from pirank.data import synthetic
        >>> train, test = synthetic(3, 4), synthetic(3, 4, document_features=20)
        >>> try:
        ...     check_same_features(train=train, test=test)
        ... except DataError as error:
        ...     print(str(error).partition(":")[0])
        train has 35 features and test has 30
    """
    (first, data), *others = parts.items()
    width = data.features.shape[1]
    for name, other in others:
        if other.features.shape[1] != width:
            raise DataError(
                f"{first} has {width} features and {name} has {other.features.shape[1]}: parts must have the same; "
                "pirank.data.read_parts reads svmlight text that leaves out zeros"
            )
        names = [part.feature_names for part in (data, other) if part.feature_names is not None]
        if len(names) == 2 and names[0] != names[1]:
            at = next(i for i, (own, its) in enumerate(zip(*names, strict=True)) if own != its)
            raise DataError(
                f"{first} and {name} must have the same features in the same order: "
                f"number {at + 1} is {names[0][at]!r} in {first} and {names[1][at]!r} in {name}"
            )


def _is_text(files: Sequence[Path]) -> bool:
    return format_of(files[0], None) == "svmlight"
