"""Data: from the files people have to ragged batches."""

from pirank.data.arrays import from_arrays
from pirank.data.batches import Batch, FixedSizeBatches, RaggedBatches
from pirank.data.errors import DataError, SkippedLines
from pirank.data.frames import from_frame
from pirank.data.ranking_data import RankingData
from pirank.data.reading import read
from pirank.data.summary import Summary
from pirank.data.synthetic import synthetic, synthetic_stream

__all__ = [
    "Batch",
    "DataError",
    "FixedSizeBatches",
    "RaggedBatches",
    "RankingData",
    "SkippedLines",
    "Summary",
    "from_arrays",
    "from_frame",
    "read",
    "synthetic",
    "synthetic_stream",
]
