"""The door of every metric: any layout in, one number a list, the rules for blank lists and averages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from inspect import signature
from typing import ClassVar

import torch
from torch import Tensor

from pirank.lists import check_choice, check_k, check_mask, check_scores, check_weights, each_list
from pirank.metrics.conventions import AVERAGE, EMPTY, TIES, check_convention, option_of
from pirank.metrics.labels import may_look


class ListMetric(ABC):
    """A metric that gives every list a number.

    Args:
        k: the cutoff; None: the whole list.
        ties: the order among equal scores: ``"stable"`` (the input's order), ``"pessimistic"`` (the worst for
            the metric), ``"random"`` (drawn from ``seed`` afresh in each call), or ``"average"`` (the
            expectation over all orders, in closed form).
        average: ``"macro"``: every list counts the same; ``"micro"``: the sum of the numerators over the sum
            of the denominators, so that a list counts as much as its normaliser (its ideal DCG, its number of
            relevant items, the sum of its labels, its number of pairs).
        empty: what a list without a relevant item counts: ``"skip"`` (left out), ``"zero"``, ``"one"``, or
            ``"error"``.
        seed: of the random ties.
        convention: a tool whose rules the options above default to; see docs/conventions.md.
    """

    key: ClassVar[str] = "metric"
    lower_is_better: ClassVar[bool] = False
    upper_bound: ClassVar[float] = 1.0
    averages_ties: ClassVar[bool] = False
    """Whether the metric has its expectation over all orders of tied items, ``ties="average"``."""

    def __init__(
        self,
        k: int | None = None,
        *,
        ties: str | None = None,
        average: str | None = None,
        empty: str | None = None,
        seed: int = 0,
        convention: str | None = None,
    ) -> None:
        check_k(k)
        check_convention(convention)
        self.k = k
        self.convention = convention
        self.seed = seed
        self.ties = self._option("ties", ties, TIES)
        self.average = self._option("average", average, AVERAGE)
        self.empty = self._option("empty", empty, EMPTY)
        if self.ties == "average" and not self.averages_ties:
            source = f" of convention={convention!r}" if ties is None else ""
            raise ValueError(
                f"ties='average'{source} needs the expectation of {type(self).__name__} over all orders of tied "
                "items: set averages_ties = True if it is linear in the ranked values, define of_ties if it is "
                "not, or choose another ties="
            )

    @property
    def name(self) -> str:
        """The metric's name in tables and in :func:`pirank.metrics.get`, as in ``ndcg@10``."""
        return self.key if self.k is None else f"{self.key}@{self.k}"

    @abstractmethod
    def per_list(
        self, scores: Tensor, labels: Tensor, mask: Tensor | None, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The metric, its denominator and whether there is anything to find, of each list.

        Args:
            scores: ``[B, L]``.
            labels: ``[B, L]``, 0 at absent items.
            mask: ``[B, L]`` or None.
            generator: of random ties.

        Returns:
            Three tensors ``[B]``: value, normaliser, and True where the list has a relevant item.
        """

    def check_labels(self, labels: Tensor) -> None:  # noqa: B027 - a metric may accept all labels
        """Refuse labels that mean nothing to the metric, at present items only."""

    def __call__(
        self,
        scores: Tensor,
        labels: Tensor,
        *,
        mask: Tensor | None = None,
        offsets: Tensor | None = None,
        weights: Tensor | None = None,
        empty: str | None = None,
        reduction: str = "mean",
        check_values: bool | None = None,
    ) -> Tensor:
        """The metric of the ranking by ``scores``.

        Args:
            scores: ``[..., L]``, or ``[N]`` with ``offsets``; higher ranks first.
            labels: the same shape; higher is more relevant.
            mask: the same shape, True at the items that are there.
            offsets: ``[Q + 1]``: list q holds the items ``offsets[q]`` to ``offsets[q + 1]`` of flat scores.
            weights: one number of at least 0 a list, for the mean.
            empty: overrides the metric's own rule for lists without a relevant item.
            reduction: ``"mean"`` over the lists (NaN if all are skipped), or ``"none"``: one number a list,
                NaN where skipped.
            check_values: refuse NaN, infinities and meaningless labels. None: on CPU tensors only, because
                looking at values makes a GPU wait; unchecked, a list with a NaN gets NaN.

        Returns:
            A number, or with ``reduction="none"`` one a list: ``[...]``, or ``[Q]`` with ``offsets``.
        """
        check_scores(scores)
        check_choice("reduction", reduction, ("mean", "none"))
        empty = self.empty if empty is None else empty
        check_choice("empty", empty, EMPTY)
        generator = None
        if self.ties == "random":
            generator = torch.Generator(device=scores.device).manual_seed(self.seed)
        if check_values and isinstance(labels, Tensor) and not may_look(labels):
            present = check_mask(mask, labels)
            self.check_labels(labels if present is None else torch.where(present, labels, 0))
        checked = may_look(scores) if check_values is None else check_values
        checked = checked and not torch.compiler.is_compiling()
        columns = each_list(
            partial(self._columns, checked=checked, generator=generator),
            scores,
            labels,
            mask=mask,
            offsets=offsets,
            check_values=check_values,
        )
        value, mass, found = columns.unbind(-1)
        blank = found == 0
        value = _answer_blank(value, blank, empty)
        if reduction == "none":
            return value
        mass = mass if self.average == "micro" else torch.ones_like(mass)
        return _mean(value, torch.where(blank, 0, mass) if empty == "skip" else mass, weights)

    def _columns(
        self,
        scores: Tensor,
        labels: Tensor,
        mask: Tensor | None,
        *,
        checked: bool,
        generator: torch.Generator | None,
    ) -> Tensor:
        value, normaliser, found = self.per_list(scores, labels, mask, generator)
        if not checked:
            # A NaN that went in comes out, whatever rank it was sorted to.
            broken = (scores + labels).isnan().any(-1)
            value, found = torch.where(broken, float("nan"), value), found | broken
        return torch.stack([value, normaliser, found.to(value)], -1)

    def _option(self, option: str, given: str | None, choices: tuple[str, ...]) -> str:
        value = option_of(self.key, self.convention, option) if given is None else given
        check_choice(option, value, choices)
        return value

    def __repr__(self) -> str:
        usual: dict[str, object] = {"k": None, "convention": None, "seed": 0}
        usual |= {
            p.name: p.default for p in signature(type(self)).parameters.values() if p.default is not None
        }
        parts = []
        for option, value in vars(self).items():
            if option not in usual:
                try:
                    usual[option] = option_of(self.key, self.convention, option)
                except KeyError:
                    continue  # a subclass's own attribute
            if value != usual[option]:
                parts.append(f"{option}={value!r}")
        return f"{type(self).__name__}({', '.join(parts)})"


def _answer_blank(value: Tensor, blank: Tensor, empty: str) -> Tensor:
    if empty == "error":
        count = int(blank.sum())
        if count:
            raise ValueError(
                f"{count} of {blank.numel()} lists have no relevant item, the first is list "
                f"{int(blank.reshape(-1).nonzero()[0])}: choose what they count with "
                "empty='skip', 'zero' or 'one'"
            )
        return value
    return torch.where(blank, {"skip": float("nan"), "zero": 0.0, "one": 1.0}[empty], value)


def _mean(value: Tensor, mass: Tensor, weights: Tensor | None) -> Tensor:
    if weights is not None:
        mass = mass * check_weights(weights, mass)
    return torch.where(mass == 0, 0, value * mass).sum() / mass.sum()
