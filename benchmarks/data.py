"""Reading svmlight text, opening a cache, and making batches, next to what people use for it.

    python benchmarks/data.py            # writes benchmarks/results/data.csv

One run measures everything on the same 200,000 rows of 136 dense features, in lists as long as MSLR-WEB30K's:

- reading the text, against scikit-learn's ``load_svmlight_file``; each in a process of its own, for its peak memory;
- an epoch of batches (``blocks``: of neighbours, which copy nothing), against a ``DataLoader`` over a data set of
  queries: one that pads 16 queries to the longest, and one that pads or cuts each query to 240 documents as allRank
  does; in the main process and with two workers; and against the ceiling of what copies: the same documents copied in
  the order they stand in, 16 queries in one piece;
- opening the cache of a set as large as MSLR-WEB30K's training split, 2,270,296 documents.

Times of the tools are taken in turns, so that a busy machine does not favour one of them.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

import pirank
from measure import machine
from pirank.data import FixedSizeBatches, RaggedBatches, RankingData, cache, read, write

ROWS, FEATURES = 200_000, 136
WEB30K = (18_919, 2_270_296)
COLUMNS = [
    "benchmark",
    "tool",
    "version",
    "runs",
    "seconds_20",
    "seconds_50",
    "seconds_80",
    "documents_per_second",
]
COLUMNS += ["peak_mb", "result_mb", "threads", "cpu", "python", "torch"]


def data_set(rows: int, seed: int = 0) -> RankingData:
    """Lists as long as MSLR-WEB30K's; half of the features are counts, half have six decimals."""
    rng = np.random.default_rng(seed)
    lengths: list[int] = []
    while sum(lengths) < rows:
        lengths.append(int(np.clip(np.round(rng.lognormal(4.45, 0.85)), 1, 1251)))
    lengths[-1] -= sum(lengths) - rows
    scale = 10 ** rng.uniform(-1, 3, FEATURES)
    features = rng.standard_normal((rows, FEATURES)) * scale
    counts = np.arange(FEATURES) % 2 == 0
    features[:, counts] = np.round(features[:, counts])
    features[:, ~counts] = np.round(features[:, ~counts], 6)
    return RankingData(
        features.astype(np.float32), rng.integers(0, 5, rows), np.concatenate([[0], np.cumsum(lengths)])
    )


# --- reading: each tool in a process of its own -------------------------------------------------------------------


def read_here(path: str) -> int:
    data = read(path)
    return data.features.nbytes


def read_scikit_learn(path: str) -> int:
    from sklearn.datasets import load_svmlight_file

    features, _, _ = load_svmlight_file(path, query_id=True, dtype=np.float32)
    return int(features.shape[0] * features.shape[1] * 4)


READERS: dict[str, Callable[[str], int]] = {"pirank": read_here, "scikit-learn": read_scikit_learn}


def measure_reader(tool: str, path: str) -> None:
    """Read once and print seconds and megabytes; everything imported counts as memory from before."""
    import sklearn.datasets  # noqa: F401

    before = memory_mb("VmRSS")
    start = time.perf_counter()
    size = READERS[tool](path)
    seconds = time.perf_counter() - start
    peak = memory_mb("VmHWM") - before
    print(json.dumps({"seconds": seconds, "peak_mb": peak, "result_mb": size / 2**20}))


def memory_mb(what: str) -> float:
    """Memory of this process now (VmRSS) or at its highest (VmHWM); NaN where there is no /proc."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 2**10 for line in lines if line.startswith(what)), float("nan"))


def reading(folder: Path, data: RankingData, runs: int) -> list[dict[str, Any]]:
    path = folder / "rows.txt"
    write(data, path)
    found: dict[str, list[dict[str, float]]] = {tool: [] for tool in READERS}
    for _ in range(runs):
        for tool, results in found.items():
            output = subprocess.check_output([sys.executable, __file__, "--read", tool, str(path)])
            results.append(json.loads(output))
    path.unlink()
    return [
        row(
            "read svmlight",
            tool,
            [each["seconds"] for each in results],
            data.documents,
            peak_mb=max(each["peak_mb"] for each in results),
            result_mb=results[0]["result_mb"],
        )
        for tool, results in found.items()
    ]


# --- batches ------------------------------------------------------------------------------------------------------


class Queries(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Each item is a query: its features and labels, as views."""

    def __init__(self, data: RankingData) -> None:
        self.data = data
        self.offsets = data.offsets.tolist()

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, query: int) -> tuple[torch.Tensor, torch.Tensor]:
        assert self.data.labels is not None
        rows = slice(self.offsets[query], self.offsets[query + 1])
        return self.data.features[rows], self.data.labels[rows]


class FixedQueries(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Each item is a query padded or cut at random to 240 documents, as allRank's data set gives them."""

    def __init__(self, data: RankingData, list_size: int = 240) -> None:
        assert data.labels is not None
        self.features = [part.features.numpy() for part in data]
        self.labels = [part.labels.numpy() for part in data if part.labels is not None]
        self.list_size = list_size

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, query: int) -> tuple[torch.Tensor, torch.Tensor]:
        features, labels = self.features[query], self.labels[query]
        missing = self.list_size - len(labels)
        if missing >= 0:
            features = np.pad(features, ((0, missing), (0, 0)))
            labels = np.pad(labels, (0, missing), constant_values=-1)
        else:
            kept = np.random.default_rng(query).choice(len(labels), self.list_size, replace=False)
            features, labels = features[kept], labels[kept]
        return torch.from_numpy(features), torch.from_numpy(labels)


