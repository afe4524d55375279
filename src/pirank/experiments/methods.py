"""What is compared: losses, gradient-boosted trees, and scores that somebody else computed."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pirank import losses
from pirank.commands.changes import value_of
from pirank.losses.registry import LOSSES
from pirank.names import unknown
from pirank.training import Settings

GBDTS = ("lightgbm", "xgboost", "catboost")
PAPER_LOSSES = ("ranknet", "lambdarank", "softmax", "approx-ndcg", "neuralsort", "pirank-ndcg")
"""The rows of the paper's Table 1, in its order."""


@dataclass(frozen=True)
class Method:
    """A row of a comparison.

    Attributes:
        label: as in the tables.
        kind: ``"loss"``, ``"gbdt"`` or ``"scores"``.
        name: of the loss or of the library; for scores the path of the file.
        options: of the loss, or parameters of the trees.
        settings: training settings that differ from the comparison's; of these trees take the transform alone.
    """

    label: str
    kind: str
    name: str
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def trained(self) -> bool:
        """Whether seeds and candidates make a difference."""
        return self.kind != "scores"

    def description(self) -> dict[str, Any]:
        """Plain values."""
        return {"kind": self.kind, "name": self.name, "options": self.options}


def loss_method(text: str) -> Method:
    """A loss as a command line names it: ``NAME``, or ``NAME:option=value:option=value``.

    Example:
        >>> loss_method("pirank-ndcg:temperature=5:k=20").options
        {'temperature': 5, 'k': 20}
    """
    name, options = _with_options(text, "a loss")
    if name not in losses.names():
        raise ValueError(unknown("loss", name, losses.names()))
    losses.get(name, **options)  # a wrong option is told before any work is done
    return Method(text, "loss", name, options)


def gbdt_method(text: str) -> Method:
    """A gradient-boosted tree library as a command line names it: ``NAME``, or ``NAME:parameter=value``.

    The trees see the features that the networks see; with ``features=raw`` those of the files.
    """
    name, options = _with_options(text, "a tree library")
    if name not in GBDTS:
        raise ValueError(unknown("gradient-boosted trees", name, GBDTS))
    if importlib.util.find_spec(name) is None:
        raise ImportError(f'--gbdt {name} needs {name}: pip install "pirank[gbdt]"')
    features = options.pop("features", "same")
    if features not in ("same", "raw"):
        raise ValueError(f"features must be raw, or same as the networks': got {text!r}")
    return Method(text, "gbdt", name, options, {"transform": "none"} if features == "raw" else {})


def _with_options(text: str, what: str) -> tuple[str, dict[str, Any]]:
    name, *pairs = text.split(":")
    options = {}
    for pair in pairs:
        option, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"{what} takes options as NAME:option=value, got {text!r}")
        options[option.replace("-", "_")] = value_of(value)
    return name, options


def scores_method(text: str) -> Method:
    """Scores of the test rows from a file, ``NAME=PATH``; ``{data}`` and ``{fold}`` in the path are filled in."""
    name, equals, path = text.partition("=")
    if not equals or not name:
        raise ValueError(f"--scores must be NAME=PATH, got {text!r}")
    try:
        path.format(data="", fold=1)
    except (KeyError, IndexError, ValueError):
        raise ValueError(
            f"--scores may hold {{data}} and {{fold}} and no other braces, got {text!r}"
        ) from None
    return Method(name, "scores", str(Path(path).expanduser().absolute()))


def check_labels(methods: Iterable[Method]) -> None:
    """Refuse two rows of one name."""
    seen: set[str] = set()
    for method in methods:
        if method.label in seen:
            raise ValueError(f"{method.label!r} is there twice: give each row a name of its own")
        seen.add(method.label)


def settings_of(method: Method, base: Settings, seed: int, candidate: int) -> Settings:
    """The settings a loss is trained with: the comparison's, with the loss's own options and this candidate's.

    Options of the comparison's own loss (k, temperature, …) go to every loss of the PiRank family; other losses take
    those of them that the paper's Table 4 gives them: k for LambdaRank, the temperature for NeuralSort where it is
    absolute.
    """
    options = {**_shared_options(method.name, base), **method.options}
    changes: dict[str, Any] = {"loss": method.name, "loss_options": options, "seed": seed, **method.settings}
    if not method.name.startswith("pirank"):
        changes |= {"temperature_schedule": "constant", "temperature_end": None}
    if candidate:
        changes |= _drawn(candidate, base, changes)
    return base.changed(**changes)


def _shared_options(name: str, base: Settings) -> dict[str, Any]:
    given = dict(base.loss_options) if base.loss.startswith("pirank") else {}
    if name == "pirank-ndcg":
        return given
    if name == "pirank-arp":
        return {option: value for option, value in given.items() if option != "k"}
    kept: dict[str, Any] = {}
    if name in ("lambdarank", "lambdaloss") and "k" in given:
        kept["k"] = given["k"]
    if name == "neuralsort" and "temperature" in given and not given.get("relative"):
        kept["temperature"] = given["temperature"]
    return kept


def _drawn(candidate: int, base: Settings, changes: dict[str, Any]) -> dict[str, Any]:
    """Settings drawn at random, the same ones for every data set, fold and seed."""
    rng = np.random.default_rng([20_210_812, candidate])
    drawn: dict[str, Any] = {
        "learning_rate": base.learning_rate * float(10 ** rng.uniform(-0.7, 0.7)),
        "weight_decay": base.weight_decay * float(10 ** rng.uniform(-1, 1)),
    }
    dropout, factor = float(rng.uniform(0, 0.5)), float(10 ** rng.uniform(-1, 1))
    if base.model in ("mlp", "attention"):
        drawn["model_options"] = {**base.model_options, "dropout": dropout}
    known = LOSSES[changes["loss"]].option_names()
    if "temperature" in known:
        options = changes["loss_options"]
        drawn["loss_options"] = {**options, "temperature": options.get("temperature", 1.0) * factor}
    return drawn


def slug(text: str) -> str:
    """Text as part of a file name.

    Example:
        >>> slug("pirank-ndcg:temperature=0.1")
        'pirank-ndcg-temperature-0.1'
    """
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.")[:60] or "x"
