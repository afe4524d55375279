"""The commands, as a user calls them, in an empty folder."""

import json
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest
import yaml

from pirank.cli import main
from pirank.models import Ranker
from pirank.training import PRESETS

QUICK = ("--epochs", 3, "--hidden", 8, "--accelerator", "cpu")
TABLE = ("--label", "grade", "--query", "query")


def test_train_evaluate_predict_info(run, files, tmp_path):
    out = run(
        "train", files / "train.txt", "--valid", files / "valid.txt", "--test", files / "test.txt", *QUICK
    ).output
    assert "30 queries" in out
    assert "test: 12 queries, 1 of them without a relevant document" in out
    for heading in ("blank skipped", "blank = 0", "blank = 1", "ndcg@10"):
        assert heading in out
    assert "pirank predict runs/train DATA -o" in out
    folder = tmp_path / "runs" / "train"
    assert {p.name for p in folder.iterdir()} == {
        "config.yaml", "environment.txt", "metrics.jsonl", "model.safetensors", "results.json", "checkpoints",
        "tensorboard",
    }  # fmt: skip
    assert next((folder / "tensorboard").iterdir()).name.startswith("events.out")
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [r["epoch"] for r in records] == [1, 2, 3]

    results = json.loads((folder / "results.json").read_text())["metrics"]
    out = run("evaluate", "runs/train", files / "test.txt", "--json", "--per-query", "per_query.csv").output
    assert json.loads(out)["metrics"]["ndcg@10"] == pytest.approx(results["ndcg@10"])
    per_query = pyarrow.csv.read_csv("per_query.csv").to_pydict()
    values = [value for value in per_query["ndcg@10"] if value is not None]
    assert len(values) == 11
    assert sum(values) / 11 == pytest.approx(results["ndcg@10"]["skip"])

    run("predict", "runs/train", files / "test.txt", "-o", "ranked.csv")
    out = run("evaluate", "--scores", "ranked.csv", files / "test.txt", "--json").output
    assert json.loads(out)["metrics"]["map"] == pytest.approx(results["map"])
    assert "transform" in run("info", "runs/train").output


@pytest.mark.filterwarnings("ignore")  # the exporters' own
def test_names_that_look_like_markup_are_shown_as_they_are(run, files):
    name = "[bold]a[/red] :smile:"
    Path(name.rpartition("/")[0]).mkdir()
    out = run("train", files / "train.txt", files / "valid.txt", *QUICK, "--out", name).output
    assert f"run: {name}" in out
    assert f"model: {name}/model.safetensors" in out
    out = run("export", name, "--format", "torch").output
    assert f"{name}/model.pt2: features [documents, 4] -> scores [documents]" in out
    Path("[x].txt").write_bytes((files / "train.txt").read_bytes())
    assert "queries" in run("data", "describe", "[x].txt").output
    assert "[y].txt: " in run("data", "synthetic", "[y].txt", "--queries", 3).output


def test_tables_with_named_columns(run, files):
    run("train", files / "train.parquet", files / "valid.parquet", *TABLE, *QUICK, "--out", "a", "-q")
    assert Ranker.load("a/model.safetensors").feature_names == ["f0", "f1", "f2", "f3"]
    run("predict", "a", files / "test.parquet", *TABLE, "-o", "ranked.parquet")
    table = pyarrow.parquet.read_table("ranked.parquet")
    assert table.column_names == ["grade", "query", "score", "rank"]
    run("train", files / "train.csv", files / "valid.csv", *TABLE, *QUICK, "--out", "b", "-q")
    assert (
        Ranker.load("b/model.safetensors").state_dict().keys()
        == Ranker.load("a/model.safetensors").state_dict().keys()
    )
    first, second = (json.loads(Path(f"{run}/results.json").read_text()) for run in ("a", "b"))
    assert first == second


def test_config_repeats_the_run_and_options_change_it(run, files):
    train = ("train", files / "train.txt", "--valid", files / "valid.txt", *QUICK)
    run(*train, "--out", "first", "-q", "--seed", 3, "--loss", "softmax", "--n-ensemble", 2)
    run("train", "--config", "first/config.yaml", "--out", "again", "-q")
    assert Path("first/model.safetensors").read_bytes() == Path("again/model.safetensors").read_bytes()
    assert Path("first/config.yaml").read_text() == Path("again/config.yaml").read_text()
    run("train", "--config", "first/config.yaml", "--out", "other", "-q", "--epochs", 2, "--lr", 0.1)
    settings = yaml.safe_load(Path("other/config.yaml").read_text())["settings"]
    assert (settings["epochs"], settings["learning_rate"], settings["loss"]) == (2, 0.1, "softmax")


@pytest.mark.parametrize("preset", [name for name in PRESETS if name != "default"])
def test_presets_train(run, files, preset):
    run(
        "train",
        files / "train.txt",
        "--preset",
        preset,
        "--steps",
        3,
        "--out",
        "r",
        "-q",
        "--accelerator",
        "cpu",
    )
    assert yaml.safe_load(Path("r/config.yaml").read_text())["settings"]["model"] == preset


