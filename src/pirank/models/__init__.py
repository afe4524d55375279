"""Rankers: feature transforms and networks, from a query's documents to their scores."""

from pirank.models.attention import ListAttention
from pirank.models.mlp import MLP
from pirank.models.normalisation import BatchNorm
from pirank.models.ranker import Ranker
from pirank.models.registry import get, names
from pirank.models.transforms import FeatureTransform

__all__ = ["MLP", "BatchNorm", "FeatureTransform", "ListAttention", "Ranker", "get", "names"]
