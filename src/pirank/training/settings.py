"""Everything that decides how a ranker is trained: the same names in Python, YAML and on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from pirank.names import unknown
from pirank.training.schedules import LEARNING_RATE_SCHEDULES, TEMPERATURE_SCHEDULES

OPTIMIZERS = ("adamw", "adam", "sgd")
PRECISIONS = ("32-true", "tf32", "bf16-mixed", "16-mixed")
CAPTURES = ("auto", "on", "off")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a ranker is trained.

    Args:
        model: a network that :func:`pirank.models.get` knows.
        model_options: its options, such as ``{"hidden": (256, 128)}``.
        transform: the feature transform, such as ``"quantile+query-rank"``.
        n_ensemble: networks trained from different seeds and averaged in one model.
        loss: a loss that :func:`pirank.losses.get` knows.
        loss_options: its options, such as ``{"k": 10}``.
        temperature_schedule: ``"constant"``, ``"exponential"``, ``"linear"`` or ``"cosine"``, for losses that sort.
        temperature_end: the temperature at the end of a schedule that is not constant.
        optimizer: ``"adamw"``, ``"adam"`` or ``"sgd"``.
        learning_rate: its highest value.
        weight_decay: the optimiser's.
        schedule: of the learning rate: ``"constant"``, ``"cosine"`` or ``"step"``.
        warmup: the share of all steps over which the learning rate rises from 0.
        clip: largest norm of the gradient; None: no clipping.
        accumulate: batches a step.
        epochs: how often every query is seen.
        steps: stop after as many steps, whatever ``epochs`` says.
        batch_size: queries a batch, over all processes together.
        batch_documents: instead, documents a batch: batches of similar cost where lists differ much in length.
        list_size: cut or pad every list to this size (the paper's protocol); None: whole lists.
        metric: on the validation split it decides which epoch is kept.
        patience: epochs without a better validation metric before the training ends; None: all epochs.
        validate_every: steps between validations; None: once an epoch.
        seed: of everything random.
        precision: ``"32-true"``, ``"tf32"`` (matrix products of float32 numbers rounded to 11 bits, on GPUs that can),
            ``"bf16-mixed"`` or ``"16-mixed"``; the sort stays float32.
        capture: replay steps of static shapes as CUDA graphs: ``"auto"``: where the device is a GPU and nothing stands
            in the way; ``"on"``: refused where something does, and on a CPU static shapes without a graph; ``"off"``.
        checkpoint_seconds: at most this much work is lost when a run is killed.

    Example:
        >>> Settings(epochs=3).epochs
        3
    """

    model: str = "mlp"
    model_options: Mapping[str, Any] = field(default_factory=lambda: {"hidden": [128, 64], "dropout": 0.3})
    transform: str = "standard+query-rank"
    n_ensemble: int = 1
    loss: str = "pirank-ndcg"
    loss_options: Mapping[str, Any] = field(
        default_factory=lambda: {"k": 10, "temperature": 0.02, "relative": True}
    )
    temperature_schedule: str = "constant"
    temperature_end: float | None = None
    optimizer: str = "adamw"
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    schedule: str = "cosine"
    warmup: float = 0.05
    clip: float | None = 1.0
    accumulate: int = 1
    epochs: int = 60
    steps: int | None = None
    batch_size: int = 8
    batch_documents: int | None = None
    list_size: int | None = None
    metric: str = "ndcg@10"
    patience: int | None = 20
    validate_every: int | None = None
    seed: int = 0
    precision: str = "32-true"
    capture: str = "auto"
    checkpoint_seconds: float = 30.0

    def __post_init__(self) -> None:
        _check_name("schedule", self.schedule, LEARNING_RATE_SCHEDULES)
        _check_name("temperature_schedule", self.temperature_schedule, TEMPERATURE_SCHEDULES)
        _check_name("optimizer", self.optimizer, OPTIMIZERS)
        _check_name("precision", self.precision, PRECISIONS)
        _check_name("capture", self.capture, CAPTURES)
        for name in ("n_ensemble", "accumulate", "epochs", "batch_size"):
            _check_at_least(name, getattr(self, name), 1)
        for name in ("steps", "batch_documents", "list_size", "patience", "validate_every"):
            if getattr(self, name) is not None:
                _check_at_least(name, getattr(self, name), 1)
        for name in ("learning_rate", "weight_decay", "warmup", "checkpoint_seconds"):
            _check_at_least(name, getattr(self, name), 0)
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip must be above 0, or None for no clipping, got {self.clip}")
        if self.temperature_schedule != "constant" and self.temperature_end is None:
            raise ValueError(
                f"temperature_schedule={self.temperature_schedule!r} needs temperature_end, "
                "the temperature at the end of training"
            )

    def changed(self, **changes: Any) -> Settings:
        """A copy with other values; an unknown name is refused with the nearest known one."""
        known = [f.name for f in fields(self)]
        for name in changes:
            if name not in known:
                raise ValueError(unknown("setting", name, known))
        return replace(self, **changes)

    def as_dict(self) -> dict[str, Any]:
        """All settings as plain values, as they are written to ``config.yaml``."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain


# The paper's Table 4 (tab:expParams). The library's own settings are the defaults above.
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper-benchmark": {
        "model": "paper-benchmark",
        "model_options": {},
        "transform": "none",
        "loss_options": {"k": 10, "temperature": 1000.0, "straight_through": True},
        "optimizer": "adam",
        "learning_rate": 1e-3,
        "weight_decay": 0.0,
        "schedule": "constant",
        "warmup": 0.0,
        "clip": None,
        "steps": 100_000,
        "epochs": 1_000_000,
        "batch_size": 16,
        "list_size": 200,
        "patience": None,
        "validate_every": 1000,
    },
    "paper-ablation": {
        "model": "paper-ablation",
        "model_options": {},
        "transform": "none",
        "loss_options": {"k": 10, "temperature": 5.0, "straight_through": True},
        "optimizer": "adam",
        "learning_rate": 1e-5,
        "weight_decay": 0.0,
        "schedule": "constant",
        "warmup": 0.0,
        "clip": None,
        "epochs": 100,
        "batch_size": 16,
        "list_size": 100,
        "patience": None,
    },
}


def preset(name: str = "default") -> Settings:
    """Settings by name: ``"default"``, ``"paper-benchmark"`` or ``"paper-ablation"``.

    Example:
        >>> preset("paper-benchmark").steps
        100000
    """
    if name not in PRESETS:
        raise ValueError(unknown("preset", name, PRESETS))
    return Settings(**PRESETS[name])


def _check_name(name: str, value: str, known: Any) -> None:
    if value not in known:
        raise ValueError(unknown(name, value, known))


def _check_at_least(name: str, value: float, least: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= least:
        raise ValueError(f"{name} must be a number of at least {least}, got {value!r}")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