def test_one_line_says_how_it_trains(run, files):
    train = ("train", files / "train.txt", *QUICK, "--n-ensemble", 2)
    assert run(*train, "--out", "a").output.count("step by step: the device is a CPU\n") == 1
    assert (
        "step by step: a CPU runs static shapes without a graph\n"
        in run(*train, "--out", "b", "--capture", "on").output
    )
    assert "step by step" not in run(*train, "--out", "c", "-q").output
    told = run("train", files / "train.txt", *QUICK, "--model", "attention", "--capture", "on", code=2).output
    assert "capture='on' is not possible: ListAttention may look across documents" in told
    assert "Traceback" not in told


def test_losses_and_version(run):
    assert "pirank-ndcg" in run("losses").output
    assert run("--version").output.startswith("pirank ")


@pytest.mark.parametrize("command", ["train", "evaluate", "predict", "info", "losses"])
def test_every_command_explains_itself(run, command):
    assert "Usage" in run(command, "--help").output


def failing(run, *arguments):
    """The one line on standard error of a call that must fail with exit code 2."""
    result = run(*arguments, code=2)
    lines = [line for line in result.stderr.splitlines() if line]
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("error: ")
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--loss", "pirank-ndgc"), "did you mean 'pirank-ndcg'"),
        (("--loss-option", "kk=3"), "no option 'kk'"),
        (("--loss-option", "k"), "NAME=VALUE"),
        (("--model", "mpl"), "did you mean 'mlp'"),
        (("--transform", "standrad"), "did you mean 'standard'"),
        (("--metric", "ndgc@10"), "did you mean 'ndcg'"),
        (("--schedule", "cosinus"), "did you mean 'cosine'"),
        (("--temperature-schedule", "linear"), "needs temperature_end"),
        (("--preset", "paper"), "unknown preset 'paper'"),
        (("--hidden", "64;32"), "joined by commas"),
        (("--epochs", "0"), "epochs must be a number of at least 1"),
        (("--valid", "nowhere.txt"), "nowhere.txt"),
        (("--resume", "runs/x"), "TRAIN cannot be given"),
    ],
)
def test_a_wrong_option_is_one_line_and_leaves_nothing(run, files, tmp_path, arguments, message):
    assert message in failing(run, "train", files / "train.txt", *arguments)
    assert list(tmp_path.iterdir()) == []


def test_wrong_data_is_one_line_and_leaves_nothing(run, files, tmp_path):
    assert "'label'" in failing(run, "train", files / "train.parquet", "--query", "query")
    assert "'qid'" in failing(run, "train", files / "train.csv", "--label", "grade")
    (tmp_path / "bad.txt").write_text("1 qid:1 1:0.5\n0 1:0.2\n")
    assert "bad.txt:2" in failing(run, "train", "bad.txt")
    (tmp_path / "bad.txt").write_text("0 qid:1 1:0.5\n0 qid:2 1:0.2\n")
    assert "nothing to rank by" in failing(run, "train", "bad.txt")
    assert [p.name for p in tmp_path.iterdir()] == ["bad.txt"]


def test_a_configuration_keeps_the_data_options_that_are_not_given_again(run, files):
    run("train", files / "train.parquet", *TABLE, "--features", "f0,f1", *QUICK, "--out", "first", "-q")
    run(
        "train", "--config", "first/config.yaml", "--skip-errors", "--label", "grade", "--out", "second", "-q"
    )
    first, second = (
        yaml.safe_load(Path(run, "config.yaml").read_text())["data"] for run in ("first", "second")
    )
    assert second == {**first, "skip_errors": True}
    assert second["features"] == ["f0", "f1"]
    assert "label cannot be given" in failing(run, "train", "--resume", "first", "--label", "other")


def test_resume_takes_the_runs_own_settings(run, files):
    run("train", files / "train.txt", *QUICK, "--out", "r", "-q")
    for option, value in (
        ("--epochs", 9),
        ("--loss", "softmax"),
        ("--hidden", "8"),
        ("--test", files / "test.txt"),
    ):
        assert "cannot be given" in failing(run, "train", "--resume", "r", option, value)
    before = Path("r/model.safetensors").read_bytes()
    Path("r/model.safetensors").unlink()
    assert "has not ended" in failing(run, "predict", "r", files / "test.txt", "-o", "out.csv")
    run("train", "--resume", "r", "-q")
    assert Path("r/model.safetensors").read_bytes() == before


def test_an_existing_run_folder_is_kept(run, files, tmp_path):
    train = ("train", files / "train.txt", *QUICK, "--out", "r", "-q")
    run(*train)
    assert "--overwrite" in failing(run, *train)
    run(*train, "--overwrite")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    assert "not empty" in failing(run, "train", files / "train.txt", "--out", "mine")
    assert "no run folder" in failing(run, "train", files / "train.txt", "--out", "mine", "--overwrite")
    assert (tmp_path / "mine" / "thesis.tex").exists()


