"""What is known of the public data sets: their files, sizes and where they come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Files = dict[str, list[tuple[str, ...]]]
"""For each split its files, each by its possible names."""

Counts = tuple[int, int | None]
"""Queries and documents; None where the number was not published."""


Layout = Callable[[int], Files]
"""One way the files of a data set lie on disk: from the fold or set number to the files."""


@dataclass(frozen=True)
class NamedSet:
    """A public data set.

    Attributes:
        name: its name here.
        features: the number of features.
        parts: how many folds or sets it has; 0: none.
        parts_are: ``"fold"`` or ``"set"``.
        layouts: the ways its files may lie on disk, in order of preference.
        folders: folders they may lie in, below the one given.
        published: published counts by fold or set (0: any) and split; ``"all parts"`` is all splits together.
        source: where to get it.
        clip: whether it holds numbers beyond float32, which are read as the largest.
    """

    name: str
    features: int
    parts: int
    parts_are: str
    layouts: tuple[Layout, ...]
    folders: tuple[str, ...]
    published: Mapping[int, Mapping[str, Counts]] = field(repr=False)
    source: str
    clip: bool = False

    def counts(self, part: int) -> Mapping[str, Counts]:
        """What to expect of a fold or set."""
        return {**self.published.get(0, {}), **self.published.get(part, {})}


def _plain(train: str, vali: str | None, test: str) -> Layout:
    """Files whose names do not depend on a fold."""

    def files(part: int) -> Files:
        names = {"train": train, "vali": vali, "test": test}
        return {split: [(name.format(part),)] for split, name in names.items() if name is not None}

    return files


def _fold_files(fold: int) -> Files:
    old_names = {"train": "trainingset", "vali": "validationset", "test": "testset"}
    return {split: [(f"Fold{fold}/{split}.txt", f"Fold{fold}/{old}.txt")] for split, old in old_names.items()}


def _five_part_files(fold: int) -> Files:
    """LETOR's official folds: three parts for training, one for validation, one for testing, in a circle."""
    part: list[tuple[str, ...]] = [(f"S{(fold - 1 + step) % 5 + 1}.txt",) for step in range(5)]
    return {"train": part[:3], "vali": part[3:4], "test": part[4:]}


_MICROSOFT = "https://www.microsoft.com/en-us/research/project/mslr/"
_LETOR = "https://www.microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval/"

_WEB30K: dict[int, Mapping[str, Counts]] = {
    1: {"train": (18919, 2270296), "vali": (6306, 747218), "test": (6306, 753611)},
    2: {"train": (18918, None), "vali": (6306, None), "test": (6307, None)},
    3: {"train": (18918, None), "vali": (6307, None), "test": (6306, None)},
    4: {"train": (18919, None), "vali": (6306, None), "test": (6306, None)},
    5: {"train": (18919, None), "vali": (6306, None), "test": (6306, None)},
}

_SETS = (
    NamedSet(
        "mslr-web10k",
        136,
        5,
        "fold",
        (_fold_files,),
        ("MSLR-WEB10K",),
        {
            0: {"all parts": (10000, 1200192)},
            1: {"train": (6000, 723412), "vali": (2000, 235259), "test": (2000, 241521)},
        },
        _MICROSOFT,
    ),
    NamedSet(
        "mslr-web30k",
        136,
        5,
        "fold",
        (_fold_files,),
        ("MSLR-WEB30K",),
        {0: {"all parts": (31531, 3771125)}, **_WEB30K},
        _MICROSOFT,
    ),
    NamedSet(
        "yahoo-c14",
        700,
        2,
        "set",
        (_plain("set{}.train.txt", "set{}.valid.txt", "set{}.test.txt"),),
        ("ltrc_yahoo", "C14"),
        {
            1: {"train": (19944, 473134), "vali": (2994, 71083), "test": (6983, 165660)},
            2: {"train": (1266, 34815), "vali": (1266, 34881), "test": (3798, 103174)},
        },
        "https://webscope.sandbox.yahoo.com/catalog.php?datatype=c (C14, on request)",
    ),
    NamedSet(
        "istella",
        220,
        0,
        "fold",
        (_plain("train.txt", None, "test.txt"),),
        ("full", "istella/full"),
        {0: {"train": (23219, 7325625), "test": (9799, 3129004)}},
        "http://quickrank.isti.cnr.it/istella-dataset/",
        clip=True,  # 1.79769313486e+308 stands in both
    ),
    NamedSet(
        "istella-s",
        220,
        0,
        "fold",
        (_plain("train.txt", "vali.txt", "test.txt"),),
        ("sample", "istella-s/sample", "istella-s-letor/sample", "istella-s-letor"),
        {0: {"train": (19245, 2043304), "vali": (7211, 684076), "test": (6562, 681250)}},
        "http://quickrank.isti.cnr.it/istella-dataset/",
        clip=True,
    ),
    NamedSet(
        "mq2007",
        46,
        5,
        "fold",
        (_five_part_files, _fold_files),
        ("MQ2007", "MQ2007-r85"),
        {0: {"all parts": (1692, 69623)}},
        _LETOR,
    ),
    NamedSet(
        "mq2008",
        46,
        5,
        "fold",
        (_five_part_files, _fold_files),
        ("MQ2008",),
        {0: {"all parts": (784, 15211)}},
        _LETOR,
    ),
    NamedSet(
        "ohsumed",
        45,
        5,
        "fold",
        (_five_part_files, _fold_files),
        (
            "QueryLevelNorm",
            "OHSUMED/QueryLevelNorm",
            "OHSUMED-LETOR3/QueryLevelNorm",
            "Feature-min",
            "OHSUMED/Feature-min",
        ),
        {0: {"all parts": (106, 16140)}},
        _LETOR,
    ),
)

CATALOGUE: dict[str, NamedSet] = {each.name: each for each in _SETS}
