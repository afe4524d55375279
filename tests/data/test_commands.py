"""The command line: what it prints, writes, and says when something is wrong."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
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
        (["convert", "a.csv", "b.csv"], "b.csv: data is written as svmlight text or Parquet, not as csv"),
        (["convert", "a.csv", "b.txt"], "a.csv: there is no such file or folder"),
        (["convert", "a.csv", "nowhere/b.txt"], "there is no folder nowhere to write to"),
        (["convert", "a.csv", "."], "this is a folder, not a file to write"),
        (["synthetic", "nowhere/b.txt"], "there is no folder nowhere to write to"),
        (["synthetic", "a.txt", "--queries", "0"], "there is nothing to write"),
        (["synthetic", "a.txt", "--seed", "-1"], "seed must not be negative, got -1"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == []


def test_features_are_named_or_numbered(tmp_path: Path) -> None:
    table, text = tmp_path / "a.csv", tmp_path / "a.txt"
    table.write_text("qid,label,a,b,title\n1,1,2,3,x\n1,0,4,5,y\n")
    failed = runner.invoke(app, ["describe", str(table)])
    assert "feature 'title' is 'x'" in failed.output
    assert "(--features)" in failed.output
    run("convert", table, text, "--features", "b, a")
    assert text.read_text() == "1 qid:1 1:3 2:2\n0 qid:1 1:5 2:4\n"
    assert json.loads(run("describe", text, "--features", "7", "--json"))["features"] == 7
    failed = runner.invoke(app, ["describe", str(text), "--features", "a"])
    assert failed.exit_code == 2
    assert "--features says how many features svmlight text has, got 'a'" in failed.output
    text.write_text("1 qid:1 1:1e300\n")
    assert "clip=True (pirank data convert --clip)" in runner.invoke(app, ["describe", str(text)]).output
    run("convert", text, tmp_path / "b.txt", "--clip")
    assert (tmp_path / "b.txt").read_text() == "1 qid:1 1:3.4028235e+38\n"


def test_convert_says_what_it_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 qid:1 1:2\nbad\n")
    printed = run("convert", tmp_path / "a.txt", tmp_path / "b.txt", "--skip-errors")
    assert "1 lines were skipped" in printed
    assert "a.txt:2: the label is 'bad'" in printed


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is another signal there")
@pytest.mark.parametrize("name", ["out.txt.gz", "out.parquet"])
def test_nothing_is_left_of_an_interrupted_command(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("as before")
    command = [sys.executable, "-m", "pirank", "data", "synthetic", name, "--queries", "1000000"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        while process.poll() is None and len(list(tmp_path.iterdir())) < 2:
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "as before"


def test_counts_of_a_real_set(real_data: Path) -> None:
    summary = json.loads(run("describe", real_data / "MQ2008", "--json"))
    assert (summary["queries"], summary["documents"], summary["features"]) == (784, 15211, 46)
    assert summary["labels"] == {"0.0": 12279, "1.0": 2001, "2.0": 931}