def padded(items: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, torch.Tensor]:
    features, labels = zip(*items, strict=True)
    return pad_sequence(list(features), batch_first=True), pad_sequence(list(labels), batch_first=True)


class Blocks:
    """The ceiling: 16 neighbouring queries copied in one piece, on one thread, which is as fast as memory copies."""

    def __init__(self, data: RankingData) -> None:
        assert data.labels is not None
        self.features, self.labels = data.features.numpy(), data.labels.numpy()
        self.bounds = [*data.offsets[:-1:16].tolist(), data.documents]

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start, stop in itertools.pairwise(self.bounds):
            yield self.features[start:stop].copy(), self.labels[start:stop].copy()


def batching(data: RankingData, runs: int) -> list[dict[str, Any]]:
    torch_version = version("torch")
    own = pirank.__version__
    laid = data.shuffled(bucketed=True)  # once, before the first epoch
    loaders: dict[tuple[str, str], Iterable[Any]] = {
        ("RaggedBatches, 16 queries", own): RaggedBatches(data, batch_size=16),
        ("RaggedBatches, 2,048 documents", own): RaggedBatches(data, documents=2048),
        ("RaggedBatches, 16,384 documents", own): RaggedBatches(data, documents=16384),
        ("RaggedBatches, 16 queries, blocks", own): RaggedBatches(data, batch_size=16, shuffle="blocks"),
        ("RaggedBatches, 2,048 documents, blocks", own): RaggedBatches(
            laid, documents=2048, shuffle="blocks"
        ),
        ("FixedSizeBatches, 16 × 200", own): FixedSizeBatches(data, 200, 16),
        ("memcpy, 16 neighbouring queries", version("numpy")): Blocks(data),
    }
    if torch.cuda.is_available():
        there = data.to("cuda")
        loaders["RaggedBatches on the GPU, 16 queries", own] = RaggedBatches(there, batch_size=16)
        for documents in (2048, 16384):
            name = f"RaggedBatches on the GPU, {documents:,} documents"
            loaders[name, own] = RaggedBatches(there, documents=documents)
    for workers in (0, 2):
        options: dict[str, Any] = {"batch_size": 16, "shuffle": True, "num_workers": workers}
        where = f"{workers} workers" if workers else "in process"
        loaders[f"DataLoader, padded to the longest, {where}", torch_version] = DataLoader(
            Queries(data), collate_fn=padded, **options
        )
        loaders[f"DataLoader, each padded to 240, {where}", torch_version] = DataLoader(
            FixedQueries(data), **options
        )
    seconds: dict[tuple[str, str], list[float]] = {name: [] for name in loaders}
    for _ in range(runs):
        for name, loader in loaders.items():
            start = time.perf_counter()
            for _ in loader:
                pass
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            seconds[name].append(time.perf_counter() - start)
    return [
        row("an epoch of batches", name, times, data.documents, tool_version)
        for (name, tool_version), times in seconds.items()
    ]


# --- cache --------------------------------------------------------------------------------------------------------


def opening(folder: Path, runs: int) -> list[dict[str, Any]]:
    queries, documents = WEB30K
    lengths = np.full(queries, documents // queries)
    lengths[: documents - lengths.sum()] += 1
    offsets = np.concatenate([[0], lengths.cumsum()])
    data = RankingData(torch.zeros(documents, FEATURES), torch.zeros(documents), offsets)
    path = folder / "large.pirank-cache"
    cache.save(data, path)
    size = path.stat().st_size / 2**20
    del data
    times, peaks = [], []
    for _ in range(runs):
        before = memory_mb("VmRSS")
        start = time.perf_counter()
        opened, _ = cache.load(path)
        times.append(time.perf_counter() - start)
        peaks.append(memory_mb("VmRSS") - before)
        del opened
    path.unlink()
    return [row("open the cache", "pirank", times, documents, peak_mb=max(peaks), result_mb=size)]


def row(
    benchmark: str,
    tool: str,
    seconds: list[float],
    documents: int,
    tool_version: str | None = None,
    peak_mb: float | None = None,
    result_mb: float | None = None,
) -> dict[str, Any]:
    low, middle, high = np.percentile(seconds, [20, 50, 80])
    found = {
        "benchmark": benchmark,
        "tool": tool,
        "version": tool_version or version(tool),
        "runs": len(seconds),
        "seconds_20": f"{low:.4g}",
        "seconds_50": f"{middle:.4g}",
        "seconds_80": f"{high:.4g}",
        "documents_per_second": round(documents / middle),
        "peak_mb": "" if peak_mb is None else round(peak_mb),
        "result_mb": "" if result_mb is None else round(result_mb),
        "threads": torch.get_num_threads(),
        "cpu": machine()["cpu"],
        "python": platform.python_version(),
        "torch": version("torch"),
    }
    print(
        f"{benchmark}: {tool}: {middle:.4g} s, {documents / middle:,.0f} documents/s, peak {found['peak_mb']} MiB"
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--read", nargs=2, metavar=("TOOL", "PATH"), help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", choices=["read", "batches", "cache"], action="append")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "data.csv")
    given = parser.parse_args()
    if given.read:
        measure_reader(*given.read)
        return
    wanted = given.only or ["read", "batches", "cache"]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        data = data_set(given.rows)
        if "read" in wanted:
            rows += reading(Path(folder), data, given.runs)
        if "batches" in wanted:
            rows += batching(data, given.runs)
        if "cache" in wanted:
            rows += opening(Path(folder), given.runs)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    with given.output.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
