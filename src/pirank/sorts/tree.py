"""The paper's divide and conquer: relaxed sorts of short lists, merged level by level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy

import torch
from torch import Tensor

from pirank.sorts.base import Sort, Temperature, check_temperature


class Tree(Sort):
    r"""A relaxed, truncated multi-way merge sort (the paper's section 3.3).

    The list is cut into leaves; at height j = 1, …, d every node sorts the :math:`k_{j-1} b_j` values of its
    :math:`b_j` children with the given sort at temperature :math:`\tau_j` and keeps the top :math:`k_j`. Values ride
    along with the scores, so the compound matrix :math:`\hat P` is formed only when asked for. Depth 1 is the sort
    itself.

    Lists that are shorter than :math:`b_1 \cdots b_d` are filled with absent items. Leaves are consecutive items:
    :math:`i_1` runs fastest.

    Args:
        sort: the sort of every node; its temperature is the root's.
        branching: :math:`b_1, …, b_d`; their product must not be less than the list's length.
        depth: d instead of the branching, which is then chosen about :math:`L^{1/d}`.
        widths: :math:`k_1, …, k_d` (or :math:`k_1, …, k_{d-1}`), between :math:`\min(k, k_{j-1} b_j)`, the default,
            and :math:`k_{j-1} b_j`.
        temperatures: :math:`\tau_1 \le … \le \tau_d`; None: the sort's at every level. Setting ``temperature``
            later scales them all.
        straight_through: the nodes pass on the values of a hard sort, with the gradient of the relaxed one.

    Example:
        >>> from pirank.sorts import NeuralSort
        >>> tree = Tree(NeuralSort(temperature=1e-3), branching=(3, 2))
        >>> scores = torch.tensor([0.2, 0.5, 0.3, 0.4, 0.1, 0.7])
        >>> tree.apply(scores, scores, k=2)
        tensor([0.7000, 0.5000])

    References:
        Swezey, Grover, Charron, Ermon: PiRank: scalable learning to rank via differentiable sorting, NeurIPS 2021.
    """

    def __init__(
        self,
        sort: Sort,
        *,
        branching: Sequence[int] | None = None,
        depth: int | None = None,
        widths: Sequence[int] | None = None,
        temperatures: Sequence[float] | None = None,
        straight_through: bool = False,
    ) -> None:
        if not isinstance(sort, Sort):
            raise TypeError(f"sort must be a pirank sort such as NeuralSort(), got {type(sort).__name__}")
        if isinstance(sort, Tree):
            raise TypeError("sort must not be a Tree itself: give all levels to one Tree as branching=")
        self.depth = _check_depth(branching, depth)
        self.sort = copy(sort)  # the tree sets its temperature
        self.branching = None if branching is None else tuple(branching)
        self.widths = None if widths is None else _check_widths(widths, self.depth)
        self.straight_through = straight_through
        if temperatures is not None:
            _check_temperatures(temperatures, self.depth)
            self.sort.temperature = temperatures[-1]
        root = self.sort.temperature
        self._ratios = [1.0] * self.depth if temperatures is None else [t / root for t in temperatures]
        super().__init__(root, relative=sort.relative)

    @property
    def temperature(self) -> float:
        """The root's temperature; setting it scales the temperatures of all levels."""
        return self.sort.temperature

    @temperature.setter
    def temperature(self, value: float) -> None:
        self.sort.temperature = value

    def sorted_values(
        self, scores: Tensor, values: Tensor, mask: Tensor | None, k: int, temperature: Temperature
    ) -> Tensor:
        lists, channels = values.shape[:2]
        rows = min(k, scores.shape[1])
        if rows == 0:
            return values.new_zeros(lists, channels, k) + scores.sum() * 0
        branching, widths = self._levels(scores.shape[1], rows)
        # The scores are channel 0 and the values ride along: [lists · nodes, channels, width].
        ride, mask = _leaves(torch.cat([scores[:, None], values], 1), mask, math.prod(branching))
        for level, (branch, width) in enumerate(zip(branching, widths, strict=True)):
            ride, mask = _children(ride, mask, branch)
            nodes = ride[:, 0]
            tau = _per_node(temperature, self._ratios[level], nodes.shape[0])
            ranked = self.sort.sorted_values(nodes, ride, mask, width, tau)
            if self.straight_through:
                ranked = ranked + (_hard(nodes, ride, mask, width) - ranked).detach()
            ride, mask = ranked, _kept(mask, width)
        return torch.nn.functional.pad(ride[:, 1:, :rows], (0, k - rows))

    def relaxed_matrix(self, scores: Tensor, mask: Tensor | None, k: int, temperature: Temperature) -> Tensor:
        lists, length = scores.shape
        rows = min(k, length)
        if rows == 0:
            return scores.new_zeros(lists, k, length)
        branching, widths = self._levels(length, rows)
        ride, mask = _leaves(scores[:, None], mask, math.prod(branching))
        compound = torch.ones_like(ride)
        for level, (branch, width) in enumerate(zip(branching, widths, strict=True)):
            ride, mask = _children(ride, mask, branch)
            nodes = ride[:, 0]
            tau = _per_node(temperature, self._ratios[level], nodes.shape[0])
            matrix = self.sort.relaxed_matrix(nodes, mask, width, tau)
            if self.straight_through:
                hard = _hard(
                    nodes, torch.eye(nodes.shape[1]).to(nodes).expand(nodes.shape[0], -1, -1), mask, width
                )
                matrix = matrix + (hard.mT - matrix).detach()
            with torch.autocast(scores.device.type, enabled=False):
                ranked = ride @ matrix.mT
                by_child = matrix.reshape(nodes.shape[0], width, branch, -1)
                below = compound.reshape(nodes.shape[0], branch, *compound.shape[1:])
                compound = torch.einsum("nlbm,nbmc->nlbc", by_child, below).flatten(2)
            ride, mask = ranked, _kept(mask, width)
        matrix = compound[:, :rows, :length]
        return torch.nn.functional.pad(matrix, (0, 0, 0, k - rows))

    def _levels(self, length: int, k: int) -> tuple[tuple[int, ...], list[int]]:
        """Branching and widths for lists of this length, checked against the paper's rules."""
        branching = self.branching or _balanced(length, self.depth)
        if math.prod(branching) < length:
            product = " × ".join(map(str, branching))
            raise ValueError(
                f"branching must multiply to at least the list's length: {product} = {math.prod(branching)} "
                f"leaves for {length} items; use a larger branching, or depth={self.depth} to have one chosen"
            )
        widths, below = [], 1
        for level, branch in enumerate(branching):
            most = below * branch
            least = min(k, most)
            width = least if self.widths is None or level >= len(self.widths) else self.widths[level]
            if not least <= width <= most:
                raise ValueError(
                    f"widths[{level}] must be between min(k, k_{level} b_{level + 1}) = {least} and "
                    f"k_{level} b_{level + 1} = {most}, got {width}"
                )
            widths.append(width)
            below = width
        return branching, widths

    def __repr__(self) -> str:
        shape = f"depth={self.depth}" if self.branching is None else f"branching={self.branching}"
        return f"Tree({self.sort!r}, {shape})"


def _leaves(ride: Tensor, mask: Tensor | None, count: int) -> tuple[Tensor, Tensor | None]:
    """``[B, C, L]`` as nodes of width k_0 = 1, ``[B · leaves, C, 1]``, filled with absent items."""
    lists, channels, length = ride.shape
    if count > length:
        if mask is None:
            mask = torch.ones(lists, length, dtype=torch.bool, device=ride.device)
        mask = torch.nn.functional.pad(mask, (0, count - length))
        ride = torch.nn.functional.pad(ride, (0, count - length))
    ride = ride.transpose(1, 2).reshape(-1, channels, 1)
    return ride, None if mask is None else mask.reshape(-1, 1)


def _children(ride: Tensor, mask: Tensor | None, branch: int) -> tuple[Tensor, Tensor | None]:
    """Lay the values of ``branch`` consecutive nodes side by side: one row a parent."""
    channels, width = ride.shape[1:]
    parents = ride.reshape(-1, branch, channels, width).transpose(1, 2).reshape(-1, channels, branch * width)
    return parents, None if mask is None else mask.reshape(-1, branch * width)


def _kept(mask: Tensor | None, width: int) -> Tensor | None:
    """Which of a node's ranks hold an item."""
    if mask is None:
        return None
    return torch.arange(width, device=mask.device) < mask.sum(-1, keepdim=True)


def _hard(nodes: Tensor, ride: Tensor, mask: Tensor | None, width: int) -> Tensor:
    """The values in the order of a real sort, ``[nodes, C, width]``."""
    keys = nodes if mask is None else nodes.masked_fill(~mask, float("-inf"))
    order = keys.detach().argsort(dim=-1, descending=True, stable=True)[:, :width]
    ranked = ride.gather(2, order[:, None].expand(-1, ride.shape[1], -1))
    kept = _kept(mask, width)
    return ranked if kept is None else torch.where(kept[:, None], ranked, 0)


def _per_node(temperature: Temperature, ratio: float, nodes: int) -> Temperature:
    if not isinstance(temperature, Tensor):
        return temperature * ratio
    return temperature.repeat_interleave(nodes // temperature.shape[0], 0) * ratio


def _balanced(length: int, depth: int) -> tuple[int, ...]:
    """b_j ≈ L^(1/d) with the fewest leaves to fill: factors are lowered one by one while the product suffices."""
    root = max(1, math.ceil(round(length ** (1 / depth), 9)))
    branching = [root] * depth
    for level in range(depth):
        others = math.prod(branching) // branching[level]
        branching[level] = max(1, math.ceil(length / others))
    return tuple(branching)


def _check_depth(branching: Sequence[int] | None, depth: int | None) -> int:
    if branching is not None:
        for level, branch in enumerate(branching):
            if isinstance(branch, bool) or not isinstance(branch, int) or branch < 1:
                raise ValueError(f"branching[{level}] must be a whole number of at least 1, got {branch!r}")
        if len(branching) == 0:
            raise ValueError("branching must name at least one level, got none")
        if depth is not None and depth != len(branching):
            raise ValueError(
                f"depth={depth} and branching with {len(branching)} levels disagree: give one of them"
            )
        return len(branching)
    if depth is None:
        raise ValueError("a Tree needs branching=(b_1, …, b_d) or depth=d")
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
        raise ValueError(f"depth must be a whole number of at least 1, got {depth!r}")
    return depth


def _check_widths(widths: Sequence[int], depth: int) -> tuple[int, ...]:
    if len(widths) not in (depth - 1, depth):
        raise ValueError(f"widths must name {depth - 1} or {depth} levels, k_1 to k_d, got {len(widths)}")
    for level, width in enumerate(widths):
        if isinstance(width, bool) or not isinstance(width, int) or width < 1:
            raise ValueError(f"widths[{level}] must be a whole number of at least 1, got {width!r}")
    return tuple(widths)


def _check_temperatures(temperatures: Sequence[float], depth: int) -> None:
    if len(temperatures) != depth:
        raise ValueError(
            f"temperatures must name one for each of the {depth} levels, got {len(temperatures)}"
        )
    for level, value in enumerate(temperatures):
        check_temperature(value)
        if level and value < temperatures[level - 1]:
            raise ValueError(
                f"temperatures must not fall from the leaves to the root: temperatures[{level}] = {value} is below "
                f"temperatures[{level - 1}] = {temperatures[level - 1]}"
            )
