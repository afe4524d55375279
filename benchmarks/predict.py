"""`pirank predict` on a large Parquet file, beside reading it and running the network in plain PyTorch.

    python benchmarks/predict.py [--rows 1000000] [--threads 2]

Writes ``results/predict.csv``: seconds of either, their ratio, and the largest memory of the process that predicts, for
a network of the paper's size on single rows and for the default one, which also ranks every feature within its query.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from measure import RESULTS, machine, write_rows
from pirank.models import Ranker
from pirank.training import Settings, load_ranker
from pirank.training.prediction import predict_file

FEATURES = 136
NAMES = [f"f{j}" for j in range(FEATURES)]
RANKERS: dict[str, dict[str, Any]] = {
    "1024-512-256, standard": {"transform": "standard", "options": {"hidden": [1024, 512, 256]}},
    "the default": {"transform": Settings().transform, "options": dict(Settings().model_options)},
}


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--predict", nargs=3, metavar=("MODEL", "IN", "OUT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    if given.predict:
        model, source, target = given.predict
        began = time.perf_counter()
        predict_file(load_ranker(model), source, target)
        # Not getrusage: what that says of a process includes the one that started it.
        status = Path("/proc/self/status").read_text().split()
        print(time.perf_counter() - began, int(status[status.index("VmHWM:") + 1]) / 1024)
        return
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "rows.parquet")
        write_file(source, given.rows)
        for name, options in RANKERS.items():
            torch.manual_seed(0)
            ranker = Ranker(FEATURES, feature_names=NAMES, **options).eval()
            ranker.save(Path(folder, "model.safetensors"))
            reading, network = in_plain_pytorch(source, ranker)
            command = [sys.executable, __file__, "--threads", str(given.threads), "--predict"]
            paths = [str(Path(folder, "model.safetensors")), str(source), str(Path(folder, "out.parquet"))]
            out = subprocess.run(
                [*command, *paths], check=True, capture_output=True, text=True
            ).stdout.split()
            row = {
                "ranker": name,
                "rows": given.rows,
                "features": FEATURES,
                "seconds_read": round(reading, 2),
                "seconds_network": round(network, 2),
                "seconds_predict": round(float(out[0]), 2),
                "ratio": round(float(out[0]) / (reading + network), 2),
                "file_mib": round(source.stat().st_size / 2**20),
                "peak_mib": round(float(out[1])),
            }
            print(*row.values(), file=sys.stderr, flush=True)
            rows.append({**row, **machine()})
    write_rows(RESULTS / "predict.csv", rows)


def write_file(path: Path, rows: int) -> None:
    """Queries of 100 rows, in parts, so that a file larger than memory can be made."""
    rng = np.random.default_rng(0)
    writer = None
    for start in range(0, rows, 100_000):
        stop = min(start + 100_000, rows)
        columns: dict[str, Any] = {"qid": np.arange(start, stop) // 100}
        columns |= {name: rng.normal(size=stop - start).astype(np.float32) for name in NAMES}
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def in_plain_pytorch(path: Path, ranker: Ranker) -> tuple[float, float]:
    """Seconds to read the features, and to run the network on rows as wide as it takes them."""
    began = time.perf_counter()
    table = pq.read_table(path, columns=NAMES)
    rows = torch.from_numpy(np.column_stack([table[name].to_numpy() for name in NAMES]))
    reading = time.perf_counter() - began
    wide = ranker.transform.out_features // FEATURES
    began = time.perf_counter()
    with torch.inference_mode():
        for part in rows.split(65536):
            ranker.members[0](part.repeat(1, wide))
    return reading, time.perf_counter() - began


if __name__ == "__main__":
    main()
