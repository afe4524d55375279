"""``pirank evaluate``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import torch
import typer
from torch import Tensor

from pirank.commands.display import results_table
from pirank.commands.failing import guarded
from pirank.commands.reading import Cache, Features, Label, Query, Reading, SkipErrors, SortQueries
from pirank.data import RankingData
from pirank.files import appearing
from pirank.names import unknown
from pirank.terminal import say
from pirank.training.evaluation import Evaluation
from pirank.training.evaluation import evaluate as evaluation_of
from pirank.training.run import load_ranker
from pirank.training.scoring import scores_of


@guarded
def evaluate(
    what: Annotated[
        list[Path],
        typer.Argument(
            metavar="[RUN] DATA...", help="Run folder, then the files to rank; with --scores only the files."
        ),
    ],
    scores: Annotated[
        Path | None,
        typer.Option(
            "--scores",
            help="Scores to evaluate instead of a model's, in the order of the rows: text with one a line, or the "
            "column 'score' of a .csv or .parquet file.",
            show_default=False,
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric", "-m", help="Metric, such as ndcg@10; repeatable.", show_default="all the usual ones"
        ),
    ] = None,
    per_query: Annotated[
        Path | None,
        typer.Option(
            "--per-query", help="Write every query's metrics to this .csv file.", show_default=False
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    label: Label = None,
    query: Query = None,
    features: Features = None,
    sort_queries: SortQueries = None,
    skip_errors: SkipErrors = None,
    cache: Cache = None,
) -> None:
    """Evaluate a run, or anybody's scores, on labelled data.

    Every metric is shown under the three rules for queries without a relevant document: left out of the mean, or
    counted as 0 or 1.

    Example: pirank evaluate runs/first test.txt
    """
    how = Reading().changed(
        label=label,
        query=query,
        features=features,
        sort_queries=sort_queries,
        skip_errors=skip_errors,
        cache=cache,
    )
    if scores is not None:
        if skip_errors or sort_queries:
            raise ValueError(
                "--scores are those of all rows in their order: it excludes --skip-errors and --sort-queries"
            )
        data = how.read(what)
        values = read_scores(scores, len(data.features))
    else:
        if len(what) < 2:
            raise ValueError(
                "name a run folder and the data: pirank evaluate RUN DATA (or --scores FILE DATA)"
            )
        ranker = load_ranker(what[0])
        data = how.read_for_model(what[1:], ranker)
        values = scores_of(ranker, data)
    result = evaluation_of(values, data, tuple(metric) if metric else None)
    if per_query is not None:
        write_per_query(result, data, per_query)
    if as_json:
        print(json.dumps(result.as_dict(), indent=2))
    else:
        say(results_table(result, ", ".join(path.name for path in (what if scores else what[1:]))))


def read_scores(path: Path, rows: int) -> Tensor:
    """One score a row, from text or from the column ``score`` of a table."""
    suffix = path.suffix.lower()
    try:
        if suffix in (".parquet", ".pq", ".csv"):
            table = (pa.csv.read_csv if suffix == ".csv" else pa.parquet.read_table)(str(path))
            if "score" not in table.column_names:
                raise ValueError(f"{path}: {unknown('column', 'score', table.column_names)}")
            values: Any = table.column("score").cast(pa.float64()).to_numpy()
        else:
            values = np.array([float(line) for line in path.read_text().split()])
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise ValueError(f"{path} holds no scores: {error}") from None
    if len(values) != rows:
        raise ValueError(f"{path} holds {len(values):,} scores, the data has {rows:,} rows")
    return torch.from_numpy(np.asarray(values, np.float64).copy())


def write_per_query(result: Evaluation, data: RankingData, path: Path) -> None:
    """Every query's metrics as CSV; empty where the query has no relevant document."""
    columns: dict[str, Any] = {"qid": pa.array(list(data.query_ids))}
    columns["documents"] = pa.array(data.offsets.diff().numpy())
    for name, values in result.per_query.items():
        columns[name] = pa.array(values.double().numpy(), from_pandas=True)
    with appearing(path) as partial:
        pa.csv.write_csv(pa.table(columns), str(partial))
