"""The paper's experiments end to end, on made-up data in the formats of its data sets."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from experiments.fake_sets import write_mslr, write_yahoo
from pirank.cli import app
from pirank.experiments.reproduce.depth import PairwiseNeuralSort, time_of, time_of_loss
from pirank.experiments.reproduce.effort import Effort
from pirank.experiments.reproduce.paper_figures import (
    LIST_SIZES,
    METRICS,
    TABLE_1,
    TABLE_1_WINNERS,
    TRAINING_LIST_SIZES,
)
from pirank.metrics import get
from pirank.sorts import NeuralSort, Tree


def run(*arguments, code=0):
    """Run the program in this process."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.mark.filterwarnings("ignore:.*were published")
def test_everything_quick_on_the_papers_formats(tmp_path, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    monkeypatch.setenv("PIRANK_DATA", str(tmp_path / "sets"))
    write_mslr(tmp_path / "sets" / "MSLR-WEB30K")
    write_yahoo(tmp_path / "sets" / "ltrc_yahoo")
    out = tmp_path / "report"
    command = ("reproduce", "all", "--quick", "--steps", "4", "--list-sizes", "27,64", "--out", out)
    result = run(*command, "--batch-ratio", "--counted-padding")
    markdown = (out / "report.md").read_text()
    for heading in (
        "Benchmark",
        "Temperature, on mslr-web30k",
        "Training list size, on mslr-web30k",
        "Depth",
    ):
        assert f"## {heading}" in markdown
    assert "Quick settings, not the paper's" in markdown
    assert "`--steps 4` was given" in markdown
    assert "L = 27, 64, as `--list-sizes` says" in markdown
    assert "batch\\_ratio, counted\\_padding" in markdown or "batch_ratio, counted_padding" in markdown
    rows = list(csv.DictReader((out / "results-1.csv").read_text().splitlines()))
    assert {row["data"] for row in rows} == {"mslr-web30k", "yahoo-c14"}
    assert {row["list_size"] for row in rows} == {"200"}
    rows = list(csv.DictReader((out / "results-3.csv").read_text().splitlines()))
    assert {row["list_size"] for row in rows} == {"10", "20", "40", "100"}
    # Lists of 40 and of 100 are the same here, and those that are as good as the best are counted.
    means = {(row["method"], row["list_size"], row["metric"]): float(row["mean"]) for row in rows}
    best = 0
    for size in LIST_SIZES:
        for metric in (f"ndcg@{k}" for k in (1, 3, 5, 10)):
            values = [means[f"L_train = {trained}", str(size), metric] for trained in LIST_SIZES]
            assert values[2] == values[3]
            best += values[3] == max(values)
    assert f"lists of 100 gives the best mean in {best};" in markdown
    # ARP beside the paper's is averaged over labels, as its tool does.
    (path,) = (out / "list-size" / "trials").glob("*L-train-100-*/trial.json")
    arp = json.loads(path.read_text())["as_tf_ranking"]["20"]["arp"]
    (path,) = (out / "tables").glob("mslr-web30k-arp-ours-minus*.csv")
    (row,) = [row for row in csv.reader(path.read_text().splitlines()) if row[0] == "20"]
    assert float(row[4]) == pytest.approx(arp - TRAINING_LIST_SIZES["arp"][20][3])
    # The paper's row stands beside ours, and the difference is the difference.
    (path,) = (out / "tables").glob("mslr-web30k-ours-beside*.csv")
    table = list(csv.reader(path.read_text().splitlines()))
    place = table[0].index("NDCG@10")
    last = {row[1]: float(row[place]) for row in table if row[0] == "pirank-ndcg"}
    assert last["paper"] == 0.446428
    assert last["difference"] == pytest.approx(last["ours"] - last["paper"])
    assert "report:" in result.output
    # Nothing is run again.
    before = {p: p.stat().st_mtime_ns for p in out.glob("*/trials/*/trial.json")}
    run(*command, "--batch-ratio", "--counted-padding")
    assert {p: p.stat().st_mtime_ns for p in out.glob("*/trials/*/trial.json")} == before


def test_without_the_data_it_says_what_to_give(tmp_path, monkeypatch):
    monkeypatch.delenv("PIRANK_DATA", raising=False)
    result = run("reproduce", "table1", "--out", tmp_path / "out", code=2)
    assert "--data mslr-web30k=FOLDER and --data yahoo-c14=FOLDER" in result.output


def test_quick_runs_without_any_data(tmp_path, monkeypatch):
    monkeypatch.delenv("PIRANK_DATA", raising=False)
    (source,) = Effort(tmp_path, quick=True).sources(["mslr-web30k"])
    assert source.name == "synthetic"


def test_other_settings_than_the_papers_are_said_to_be():
    said = Effort(Path("out"), steps=50).in_words("100,000 steps.", "200 steps.")
    assert said == "**The paper's settings, but for `--steps 50`**: 100,000 steps."
    assert Effort(Path("out")).in_words("all", "few") == "**The paper's settings**: all"


def test_the_papers_figures_are_whole():
    assert {name: len(rows) for name, rows in TABLE_1.items()} == {"mslr-web30k": 6, "yahoo-c14": 6}
    for name, rows in TABLE_1.items():
        for place, metric in enumerate(METRICS):
            lower = get(metric).lower_is_better
            best = (min if lower else max)(rows, key=lambda loss, place=place, rows=rows: rows[loss][place])
            assert metric in TABLE_1_WINNERS[name][best]
    assert all(set(rows) == {10, 20, 40, 100} for rows in TRAINING_LIST_SIZES.values())
    # "13 out of 16 metrics", as the paper says of PiRank.
    assert sum(len(rows["pirank-ndcg"]) for rows in TABLE_1_WINNERS.values()) == 13


@pytest.mark.parametrize("depth", [2, 3])
def test_the_tree_of_pairwise_nodes_is_the_tree_of_exact_ones(depth):
    torch.manual_seed(depth)
    scores, values = torch.randn(3, 23, dtype=torch.float64), torch.rand(3, 23, dtype=torch.float64)
    mask = torch.arange(23) < torch.tensor([[23], [9], [1]])
    pairwise, exact = (
        Tree(sort(0.7), depth=depth).apply(scores, values, 4, mask=mask)
        for sort in (PairwiseNeuralSort, NeuralSort)
    )
    torch.testing.assert_close(pairwise, exact)


def test_timings_are_of_training_steps():
    assert time_of("exact, d = 1", 27, 1, 2) > 0
    assert time_of_loss("tree of pairwise nodes, d = 3", 27, 1, 2) > 0


def test_help_says_which_settings_are_which():
    text = re.sub(r"\s+", " ", run("reproduce", "--help").output)
    for name in ("table1", "temperature", "list-size", "depth", "all"):
        assert name in text
