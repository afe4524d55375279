"""Rankers for other programs: ONNX and torch.export, checked against the model on the spot."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from pirank.files import appearing
from pirank.models import Ranker
from pirank.models.row_transforms import QuantileNormalise, Standardise
from pirank.training.errors import TrainingError

_PROBE_SIZES = (1, 2, 17, 60)
_TOLERANCE = 1e-3

Scorer = Callable[[Tensor], np.ndarray]


def export_onnx(ranker: Ranker, path: str | os.PathLike[str]) -> float:
    """Write a ranker, its feature transform inside, as ONNX, and compare it with the model under onnxruntime.

    The graph maps ``features [documents, F]`` to ``scores [documents]``. For rankers that look at a query's documents
    together the rows must be those of one query; for others they may be any rows.

    Args:
        ranker: the model.
        path: the ``.onnx`` file; it appears when it is checked.

    Returns:
        The largest difference between the two programs' scores, in units of the scores' spread.
    """
    try:
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ImportError(f'{error}: pip install "pirank[export]"') from None

    def write(partial: Path) -> None:
        documents = torch.export.Dim("documents", min=1)
        program = torch.onnx.export(
            _OneQuery(ranker), (_probe(ranker, 5),), dynamo=True, input_names=["features"], output_names=["scores"],
            dynamic_shapes={"features": {0: documents}}, verbose=False,
        )  # fmt: skip
        if program is None:
            raise TrainingError("torch.onnx.export gave no program")
        for name, value in (
            ("transform", ranker.transform.steps),
            ("features", ",".join(ranker.feature_names or [])),
        ):
            program.model.metadata_props[f"pirank.{name}"] = value
        program.save(str(partial), external_data=False)

    def load(partial: Path) -> Scorer:
        session = onnxruntime.InferenceSession(str(partial), providers=["CPUExecutionProvider"])
        return lambda features: np.asarray(session.run(["scores"], {"features": features.numpy()})[0])

    return _checked(ranker, Path(path), write, load)


def export_torch(ranker: Ranker, path: str | os.PathLike[str]) -> float:
    """Write a ranker as a ``torch.export`` program (``.pt2``), and compare it with the model.

    ``torch.export.load(path).module()`` maps ``features [documents, F]`` to ``scores [documents]``, without this
    library; AOTInductor compiles it for C++.

    Args:
        ranker: the model.
        path: the ``.pt2`` file; it appears when it is checked.

    Returns:
        The largest difference between the two programs' scores, in units of the scores' spread.
    """

    def write(partial: Path) -> None:
        documents = torch.export.Dim("documents", min=1)
        program = torch.export.export(
            _OneQuery(ranker), (_probe(ranker, 5),), dynamic_shapes={"features": {0: documents}}
        )
        torch.export.save(program, partial)

    def load(partial: Path) -> Scorer:
        module = torch.export.load(partial).module()
        return lambda features: np.asarray(module(features).detach().numpy())

    return _checked(ranker, Path(path), write, load)


class _OneQuery(nn.Module):
    """A ranker whose rows are the documents of one query."""

    def __init__(self, ranker: Ranker) -> None:
        super().__init__()
        self.ranker = ranker.eval()

    def forward(self, features: Tensor) -> Tensor:
        scores: Tensor = self.ranker(features)
        return scores


def _checked(
    ranker: Ranker, path: Path, write: Callable[[Path], None], load: Callable[[Path], Scorer]
) -> float:
    with appearing(path) as partial:
        with _quiet():
            write(partial)
        scorer = load(partial)
        with torch.inference_mode():
            spread = max(float(ranker(_probe(ranker, 60)).std()), 1e-6)
            worst = max(_difference(ranker, scorer, size) for size in _PROBE_SIZES) / spread
        if not worst <= _TOLERANCE:
            raise TrainingError(
                f"the exported program's scores differ from the model's by {worst:.2g} times their spread: not written"
            )
    return worst


def _difference(ranker: Ranker, scorer: Scorer, size: int) -> float:
    features = _probe(ranker, size)
    expected = ranker(features).numpy()
    found = scorer(features)
    if found.shape != expected.shape:
        return float("inf")
    return float(np.abs(found - expected).max())


def _probe(ranker: Ranker, size: int) -> Tensor:
    """Rows like those of the training: random, with ties, in the features' own ranges."""
    generator = torch.Generator().manual_seed(size)
    rows = torch.randn(size, ranker.in_features, generator=generator)
    rows[: size // 2, ::2] = rows[: size // 2, ::2].round()
    for step in ranker.transform.rows:
        if isinstance(step, Standardise):
            return rows * step.scale.cpu() + step.mean.cpu()
        if isinstance(step, QuantileNormalise):
            low, high = step.x[:, 0].cpu(), step.x[:, -1].cpu()
            return low + (high - low) * torch.sigmoid(rows)
    return rows


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporters tell about their steps on standard output, in logs and in warnings."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
