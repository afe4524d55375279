"""Data sets by name: files found, folds put together, counts compared."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from pirank.data import DataError, load
from pirank.data.catalogue import CATALOGUE


def parts(folder: Path, names: list[str], archive: bool = False) -> None:
    """One query of one document in each file, named by the file; most features are left out."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = f"1 qid:{name.replace('/', '-')} 2:1\n".encode()
        if archive:
            path.with_name(path.name + ".gz").write_bytes(gzip.compress(text))
        else:
            path.write_bytes(text)


@pytest.mark.parametrize("archive", [False, True])
@pytest.mark.parametrize("inside", ["", "MQ2008"])
def test_five_parts_make_the_official_folds(tmp_path: Path, archive: bool, inside: str) -> None:
    parts(tmp_path / inside, [f"S{k}.txt" for k in range(1, 6)], archive)
    expected = {
        1: (["S1", "S2", "S3"], ["S4"], ["S5"]),
        2: (["S2", "S3", "S4"], ["S5"], ["S1"]),
        4: (["S4", "S5", "S1"], ["S2"], ["S3"]),
        5: (["S5", "S1", "S2"], ["S3"], ["S4"]),
    }
    for fold, names in expected.items():
        splits = load("mq2008", tmp_path, fold=fold, cache=False, counts="ignore")
        assert tuple([each.removesuffix(".txt") for each in data.query_ids] for data in splits) == names
        assert {data.features.shape[1] for data in splits} == {46}


@pytest.mark.parametrize("name", ["mslr-web10k", "mslr-web30k", "mq2007", "ohsumed"])
def test_folds_lie_in_folders(tmp_path: Path, name: str) -> None:
    parts(tmp_path, [f"Fold3/{split}.txt" for split in ("train", "vali", "test")])
    splits = load(name, tmp_path, fold=3, cache=False, counts="ignore")
    assert [str(data.query_ids[0]) for data in splits] == [
        "Fold3-train.txt",
        "Fold3-vali.txt",
        "Fold3-test.txt",
    ]
    with pytest.raises(
        DataError, match=r"is not complete here: expected .*Fold2/train\.txt.*; get .* from https"
    ):
        load(name, tmp_path, fold=2)


def test_letor_3_has_other_file_names(tmp_path: Path) -> None:
    names = ("trainingset", "validationset", "testset")
    parts(tmp_path / "Feature-min", [f"Fold1/{split}.txt" for split in names])
    assert len(load("ohsumed", tmp_path, cache=False, counts="ignore").test) == 1


def test_sets_of_yahoo(tmp_path: Path) -> None:
    parts(tmp_path / "ltrc_yahoo", [f"set2.{split}.txt" for split in ("train", "valid", "test")])
    splits = load("yahoo-c14", tmp_path, set=2, cache=False, counts="ignore")
    assert splits.vali.query_ids.tolist() == ["set2.valid.txt"]
    assert splits.train.features.shape[1] == 700


def test_istella_has_no_validation_split_of_its_own(tmp_path: Path) -> None:
    parts(tmp_path, ["test.txt"])
    (tmp_path / "train.txt").write_text("".join(f"1 qid:{query} 2:1\n" for query in range(100)))
    splits = load("istella", tmp_path, cache=False, counts="ignore")
    assert (len(splits.train), len(splits.vali), len(splits.test)) == (80, 20, 1)
    assert not np.intersect1d(splits.train.query_ids, splits.vali.query_ids).size
    parts(tmp_path / "sample", ["train.txt", "vali.txt", "test.txt"])
    assert len(load("istella-s", tmp_path / "sample", cache=False, counts="ignore").vali) == 1


def test_istella_holds_numbers_beyond_float32(tmp_path: Path) -> None:
    values = ["1.79769313486e+308", "-1.79769313486232e+308", "1.8e+308", "2.5", "-3.4028234e+38"]
    for line in (0, 1):
        # Both regular text and text that is read line by line.
        text = "".join(f"1 qid:{q} 2:{value}\n" for q, value in enumerate(values)) + "0 qid:9 2.0:3\n" * line
        parts(tmp_path, ["vali.txt", "test.txt"])
        (tmp_path / "train.txt").write_text(text)
        largest = float(np.finfo(np.float32).max)
        column = load("istella-s", tmp_path, cache=False, counts="ignore").train.features[:5, 1]
        assert column.tolist() == [largest, -largest, largest, 2.5, np.float32(-3.4028234e38)]
        parts(tmp_path, [f"Fold1/{split}.txt" for split in ("train", "vali", "test")])
        (tmp_path / "Fold1" / "train.txt").write_text(text)
        with pytest.raises(
            DataError, match=r"train\.txt:1: the value of feature 2 is '1\.797.*beyond the largest"
        ):
            load("mslr-web10k", tmp_path, cache=False)
    for bad in ("inf", "-Infinity", "nan", "x"):
        (tmp_path / "train.txt").write_text(f"1 qid:1 2:{bad}\n")
        with pytest.raises(DataError, match="the value of feature 2 is"):
            load("istella-s", tmp_path, cache=False)


