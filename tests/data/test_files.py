"""Writing and reading: svmlight, Parquet, CSV, Arrow."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pirank.data import DataError, RankingData, read, synthetic, synthetic_stream, write

CSV = "qid,label,price,url\n7,1,3.5,a\n7,0,-1e3,b\n9,2,2,c\n"


def equal(a: RankingData, b: RankingData) -> None:
    assert a.features.numpy().tobytes() == b.features.numpy().tobytes()
    assert a.offsets.tolist() == b.offsets.tolist()
    assert [str(each) for each in a.query_ids] == [str(each) for each in b.query_ids]
    assert (a.labels is None) == (b.labels is None)
    if a.labels is not None and b.labels is not None:
        assert torch.equal(a.labels, b.labels)
    assert (a.doc_ids is None) == (b.doc_ids is None)
    if a.doc_ids is not None and b.doc_ids is not None:
        assert a.doc_ids.tolist() == b.doc_ids.tolist()


single = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def any_data(draw: st.DrawFn) -> RankingData:
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    documents, width = sum(lengths), draw(st.integers(1, 5))
    values = draw(st.lists(single, min_size=documents * width, max_size=documents * width))
    labels = draw(st.lists(single, min_size=documents, max_size=documents))
    numbered = draw(st.booleans())
    name = (
        st.integers(0, 2**62)
        if numbered
        else st.text("abc-_.é1", min_size=1, max_size=5).map(lambda s: "q" + s)
    )
    ids = draw(st.lists(name, min_size=len(lengths), max_size=len(lengths), unique=True))
    doc = st.text("xyz:/-0 =#\té", min_size=1, max_size=6).map(lambda s: "d" + s.strip())
    docs = draw(st.none() | st.lists(doc, min_size=documents, max_size=documents))
    return RankingData(
        torch.tensor(values, dtype=torch.float32).reshape(documents, width),
        torch.tensor(labels, dtype=torch.float32),
        np.concatenate([[0], np.cumsum(lengths)]),
        ids,
        docs,
    )


@settings(max_examples=100, deadline=None)
@given(data=any_data(), name=st.sampled_from(["a.txt", "a.parquet"]), sparse=st.booleans())
def test_what_is_written_reads_back_equal(
    tmp_path_factory: pytest.TempPathFactory, data: RankingData, name: str, sparse: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / name
    write(data, path, sparse=sparse)
    back = read(path, features=data.features.shape[1] if name == "a.txt" else None)
    if sparse and name == "a.txt":
        # Zeros are left out, and with them the sign of -0.
        data = RankingData(data.features + 0.0, data.labels, data.offsets, data.query_ids, data.doc_ids)
    equal(data, back)


@pytest.mark.parametrize("name", ["a.txt.gz", "a.svm.xz", "a.txt.bz2", "a.txt.zst", "a.parquet"])
def test_archives_and_parts(tmp_path: Path, name: str) -> None:
    if name.endswith(".zst"):
        pytest.importorskip("zstandard")
    whole = synthetic(30, (1, 40), seed=3)
    seen: list[int] = []
    write(synthetic_stream(30, (1, 40), seed=3, queries_per_part=7), tmp_path / name, progress=seen.append)
    equal(whole, read(tmp_path / name))
    assert sum(seen) == whole.documents
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("1 qid:1 1:1\n")
    with pytest.raises(DataError, match="query id 'a b' cannot stand in svmlight text"):
        write(RankingData(torch.zeros(1, 1), [0], [0, 1], ["a b"]), path)
    with pytest.raises(DataError, match="svmlight text needs labels"):
        write(RankingData(torch.zeros(1, 1), None, [0, 1]), path)
    with pytest.raises(DataError, match=r"document id 'a\\nb' cannot stand in a comment"):
        write(RankingData(torch.zeros(1, 1), [0], [0, 1], None, ["a\nb"]), path)
    for name in ("a.txt", "a.parquet"):
        with pytest.raises(DataError, match="query 1 has no documents"):
            write(RankingData(torch.zeros(1, 1), [0], [0, 1, 1]), tmp_path / name)
        with pytest.raises(DataError, match="two queries have the id 7"):
            write(
                [RankingData(torch.zeros(1, 1), [0], [0, 1], [each]) for each in (7, 8, 7)], tmp_path / name
            )
        for nothing in (synthetic(0), []):
            with pytest.raises(DataError, match="there is nothing to write"):
                write(nothing, tmp_path / name)
    assert path.read_text() == "1 qid:1 1:1\n"
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere to write to"):
        write(synthetic(1, 1), tmp_path / "nowhere" / "a.txt")
    with pytest.raises(IsADirectoryError, match="this is a folder"):
        write(synthetic(1, 1), tmp_path)
    with pytest.raises(ValueError, match="not as csv"):
        write(synthetic(1, 1), tmp_path / "a.csv")


def test_parquet_keeps_names_and_unlabelled_data(tmp_path: Path) -> None:
    data = RankingData(torch.rand(3, 2), None, [0, 2, 3], ["x", "y"], ["a", "b", "c"], ["label", "qid"])
    write(data, tmp_path / "a.parquet")
    back = read(tmp_path / "a.parquet")
    equal(data, back)
    assert back.feature_names == ["label", "qid"]
    assert read(tmp_path / "a.parquet", label=None, query="qid_", features=["qid"]).features.shape == (3, 1)


def csv(folder: Path, text: str, name: str = "a.csv") -> Path:
    (folder / name).write_bytes(text.encode())
    return folder / name


def test_csv_with_named_columns(tmp_path: Path) -> None:
    data = read(csv(tmp_path, CSV), doc="url")
    assert data.feature_names == ["price"]
    assert data.features[:, 0].tolist() == [3.5, -1000, 2]
    assert data.query_ids.tolist() == [7, 9]
    assert data.doc_ids is not None
    assert data.doc_ids.tolist() == ["a", "b", "c"]
    tabs = read(csv(tmp_path, CSV.replace(",", "\t"), "b.tsv"), features=["price"])
    assert torch.equal(tabs.features, data.features)
    text_ids = read(csv(tmp_path, CSV.replace("9,", "x9,"), "c.csv"), features=["price"])
    assert [str(each) for each in text_ids.query_ids] == ["7", "x9"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("7,1,abc,d", "feature 'price' is 'abc': expected a finite number"),
        ("7,1,,d", "feature 'price' is '': expected a finite number"),
        ("7,1,nan,d", "feature 'price' is 'nan': expected a finite number"),
        ("7,x,1,d", "label 'label' is 'x': expected a finite number"),
        (",1,1,d", "the query id 'qid' is missing"),
        ("7,1,1", "the line has 3 cells, the header 4"),
        ("7,1,1,d,e", "the line has 5 cells, the header 4"),
    ],
)
def test_a_bad_csv_line_is_named_or_skipped(tmp_path: Path, line: str, message: str) -> None:
    path = csv(tmp_path, CSV.replace("9,2", f"{line}\n9,2"))
    with pytest.raises(DataError) as caught:
        read(path, features=["price"])
    assert message in caught.value.problem
    assert (caught.value.path, caught.value.line, caught.value.text) == (str(path), 4, line)
    data = read(path, features=["price"], errors="skip")
    assert data.documents == 3
    assert data.skipped.count == 1
    assert data.query_ids.tolist() == [7, 9]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_the_line_of_a_record_is_its_first(tmp_path: Path, suffix: str) -> None:
    def written(text: str) -> Path:
        path = tmp_path / f"a.csv{suffix}"
        path.write_bytes(gzip.compress(text.encode()) if suffix else text.encode())
        return path

    def error(text: str, **options: Any) -> DataError:
        with pytest.raises(DataError) as caught:
            read(written(text), **options)
        return caught.value

    rows = 'qid,label,a,b\n"x\ny",1,2,3\n\n'
    assert read(written(rows + "z,1,2,3\n")).query_ids.tolist() == ["x\ny", "z"]
    found = error(rows + '"z\n",1,2\nz,1,2,3\n')
    assert (found.line, found.text) == (5, '"z')
    found = error(rows + "z,1,2,3\nbad,1\nx,1,2,3\nz,1,2,3\n", errors="skip")
    assert (found.line, found.text) == (8, "z,1,2,3")
    assert "query z goes on at row 4, after other queries" in found.problem


@pytest.mark.parametrize("end", ["", "\n", '\n9,1,2,"x"y\n', '\n9,1,2,"x"\n'])
def test_a_quote_that_is_not_closed_swallows_no_lines(tmp_path: Path, end: str) -> None:
    """Also not in a column that is not read, and where a later quote closes it."""
    path = csv(tmp_path, CSV.replace("7,0,-1e3,b", '7,0,-1e3,"b').rstrip() + end)
    with pytest.raises(DataError, match=r"a\.csv:3: not a line of CSV: .*; the line reads '7,0,-1e3,\"b'"):
        read(path, features=["price"])
    data = read(path, features=["price"], errors="skip")
    assert data.documents == 2 + ("x" in end)
    assert [each.line for each in data.skipped.examples] == [3]


def test_text_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"qid,label,a\nm\xfcller,1,2\nm\xf6ller,1,2\n")
    with pytest.raises(DataError, match=r"a\.csv:2: the query id 'm\ufffdller' is not UTF-8"):
        read(path)
    path.write_bytes(b"qid,label,gr\xf6\xdfe\n1,1,2\n")
    with pytest.raises(DataError, match=r"a\.csv:1: the header is not UTF-8"):
        read(path)
    # A column that is not read may hold anything.
    path.write_bytes(b"qid,label,a,title\n1,1,2,gr\xf6\xdfer\n1,0,3," + b"long " * 50_000 + b"\n")
    assert read(path, features=["a"]).features.tolist() == [[2], [3]]


def test_columns_that_are_there_twice_or_mean_two_things(tmp_path: Path) -> None:
    path = csv(tmp_path, CSV)
    for options, message in (
        ({"features": ["price", "label"]}, "column 'label' is the label and cannot be a feature"),
        ({"features": ["qid"]}, "column 'qid' is the query id and cannot be a feature"),
        ({"features": ["price", "price"]}, "feature 'price' is named 2 times"),
        ({"label": "qid"}, "column 'qid' cannot be both the label and the query id"),
    ):
        with pytest.raises(DataError, match=message):
            read(path, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"features must be a list of columns, got 'price'"):
        read(path, features="price")
    twice = pa.table([[1], [2], [3], [4]], names=["qid", "label", "a", "a"])
    pa.parquet.write_table(twice, tmp_path / "a.parquet")
    for source in (csv(tmp_path, "qid,label,a,a\n1,2,3,4\n", "b.csv"), tmp_path / "a.parquet"):
        with pytest.raises(DataError, match="column 'a' is there 2 times"):
            read(source)


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_damaged_tables_raise_nothing_but_the_documented_error(tmp_path: Path, kind: str) -> None:
    data = synthetic(5, 6, document_features=3, query_features=2)
    data.query_ids = np.array(list("abcde"), object)
    path = tmp_path / "a.parquet"
    write(data, path)
    if kind == "feather":
        pyarrow.feather.write_feather(pa.parquet.read_table(path), tmp_path / "a.feather")
        path = tmp_path / "a.feather"
    raw, draws = path.read_bytes(), np.random.default_rng(0)
    for _ in range(300):
        damaged = np.frombuffer(raw, np.uint8).copy()
        damaged[draws.integers(len(raw), size=2)] = draws.integers(256, size=2)
        path.write_bytes(damaged.tobytes()[: draws.integers(len(raw)) if draws.random() < 0.2 else None])
        try:
            back = read(path)
        except DataError:
            continue
        assert bool(back.features.isfinite().all())


def test_progress_of_a_table_adds_up_to_its_size(tmp_path: Path) -> None:
    data = synthetic(200, 1000, document_features=4, query_features=1)
    write(data, tmp_path / "a.parquet")
    table = pa.parquet.read_table(tmp_path / "a.parquet")
    pyarrow.feather.write_feather(table, tmp_path / "a.arrow")
    pa.csv.write_csv(table, tmp_path / "a.csv")
    (tmp_path / "bad.csv").write_bytes((tmp_path / "a.csv").read_bytes() + b"x\n")
    with pa.OSFile(str(tmp_path / "b.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    for name in ("a.parquet", "a.arrow", "b.arrow", "a.csv", "bad.csv"):
        seen: list[int] = []
        read(tmp_path / name, errors="skip", progress=seen.append)
        assert sum(seen) == (tmp_path / name).stat().st_size
        assert len(seen) > 2 or name.endswith(".csv")  # Arrow's reader of CSV is some megabytes ahead
    seen = []
    write(data, tmp_path / "b.parquet", progress=seen.append)
    assert sum(seen) == data.documents
    assert len(seen) > 2


def test_files_that_are_no_tables(tmp_path: Path) -> None:
    for name in ("a.csv", "a.parquet", "a.arrow"):
        with pytest.raises(DataError, match="the file is empty"):
            read(csv(tmp_path, "", name))
    for name in ("b.parquet", "b.arrow"):
        with pytest.raises(DataError, match="not a whole"):
            read(csv(tmp_path, "something else entirely", name))
    write(synthetic(50, 5), tmp_path / "c.parquet")
    raw = (tmp_path / "c.parquet").read_bytes()
    (tmp_path / "c.parquet").write_bytes(raw[: len(raw) // 2])
    with pytest.raises(DataError, match="not a whole parquet file"):
        read(tmp_path / "c.parquet")
    with pytest.raises(DataError, match="the table holds no rows"):
        read(csv(tmp_path, "qid,label,x\n", "d.csv"))
    with pytest.raises(DataError, match=r"there is no column 'grade', only 'qid', 'label', 'price', 'url'"):
        read(csv(tmp_path, CSV), label="grade")
    with pytest.raises(DataError, match="different formats"):
        read([csv(tmp_path, CSV), csv(tmp_path, "1 qid:1 1:1\n", "e.txt")])


def test_packed_tables(tmp_path: Path) -> None:
    packed = gzip.compress(CSV.encode() * 1 + b"9,1,4,d\n" * 5000)
    (tmp_path / "a.csv.gz").write_bytes(packed)
    assert read(tmp_path / "a.csv.gz", features=["price"]).documents == 5003
    (tmp_path / "b.csv.gz").write_bytes(packed[:-20])
    with pytest.raises(DataError, match="the archive is damaged or cut short"):
        read(tmp_path / "b.csv.gz", features=["price"])


def table() -> Any:
    return pa.table({"qid": [1, 1, 2], "label": [0.0, 2.0, 1.0], "x": [1, 2, 3], "flag": [True, False, True]})


def test_arrow_files_and_streams(tmp_path: Path) -> None:
    pyarrow.feather.write_feather(table(), tmp_path / "a.feather")
    with (
        pa.OSFile(str(tmp_path / "a.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, table().schema) as stream,
    ):
        stream.write_table(table())
    for name in ("a.feather", "a.arrow"):
        data = read(tmp_path / name)
        assert data.features.tolist() == [[1, 1], [2, 0], [3, 1]]
        assert data.offsets.tolist() == [0, 2, 3]


def test_several_tables_of_one_set(tmp_path: Path) -> None:
    pa.parquet.write_table(table(), tmp_path / "1.parquet")
    pa.parquet.write_table(table().set_column(0, "qid", pa.array([3, 4, 4])), tmp_path / "2.parquet")
    assert read(tmp_path).query_ids.tolist() == [1, 2, 3, 4]
    pa.parquet.write_table(table(), tmp_path / "2.parquet")
    with pytest.raises(DataError, match=r"query 1 is in .*1\.parquet and in .*2\.parquet"):
        read(tmp_path)
    assert read(tmp_path, sort_queries=True).offsets.tolist() == [0, 4, 6]
    with pytest.raises(DataError, match=r"1\.parquet: the file is named twice"):
        read([tmp_path, tmp_path / "1.parquet"])
    text = table().set_column(0, "qid", pa.array(["1", "a", "a"]))
    pa.parquet.write_table(text, tmp_path / "2.parquet")
    with pytest.raises(DataError, match=r"query 1 is in .*1\.parquet and in .*2\.parquet"):
        read(tmp_path)
    assert read(tmp_path, sort_queries=True).query_ids.tolist() == ["1", "2", "a"]
    pa.parquet.write_table(table().drop_columns(["x"]), tmp_path / "2.parquet")
    with pytest.raises(DataError, match=r"2\.parquet: the feature columns differ"):
        read(tmp_path)


def test_query_ids_that_are_whole_numbers_in_one_block_only(tmp_path: Path) -> None:
    rows = 70_000  # more than a block
    ids = pa.array([1.0] * rows + [2.5] * 2)
    pa.parquet.write_table(
        pa.table({"qid": ids, "label": [1.0] * (rows + 2), "a": [0.5] * (rows + 2)}), tmp_path / "t.parquet"
    )
    assert read(tmp_path / "t.parquet").query_ids.tolist() == ["1", "2.5"]


@pytest.mark.parametrize(
    "text", ["3.4028235e38 qid:1 1:3.4028235e38\n", "qid,label,x\n1,3.4028235e38,3.4028235e38\n"]
)
def test_the_largest_float32_in_its_short_form_is_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / ("data.csv" if "," in text else "data.txt")
    path.write_text(text)
    data = read(path)
    assert data.labels is not None
    assert data.labels.item() == data.features.item() == torch.finfo(torch.float32).max


@settings(max_examples=100, deadline=None)
@given(
    edits=st.lists(st.tuples(st.integers(0, 60), st.binary(max_size=2), st.integers(0, 2)), max_size=4),
    errors=st.sampled_from(["raise", "skip"]),
)
def test_fuzzed_csv_raises_nothing_but_the_documented_error(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[int, bytes, int]], errors: str
) -> None:
    raw = CSV.encode()
    for place, insert, drop in edits:
        raw = raw[:place] + insert + raw[place + drop :]
    path = tmp_path_factory.getbasetemp() / "fuzzed.csv"
    path.write_bytes(raw)
    try:
        data = read(path, features=["price"], errors=errors, sort_queries=True)
    except DataError:
        return
    assert bool(data.features.isfinite().all())
