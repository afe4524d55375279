"""Relaxed sorts: scores in, values in relaxed rank order out; :func:`get` finds them by name."""

from pirank.sorts.base import Sort
from pirank.sorts.naive import naive_neural_sort
from pirank.sorts.neural import NeuralSort
from pirank.sorts.paths import paths_taken, use_path
from pirank.sorts.registry import get, names
from pirank.sorts.sinkhorn import Sinkhorn
from pirank.sorts.soft import SoftSort
from pirank.sorts.tree import Tree

__all__ = [
    "NeuralSort",
    "Sinkhorn",
    "SoftSort",
    "Sort",
    "Tree",
    "get",
    "naive_neural_sort",
    "names",
    "paths_taken",
    "use_path",
]
