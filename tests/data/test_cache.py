"""The cache: opened instead of read while nothing changed, and never believed when something is wrong."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from safetensors import SafetensorError

from pirank import files as files_module
from pirank.data import DataError, RankingData, read, synthetic, write
from pirank.data import cache as cache_module


def same(a: RankingData, b: RankingData) -> bool:
    ids = a.query_ids.tolist() == b.query_ids.tolist()
    docs = (a.doc_ids is None) == (b.doc_ids is None) and (
        a.doc_ids is None or b.doc_ids is None or a.doc_ids.tolist() == b.doc_ids.tolist()
    )
    labels = (a.labels is None) == (b.labels is None) and (
        a.labels is None or b.labels is None or torch.equal(a.labels, b.labels)
    )
    return (
        ids
        and docs
        and labels
        and torch.equal(a.features, b.features)
        and torch.equal(a.offsets, b.offsets)
        and a.feature_names == b.feature_names
    )


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "train.txt"
    path.write_text("1 qid:3 1:1 2:2 # docid = a\n0 qid:3 1:0.5 2:7 # docid = é\nbad\n2 qid:x 1:1 2:1\n")
    return path


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one each time the source is really read."""
    from pirank.data import reading

    calls: list[int] = []
    real = reading.read_svmlight

    def counting(*args: object, **options: object) -> RankingData:
        calls.append(1)
        return real(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(reading, "read_svmlight", counting)
    return calls


def caches(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.pirank-cache"))


def test_the_second_time_the_source_is_not_read(source: Path, reads: list[int]) -> None:
    first = read(source, errors="skip", cache=True)
    again = read(source, errors="skip", cache=True)
    assert len(reads) == 1
    assert same(first, again)
    assert again.query_ids.tolist() == ["3", "x"]
    assert again.skipped.count == 1
    assert again.skipped.examples[0].line == 3
    assert str(again.skipped.examples[0]) == str(first.skipped.examples[0])
    assert not [path for path in source.parent.iterdir() if "partial" in path.name]


def test_options_have_their_own_cache(source: Path, reads: list[int]) -> None:
    read(source, errors="skip", cache=True)
    assert read(source, errors="skip", features=5, cache=True).features.shape[1] == 5
    assert read(source, errors="skip", cache=True).features.shape[1] == 2
    assert len(reads) == 2


def test_a_changed_source_is_read_again_and_a_touched_one_is_not(source: Path, reads: list[int]) -> None:
    read(source, errors="skip", cache=True)
    os.utime(source, ns=(1, 1))
    read(source, errors="skip", cache=True)
    assert len(reads) == 1
    # The same size, another time, other content.
    source.write_text(source.read_text().replace("2:7", "2:8"))
    os.utime(source, ns=(2, 2))
    assert read(source, errors="skip", cache=True).features[1, 1] == 8
    source.write_text(source.read_text() + "2 qid:y 1:1 2:1\n")
    assert len(read(source, errors="skip", cache=True)) == 3
    assert len(reads) == 3
    assert len(caches(source.parent)) == 1


@pytest.mark.parametrize(
    "damage", ["cut", "header", "empty", "labels", "features", "version", "other", "folder"]
)
def test_a_damaged_cache_is_rebuilt(source: Path, reads: list[int], damage: str) -> None:
    first = read(source, errors="skip", cache=True)
    (place,) = caches(source.parent)
    raw = place.read_bytes()
    place.unlink()
    if damage == "folder":
        # Something that cannot even be replaced: the user's folder takes over.
        place.mkdir()
    else:
        # Labels stand before the last bytes; 1.0 becomes another number.
        changed = raw.replace(np.float32(2).tobytes(), np.float32(3).tobytes())
        place.write_bytes(
            {
                "cut": raw[:-7],
                "header": b"\xff" * 20 + raw[20:],
                "empty": b"",
                "labels": changed,
                "features": raw.replace(np.float32(7).tobytes(), np.float32(8).tobytes()),
                "version": raw.replace(b'\\"version\\": 2', b'\\"version\\": 0'),
                "other": safetensors.torch.save({"x": torch.zeros(1)}, {"pirank": "[]"}),
            }[damage]
        )
        assert place.read_bytes() != raw
    os.environ["PIRANK_CACHE"] = str(source.parent / "user")
    try:
        assert same(read(source, errors="skip", cache=True), first)
        assert len(reads) == 2
        assert same(read(source, errors="skip", cache=True), first)
        assert len(reads) == 2
    finally:
        del os.environ["PIRANK_CACHE"]


def test_where_nothing_can_be_written(
    source: Path, reads: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = files_module.save_file

    def no_room_beside(tensors: dict[str, torch.Tensor], path: Path, metadata: dict[str, str]) -> None:
        if path.parent == source.parent:
            raise SafetensorError("I/O error: Permission denied (os error 13)")  # what the library raises
        real(tensors, path, metadata)

    monkeypatch.setattr(files_module, "save_file", no_room_beside)
    monkeypatch.setenv("PIRANK_CACHE", str(tmp_path / "user"))
    read(source, errors="skip", cache=True)
    read(source, errors="skip", cache=True)
    assert len(reads) == 1
    assert len(caches(tmp_path / "user")) == 1
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="the data was not cached: nothing can be written to"):
        read(source, errors="skip", cache=tmp_path / "file")


def test_the_folder_can_move_with_its_cache(source: Path, reads: list[int], tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    source.rename(old / "train.txt")
    read(old / "train.txt", errors="skip", cache=True)
    old.rename(new)
    read(new / "train.txt", errors="skip", cache=True)
    assert len(reads) == 1


def test_files_of_the_same_name_in_one_cache_folder(tmp_path: Path) -> None:
    for fold in ("Fold1", "Fold2"):
        (tmp_path / fold).mkdir()
        (tmp_path / fold / "train.txt").write_text(f"1 qid:{fold} 1:1\n")
        data = read(tmp_path / fold / "train.txt", cache=tmp_path / "cache")
        assert data.query_ids.tolist() == [fold]
    assert len(caches(tmp_path / "cache")) == 2


def test_tables_are_cached_too(tmp_path: Path) -> None:
    write(synthetic(3, 4), tmp_path / "a.parquet")
    first, again = (read(tmp_path / "a.parquet", cache=tmp_path / "cache") for _ in range(2))
    assert same(first, again)
    other = read(tmp_path / "a.parquet", features=["query_0"], cache=tmp_path / "cache")
    assert other.features.shape[1] == 1


def _read_in_process(path: str, results: multiprocessing.Queue[tuple[int, float]]) -> None:
    data = read(path, cache=True)
    results.put((data.documents, float(data.features.double().sum())))


def test_several_processes_at_once(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    data = synthetic(40, 50)
    write(data, path)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [context.Process(target=_read_in_process, args=(str(path), results)) for _ in range(2)]
    for process in processes:
        process.start()
    answers = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    assert set(answers) == {(2000, float(data.features.double().sum()))}
    assert len(caches(tmp_path)) == 1
    assert len(list(tmp_path.iterdir())) == 2


def test_opening_does_not_read_the_features(tmp_path: Path) -> None:
    """Only the pages looked at come into memory."""
    if not Path("/proc/self/statm").exists():
        pytest.skip("resident memory is read from /proc")

    def resident() -> float:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    documents = 500_000
    offsets = np.arange(0, documents + 1, 100)
    cache_module.save(
        RankingData(torch.ones(documents, 64), torch.zeros(documents), offsets), tmp_path / "x.pirank-cache"
    )
    before = resident()
    data, _ = cache_module.load(tmp_path / "x.pirank-cache")
    part = data[1000:1010]
    assert float(part.features.sum()) == 1000 * 64
    # The features are 122 MiB.
    assert resident() - before < 30
    assert part.features.untyped_storage().data_ptr() == data.features.untyped_storage().data_ptr()


def test_unlabelled_data_and_unsigned_ids(tmp_path: Path) -> None:
    data = RankingData(torch.rand(3, 2), None, [0, 1, 3], np.array([2**63, 5], np.uint64))
    cache_module.save(data, tmp_path / "x")
    back, _ = cache_module.load(tmp_path / "x")
    assert back.labels is None
    assert back.query_ids.tolist() == [str(2**63), "5"]
    (tmp_path / "y").write_bytes(b"hello")
    with pytest.raises(DataError, match="not a whole data file"):
        cache_module.load(tmp_path / "y")
