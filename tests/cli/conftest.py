"""Files a user would have: svmlight, Parquet and CSV with a query column, made once."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from pirank.cli import app


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """A folder with train, valid and test in three formats."""
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    for name, queries, first in (("train", 30, 0), ("valid", 12, 100), ("test", 12, 200)):
        lengths = rng.integers(3, 9, queries)
        ids = np.repeat(np.arange(first, first + queries), lengths)
        X = rng.normal(size=(len(ids), 4)).astype(np.float32).round(3)
        y = np.clip((1.5 * X[:, 0] + 0.2 * rng.normal(size=len(ids))).round(), 0, 3).astype(int)
        y[ids == first] = 0  # a query without a relevant document
        table = pa.table({"grade": y, "query": ids, **{f"f{i}": X[:, i] for i in range(4)}})
        pa.parquet.write_table(table, folder / f"{name}.parquet")
        pa.csv.write_csv(table, folder / f"{name}.csv")
        lines = [
            f"{grade} qid:{query} " + " ".join(f"{i + 1}:{value}" for i, value in enumerate(row)) + "\n"
            for grade, query, row in zip(y, ids, X.tolist(), strict=True)
        ]
        (folder / f"{name}.txt").write_text("".join(lines))
    return folder


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run the program in an empty folder; its exit code must be the one expected."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, code=0):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == code, result.output
        return result

    return run
