"""Ranking metrics, each written once as a function of the values in rank order."""

from pirank.metrics.arp import ARP
from pirank.metrics.base import Metric
from pirank.metrics.binary import MRR, RBP, AveragePrecision, BinaryMetric, HitRate, Precision, Recall
from pirank.metrics.err import ERR
from pirank.metrics.linear import LinearMetric
from pirank.metrics.ndcg import DCG, NDCG
from pirank.metrics.opa import OPA
from pirank.metrics.per_list import ListMetric
from pirank.metrics.registry import get, names

__all__ = [
    "ARP",
    "DCG",
    "ERR",
    "MRR",
    "NDCG",
    "OPA",
    "RBP",
    "AveragePrecision",
    "BinaryMetric",
    "HitRate",
    "LinearMetric",
    "ListMetric",
    "Metric",
    "Precision",
    "Recall",
    "get",
    "names",
]
