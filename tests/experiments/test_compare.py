"""Comparisons: the winners of a case worked out by hand, and the same table however often it was stopped."""

from __future__ import annotations

import csv
import importlib.util
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from experiments.fake_sets import write_letor
from pirank.cli import app
from pirank.data import synthetic
from pirank.experiments.commands import with_settings
from pirank.experiments.compare import Plan
from pirank.experiments.comparison_report import results_table, source_section
from pirank.experiments.methods import GBDTS, gbdt_method, loss_method, scores_method
from pirank.experiments.protocol import protocol
from pirank.experiments.report.tables import to_csv
from pirank.experiments.sources import source_of
from pirank.training import Interrupted, Settings

TINY = ["--set", "model.hidden=[8]", "--set", "transform=none", "--steps", "6", "--set", "validate_every=3"]


@pytest.fixture(scope="module")
def letor(tmp_path_factory):
    """Train, vali and test files of LETOR text."""
    folder = tmp_path_factory.mktemp("letor") / "small"
    for i, (split, queries) in enumerate((("train", 20), ("vali", 8), ("test", 10))):
        write_letor(folder / f"{split}.txt", queries, features=5, seed=i, first=1 + 100 * i)
    return folder


def run(*arguments, code=0):
    """Run the program in this process."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def rows_of(report):
    """The rows of a report's results.csv."""
    return list(csv.DictReader((report / "results.csv").read_text().splitlines()))


def test_winners_are_those_of_a_case_worked_out_by_hand(tmp_path):
    # Ten queries of two documents, the first relevant: NDCG@1 is 1 where it is scored higher, else 0.
    lines = [f"{grade} qid:{query} 1:{grade}" for query in range(10) for grade in (1, 0)]
    for split in ("train", "vali", "test"):
        (tmp_path / f"{split}.txt").write_text("\n".join(lines) + "\n")

    def scores(name, right):
        values = [score for query in range(10) for score in ((1, 0) if query < right else (0, 1))]
        path = tmp_path / f"{name}.scores"
        path.write_text("\n".join(map(str, values)))
        return scores_method(f"{name}={path}")

    methods = [scores("nine", 9), scores("eight", 8), scores("three", 3)]
    source = source_of(f"hand={tmp_path}")
    findings = Plan([source], methods).run(tmp_path / "out", jobs=1)
    # nine − eight: one 1 among ten, mean 0.1, deviation √0.1, t = 1, p = 0.17 > 0.05.
    # nine − three: six 1s, mean 0.6, deviation √(2.4/9), t = 3.67, p = 0.0026 < 0.05.
    found = findings.compared(source).metrics["ndcg@1"]
    assert found.best == "nine"
    assert found.p_values["eight"] == pytest.approx(0.1717, abs=1e-4)
    assert found.p_values["three"] == pytest.approx(0.0026, abs=1e-4)
    table = results_table(findings, source)
    assert [table.cell(row, 1).value for row in range(3)] == [0.9, 0.8, 0.3]
    assert [table.cell(row, 1).bold for row in range(3)] == [True, True, False]
    # ARP is 1 where the relevant document is first and 2 where it is second: lower is better.
    arp = next(column for column in range(9) if table.column(column).name == "ARP")
    assert [table.cell(row, arp).value for row in range(3)] == pytest.approx([1.1, 1.2, 1.7])
    assert [table.cell(row, arp).bold for row in range(3)] == [True, True, False]


@pytest.mark.parametrize("path", ["{data}-{fold}.scores", "plain.scores"])
def test_scores_that_changed_are_read_again(letor, tmp_path, path):
    source = source_of(str(letor))
    file = tmp_path / path.format(data=source.name, fold=1)
    rows = (letor / "test.txt").read_text().splitlines()
    plan = Plan([source], [scores_method(f"theirs={tmp_path / path}")])

    def ndcg(scores):
        file.write_text("\n".join(scores))
        return plan.run(tmp_path / "out", jobs=1).compared(source).metrics["ndcg@10"].means["theirs"]

    assert ndcg([line[0] for line in rows]) == 1
    assert ndcg([str(9 - int(line[0])) for line in rows]) < 0.9  # as many bytes as before


def test_data_that_changed_is_not_taken_for_what_was_finished(tmp_path):
    write_letor(tmp_path / "data.txt", 20, features=3, seed=0)
    plan = Plan([source_of(str(tmp_path / "data.txt"))], [loss_method("ranknet")], seeds=1)
    before = plan.trials()[0].name
    text = (tmp_path / "data.txt").read_text()
    (tmp_path / "data.txt").write_text(text.replace("\n1 ", "\n2 ", 1))
    assert plan.trials()[0].name != before
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "data.txt").write_text(text)
    moved = Plan([source_of(str(tmp_path / "elsewhere" / "data.txt"))], plan.methods, seeds=1)
    assert moved.trials()[0].name == before


