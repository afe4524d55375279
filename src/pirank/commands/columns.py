"""The options that say how a data file is read, the same for every command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from pirank import data
from pirank.data import RankingData
from pirank.data.sources import expand, format_of

Label = Annotated[str, typer.Option("--label", help="Label column of a Parquet or CSV file.")]
Query = Annotated[str, typer.Option("--query", help="Query id column of a Parquet or CSV file.")]
Features = Annotated[
    str | None,
    typer.Option(
        "--features",
        help="Feature columns of a Parquet or CSV file, joined by commas.",
        show_default="all other columns",
    ),
]
SortQueries = Annotated[
    bool,
    typer.Option("--sort-queries", help="Accept rows of one query that do not follow each other."),
]


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are what."""

    label: str = "label"
    query: str = "qid"
    features: tuple[str, ...] | None = None
    sort_queries: bool = False

    @classmethod
    def given(cls, label: str, query: str, features: str | None, sort_queries: bool) -> Columns:
        """The columns that the options name."""
        names = (
            None if features is None else tuple(name.strip() for name in features.split(",") if name.strip())
        )
        return cls(label, query, names, sort_queries)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for ``config.yaml``."""
        values = asdict(self)
        values["features"] = None if self.features is None else list(self.features)
        return values

    def read(
        self,
        paths: Sequence[Path],
        *,
        like: RankingData | None = None,
        width: int | None = None,
        names: Sequence[str] | None = None,
        labels: bool = True,
    ) -> RankingData:
        """Read files, with the features of ``like`` or of a model (``width``, ``names``)."""
        if like is not None:
            width, names = like.features.shape[1], like.feature_names
        tables = format_of(expand(list(paths))[0], None) != "svmlight"
        features: Any = (list(names) if names else self.features and list(self.features)) if tables else width
        return data.read(
            [str(path) for path in paths],
            label=self.label if labels else None,
            query=self.query,
            features=features,
            sort_queries=self.sort_queries,
        )
