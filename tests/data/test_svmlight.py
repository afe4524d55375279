"""Reading svmlight text: legal files equal a reader of five lines, bad lines are named."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pirank.data import DataError, read, svmlight
from pirank.data.svmlight import read_svmlight
from pirank.data.svmlight_blocks import parse_regular

SMALL = """\
2 qid:10 1:0.5 2:-1.25e2 3:7 # docid = GX1 inc = 1
0 qid:10 1:0 2:1e-3 3:.5 #docid = GX2
1.5 qid:9 1:3. 2:0 3:1
"""


def written(folder: Path, text: str | bytes, name: str = "train.txt") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def naive(text: str) -> tuple[list[float], list[str], list[dict[int, float]]]:
    """Labels, query ids and features by splitting strings."""
    labels, ids, rows = [], [], []
    for line in text.splitlines():
        tokens = line.partition("#")[0].split()
        if tokens:
            labels.append(float(tokens[0]))
            ids.append(tokens[1].removeprefix("qid:"))
            rows.append({int(i): float(v) for i, v in (token.split(":") for token in tokens[2:])})
    return labels, ids, rows


def assert_reads_as_naive(path: Path, text: str, **options: int) -> None:
    labels, ids, rows = naive(text)
    data = read_svmlight([path], **options)
    expected = np.zeros((len(rows), max(max(row, default=0) for row in rows)), np.float32)
    for place, row in enumerate(rows):
        for index, value in row.items():
            expected[place, index - 1] = np.float32(value)
    assert data.labels is not None
    assert data.features.numpy().tobytes() == expected.tobytes()
    assert data.labels.tolist() == np.array(labels, np.float32).tolist()
    assert [str(each) for each in np.repeat(data.query_ids, data.lengths)] == ids


def test_values_labels_ids_and_documents(tmp_path: Path) -> None:
    data = read(written(tmp_path, SMALL))
    assert data.features.tolist() == [[0.5, -125.0, 7.0], [0.0, 0.0010000000474974513, 0.5], [3.0, 0.0, 1.0]]
    assert data.labels is not None
    assert data.labels.tolist() == [2, 0, 1.5]
    assert data.query_ids.tolist() == [10, 9]
    assert data.offsets.tolist() == [0, 2, 3]
    assert data.doc_ids is not None
    assert data.doc_ids.tolist() == ["GX1", "GX2", ""]


IRREGULAR = {
    "carriage returns": SMALL.replace("\n", "\r\n"),
    "blank lines": "\n\n" + SMALL.replace("\n", "\n  \n"),
    "no newline at the end": SMALL.rstrip(),
    "tabs and several spaces": SMALL.replace(" ", "  \t").replace("\n", "  \n"),
    "leading spaces": "  " + SMALL.replace("\n", "\n "),
    "byte order mark": "\ufeff" + SMALL,
    "comment lines": "# head\n" + SMALL + "# tail\n",
    "blank lines of all kinds": SMALL.replace("\n", "\n \t\f\n\v# none\n\r\r\n"),
    "plus signs": SMALL.replace("1:3.", "1:+3."),
}


@pytest.mark.parametrize("text", IRREGULAR.values(), ids=IRREGULAR.keys())
@pytest.mark.parametrize("block_bytes", [1, 40, 1 << 20])
def test_irregular_layout_changes_nothing(tmp_path: Path, text: str, block_bytes: int) -> None:
    plain = read_svmlight([written(tmp_path, SMALL)])
    data = read_svmlight([written(tmp_path, text, "other.txt")], block_bytes=block_bytes)
    assert torch.equal(data.features, plain.features)
    assert data.query_ids.tolist() == plain.query_ids.tolist()
    assert data.doc_ids is not None
    assert plain.doc_ids is not None
    assert data.doc_ids.tolist() == plain.doc_ids.tolist()


def test_regular_text_takes_the_fast_path_and_odd_text_does_not() -> None:
    for text in (SMALL, *IRREGULAR.values()):
        lines = text.removeprefix("\ufeff").rstrip() + "\n"
        assert parse_regular(lines.encode()) is not None
    assert parse_regular(b"1 qid:a 2:1 5:1\n0 qid:b 1:1\n") is not None
    # As many qid: as lines, but not one in each.
    for text in (
        b"1 qid:1 1:1 qid:2\n0 1:1\n",
        b"1 qid:1 1: 2:1\n",
        b"1 qid:1 1\x00:2\n",
        b"1 qid: 5 1:1\n",
        b"1 qid:1 1:1 qid:\n0 5\n",
        b"1 qid:1 qid:1 1:1\n0 5 1:1\n",
    ):
        assert parse_regular(text) is None


def test_query_ids_may_be_text_or_huge(tmp_path: Path) -> None:
    data = read(written(tmp_path, "1 qid:WT04-1 1:1\n0 qid:WT04-2 1:2\n"))
    assert data.query_ids.tolist() == ["WT04-1", "WT04-2"]
    data = read(written(tmp_path, f"1 qid:{2**60 + 1} 1:1\n0 qid:{2**60 + 2} 1:2\n"))
    assert data.query_ids.tolist() == [2**60 + 1, 2**60 + 2]
    data = read(written(tmp_path, f"1 qid:{2**70} 1:1\n0 qid:{2**70 + 1} 1:2\n"))
    assert data.query_ids.tolist() == [str(2**70), str(2**70 + 1)]


numbers = st.one_of(
    st.integers(-(10**12), 10**12).map(str),
    st.floats(-1e38, 1e38, allow_nan=False).map(repr),
    st.decimals(-1000, 1000, places=6, allow_nan=False).map(str),
    st.sampled_from(["0", "-0.0", "1e-45", "3.4028234663852886e38", "16777217", "0.1", "1E5", ".5", "5."]),
)


@st.composite
def svmlight_texts(draw: st.DrawFn) -> str:
    dense = draw(st.booleans())
    width = draw(st.integers(1, 6))
    lines = []
    for query in range(draw(st.integers(1, 4))):
        for _ in range(draw(st.integers(1, 4))):
            indices = range(1, width + 1)
            if not dense:
                indices = sorted(draw(st.sets(st.integers(1, 40), max_size=6)))  # type: ignore[assignment]
            features = " ".join(f"{index}:{draw(numbers)}" for index in indices)
            lines.append(f"{draw(numbers)} qid:{query} {features}".rstrip())
    lines[0] += " 41:1" if not dense else ""
    return "\n".join(lines) + "\n"


@settings(max_examples=150, deadline=None)
@given(text=svmlight_texts(), block_bytes=st.sampled_from([16, 200, 1 << 20]))
def test_any_legal_text_equals_the_naive_reader_to_the_bit(
    tmp_path_factory: pytest.TempPathFactory, text: str, block_bytes: int
) -> None:
    path = written(tmp_path_factory.getbasetemp(), text, "any.txt")
    assert_reads_as_naive(path, text, block_bytes=block_bytes)


BAD = {
    "x qid:1 1:1": "the label is 'x', not a number",
    "nan qid:1 1:1": "the label is 'nan': only finite numbers",
    "1 1:1 2:2": "no query id",
    "1": "no query id",
    "1 qid: 1:1": "query id ''",
    "1 qid:1:2 1:1": "query id '1:2'",
    "1 qid:1 0:1": "feature index 0: indices start at 1",
    "1 qid:1 2:1 1:1": "feature index 1 follows 2: indices must rise",
    "1 qid:1 2:1 2:1": "feature index 2 follows 2: indices must rise",
    "1 qid:1 1:nan": "the value of feature 1 is 'nan': only finite",
    "1 qid:1 1:inf": "the value of feature 1 is 'inf': only finite",
    "1 qid:1 1:1e39": "the value of feature 1 is '1e39', beyond the largest float32",
    "1 qid:1 1:": "the value of feature 1 is '', not a number",
    "1 qid:1 1:1_0": "the value of feature 1 is '1_0', not a number",
    "1 qid:1 1:1:1": "the value of feature 1 is '1:1', not a number",
    "1 qid:1 x:1": "feature index 'x' is not a whole number",
    "1 qid:1 1.5:1": "feature index '1.5' is not a whole number",
    "1 qid:1 -1:1": "feature index '-1' is not a whole number",
    "1 qid:1 99999999999:1": "feature index '99999999999' is not a whole number",
    "1 qid:1 1:1 2": "'2' is not a feature: expected index:value",
    "1 qid:1 qid:2 1:1": "feature index 'qid' is not a whole number",
}


@pytest.mark.parametrize(("line", "message"), BAD.items(), ids=BAD.keys())
def test_a_bad_line_is_named_or_skipped(tmp_path: Path, line: str, message: str) -> None:
    good = "0 qid:1 1:0.5 2:1\n"
    path = written(tmp_path, f"{good}\n{good}{line}\n{good}")
    with pytest.raises(DataError) as caught:
        read(path)
    assert message in caught.value.problem
    assert (caught.value.path, caught.value.line, caught.value.text) == (str(path), 4, line)
    assert f"train.txt:4: {caught.value.problem}" in str(caught.value)
    data = read(path, errors="skip")
    assert data.documents == 3
    assert data.skipped.count == data.describe().skipped_lines == 1
    assert data.skipped.examples[0].line == 4


def test_errors_in_later_blocks_have_the_right_line(tmp_path: Path) -> None:
    lines = [f"0 qid:{n // 10} 1:0.5 2:{n}" for n in range(500)]
    lines[317] = "0 qid:31 1:bad"
    path = written(tmp_path, "\n".join(lines))
    with pytest.raises(DataError, match=r"train\.txt:318: the value of feature 1 is 'bad'"):
        read_svmlight([path], block_bytes=100)


@settings(max_examples=300, deadline=None)
@given(
    text=svmlight_texts(),
    edits=st.lists(st.tuples(st.integers(0, 10**6), st.binary(max_size=3), st.integers(0, 2)), max_size=4),
)
def test_fuzzed_text_raises_nothing_but_the_documented_error(
    tmp_path_factory: pytest.TempPathFactory, text: str, edits: list[tuple[int, bytes, int]]
) -> None:
    raw = text.encode()
    for place, insert, drop in edits:
        at = place % (len(raw) + 1)
        raw = raw[:at] + insert + raw[at + drop :]
    path = written(tmp_path_factory.getbasetemp(), raw, "fuzzed.txt")
    try:
        data = read(path, features=64, sort_queries=True)
    except DataError:
        pass
    else:
        assert bool(data.features.isfinite().all())
    try:
        data = read(path, features=64, sort_queries=True, errors="skip")
    except DataError:
        return
    assert data.documents >= 1


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_both_paths_agree_on_what_is_legal(
    tmp_path_factory: pytest.TempPathFactory, draw: st.DataObject
) -> None:
    """What the fast path accepts, the line by line path accepts with the same numbers."""
    from pirank.data.sources import TextBlock
    from pirank.data.svmlight_lines import parse_lines

    token = st.sampled_from(
        [
            *"0123456789",
            ":",
            " ",
            "qid:",
            "qid",
            "1:",
            "2:",
            ".",
            "e",
            "-",
            "#",
            "nan",
            "\n",
            "\t",
            "\r",
            "\x00",
            "\x0b",
        ]
    )
    raw = ("1 qid:1 1:1 " + "".join(draw.draw(st.lists(token, max_size=20))) + "\n").encode()
    fast = parse_regular(raw)
    if fast is None:
        return
    slow = parse_lines(TextBlock(Path("x"), 1, raw), None)
    assert fast.labels.tolist() == slow.labels.tolist()
    assert fast.query_ids.tolist() == slow.query_ids.tolist()
    assert fast.counts.tolist() == slow.counts.tolist()
    assert fast.values.reshape(-1).tolist() == slow.values.tolist()
    assert (fast.doc_ids or []) == (slow.doc_ids or [])


def test_queries_in_pieces_are_refused_or_brought_together(tmp_path: Path) -> None:
    path = written(tmp_path, "1 qid:5 1:1\n0 qid:6 1:2\n2 qid:5 1:3\n")
    with pytest.raises(
        DataError, match=r"train\.txt:3: query 5 goes on at row 3, after other queries.*sort_queries"
    ):
        read(path)
    data = read(path, sort_queries=True)
    assert data.query_ids.tolist() == [5, 6]
    assert data.features[:, 0].tolist() == [1, 3, 2]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_the_line_of_a_query_in_pieces_is_found_behind_comments_blank_and_skipped_lines(
    tmp_path: Path, suffix: str
) -> None:
    text = "# head\n1 qid:5 1:1\n\n" + "0 qid:6 1:2\n" * 50 + "bad\n  \n2 qid:5 1:3 # again\n"
    raw = gzip.compress(text.encode()) if suffix else text
    other = written(tmp_path, "1 qid:1 1:1\n", "a.txt")
    path = written(tmp_path, raw, f"b.txt{suffix}")
    for block_bytes in (20, 1 << 20):
        with pytest.raises(DataError, match="query 5 goes on at row 53, after other queries") as caught:
            read_svmlight([other, path], errors="skip", block_bytes=block_bytes)
        error = caught.value
        assert (error.path, error.line, error.text) == (str(path), 56, "2 qid:5 1:3 # again")


def test_query_ids_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    for raw in (b"m\xfcller", b"m\xf6ller"):
        path = written(tmp_path, b"1 qid:1 1:1\n1 qid:" + raw + b" 1:1\n")
        with pytest.raises(DataError, match=r"train\.txt:2: query id 'm\ufffdller' is not UTF-8"):
            read(path)
    assert read(path, errors="skip").skipped.count == 1


def test_an_index_beyond_memory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = svmlight._FeatureTable._widen

    def no_room(self: svmlight._FeatureTable, width: int) -> None:
        if width > 1000:
            raise MemoryError
        real(self, width)

    monkeypatch.setattr(svmlight._FeatureTable, "_widen", no_room)
    path = written(tmp_path, "# head\n1 qid:1 1:1 7:2\n0 qid:1 2:1 2147483647:1\n0 qid:1 3:1\n")
    with pytest.raises(
        DataError, match=r"train\.txt:3: feature index 2147483647: .* not fit into memory; the line reads '0"
    ):
        read(path)


@pytest.mark.parametrize(
    "ids",
    [
        ["1_2", "12"], ["7", "007"], ["7", "7.0"], ["1", "+1"], ["0", "-0"], ["100", "1e2"], ["-5", "-05"], ["1", "٢"],
        [str(2**53), str(2**53 + 1)], [str(2**63), "1"], ["a_1", "1_2"], ["", "1"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("ending", ["# docid = x", ""])
def test_query_ids_are_what_stands_there(tmp_path: Path, ids: list[str], ending: str) -> None:
    path = written(tmp_path, "".join(f"1 qid:{each} 1:1 {ending}\n" for each in ids))
    if "" in ids:
        with pytest.raises(DataError, match="query id ''"):
            read(path)
        return
    found = read(path).query_ids
    assert [str(each) for each in found] == ids
    assert (found.dtype == np.int64) == (ids == [str(2**53), str(2**53 + 1)])
    table = tmp_path / "t.csv"
    table.write_text("qid,label,a\n" + "".join(f"{each},1,2\n" for each in ids))
    assert [str(each) for each in read(table).query_ids] == ids


def test_number_of_features(tmp_path: Path) -> None:
    path = written(tmp_path, "1 qid:1 3:1\n0 qid:1 5:2\n")
    assert read(path).features.shape == (2, 5)
    assert read(path, features=9).features.shape == (2, 9)
    with pytest.raises(DataError, match=r"train\.txt:2: feature index 5: there are 4 features"):
        read(path, features=4)
    narrow, wide = (
        written(tmp_path, "1 qid:1 1:1\n", "a.txt"),
        written(tmp_path, "1 qid:2 1:1 2:1\n", "b.txt"),
    )
    with pytest.raises(
        DataError,
        match=r"b\.txt:1: every line has 2 features, but in .*a\.txt every line has 1; the line reads",
    ):
        read([narrow, wide])
    assert read(wide, features=3).features.tolist() == [[1, 1, 0]]
    with pytest.raises(
        DataError, match=r"b\.txt:2: every line has 2 features, but 3 are expected; the line reads '1 q"
    ):
        read(written(tmp_path, "# first\n1 qid:2 1:1 2:1\n0 qid:2 1:1 2:2\n", "b.txt"), features=3, pad=False)
    sparse = written(tmp_path, "1 qid:2 1:1 2:1\n0 qid:2 1:1\n", "sparse.txt")
    assert read(sparse, features=3, pad=False).features.shape == (2, 3)


def test_wider_lines_late_in_the_file(tmp_path: Path) -> None:
    text = "".join(f"1 qid:1 {n}:{n}\n" for n in range(1, 60))
    assert_reads_as_naive(written(tmp_path, text), text, block_bytes=50)


def compressions() -> dict[str, object]:
    def zstd(raw: bytes) -> bytes:
        return bytes(pytest.importorskip("zstandard").ZstdCompressor().compress(raw))

    return {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress, ".zst": zstd}


@pytest.mark.parametrize("suffix", compressions())
def test_archives_whole_and_cut_short(tmp_path: Path, suffix: str) -> None:
    text = "".join(f"{n % 3} qid:{n // 7} 1:{n} 2:{n * n}\n" for n in range(3000))
    packed = compressions()[suffix](text.encode())  # type: ignore[operator]
    plain = read(written(tmp_path, text))
    data = read(written(tmp_path, packed, f"a.txt{suffix}"))
    assert torch.equal(data.features, plain.features)
    two = read(written(tmp_path, packed + compressions()[suffix](b"1 qid:x 1:1 2:2\n"), f"b.txt{suffix}"))  # type: ignore[operator]
    assert two.documents == 3001
    for cut in (len(packed) // 2, len(packed) - 5, 3):
        with pytest.raises(DataError, match=r"damaged or cut short|no data line"):
            read(written(tmp_path, packed[:cut], f"c.txt{suffix}"))
    for after in (b"this is no frame", compressions()[suffix](b"1 qid:x 1:1 2:2\n")[:4]):  # type: ignore[operator]
        with pytest.raises(DataError, match="damaged or cut short"):
            read(written(tmp_path, packed + after, f"c.txt{suffix}"))
    with pytest.raises(DataError):
        read(written(tmp_path, b"this is no archive at all", f"d.txt{suffix}"))
    table = compressions()[suffix](b"qid,label,a\n" + b"1,2,3\n" * 5000)  # type: ignore[operator]
    assert read(written(tmp_path, table, f"e.csv{suffix}")).documents == 5000
    with pytest.raises(DataError, match="damaged or cut short"):
        read(written(tmp_path, table[:-3], f"e.csv{suffix}"))


def test_files_folders_and_what_is_missing(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    with pytest.raises(DataError, match="the folder holds no data file"):
        read(folder)
    written(folder, "1 qid:2 1:2\n", "part-2.txt")
    written(folder, "1 qid:1 1:1\n", "part-1.txt")
    written(folder, "no data", "README.md")
    assert read(folder).query_ids.tolist() == [1, 2]
    assert read([folder / "part-2.txt", folder / "part-1.txt"]).query_ids.tolist() == [2, 1]
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read(tmp_path / "nowhere.txt")
    with pytest.raises(DataError, match=r"empty\.txt: the file holds no data line"):
        read(written(tmp_path, "", "empty.txt"))
    with pytest.raises(DataError, match="all were skipped, the first because of: the label"):
        read(written(tmp_path, "a\nb\n"), errors="skip")


def test_counts_of_the_real_sets(real_data: Path) -> None:
    """The table of the folder's README."""
    expected = {
        "MQ2008": (784, 15211, 46, {0: 12279, 1: 2001, 2: 931}, 5, 121, 220),
        "MQ2007-r85": (1692, 59135, 46, {0: 43857, 1: 11994, 2: 3284}, 6, 127, 259),
        "OHSUMED-LETOR3/QueryLevelNorm": (106, 16140, 45, {0: 11303, 1: 2585, 2: 2252}, 35, 320, 1),
        "OHSUMED-LETOR3/Feature-min": (106, 16140, 45, {0: 11303, 1: 2585, 2: 2252}, 35, 320, 1),
        "ClueWeb09-webis": (61, 26646, 42, {0: 21808, 1: 3274, 2: 1242, 3: 172, 4: 150}, 230, 728, 1),
        "MSLR-sample": (140, 15469, 136, None, 6, 308, None),
    }
    for name, (queries, documents, features, labels, shortest, longest, blank) in expected.items():
        summary = read(real_data / name).describe()
        assert (summary.queries, summary.documents, summary.features) == (queries, documents, features), name
        assert summary.list_lengths is not None
        assert (summary.list_lengths[0], summary.list_lengths[3]) == (shortest, longest), name
        if labels is not None:
            assert summary.labels == labels, name
            assert summary.blank_queries == blank, name


def test_further_rows_of_the_same_queries(real_data: Path) -> None:
    both = [real_data / "MQ2007-r85", real_data / "MQ2007-r85" / "extra-svm-rows"]
    with pytest.raises(DataError, match=r"query 10 is in .*S1.txt.xz and in .*extra-svm-rows"):
        read(both)
    data = read(both, sort_queries=True)
    assert (len(data), data.documents) == (1692, 61644)
    assert data.doc_ids is not None
    assert str(data.doc_ids[0]).startswith("GX")


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_progress_counts_the_bytes_on_disk(tmp_path: Path, suffix: str) -> None:
    text = "".join(f"{n % 3} qid:{n // 7} 1:{n * 7919 % 1000} 2:{n * n % 977}\n" for n in range(60000))
    raw = text.encode() if not suffix else compressions()[suffix](text.encode())  # type: ignore[operator]
    path = written(tmp_path, raw, f"a.txt{suffix}")
    steps: list[int] = []
    read_svmlight([path], block_bytes=1 << 16, progress=steps.append)
    assert sum(steps) == path.stat().st_size
    assert sum(step > 0 for step in steps) > 1
