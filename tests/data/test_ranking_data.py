"""RankingData: what it holds, how queries are chosen, what it refuses."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from pirank.data import DataError, RankingData, from_arrays, from_frame


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


@pytest.mark.parametrize("qid", [[1.0, float("nan"), 2.0], np.array(["a", None, "b"], object)])
def test_missing_query_ids_are_refused(qid: object) -> None:
    with pytest.raises(DataError, match=r"qid is missing in 1 rows, the first is row 1"):
        from_arrays(np.ones((3, 2)), [0, 1, 0], qid=qid)
