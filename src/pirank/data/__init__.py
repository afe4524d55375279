"""Data: from the files people have to ragged batches."""

from pirank.data.arrays import from_arrays
from pirank.data.batches import Batch, FixedSizeBatches, RaggedBatches
from pirank.data.clicks import Clicks, simulate_clicks
from pirank.data.errors import DataError, SkippedLines
from pirank.data.frames import from_frame
from pirank.data.named import Splits, load
from pirank.data.parts import check_same_features, read_parts
from pirank.data.ranking_data import RankingData
from pirank.data.reading import read
from pirank.data.summary import Summary
from pirank.data.synthetic import synthetic, synthetic_stream
from pirank.data.writing import write

__all__ = [
    "Batch",
    "Clicks",
    "DataError",
    "FixedSizeBatches",
    "RaggedBatches",
    "RankingData",
    "SkippedLines",
    "Splits",
    "Summary",
    "check_same_features",
    "from_arrays",
    "from_frame",
    "load",
    "read",
    "read_parts",
    "simulate_clicks",
    "synthetic",
    "synthetic_stream",
    "write",
]
