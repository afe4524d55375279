"""Ranked rows from files: the same as in memory, in the input's order, whatever the format and the block size."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import torch

from pirank.data import DataError, RankingData
from pirank.models import Ranker
from pirank.training import prediction, scores_of, streams
from pirank.training.prediction import predict_file, ranks_of

NAMES = ["a", "b", "c"]


@pytest.fixture
def ranker():
    torch.manual_seed(0)
    return Ranker(3, transform="query-rank+query-zscore", options={"hidden": [8]}, feature_names=NAMES).eval()


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(1)
    offsets = torch.tensor([0, 3, 50, 51, 300])
    features = torch.randn(300, 3, generator=generator)
    return RankingData(features, None, offsets, np.array([7, 3, 12, 5]))


def table_of(data, query="qid"):
    ids = np.repeat(data.query_ids, data.offsets.diff().numpy())
    columns = {"url": [f"u{i}" for i in range(len(ids))], query: ids, "c": data.features[:, 2].numpy()}
    columns |= {"a": data.features[:, 0].numpy(), "b": data.features[:, 1].numpy()}
    return pa.table(columns)


def write(data, path, query="qid"):
    if path.suffix == ".parquet":
        pa.parquet.write_table(table_of(data, query), path)
    elif path.suffix == ".csv":
        pa.csv.write_csv(table_of(data, query), path)
    elif path.suffix == ".arrow":
        with pa.ipc.new_file(path, table_of(data).schema) as file:
            file.write_table(table_of(data))
    else:
        ids = np.repeat(data.query_ids, data.offsets.diff().numpy())
        rows = zip(ids, data.features.tolist(), strict=True)
        path.write_text("".join(f"0 qid:{q} 1:{a!r} 2:{b!r} 3:{c!r} # docid = d\n" for q, (a, b, c) in rows))
    return path


@pytest.mark.parametrize("source", ["in.parquet", "in.csv", "in.txt", "in.arrow"])
@pytest.mark.parametrize("target", ["out.parquet", "out.csv"])
@pytest.mark.parametrize("rows", [4, 65536])
def test_files_are_ranked_as_in_memory(tmp_path, monkeypatch, ranker, data, source, target, rows):
    monkeypatch.setattr(streams, "_ROWS", rows)
    monkeypatch.setattr(streams, "_CSV_BLOCK", 40 * rows)
    monkeypatch.setattr(streams, "_TEXT_BLOCK", 40 * rows)
    assert predict_file(ranker, write(data, tmp_path / source), tmp_path / target) == 300
    read = pa.parquet.read_table if target.endswith("parquet") else pa.csv.read_csv
    out = read(tmp_path / target)
    expected = scores_of(ranker, data)
    np.testing.assert_allclose(out["score"].to_numpy(), expected.numpy(), atol=1e-5)
    assert out["rank"].to_pylist() == ranks_of(expected, data.offsets).tolist()
    assert (
        out["qid"].cast(pa.int64()).to_pylist()
        == np.repeat(data.query_ids, data.offsets.diff().numpy()).tolist()
    )
    assert not set(NAMES) & set(out.column_names)
    if "url" in out.column_names:
        assert out["url"].to_pylist() == [f"u{i}" for i in range(300)]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([source, target])


def test_ranks_by_hand():
    scores = torch.tensor([0.1, 0.7, 0.7, 5.0, -1.0])
    assert ranks_of(scores, torch.tensor([0, 3, 3, 5])).tolist() == [3, 1, 2, 1, 2]


def test_a_query_that_goes_on_later_is_refused_and_nothing_is_written(tmp_path, monkeypatch, ranker, data):
    monkeypatch.setattr(streams, "_ROWS", 4)
    data.query_ids[3] = data.query_ids[0]
    path = write(data, tmp_path / "in.parquet")
    with pytest.raises(DataError, match="query 7 goes on after other queries"):
        predict_file(ranker, path, tmp_path / "out.csv")
    assert [p.name for p in tmp_path.iterdir()] == ["in.parquet"]


def test_what_does_not_fit_the_model_is_told(tmp_path, ranker, data):
    path = write(data, tmp_path / "in.parquet", query="query_id")
    with pytest.raises(DataError, match="did you mean 'query_id'"):
        predict_file(ranker, path, tmp_path / "out.csv", query="query-id")
    table = table_of(data).rename_columns(["url", "qid", "c", "aa", "b"])
    pa.parquet.write_table(table, path)
    with pytest.raises(DataError, match="unknown feature column of the model 'a': did you mean 'aa'"):
        predict_file(ranker, path, tmp_path / "out.csv")
    with pytest.raises(ValueError, match=r"must be a \.csv or \.parquet"):
        predict_file(ranker, path, tmp_path / "out.txt")
    with pytest.raises(FileNotFoundError, match="no such folder"):
        predict_file(ranker, path, tmp_path / "nowhere" / "out.csv")
    (tmp_path / "in.txt").write_text("1 qid:1 1:2 4:1\n")
    with pytest.raises(DataError, match=r"in\.txt:1"):
        predict_file(ranker, tmp_path / "in.txt", tmp_path / "out.csv")
    (tmp_path / "in.txt").write_text("1 qid:1 1:2 2:1\n0 qid:1 1:0 2:4\n")
    with pytest.raises(DataError, match="every line has 2 features, but the model was trained on 3"):
        predict_file(ranker, tmp_path / "in.txt", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()
    (tmp_path / "in.txt").write_text("1 qid:1 1:2 2:1\n0 qid:1 2:4\n")  # zeros are left out
    assert predict_file(ranker, tmp_path / "in.txt", tmp_path / "out.csv") == 2


def test_a_missing_value_is_told_with_its_column_and_row(tmp_path, ranker, data):
    data.features[123, 1] = float("nan")
    for name in ("in.parquet", "in.csv"):
        with pytest.raises(DataError, match=r"feature 'b' is (nan|None) in row 123"):
            predict_file(ranker, write(data, tmp_path / name), tmp_path / "out.csv")


def test_columns_of_the_same_name_are_replaced():
    table = prediction.with_columns(pa.table({"score": ["old"], "x": [1]}), score=np.array([2.5]))
    assert table.to_pydict() == {"x": [1], "score": [2.5]}


def test_memory_does_not_grow_with_the_file(tmp_path, ranker):
    def peak(groups):
        path, seen = tmp_path / f"{groups}.parquet", []
        columns = {name: np.random.default_rng(0).normal(size=20_000).astype(np.float32) for name in NAMES}
        columns |= {f"kept{i}": columns["a"] for i in range(20)}
        with pa.parquet.ParquetWriter(path, pa.table({"qid": np.arange(20_000), **columns}).schema) as writer:
            for group in range(groups):
                writer.write_table(pa.table({"qid": np.arange(20_000) // 50 + 400 * group, **columns}))
        before = pa.total_allocated_bytes()
        predict_file(
            ranker, path, tmp_path / "out.csv", progress=lambda rows: seen.append(pa.total_allocated_bytes())
        )
        return max(seen) - before

    assert peak(30) < 2 * peak(6)


def test_the_file_to_rank_is_not_written_over(tmp_path, ranker, data):
    path = write(data, tmp_path / "in.csv", query="query_id")
    before = path.read_bytes()
    with pytest.raises(ValueError, match="is the file to rank"):
        predict_file(ranker, path, tmp_path / "." / "in.csv", query="query_id")
    assert path.read_bytes() == before


def test_arrow_streams_and_numbers_that_stand_as_text(tmp_path, ranker, data):
    path = write(data, tmp_path / "in.parquet", query="query_id")
    table = pa.parquet.read_table(path)
    predict_file(ranker, path, tmp_path / "expected.csv", query="query_id")
    as_text = pa.table(
        {
            n: table[n].cast(pa.float64()).cast(pa.string()) if n in "abc" else table[n]
            for n in table.column_names
        }
    )
    with pa.ipc.new_stream(str(tmp_path / "in.arrow"), table.schema) as stream:
        stream.write_table(table)
    pa.parquet.write_table(as_text, tmp_path / "text.parquet")
    for name in ("in.arrow", "text.parquet"):
        predict_file(ranker, tmp_path / name, tmp_path / "out.csv", query="query_id")
        assert (tmp_path / "out.csv").read_text() == (tmp_path / "expected.csv").read_text()


def test_labels_of_text_are_kept(tmp_path, ranker):
    (tmp_path / "in.txt").write_text("2 qid:1 1:2 2:1 3:1\n0 qid:1 1:0 2:4 3:2\n")
    predict_file(ranker, tmp_path / "in.txt", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().splitlines()[1].startswith("2,1,")


def test_a_quote_that_is_not_closed_takes_no_row_with_it(tmp_path, ranker):
    source, target = tmp_path / "rows.csv", tmp_path / "ranked.csv"
    rows = ["qid,title,a,b,c", '1,"ok, fine",1,2,3', '1,"open,1,2,3', "2,x,1,2,3", '2,"y",1,2,3']
    source.write_text("\n".join(rows) + "\n")
    with pytest.raises(DataError, match=r"rows.csv:3: not a line of CSV.*'1,\"open,1,2,3'"):
        predict_file(ranker, source, target)
    assert not target.exists()
    source.write_text('qid,title,a,b,c\n1,"two\nlines",1,2,3\n1,5" disc,1,2,3\n')
    predict_file(ranker, source, target)
    assert '"two\nlines"' in target.read_text()