def test_a_run_is_replaced_only_by_data_that_can_be_trained_on(run, files):
    run("train", files / "train.txt", *QUICK, "--out", "r", "-q")
    before = Path("r/model.safetensors").read_bytes()
    rows = (files / "train.txt").read_text()
    Path("large.txt").write_text(rows.replace("\n2 ", "\n500 "))
    Path("negative.txt").write_text(rows.replace("\n2 ", "\n-2 "))
    Path("single.txt").write_text("".join(f"{q % 2} qid:{q} 1:1 2:1 3:1 4:{q}\n" for q in range(20)))
    for name, problem in (
        ("large", "labels must be at most"),
        ("negative", "labels must not be negative"),
        ("single", "every query of the train split has one sample"),
    ):
        assert problem in failing(run, "train", f"{name}.txt", *QUICK, "--out", "r", "--overwrite")
        assert problem in failing(run, "train", f"{name}.txt", *QUICK, "--out", "new")
    uneven = ("--devices", "3", "--batch-size", "8", "--accelerator", "cpu")
    assert "batch_size must be a multiple" in failing(
        run, "train", files / "train.txt", *uneven, "--out", "new"
    )
    assert not Path("new").exists()
    assert Path("r/model.safetensors").read_bytes() == before


def test_another_feature_count_at_predict_time(run, files, tmp_path):
    run("train", files / "train.txt", *QUICK, "--out", "r", "-q")
    (tmp_path / "wide.txt").write_text("0 qid:1 1:1 5:2\n")
    failing(run, "predict", "r", "wide.txt", "-o", "out.csv")
    failing(run, "evaluate", "r", "wide.txt")
    (tmp_path / "narrow.txt").write_text("0 qid:1 1:1 2:2\n1 qid:1 1:1 2:2\n")
    failing(run, "predict", "r", "narrow.txt", "-o", "out.csv")
    assert "narrow.txt:1: every line has 2 features" in failing(run, "evaluate", "r", "narrow.txt")
    assert "narrow.txt:1: every line has 2 features" in failing(
        run, "train", files / "train.txt", "--valid", "narrow.txt", *QUICK, "--out", "r2"
    )
    assert not Path("r2").exists()
    assert "no model" in failing(run, "predict", "nowhere", files / "test.txt", "-o", "out.csv")
    (tmp_path / "r" / "model.safetensors").write_bytes(b"x" * 100)
    assert "damaged" in failing(run, "predict", "r", files / "test.txt", "-o", "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_debug_shows_the_traceback(run, files):
    result = run("--debug", "train", files / "train.txt", "--loss", "nope", code=1)
    assert isinstance(result.exception, ValueError)


@pytest.mark.filterwarnings("ignore")  # the exporters' own
@pytest.mark.parametrize(("format", "name"), [("onnx", "model.onnx"), ("torch", "model.pt2")])
def test_export(run, files, tmp_path, format, name):
    run("train", files / "train.txt", *QUICK, "--out", "r", "-q")
    out = run("export", "r", "--format", format).output
    assert "checked against the model" in out
    assert (tmp_path / "r" / name).exists()
    assert "did you mean 'onnx'" in failing(run, "export", "r", "--format", "onxx")


def test_debug_may_stand_anywhere_on_the_command_line(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["pirank", "info", "nowhere", "--debug"])
    with pytest.raises(FileNotFoundError, match="no model at nowhere"):
        main()
    monkeypatch.setattr("sys.argv", ["pirank", "info", "nowhere"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == "error: no model at nowhere\n"


def test_bad_lines_can_be_left_out_and_what_was_read_kept(run, files, tmp_path):
    text = (files / "train.txt").read_text()
    (tmp_path / "train.txt").write_text(text + "what is this\n")
    assert "train.txt:" in failing(run, "train", "train.txt", *QUICK)
    result = run("train", "train.txt", *QUICK, "--skip-errors", "--cache", "--out", "r")
    assert "1 bad lines were left out" in result.stderr
    assert [p for p in tmp_path.iterdir() if "pirank-cache" in p.name]
    again = yaml.safe_load(Path("r/config.yaml").read_text())["data"]
    assert again["skip_errors"]
    assert again["cache"]
    run("train", "--config", "r/config.yaml", "--out", "s", "-q")


def test_interrupted_after_the_training_it_says_how_to_go_on(run, files, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    train = ("train", files / "train.txt", files / "valid.txt", *QUICK, "-q")
    with monkeypatch.context() as patch:
        patch.setattr("pirank.commands.training_run.evaluate", interrupt)
        result = run(*train, "--out", "r", code=130)
    assert "pirank train --resume r" in result.output
    assert not Path("r/results.json").exists()
    assert "ndcg@10" in run("train", "--resume", "r", "-q").output
    run(*train, "--out", "whole")
    assert Path("r/model.safetensors").read_bytes() == Path("whole/model.safetensors").read_bytes()
