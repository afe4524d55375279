"""How rankings are judged: which documents of a list are ranked, by which metrics, and what a blank list counts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pirank import metrics
from pirank.data import RankingData
from pirank.training import evaluate

METRICS = ("ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10", "ndcg@15", "mrr", "arp", "opa")
WHOLE = 0
"""The list size that stands for whole lists."""

# A list without a relevant document has no average position, and one without two grades no pairs.
_NEVER_BLANK = ("arp", "opa")
AVERAGED_OTHERWISE = _NEVER_BLANK
"""What TF-Ranking averages over pairs and over labels, and not over queries."""
_CUT_SEED = 1_000_003


@dataclass(frozen=True)
class Protocol:
    """How rankings are judged.

    Attributes:
        name: as in the report.
        list_sizes: sizes to which the lists that are judged are cut, :data:`WHOLE` for whole lists; the first
            decides on the validation split.
        empty: what a list without a relevant document counts: ``"skip"``, ``"zero"`` or ``"one"``. ARP and OPA leave
            it out.
        metrics: what is measured.
        seed: of the shuffle before a cut, the same for all methods.

    Example:
        >>> protocol("pirank").list_sizes
        (200,)
    """

    name: str = "full"
    list_sizes: tuple[int, ...] = (WHOLE,)
    empty: str = "skip"
    metrics: tuple[str, ...] = METRICS
    seed: int = 0

    def description(self) -> dict[str, Any]:
        """What decides the numbers of a trial; the blank rule is applied to them later."""
        plain = asdict(self)
        del plain["name"], plain["empty"]
        return {**plain, "list_sizes": list(self.list_sizes), "metrics": list(self.metrics)}

    def in_words(self) -> str:
        """The protocol as sentences."""
        sizes = [size for size in self.list_sizes if size != WHOLE]
        rule = {"skip": "are left out of the means", "zero": "count as 0", "one": "count as 1"}[self.empty]
        cut = (
            f"Lists are shuffled with a fixed seed, the same for all methods, and cut to {_listed(sizes)} documents."
            if sizes
            else "Whole lists are ranked."
        )
        return (
            f"{cut} Queries without a relevant document {rule} (ARP and OPA always leave them out). "
            "Gains are 2^y − 1, discounts 1/log2(1 + rank), a document is relevant where its label is above 0, tied "
            "scores keep the order of the rows, and all averages are over queries."
        )


def protocol(name: str = "full", empty: str | None = None) -> Protocol:
    """A protocol by name: ``"full"`` ranks whole lists and skips blank ones; ``"pirank"`` is the paper's, lists
    shuffled with a seed and cut to 200, blank lists counted as 0.
    """
    if name not in ("full", "pirank"):
        raise ValueError(f"protocol must be 'full' or 'pirank', got {name!r}")
    if empty not in (None, "skip", "zero", "one"):
        raise ValueError(f"empty must be 'skip', 'zero' or 'one', got {empty!r}")
    if name == "pirank":
        return Protocol(name, (200,), empty or "zero")
    return Protocol(name, empty=empty or "skip")


def kept_rows(offsets: Tensor, list_size: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """The rows of each list that remain after it is shuffled with a seed and cut.

    Args:
        offsets: ``[Q + 1]``.
        list_size: how many rows of each list; :data:`WHOLE` keeps all, in their order.
        seed: of the shuffle.

    Returns:
        Row numbers ``[n]``, list by list, and the offsets ``[Q + 1]`` among them.

    Example:
        >>> rows, offsets = kept_rows(torch.tensor([0, 5, 7]), list_size=3)
        >>> offsets.tolist(), len(set(rows.tolist())), bool((rows[:3] < 5).all())
        ([0, 3, 5], 5, True)
    """
    lengths = offsets.diff()
    documents = int(offsets[-1])
    if list_size == WHOLE:
        return torch.arange(documents), offsets
    keys = np.random.default_rng([seed, _CUT_SEED]).random(documents)
    query = torch.repeat_interleave(lengths).numpy()
    order = np.lexsort((keys, query))
    place = np.arange(documents) - offsets.numpy()[:-1][query]
    rows = torch.from_numpy(order[place < list_size])
    return rows, torch.nn.functional.pad(lengths.clamp(max=list_size).cumsum(0), (1, 0))


def cut(data: RankingData, list_size: int, seed: int = 0) -> RankingData:
    """The data with every list shuffled and cut, as :func:`kept_rows` says."""
    if list_size == WHOLE:
        return data
    rows, offsets = kept_rows(data.offsets.cpu(), list_size, seed)
    labels = None if data.labels is None else data.labels[rows]
    return RankingData(data.features[rows], labels, offsets, data.query_ids, None, data.feature_names)


def measured(scores: Tensor, data: RankingData, names: tuple[str, ...]) -> dict[str, NDArray[np.float64]]:
    """Each metric's value for each query, ``[Q]``, NaN for a blank one."""
    result = evaluate(scores, data, names)
    return {name: values.double().numpy() for name, values in result.per_query.items()}


def averaged_as_tf_ranking(scores: Tensor, data: RankingData) -> dict[str, float]:
    """ARP averaged over labels and OPA over pairs, as TF-Ranking and so the paper's tables do."""
    assert data.labels is not None, "checked before the training"
    return {
        name: float(metrics.get(name, average="micro")(scores, data.labels, offsets=data.offsets))
        for name in AVERAGED_OTHERWISE
    }


def with_blank_rule(name: str, values: NDArray[np.float64], empty: str) -> NDArray[np.float64]:
    """Per-query values with the blank queries counted as the rule says; NaN where they are left out.

    Example:
        >>> with_blank_rule("ndcg@10", np.array([0.5, np.nan]), "zero").tolist()
        [0.5, 0.0]
    """
    if empty == "skip" or name in _NEVER_BLANK:
        return values
    return np.where(np.isnan(values), 0.0 if empty == "zero" else 1.0, values)


def _listed(numbers: list[int]) -> str:
    return " or ".join(map(str, numbers))