def without_seconds(findings, source):
    """The table's CSV without the last column, the training time."""
    return [line.rsplit(",", 1)[0] for line in to_csv(results_table(findings, source)).splitlines()]


@pytest.mark.parametrize("looks", [4, 11, 23])
def test_a_stopped_comparison_goes_on_to_the_same_table(letor, tmp_path, looks):
    source = source_of(str(letor))
    settings = Settings(
        steps=6, validate_every=2, model_options={"hidden": [8]}, transform="standard", checkpoint_seconds=0
    )
    plan = Plan([source], [loss_method("ranknet"), loss_method("pirank-ndcg")], seeds=2, settings=settings)
    expected = without_seconds(plan.run(tmp_path / "whole", jobs=1), source)
    asked = 0

    def stop():  # asked after every step
        nonlocal asked
        asked += 1
        return asked >= looks

    with pytest.raises(Interrupted, match=r"of 4 trials finished; the same command goes on"):
        plan.run(tmp_path / "stopped", jobs=1, stop=stop)
    ran = []
    findings = plan.run(tmp_path / "stopped", jobs=1, told=lambda trial, *_: ran.append(trial.name))
    assert without_seconds(findings, source) == expected
    assert len(ran) == 4 - (looks - 1) // 7  # six steps and one look between trials: what was finished stays
    assert not list((tmp_path / "stopped" / "unfinished").glob("*"))


def test_a_killed_process_takes_no_trial_with_it(letor, tmp_path, monkeypatch):
    settings = with_settings(Settings(steps=6), ["model.hidden=[8]", "transform=none"])
    methods = [loss_method(name) for name in ("ranknet", "softmax", "mse")]
    plan = Plan([source_of(str(letor))], methods, 1, settings, protocol())
    killed = []

    def kill_one(trial, problem, seconds):
        if not killed:
            killed.append(multiprocessing.active_children()[0])
            killed[0].kill()

    monkeypatch.setattr("os.cpu_count", lambda: 2)
    findings = plan.run(tmp_path / "killed", jobs=2, told=kill_one)
    assert killed
    assert findings.failed == {}
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    whole = plan.run(tmp_path / "whole", jobs=1)
    seconds = {"seconds": 0.0}
    assert [row | seconds for row in findings.rows()] == [row | seconds for row in whole.rows()]


def test_a_trial_whose_process_is_always_killed_fails_its_row(letor, tmp_path):
    plan = Plan([source_of(str(letor))], [loss_method("ranknet"), loss_method("softmax")], 1)
    over = threading.Event()

    def kill_all():
        while not over.wait(0.05):
            for child in multiprocessing.active_children():
                child.kill()

    killer = threading.Thread(target=kill_all)
    killer.start()
    try:
        findings = plan.run(tmp_path, jobs=2)
    finally:
        over.set()
        killer.join()
    assert len(findings.failed) == 2
    assert all("memory is full" in problem for problem in findings.failed.values())


