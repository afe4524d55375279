"""Which methods are best, and which are not significantly worse: the paper's comparison, metric by metric.

For each metric the method with the best mean over the queries is found, then compared with every other method by a
one-sided paired test on the per-query values; the best and all that are not significantly worse are the winners.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from torch import Tensor

from pirank.lists import check_choice
from pirank.metrics import get

Results = Mapping[str, Mapping[str, Tensor | ArrayLike]]
Values = NDArray[np.float64]

_TEST_NAMES = {"t": "paired t-test", "randomisation": "paired randomisation test"}
# Sign flips drawn at once: bounds the memory at some 100 MB for 10,000 queries.
_FLIPS_AT_ONCE = 512


@dataclass(frozen=True)
class MetricComparison:
    """The comparison of the methods by one metric.

    Attributes:
        metric: its name.
        lower_is_better: which way it counts.
        queries: how many queries all methods have a value for; the others were dropped.
        dropped: how many were dropped.
        means: each method's mean over those queries.
        best: the method with the best mean.
        p_values: of each other method, the probability of so large a lead of the best one if there were none;
            corrected, if a correction was asked for.
        winners: the best method and all that are not significantly worse, in the order of the methods.
    """

    metric: str
    lower_is_better: bool
    queries: int
    dropped: int
    means: Mapping[str, float]
    best: str
    p_values: Mapping[str, float]
    winners: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """The comparison of methods by several metrics: what :func:`compare` returns.

    Attributes:
        methods: their names, in the order given.
        metrics: one :class:`MetricComparison` a metric, by name.
        level: the level of significance, such as 0.95.
        test: ``"t"`` or ``"randomisation"``.
        correction: ``None`` or ``"holm"``.
    """

    methods: tuple[str, ...]
    metrics: Mapping[str, MetricComparison]
    level: float
    test: str
    correction: str | None

    def table(self, digits: int = 3) -> str:
        """A Markdown table of the means, one row a method, with the winners of each column in bold."""
        arrows = ["↓" if metric.lower_is_better else "↑" for metric in self.metrics.values()]
        header = ["", *(f"{name} {arrow}" for name, arrow in zip(self.metrics, arrows, strict=True))]
        lines = [header, ["---", *("---:" for _ in self.metrics)]]
        for method in self.methods:
            cells = []
            for metric in self.metrics.values():
                mean = f"{metric.means[method]:.{digits}f}"
                cells.append(f"**{mean}**" if method in metric.winners else mean)
            lines.append([method, *cells])
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    @property
    def note(self) -> str:
        """What the bold of :meth:`table` means, as a sentence."""
        counts = sorted({metric.queries for metric in self.metrics.values()})
        queries = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
        correction = ", Holm's correction" if self.correction else ""
        return (
            f"Bold: the best method of each column and all not significantly worse (one-sided "
            f"{_TEST_NAMES[self.test]} at {100 * self.level:g} %{correction}, {queries} queries)."
        )

    def __str__(self) -> str:
        return f"{self.table()}\n\n{self.note}"


def compare(
    results: Results,
    *,
    level: float = 0.95,
    test: str = "t",
    correction: str | None = None,
    lower_is_better: Collection[str] | None = None,
    resamples: int = 9999,
    seed: int = 0,
) -> Comparison:
    """Compare methods by their per-query values, as the paper's benchmark does.

    Args:
        results: method → metric → per-query values ``[queries]`` (what a metric gives with ``reduction="none"``),
            the same queries in the same order for all. A query that any method has no value for (NaN, a skipped
            list) is dropped for all methods, for that metric.
        level: of significance.
        test: ``"t"``: one-sided paired t-test, or ``"randomisation"``: the signs of the paired differences are
            flipped at random, all ways if there are no more than ``resamples`` of them.
        correction: ``"holm"``: of the p-values of one metric, for the number of methods compared; or None.
        lower_is_better: the metrics that count that way. None: those that :func:`pirank.metrics.get` knows.
        resamples: how many random flips.
        seed: of the flips.

    Example:
        >>> first, second = [0.9, 0.8, 0.7, 0.9, 0.8], [0.5, 0.6, 0.4, 0.5, 0.3]
        >>> comparison = compare({"ours": {"ndcg@10": first}, "theirs": {"ndcg@10": second}})
        >>> comparison.metrics["ndcg@10"].winners
        ('ours',)
        >>> print(comparison.table())
        |  | ndcg@10 ↑ |
        | --- | ---: |
        | ours | **0.820** |
        | theirs | 0.460 |

    References:
        Swezey, Grover, Charron, Ermon: PiRank, NeurIPS 2021, section Benchmark.
        Holm: A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 1979.
        Smucker, Allan, Carterette: A comparison of statistical significance tests for information retrieval
        evaluation, CIKM 2007.
    """
    check_choice("test", test, tuple(_TEST_NAMES))
    if correction is not None:
        check_choice("correction", correction, ("holm",))
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, such as 0.95: got {level}")
    p_value = _t_test if test == "t" else _randomisation_test(resamples, seed)
    comparisons = {}
    for metric, values in _by_metric(results).items():
        lower = _is_lower_better(metric) if lower_is_better is None else metric in lower_is_better
        comparisons[metric] = _compare_metric(metric, values, lower, p_value, correction, 1 - level)
    return Comparison(tuple(results), comparisons, level, test, correction)


def _compare_metric(
    metric: str,
    values: dict[str, Values],
    lower: bool,
    p_value: Callable[[Values], float],
    correction: str | None,
    alpha: float,
) -> MetricComparison:
    present = ~np.any([np.isnan(value) for value in values.values()], axis=0)
    queries = int(present.sum())
    if queries < 2:
        raise ValueError(
            f"{metric}: only {queries} of {present.size} queries have a value (not NaN) in all methods, and a "
            "paired test needs 2 or more"
        )
    kept = {method: value[present] for method, value in values.items()}
    means = {method: float(value.mean()) for method, value in kept.items()}
    best = (min if lower else max)(means, key=lambda method: means[method])
    sign = -1 if lower else 1
    others = [method for method in kept if method != best]
    raw = [p_value(sign * (kept[best] - kept[method])) for method in others]
    p_values = dict(zip(others, holm(raw) if correction else raw, strict=True))
    winners = tuple(method for method in kept if method == best or p_values[method] >= alpha)
    return MetricComparison(metric, lower, queries, present.size - queries, means, best, p_values, winners)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction: the j-th smallest of m p-values times m + 1 − j, at most 1 and never falling.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for done, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (len(p_values) - done) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def _t_test(lead: Values) -> float:
    """The one-sided p-value of a mean lead above 0."""
    spread = lead.std(ddof=1)
    if spread == 0:
        # The same lead on every query: none at all, or a certain one.
        return 0.0 if lead[0] > 0 else 1.0
    return float(stats.t.sf(lead.mean() / (spread / np.sqrt(lead.size)), df=lead.size - 1))


def _randomisation_test(resamples: int, seed: int) -> Callable[[Values], float]:
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, the number of random sign flips: got {resamples}")

    def p_value(lead: Values) -> float:
        # With one sample, SciPy's paired permutations flip its signs.
        result = stats.permutation_test(
            (lead,),
            lambda x, axis: x.mean(axis=axis),
            permutation_type="samples",
            alternative="greater",
            n_resamples=resamples,
            batch=_FLIPS_AT_ONCE,
            vectorized=True,
            rng=np.random.default_rng(seed),
        )
        return float(result.pvalue)

    return p_value


def _by_metric(results: Results) -> dict[str, dict[str, Values]]:
    if not results:
        raise ValueError("results must hold at least one method: {method: {metric: per-query values}}")
    first = next(iter(results))
    by_metric: dict[str, dict[str, Values]] = {metric: {} for metric in results[first]}
    for method, metrics in results.items():
        if set(metrics) != set(by_metric):
            raise ValueError(
                f"results must hold the same metrics for all methods: {first!r} has {sorted(by_metric)}, "
                f"{method!r} has {sorted(metrics)}"
            )
        for metric, given in metrics.items():
            value = torch.as_tensor(given).detach().to("cpu", torch.float64).numpy()
            known = by_metric[metric].get(first, value)
            if value.ndim != 1 or value.shape != known.shape:
                raise ValueError(
                    f"{method!r}, {metric!r}: expected one value a query, {list(known.shape)} as in {first!r}, "
                    f"got {list(value.shape)}"
                )
            by_metric[metric][method] = value
    return by_metric


def _is_lower_better(metric: str) -> bool:
    try:
        return get(metric).lower_is_better
    except ValueError:
        return False
