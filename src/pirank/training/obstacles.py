"""What stands in the way of steps of static shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from pirank.data import RankingData
from pirank.losses import PiRankLoss
from pirank.losses.base import ListLoss
from pirank.models.alone import why_not_alone
from pirank.sorts import Sinkhorn, Tree
from pirank.training.settings import Settings

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def obstacle(
    network: nn.Module, loss: nn.Module, train: RankingData, settings: Settings, fabric: Fabric
) -> str | None:
    """None if steps of static shapes are the same as any others, else why they are not or cannot be made."""
    precision = getattr(fabric.strategy.precision, "precision", "32-true")
    if fabric.world_size > 1:
        return f"{fabric.world_size} processes train together"
    if settings.accumulate > 1:
        return f"accumulate is {settings.accumulate}"
    if precision not in ("32-true", "bf16-mixed"):
        return f"precision {precision!r} looks at every gradient"
    if settings.temperature_schedule != "constant":
        return f"temperature_schedule {settings.temperature_schedule!r} changes a number that a capture fixes"
    if train.labels is None or train.documents == 0:
        return "the training split has no labels or no documents"
    return _obstacle_of(loss) or why_not_alone(network)


def _obstacle_of(loss: Any) -> str | None:
    name = type(loss).__name__
    if not isinstance(loss, (ListLoss, PiRankLoss)):
        return f"{name} is no loss of pirank: it may not take padded lists"
    options = getattr(loss, "options", {})
    if options.get("generator") is not None:
        return f"{name} draws from a generator of its own"
    sort: Any = getattr(loss, "sort", None)
    if isinstance(getattr(sort, "sort", sort), Sinkhorn):
        return "Sinkhorn's iterations end where the scores say"
    if isinstance(sort, Tree) and sort.branching is None:
        return "the tree's branching follows the length of each batch's longest list: name it with branching="
    return None


def counts_blank_lists(loss: Any) -> bool:
    """Whether lists without a relevant item, and so those that are not there, take part in the mean."""
    return bool(getattr(loss, "options", {}).get("empty", getattr(loss, "empty", "skip")) != "skip")
