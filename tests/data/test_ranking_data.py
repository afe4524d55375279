"""RankingData: what it holds, how queries are chosen, what it refuses."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

from pirank.data import DataError, RaggedBatches, RankingData, from_arrays, from_frame


@pytest.fixture
def data() -> RankingData:
    """Queries of 2, 0, 3 and 1 documents; the features of document d are (d, 10 d)."""
    features = torch.arange(6.0)[:, None] * torch.tensor([1.0, 10.0])
    return RankingData(
        features, [1, 0, 2, 0, 1, 3], [0, 2, 2, 5, 6], ["a", "b", "c", "d"], list("uvwxyz"), ["one", "ten"]
    )


def test_one_query_and_slices_are_views(data: RankingData) -> None:
    for part in (data[2], data[2:3], data[-2]):
        assert part.features.tolist() == [[2, 20], [3, 30], [4, 40]]
        assert part.labels is not None
        assert part.labels.tolist() == [2, 0, 1]
        assert part.offsets.tolist() == [0, 3]
        assert part.query_ids.tolist() == ["c"]
        assert part.doc_ids is not None
        assert part.doc_ids.tolist() == ["w", "x", "y"]
        assert part.features.untyped_storage().data_ptr() == data.features.untyped_storage().data_ptr()
    assert len(data[3:1]) == 0
    assert data[1].documents == 0


@pytest.mark.parametrize("as_index", [list, np.array, torch.tensor], ids=["list", "array", "tensor"])
def test_an_index_array_gathers_in_its_order_and_may_repeat(data: RankingData, as_index: type) -> None:
    part = data[as_index([3, 1, 0, -1])]
    assert part.query_ids.tolist() == ["d", "b", "a", "d"]
    assert part.offsets.tolist() == [0, 1, 1, 3, 4]
    assert part.features[:, 0].tolist() == [5, 0, 1, 5]
    assert part.doc_ids is not None
    assert part.doc_ids.tolist() == ["z", "u", "v", "z"]
    assert part.feature_names == ["one", "ten"]


def test_boolean_choice_and_steps(data: RankingData) -> None:
    assert data[np.array([True, False, False, True])].query_ids.tolist() == ["a", "d"]
    assert data[::-1].query_ids.tolist() == ["d", "c", "b", "a"]
    assert data[::-1].features[:, 0].tolist() == [5, 2, 3, 4, 0, 1]
    assert len(data[[]]) == 0


def test_split_loses_and_repeats_nothing_and_depends_on_the_seed(data: RankingData) -> None:
    many = RankingData(torch.arange(100.0)[:, None], torch.zeros(100), torch.arange(101))
    parts = many.split([0.7, 0.2, 0.1], seed=3)
    assert [len(part) for part in parts] == [70, 20, 10]
    assert sorted(np.concatenate([part.query_ids for part in parts])) == list(range(100))
    again, other = many.split([0.7, 0.2, 0.1], seed=3), many.split([0.7, 0.2, 0.1], seed=4)
    assert again[1].query_ids.tolist() == parts[1].query_ids.tolist()
    assert other[1].query_ids.tolist() != parts[1].query_ids.tolist()
    with pytest.raises(ValueError, match="sum to 1"):
        many.split([0.5, 0.2])


def test_concatenate_undoes_slicing(data: RankingData) -> None:
    whole = RankingData.concatenate([data[:1], data[1:3], data[3:]])
    assert whole.offsets.tolist() == data.offsets.tolist()
    assert torch.equal(whole.features, data.features)
    assert whole.query_ids.tolist() == data.query_ids.tolist()
    assert whole.doc_ids is not None
    assert whole.doc_ids.tolist() == list("uvwxyz")
    with pytest.raises(DataError, match="got 2 and 1 columns"):
        RankingData.concatenate([data, RankingData(torch.zeros(1, 1), None, [0, 1])])
    other = RankingData(torch.zeros(1, 2), [1], [0, 1], [7], ["t"], ["ten", "one"])
    with pytest.raises(DataError, match="their names differ, or their order"):
        RankingData.concatenate([data, other])
    other.feature_names = None
    both = RankingData.concatenate(part for part in (other, data))
    assert both.query_ids.tolist() == ["7", "a", "b", "c", "d"]
    assert both.feature_names == ["one", "ten"]


def test_describe_counts_by_hand() -> None:
    features = torch.tensor([[1.0, 5, 0], [2, 5, 0], [3, 5, 0], [4, 5, 1]])
    summary = RankingData(features, [0, 2, 0, 0], [0, 2, 3, 4]).describe()
    assert (summary.queries, summary.documents, summary.features) == (3, 4, 3)
    assert summary.labels == {0.0: 3, 2.0: 1}
    assert summary.label_range == (0, 2)
    assert summary.list_lengths is not None
    assert summary.list_lengths[0] == 1
    assert summary.list_lengths[3] == 2
    assert summary.blank_queries == 2
    assert summary.constant_features == [1]


def test_unlabelled_data_works_everywhere() -> None:
    data = RankingData(torch.rand(4, 2), None, [0, 1, 4])
    assert data[1].labels is None
    assert data[[1, 0]].labels is None
    assert data.describe().labels is None
    assert RankingData.concatenate([data, data]).labels is None
    assert data.to("cpu").labels is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": torch.zeros(3)}, r"features must be \[documents, features\], got \[3\]"),
        ({"labels": [0, 1]}, r"labels must be one number a document, \[3\]: got \[2\]"),
        ({"labels": [0, 1, float("nan")]}, "labels must be finite"),
        ({"offsets": [0, 2]}, "offsets must end at the number of items, 3"),
        ({"offsets": [0, 2, 1, 3]}, "offsets must not fall"),
        ({"query_ids": [1]}, r"query_ids must be one id each, \[2\]: got \[1\]"),
        ({"doc_ids": ["a"]}, r"doc_ids must be one id each, \[3\]"),
        ({"feature_names": ["a"]}, "one name a feature, 2: got 1"),
        ({"feature_names": ["a", "a"]}, "feature_names must differ: 'a' is there more than once"),
        ({"features": [[1, 2], [3], [4, 5]]}, "features must be numbers, in rows of one length"),
        ({"features": np.ones((3, 2), complex)}, "features must be numbers, got an array of complex128"),
        ({"features": torch.ones(3, 2).to(torch.complex64)}, "features must be real numbers"),
        ({"labels": ["a", "b", "c"]}, "labels must be numbers, got an array of <U1"),
        ({"labels": [1, None, 0]}, r"labels must be finite: 1 are not, the first is nan in row 1 \(from 0\)"),
    ],
)
def test_what_does_not_fit_together_is_refused(arguments: dict[str, object], message: str) -> None:
    good: dict[str, object] = {"features": torch.zeros(3, 2), "labels": [0, 1, 0], "offsets": [0, 1, 3]}
    with pytest.raises(DataError, match=message):
        RankingData(**{**good, **arguments})  # type: ignore[arg-type]


def test_from_arrays_takes_group_sizes_or_query_ids() -> None:
    X = np.arange(10, dtype=np.float64).reshape(5, 2)
    by_group = from_arrays(X, [1, 0, 2, 0, 1], group=[2, 3])
    by_qid = from_arrays(X, [1, 0, 2, 0, 1], qid=[8, 8, 3, 3, 3])
    assert by_group.offsets.tolist() == by_qid.offsets.tolist() == [0, 2, 5]
    assert by_qid.query_ids.tolist() == [8, 3]
    mixed = from_arrays(X, [1, 0, 2, 0, 1], qid=["b", "a", "b", "c", "a"], sort_queries=True)
    assert mixed.query_ids.tolist() == ["b", "a", "c"]
    assert mixed.features[:, 0].tolist() == [0, 4, 2, 8, 6]
    assert mixed.labels is not None
    assert mixed.labels.tolist() == [1, 2, 0, 1, 0]
    with pytest.raises(DataError, match="query 8 goes on at row 3, after other queries"):
        from_arrays(X, qid=[8, 3, 8, 8, 8])
    with pytest.raises(DataError, match="group must sum to the number of rows, 5: got 4"):
        from_arrays(X, group=[2, 2])
    with pytest.raises(DataError, match=f"group must sum to the number of rows, 5: got {2**64 + 5}"):
        from_arrays(X, group=[2**62] * 4 + [5])
    with pytest.raises(DataError, match="qid must be all numbers or all text, got int, str"):
        from_arrays(X, qid=np.array([1, 1, "a", "a", 1], object), sort_queries=True)
    with pytest.raises(DataError, match=r"1 are not, the first is nan in row 1, column 0"):
        from_arrays([[0.0], [np.nan]])


def test_frames_of_every_kind_give_the_same_data() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {
        "q": ["x", "x", "y"],
        "grade": [2, 0, 1],
        "f": [0.5, 1.0, 2.0],
        "g": [1, 2, 3],
        "url": ["a", "b", "c"],
    }
    for frame in (pandas.DataFrame(columns), polars.DataFrame(columns), polars.DataFrame(columns).to_arrow()):
        data = from_frame(frame, label="grade", query="q", doc="url")
        assert data.features.tolist() == [[0.5, 1], [1, 2], [2, 3]]
        assert data.feature_names == ["f", "g"]
        assert data.query_ids.tolist() == ["x", "y"]
        assert data.doc_ids is not None
        assert data.doc_ids.tolist() == ["a", "b", "c"]
    with pytest.raises(
        DataError, match="feature 'url' is 'a': expected a finite number; if it is not a feature"
    ):
        from_frame(pandas.DataFrame(columns), label="grade", query="q")
    with pytest.raises(
        DataError, match=r"there is no column 'label', only 'q', .*None where there are no labels"
    ):
        from_frame(pandas.DataFrame(columns), query="q")
    unlabelled = from_frame(pandas.DataFrame(columns), label=None, query="q", features=["g"])
    assert unlabelled.labels is None
    assert unlabelled.features.tolist() == [[1], [2], [3]]


def test_rows_of_a_frame_with_missing_values_are_refused_or_counted() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"qid": [1, 1, 2, None], "label": [0, 1, None, 2], "f": [1.0, np.inf, 3.0, 4.0]})
    frame["qid"] = frame["qid"].astype("Int64")
    with pytest.raises(DataError, match=r"feature 'f' is inf: expected a finite number \(row 1, from 0\)"):
        from_frame(frame)
    data = from_frame(frame, errors="skip")
    assert data.documents == 1
    assert data.skipped.count == 3
    assert data.describe().skipped_lines == 3
    assert "query id 'qid' is missing" in str(data.skipped.examples[2])


def frames(**columns: Any) -> list[Any]:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rest = {"qid": [1, 1, 2], "label": [0, 1, 2], "a": [1.0, 2.0, 3.0]} | columns
    return [
        pandas.DataFrame(rest),
        polars.DataFrame(rest, strict=False),
        polars.LazyFrame(rest, strict=False),
    ]


def test_odd_columns_of_frames() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for frame in frames(a=[Decimal("1.5"), Decimal("2.25"), Decimal(3)], b=[True, False, True]):
        assert from_frame(frame).features.tolist() == [[1.5, 1], [2.25, 0], [3, 1]]
    for frame in frames(doc=["x", None, "z"]):
        data = from_frame(frame, doc="doc")
        assert data.doc_ids is not None
        assert data.doc_ids.tolist() == ["x", "", "z"]
    for bad, message in {
        "nested": ([[1], [2], [3]], "feature 'b' is a column of .*list.*: expected numbers"),
        "dates": ([datetime.date(2020, 1, 1)] * 3, "feature 'b' is a column of date32.*: expected numbers"),
        "none": ([1, None, 2], r"feature 'b' is None: expected a finite number \(row 1, from 0\)"),
        "text": (["1", "x", "2"], r"feature 'b' is 'x': expected a finite number.*row 1"),
        "large": ([1, 1e39, 2], r"feature 'b' is 1e\+39: expected a number that float32 can hold"),
    }.values():
        for frame in frames(b=bad):
            with pytest.raises(DataError, match=message):
                from_frame(frame)
            # What is not used is not looked at.
            assert from_frame(frame, features=["a"]).features.shape == (3, 1)
    for frame in frames(qid=[[1], [1], [2]]):
        with pytest.raises(
            DataError, match=r"the query ids 'qid' are .*list.*: expected whole numbers or text"
        ):
            from_frame(frame)
    categories = [
        pandas.DataFrame(
            {"qid": pandas.Categorical(ids), "label": pandas.Categorical([0, 1, 2]), "a": [1, 2, 3]}
        )
        for ids in (["x", "x", "y"], ["x", "", "y"])
    ]
    categories += [
        polars.DataFrame(
            {"qid": polars.Series(ids, dtype=polars.Categorical), "label": [0, 1, 2], "a": [1, 2, 3]}
        )
        for ids in (["x", "x", "y"], ["x", "", "y"])
    ]
    for good, bad in (categories[:2], categories[2:]):
        data = from_frame(good)
        assert data.query_ids.tolist() == ["x", "y"]
        assert data.labels is not None
        assert data.labels.tolist() == [0, 1, 2]
        with pytest.raises(DataError, match="the query id 'qid' is missing"):
            from_frame(bad)
    wide = polars.DataFrame({"qid": polars.Series([1, 2], dtype=polars.Int128), "label": [0, 1], "a": [1, 2]})
    with pytest.raises(DataError, match="columns of Int128, Int64 cannot be read"):
        from_frame(wide)


def test_odd_frames_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    mixed = pandas.DataFrame(
        {"qid": [1, "x", 2**70], "label": [0, 1, 2], "a": [1, "y", 2.5]}, index=[5, 5, 7]
    )
    with pytest.raises(DataError, match=r"feature 'a' is 'y': .*row 1"):
        from_frame(mixed)
    data = from_frame(mixed, errors="skip")
    assert data.query_ids.tolist() == ["1", str(2**70)]
    assert data.skipped.count == 1
    sparse = pandas.DataFrame({0: [1, 1], 1: [0, 1], 2: pandas.arrays.SparseArray([0, 2.5])})
    assert from_frame(sparse, query=0, label=1).features.tolist() == [[0], [2.5]]  # type: ignore[arg-type]
    twice = pandas.DataFrame([[1, 0, 1, 2, 3]], columns=["qid", "label", "a", "b", "b"])
    with pytest.raises(DataError, match="column 'b' is there 2 times"):
        from_frame(twice)
    assert from_frame(twice, features=pandas.Index(["a"])).features.tolist() == [[1]]
    with pytest.raises(ValueError, match="features must be a list of columns, got 'a'"):
        from_frame(twice, features="a")
    for other in (twice["a"], {"qid": [1]}, np.zeros((2, 2)), None):
        with pytest.raises(
            TypeError, match="frame must be a pandas or polars data frame or an Arrow table, got"
        ):
            from_frame(other)


def test_arrays_that_may_not_be_written_to(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame, grades = pandas.DataFrame({"a": [1, 2], "b": [0.5, 3]}), pandas.Series([1, 0])
    data = from_arrays(frame, grades, qid=pandas.Series(["x", "y"]))
    assert data.features.tolist() == [[1, 0.5], [2, 3]]
    assert data.query_ids.tolist() == ["x", "y"]
    np.save(tmp_path / "x.npy", np.ones((3, 2), np.float32))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert from_arrays(mapped, np.zeros(3)).features.data_ptr() == mapped.ctypes.data
    assert pickle.loads(pickle.dumps(data)).query_ids.tolist() == ["x", "y"]


def test_shuffled_data_holds_the_same_queries_in_a_seeded_order() -> None:
    lengths = np.random.default_rng(0).integers(0, 40, 3000)
    offsets = np.concatenate([[0], lengths.cumsum()])
    numbers = np.arange(offsets[-1], dtype=np.float32)
    data = RankingData(numbers[:, None], numbers, offsets, query_ids=np.arange(3000) + 7)
    spread = []
    for bucketed in (False, True):
        shuffled = data.shuffled(seed=3, bucketed=bucketed)
        assert shuffled.query_ids.tolist() == data.shuffled(seed=3, bucketed=bucketed).query_ids.tolist()
        assert shuffled.query_ids.tolist() != data.query_ids.tolist()
        assert sorted(shuffled.query_ids.tolist()) == data.query_ids.tolist()
        for q in (0, 1500, 2999):
            original = data[int(shuffled.query_ids[q]) - 7]
            assert torch.equal(shuffled[q].features, original.features)
        spread.append(shuffled.lengths.diff().abs().float().mean().item())
    assert spread[1] < spread[0] / 50


def test_arrays_of_every_layout_are_read() -> None:
    X = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert from_arrays(X).features.data_ptr() == X.ctypes.data
    wanted = from_arrays(X[::-1].copy()).features
    arrays = [X[::-1], np.asfortranarray(X[::-1]), np.ma.array(X[::-1]), scipy.sparse.csr_array(X[::-1])]
    arrays += [X[::-1].astype(kind) for kind in (">f4", np.longdouble, object)]
    for other in (*arrays, wanted.to_sparse(), wanted.clone().requires_grad_()):
        data = from_arrays(other)
        assert torch.equal(data.features, wanted)
        assert torch.equal(next(iter(RaggedBatches(data))).features, wanted)
    for missing in (np.ma.array(X, mask=X == 3), [[1, None]]):
        with pytest.raises(DataError, match=r"features must be finite: 1 are not, the first is nan in row"):
            from_arrays(missing)


class Unsaid:
    """As pandas.NA: it does not say whether it is equal to anything."""

    def __ne__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise TypeError


@pytest.mark.parametrize(
    "qid",
    [
        [1.0, float("nan"), 2.0],
        np.array(["a", None, "b"], object),
        np.array(["a", Unsaid(), "b"], object),
        np.array(["2020-01-01", "NaT", "2020-01-02"], "datetime64[D]"),
    ],
)
def test_missing_query_ids_are_refused(qid: object) -> None:
    with pytest.raises(DataError, match=r"qid is missing in 1 rows, the first is row 1"):
        from_arrays(np.ones((3, 2)), [0, 1, 0], qid=qid)