def test_an_interrupted_program_goes_on_where_it_was(letor, tmp_path):
    command = [
        sys.executable, "-m", "pirank", "compare", str(letor), "--losses", "ranknet,softmax", "--seeds", "1",
        "--jobs", "2", "--out", "report", "--set", "model.hidden=[8]", "--set", "transform=none",
        "--steps", "150", "--set", "validate_every=5", "--set", "patience=null", "--set", "epochs=1000",
    ]  # fmt: skip
    paths = [str(Path(__file__).parents[2] / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while not list((tmp_path / "report").glob("unfinished/*/metrics.jsonl")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "no trial was begun"
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130, output + errors
    assert "the same command goes on from there" in errors
    assert not (tmp_path / "report" / "report.html").exists()
    resumed = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert resumed.returncode == 0, resumed.stderr
    assert (tmp_path / "report" / "report.html").exists()
    assert {row["method"] for row in rows_of(tmp_path / "report")} == {"ranknet", "softmax"}


def test_compare_writes_html_markdown_csv_and_pictures(letor, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    scores = tmp_path / "theirs.txt"
    rows = len((letor / "test.txt").read_text().splitlines())
    scores.write_text("\n".join(str(row % 5) for row in range(rows)))
    result = run(
        "compare", letor, "--losses", "ranknet,pirank-ndcg:k=3", "--seeds", "2", "--out", tmp_path / "out",
        "--scores", f"theirs={scores}", "--empty", "zero", *TINY,
    )  # fmt: skip
    out = tmp_path / "out"
    markdown = (out / "report.md").read_text()
    assert "count as 0" in markdown
    assert "| theirs |" in markdown
    assert "one-sided paired t-test" in markdown
    assert (out / "tables").is_dir()
    assert (out / "figures").is_dir()
    assert str(out / "report.html") in result.output.replace("\n", "")
    rows = rows_of(out)
    assert {row["queries"] for row in rows if row["metric"] == "ndcg@10"} == {"10"}  # the blank one, too
    assert {row["queries"] for row in rows if row["metric"] == "arp"} == {"9"}
    # Nothing is run again, and another seed adds its trials only.
    again = run(
        "compare", letor, "--losses", "ranknet,pirank-ndcg:k=3", "--seeds", "3", "--out", tmp_path / "out",
        "--empty", "skip", *TINY,
    )  # fmt: skip
    assert "6 trials, 4 of them finished already" in again.output


def test_trees_join_with_the_same_tuning_budget(letor, tmp_path, monkeypatch):
    here = [name for name in GBDTS if importlib.util.find_spec(name)]
    if not here:
        pytest.skip("no library of gradient-boosted trees is installed")
    monkeypatch.setattr("pirank.experiments.gbdt.TREES", 10)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    source = source_of(str(letor))
    methods = [gbdt_method(name) for name in here]
    plan = Plan([source], methods, seeds=1, tune=2)
    assert len(plan.trials()) == 2 * len(here)
    findings = plan.run(tmp_path, jobs=1)
    assert findings.failed == {}
    for method in methods:
        validation = [findings.outcome(source, 1, method, 0).facts["validation"]]
        tried = [findings_of.facts["validation"] for findings_of in _candidates(plan, tmp_path, method)]
        assert validation == [max(tried)]


def test_trees_see_the_features_of_the_networks_or_the_raw_ones(tmp_path, monkeypatch):
    pytest.importorskip("lightgbm")
    monkeypatch.setattr("pirank.experiments.gbdt.TREES", 20)
    rng = np.random.default_rng(0)
    lines = []
    for query in range(60):  # a document's place in its query says all, its raw value next to nothing
        relevant, height = rng.permutation(10) == 0, rng.normal() * 1_000
        lines += [f"{int(r)} qid:{query} 1:{height + 5 * r + rng.random()}" for r in relevant]
    path = tmp_path / "data.txt"
    path.write_text("\n".join(lines) + "\n")
    methods = [
        gbdt_method("lightgbm:min_data_in_leaf=5"),
        gbdt_method("lightgbm:features=raw:min_data_in_leaf=5"),
    ]
    plan = Plan([source_of(str(path))], methods, 1, Settings(transform="query-rank"), protocol())
    findings = plan.run(tmp_path / "out", jobs=1)
    same, raw = (findings.outcome(plan.sources[0], 1, m, 0).facts["validation"] for m in methods)
    assert same == pytest.approx(1)
    assert raw < 0.7


def _candidates(plan, root, method):
    from pirank.experiments.trial import Store

    return [Store(root).load(trial) for trial in plan.candidates(plan.sources[0], 1, method, 0)]


def test_tables_with_columns_of_their_own_are_compared(tmp_path):
    data = synthetic(queries=30, list_size=6, round=True, seed=0)
    frame = pa.table({
        "query": np.repeat(np.arange(30), 6), "grade": data.labels.numpy(), "clicks": data.labels.numpy(),
        "a": data.features[:, 0].numpy(), "b": data.features[:, 1].numpy(),
    })  # fmt: skip
    pa.parquet.write_table(frame, tmp_path / "mine.parquet")
    command = ("compare", tmp_path / "mine.parquet", "--losses", "ranknet", "--seeds", "1", *TINY)
    told = run(*command, "--out", tmp_path / "out", code=2).stderr
    assert told.count("there is no column 'label'") == told.count("\n") == 1
    columns = ("--label", "grade", "--query", "query")
    run(*command, *columns, "--out", tmp_path / "all")
    run(*command, *columns, "--features", "a,b", "--out", tmp_path / "chosen")
    models = [tmp_path / each / "report.md" for each in ("all", "chosen")]
    assert ["| 3 |" in path.read_text() for path in models] == [
        True,
        False,
    ]  # features in the table of the data


def test_a_failed_row_is_told_by_the_exit_code_and_the_others_are_reported(letor, tmp_path):
    (tmp_path / "few.txt").write_text("1\n2\n")
    result = run(
        "compare", letor, "--losses", "ranknet,softmax", "--scores", f"theirs={tmp_path / 'few.txt'}", "--seeds", "2",
        "--out", tmp_path / "out", *TINY, code=1,
    )  # fmt: skip
    assert "failed: theirs on small" in result.output
    assert "holds 2 scores" in result.output
    # Where there is no bold type, winners stand between asterisks; the spread stands beside the mean.
    assert re.search(r"^ranknet .*\*\*0\.\d{3}\*\* ±0\.\d{3}", result.output, re.MULTILINE)
    assert "ranknet" in (tmp_path / "out" / "report.md").read_text()


def test_labels_that_trees_cannot_take_fail_their_row_only(tmp_path):
    pytest.importorskip("lightgbm")
    lines = [f"{label} qid:{query} 1:{label}" for query in range(20) for label in (0, 1, 31)]
    (tmp_path / "data.txt").write_text("\n".join(lines) + "\n")
    settings = Settings(steps=2, transform="none", model_options={"hidden": [4]})
    methods = [
        loss_method("ranknet"),
        gbdt_method("lightgbm"),
        gbdt_method("xgboost:no_such_parameter=1:eta=-5"),
    ]
    plan = Plan([source_of(str(tmp_path / "data.txt"))], methods, 1, settings, protocol())
    findings = plan.run(tmp_path / "out", jobs=1)
    assert [method.label for method in findings.methods_of(plan.sources[0])] == ["ranknet"]
    assert all("grades from 0 to 30" in problem for problem in findings.failed.values())
    lines = [f"{label} qid:{query} 1:{label}" for query in range(20) for label in (0, 1, 3)]
    (tmp_path / "data.txt").write_text("\n".join(lines) + "\n")
    problems = plan.run(tmp_path / "again", jobs=1).failed.values()
    assert [problem.partition(":")[0] for problem in problems] == ["xgboost"]


def test_a_failing_method_does_not_take_the_others_with_it(tmp_path):
    source = source_of("synthetic:queries=8:list_size=5")  # real-valued labels: no grades for trees
    settings = with_settings(Settings(steps=2), ["model.hidden=[4]", "transform=none"])
    plan = Plan([source], [loss_method("ranknet"), gbdt_method("lightgbm")], 1, settings, protocol())
    findings = plan.run(tmp_path, jobs=1)
    assert [method.label for method in findings.methods_of(source)] == ["ranknet"]
    assert "whole-number grades" in next(iter(findings.failed.values()))


def test_what_failed_is_told_once_and_where_it_failed(letor, tmp_path):
    pytest.importorskip("lightgbm")
    settings = with_settings(Settings(steps=2), ["model.hidden=[4]", "transform=none"])
    sources = [source_of("synthetic:queries=8:list_size=5"), source_of(str(letor))]
    plan = Plan(sources, [loss_method("ranknet"), gbdt_method("lightgbm")], 2, settings, protocol())
    findings = plan.run(tmp_path, jobs=1)
    (line,) = findings.failures()
    assert line.startswith("lightgbm on synthetic: gradient-boosted rankers take whole-number grades")
    assert line.endswith("(2 trials)")
    failed, whole = (source_section(findings, source, "ndcg@10", None).text for source in sources)
    assert f"- {line}" in failed.splitlines()
    assert whole == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no data was named"),
        (["synthetic", "--losses", "pirank-ndcgg"], "did you mean 'pirank-ndcg'"),
        (["synthetic", "--losses", "ranknet,ranknet"], "twice"),
        (["synthetic", "--losses", "pirank-ndcg:kk=3"], "no option 'kk'"),
        (["synthetic", "--gbdt", "lightgmb"], "lightgbm"),
        (["synthetic", "--gbdt", "lightgbm:features=ranked"], "features must be raw"),
        (["synthetic", "--gbdt", "lightgbm:63"], "NAME:option=value"),
        (["synthetic", "--scores", "theirs"], "NAME=PATH"),
        (["synthetic", "--scores", "theirs={set}.txt"], "no other braces"),
        (["nowhere"], "there is no such file"),
        (["synthetic", "--folds", "2"], "has the folds 1, not 2"),
        (["synthetic", "--set", "epoch=3"], "epoch"),
        (["synthetic", "--baseline", "softmaxx"], "softmax"),
        (["synthetic", "--jobs", "0"], "jobs must be at least 1"),
        (["synthetic", "synthetic:queries=50"], "two data sets are called 'synthetic'"),
    ],
)
def test_a_wrong_argument_is_told_before_any_work(arguments, message, tmp_path):
    result = run("compare", *arguments, "--out", tmp_path / "out", code=2)
    assert message in result.output
    assert not (tmp_path / "out").exists()
