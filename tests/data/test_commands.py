"""The command line: what it prints, writes, and says when something is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from pirank.data import read, synthetic
from pirank.data.commands import app

runner = CliRunner()


def run(*arguments: object) -> str:
    result = runner.invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "train.txt"
    path.write_text("2 qid:1 1:0.5 2:7\n0 qid:1 1:1 2:7\n0 qid:2 1:3 2:7\n")
    return path


def test_describe_in_words_and_as_json(source: Path) -> None:
    words = " ".join(run("describe", source).split())
    assert "queries 2 documents 3 features 2" in words
    assert "documents a query 1 to 2, mean 1.5" in words
    assert "labels 0: 2, 2: 1" in words
    assert "blank queries 1 (no document of label above 0)" in words
    assert "constant features 1: 2 (counted from 1)" in words
    summary = json.loads(run("describe", source, "--json"))
    assert summary["documents"] == 3
    assert summary["blank_queries"] == 1


def test_describe_says_what_it_skipped(source: Path) -> None:
    source.write_text(source.read_text() + "bad line\n")
    failed = runner.invoke(app, ["describe", str(source)])
    assert failed.exit_code == 2
    assert "train.txt:4: the label is 'bad', not a number; the line reads 'bad line'" in failed.output
    assert "Traceback" not in failed.output
    words = run("describe", source, "--skip-errors")
    assert "skipped lines" in words
    assert "train.txt:4" in words


@pytest.mark.parametrize("name", ["out.parquet", "out.txt.gz"])
def test_convert_there_and_back(source: Path, tmp_path: Path, name: str) -> None:
    printed = run("convert", source, tmp_path / name)
    assert "2 queries, 3 documents" in printed
    run("convert", tmp_path / name, tmp_path / "back.txt")
    assert (tmp_path / "back.txt").read_text() == source.read_text()


def test_convert_a_table_with_named_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("query,grade,x\na,1,0\na,0,2\n")
    run("convert", tmp_path / "a.csv", tmp_path / "a.txt", "--query", "query", "--label", "grade", "--sparse")
    assert (tmp_path / "a.txt").read_text() == "1 qid:a\n0 qid:a 1:2\n"


def test_synthetic_is_the_library_s(tmp_path: Path) -> None:
    options = [
        "--queries",
        9,
        "--list-size",
        "3:8",
        "--round",
        "--document-features",
        6,
        "--query-features",
        2,
    ]
    run("synthetic", tmp_path / "a.txt.gz", *options, "--seed", 4, "--reveal-columns", "--weights", "uniform")
    expected = synthetic(
        9,
        (3, 8),
        round=True,
        document_features=6,
        query_features=2,
        seed=4,
        reveal_columns=True,
        weights="uniform",
    )
    data = read(tmp_path / "a.txt.gz")
    assert torch.equal(data.features, expected.features)
    assert data.lengths.tolist() == expected.lengths.tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["describe", "nowhere.txt"], "nowhere.txt: there is no such file or folder"),
        (["synthetic", "a.txt", "--list-size", "x"], "--list-size is a number or shortest:longest, got 'x'"),
        (["synthetic", "a.txt", "--documents", "x"], "documents must be one of 'normal'"),
        (["convert", "a.csv", "b.csv"], "no such file"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(arguments: list[str], message: str) -> None:
    result = runner.invoke(app, arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output


def test_counts_of_a_real_set(real_data: Path) -> None:
    summary = json.loads(run("describe", real_data / "MQ2008", "--json"))
    assert (summary["queries"], summary["documents"], summary["features"]) == (784, 15211, 46)
    assert summary["labels"] == {"0.0": 12279, "1.0": 2001, "2.0": 931}
