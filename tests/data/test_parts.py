"""The parts of one data set get the same features, or an error says where they cannot."""

from __future__ import annotations

from functools import partial

import pytest

from pirank.data import DataError, read, read_parts

DENSE_2 = "# a comment\n1 qid:1 1:5 2:6\n0 qid:1 1:7 2:8\n"
DENSE_3 = "1 qid:1 1:5 2:6 3:0\n0 qid:1 1:7 2:8 3:9\n"
SPARSE_2 = "1 qid:1 2:6\n0 qid:1 1:7\n"
SPARSE_3 = "1 qid:1 2:6\n0 qid:1 3:7\n"


def files(folder, **texts):
    for name, text in texts.items():
        (folder / name).write_text(text)
    return {name: folder / name for name in texts}


@pytest.mark.parametrize(
    "texts", [(SPARSE_2, SPARSE_3), (SPARSE_3, SPARSE_2), (SPARSE_2, DENSE_3), (DENSE_3, SPARSE_2)]
)
def test_text_that_leaves_out_zeros_gets_the_features_of_the_widest(tmp_path, texts):
    parts = read_parts(files(tmp_path, train=texts[0], test=texts[1]))
    for text, data in zip(texts, parts.values(), strict=True):
        (tmp_path / "alone").write_text(text)
        assert data.features.tolist() == read(tmp_path / "alone", features=3).features.tolist()


@pytest.mark.parametrize("cache", [False, True])
def test_text_that_leaves_out_nothing_must_have_the_same_features(tmp_path, cache):
    message = r"test:2: every line has 2 features, but 3 are expected; the line reads '1 qid:1 1:5 2:6'"
    for _ in range(2):
        with pytest.raises(DataError, match=message) as found:
            read_parts(files(tmp_path, train=DENSE_3, test=DENSE_2), partial(read, cache=cache))
        assert (found.value.line, found.value.text) == (2, "1 qid:1 1:5 2:6")


def test_tables_give_the_columns_of_the_first_by_name(tmp_path):
    paths = files(
        tmp_path,
        **{"train.csv": "qid,label,a,b\n1,1,2,3\n1,0,4,5\n", "test.csv": "qid,b,label,a\n1,3,1,2\n1,5,0,4\n"},
    )
    train, test = read_parts(paths).values()
    assert train.features.tolist() == test.features.tolist() == [[2, 3], [4, 5]]
    paths |= files(tmp_path, **{"test.csv": "qid,label,a\n1,1,2\n1,0,4\n"})
    with pytest.raises(DataError, match=r"test\.csv.*'b'"):
        read_parts(paths)


def test_formats_may_differ_but_not_the_width(tmp_path):
    paths = files(tmp_path, **{"train.csv": "qid,label,a,b\n1,1,2,3\n1,0,4,5\n", "test.txt": DENSE_2})
    assert read_parts(paths)["test.txt"].features.tolist() == [[5, 6], [7, 8]]
    paths |= files(tmp_path, **{"test.txt": DENSE_3})
    with pytest.raises(DataError, match=r"train\.csv has 2 features and test\.txt has 3"):
        read_parts(paths)


def test_columns_in_another_order_are_refused_where_they_were_not_chosen_by_name(tmp_path):
    tables = {
        "train.dat": "qid,label,a,b\n1,1,2,3\n1,0,4,5\n",
        "test.dat": "qid,b,label,a\n1,3,1,2\n1,5,0,4\n",
    }
    with pytest.raises(DataError, match=r"number 1 is 'a' in train\.dat and 'b' in test\.dat"):
        read_parts(files(tmp_path, **tables), partial(read, format="csv"))
