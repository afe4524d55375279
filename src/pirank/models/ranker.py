"""A ranker: the feature transform and one or several networks, one module, saved and loaded whole."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from pirank.files import write_tensors
from pirank.models.registry import get
from pirank.models.transforms import FeatureTransform

_METADATA = "pirank"


class Ranker(nn.Module):
    """From a document's raw features to its score: the transform, then the mean over the members' scores.

    Members are networks of one kind trained from different seeds. Their scores are standardised before they
    are averaged, because a ranking loss leaves the scale of the scores free.

    Args:
        in_features: columns of the data.
        model: a name that :func:`pirank.models.get` knows.
        options: the network's options.
        transform: a :class:`FeatureTransform` by name.
        members: how many networks.
        feature_names: the columns' names, where they have some.

    Example:
        >>> ranker = Ranker(3, options={"hidden": (8,)}, transform="standard")
        >>> ranker(torch.rand(4, 3)).shape
        torch.Size([4])
    """

    centre: Tensor
    spread: Tensor

    def __init__(
        self,
        in_features: int,
        *,
        model: str = "mlp",
        options: dict[str, Any] | None = None,
        transform: str = "none",
        members: int = 1,
        feature_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        if members < 1:
            raise ValueError(f"members must be at least 1, got {members}")
        if feature_names is not None and len(feature_names) != in_features:
            raise ValueError(f"feature_names must be one a column, {in_features}: got {len(feature_names)}")
        self.description: dict[str, Any] = {
            "in_features": in_features,
            "model": model,
            "options": dict(options or {}),
            "transform": transform,
            "members": members,
            "feature_names": None if feature_names is None else [str(name) for name in feature_names],
        }
        self.about: dict[str, Any] = {}
        self.transform = FeatureTransform(transform, in_features)
        self.members = nn.ModuleList(
            get(model, self.transform.out_features, **(options or {})) for _ in range(members)
        )
        self.register_buffer("centre", torch.zeros(members))
        self.register_buffer("spread", torch.ones(members))

    @property
    def in_features(self) -> int:
        """Columns of the data."""
        return self.transform.in_features

    @property
    def feature_names(self) -> list[str] | None:
        """The columns' names, where they have some."""
        names: list[str] | None = self.description["feature_names"]
        return names

    @property
    def looks_at_queries(self) -> bool:
        """Whether a document's score depends on the other documents of its query."""
        return self.transform.looks_at_queries or self.description["model"] == "attention"

    def forward(self, features: Tensor, offsets: Tensor | None = None) -> Tensor:
        """``features [N, F]`` to ``scores [N]``; ``offsets [Q + 1]`` bound the queries, None: one query."""
        return self.score_transformed(self.transform(features, offsets), offsets)

    def score_transformed(self, features: Tensor, offsets: Tensor | None = None) -> Tensor:
        """Scores from features that went through the transform already."""
        scores = [
            (member(features, offsets) - self.centre[i]) / self.spread[i]
            for i, member in enumerate(self.members)
        ]
        return scores[0] if len(scores) == 1 else torch.stack(scores).mean(0)

    @torch.no_grad()
    def weigh_equally(self, features: Tensor, offsets: Tensor) -> None:
        """Standardise the members' scores on these transformed rows: each has the same say in the mean."""
        if len(self.members) == 1 or not len(features):
            return
        for i, member in enumerate(self.members):
            scores = member(features, offsets)
            self.centre[i] = scores.mean()
            self.spread[i] = scores.std(unbiased=False).clamp(min=1e-12)

    def save(self, path: str | os.PathLike[str], about: dict[str, Any] | None = None) -> None:
        """Write weights, transform and description to one safetensors file, whole or not at all.

        Args:
            path: the file.
            about: what else to write down, plain values; :meth:`load` gives it back as ``about``.
        """
        description = json.dumps({**self.description, "about": self.about if about is None else about})
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.state_dict().items()}
        write_tensors(Path(path), tensors, {_METADATA: description})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Ranker:
        """Read what :meth:`save` wrote; runs no code of the file's author."""
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, not a dict
        except (SafetensorError, OSError) as error:
            if isinstance(error, FileNotFoundError) or not Path(path).exists():
                raise FileNotFoundError(f"no model at {path}") from None
            raise ValueError(f"{path} is damaged or not a model: {error}") from error
        if _METADATA not in metadata:
            raise ValueError(f"{path} holds tensors but no pirank model: its metadata lacks {_METADATA!r}")
        try:
            description = json.loads(metadata[_METADATA])
            about = description.pop("about", {})
            ranker = cls(**description)
            ranker.about = about
            ranker.load_state_dict(tensors)
        except (TypeError, RuntimeError, json.JSONDecodeError) as error:
            raise ValueError(
                f"{path} does not fit its own description: {str(error).splitlines()[0]}"
            ) from error
        return ranker.eval()