def test_a_set_of_another_width_is_refused(tmp_path: Path) -> None:
    parts(tmp_path, [f"S{k}.txt" for k in range(1, 6)])
    dense = " ".join(f"{i}:0.5" for i in range(1, 26))  # LETOR 2.0's OHSUMED has 25 features
    (tmp_path / "S4.txt").write_text(f"1 qid:1 {dense}\n0 qid:1 {dense}\n")
    with pytest.raises(DataError, match=r"S4\.txt:1: every line has 25 features, but 45 are expected"):
        load("ohsumed", tmp_path, cache=False)


def test_the_folder_may_have_the_set_s_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts(tmp_path / "mslr-web10k", [f"Fold1/{split}.txt" for split in ("train", "vali", "test")])
    monkeypatch.setenv("PIRANK_DATA", str(tmp_path))
    assert len(load("mslr-web10k", cache=False, counts="ignore").test) == 1


def test_counts_are_compared_with_the_published_ones(tmp_path: Path) -> None:
    parts(tmp_path, [f"Fold1/{split}.txt" for split in ("train", "vali", "test")])
    message = "10,000 queries and 1,200,192 documents were published, here are 3 queries and 3 documents"
    with pytest.warns(UserWarning, match=message):
        load("mslr-web10k", tmp_path, cache=False)
    with pytest.raises(DataError, match=message):
        load("mslr-web10k", tmp_path, cache=False, counts="raise")


def test_published_counts_add_up() -> None:
    for name in ("mslr-web10k", "mslr-web30k"):
        published = CATALOGUE[name].published
        total, _ = published[0]["all parts"]
        for fold in range(1, CATALOGUE[name].parts + 1):
            if fold in published:
                assert sum(queries for queries, _ in published[fold].values()) == total
    assert sum(documents or 0 for _, documents in CATALOGUE["mslr-web10k"].published[1].values()) == 1_200_192
    assert sum(documents or 0 for _, documents in CATALOGUE["mslr-web30k"].published[1].values()) == 3_771_125
    assert sum(queries for queries, _ in CATALOGUE["istella-s"].published[0].values()) == 33_018
    assert sum(queries for queries, _ in CATALOGUE["istella"].published[0].values()) == 33_018
    assert sum(documents or 0 for _, documents in CATALOGUE["istella-s"].published[0].values()) == 3_408_630


def test_wrong_names_and_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIRANK_DATA", raising=False)
    with pytest.raises(ValueError, match="there is no data set 'mslr', only 'mslr-web10k', "):
        load("mslr", tmp_path)
    with pytest.raises(ValueError, match="fold must be from 1 to 5, got 6"):
        load("mq2008", tmp_path, fold=6)
    with pytest.raises(ValueError, match="mq2008 has no sets: leave out set="):
        load("mq2008", tmp_path, set=1)
    with pytest.raises(ValueError, match="yahoo-c14 has no folds: leave out fold="):
        load("yahoo-c14", tmp_path, fold=1)
    with pytest.raises(ValueError, match="istella has no folds"):
        load("istella", tmp_path, fold=1)
    with pytest.raises(ValueError, match="folder must say where mq2008 was unpacked"):
        load("mq2008")
    with pytest.raises(FileNotFoundError, match=r"there is no such folder; get mq2008 from https"):
        load("mq2008", tmp_path / "nowhere")


def test_the_real_sets_by_name(real_data: Path, tmp_path: Path) -> None:
    mq2008 = load("mq2008", real_data, fold=3, cache=tmp_path, counts="raise")
    assert sum(len(data) for data in mq2008) == 784
    assert sum(data.documents for data in mq2008) == 15211
    ohsumed = load("ohsumed", real_data / "OHSUMED-LETOR3", fold=5, cache=tmp_path, counts="raise")
    assert sum(data.documents for data in ohsumed) == 16140
    with pytest.warns(
        UserWarning, match="69,623 documents were published, here are 1,692 queries and 59,135"
    ):
        mq2007 = load("mq2007", real_data, cache=tmp_path)
    assert mq2007.train.features.shape[1] == 46
    ids = np.concatenate([data.query_ids for data in mq2007])
    assert len(np.unique(ids)) == len(ids) == 1692
