"""Losses, each a function and a module of one signature; :func:`get` finds them by name."""

from pirank.losses.base import ListLoss, list_loss
from pirank.losses.pointwise import MSELoss, mse_loss
from pirank.losses.registry import get, names

__all__ = ["ListLoss", "MSELoss", "get", "list_loss", "mse_loss", "names"]
