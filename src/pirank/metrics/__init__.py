"""Ranking metrics, each written once as a function of the values in rank order."""

from pirank.metrics.base import Metric
from pirank.metrics.ndcg import NDCG

__all__ = ["NDCG", "Metric"]
