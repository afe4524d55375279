"""The scikit-learn front door: :class:`PiRanker`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from pirank import losses, metrics
from pirank.data import RankingData, from_arrays
from pirank.models import Ranker
from pirank.query_rows import last_of, query_weights, split_qid
from pirank.training.prediction import ranks_of
from pirank.training.recipe import default_loss_options, train_ranker
from pirank.training.scoring import scores_of
from pirank.training.settings import Settings

_ROW_TRANSFORM = "standard"
_CUT_AT_K = ("ndcg", "dcg", "map", "precision", "recall")


class PiRanker(BaseEstimator):
    """A neural ranker that trains on the ranking metric itself, with scikit-learn's manners.

    Rows are documents. Which of them belong to one query is said by ``qid`` (an id a row), by ``group`` (documents of
    each query, in the order of the rows), or by a column ``qid`` in a pandas or polars frame: with the column,
    ``cross_val_score`` and ``GridSearchCV`` need nothing else.

    Args:
        loss: a loss that :func:`pirank.losses.get` knows.
        k: the cutoff of the loss (where it has one) and of :meth:`score`.
        temperature: of the relaxed sort; None: the library's own.
        relative: the temperature is in units of list length × score spread.
        hidden: widths of the hidden layers.
        dropout: share of activations dropped while training.
        model: a network that :func:`pirank.models.get` knows.
        feature_transform: ``"auto"``: with a ``qid`` column also each feature's rank within the query,
            otherwise what looks at one row only, so that ``predict(X)`` needs no query ids.
        epochs: how often every query is seen.
        batch_size: queries a batch.
        learning_rate: its highest value.
        weight_decay: of the optimiser.
        patience: epochs without a better validation metric before the training ends; None: all epochs.
        validation_fraction: share of the queries held out where there is no ``eval_set``; None: no validation.
        n_ensemble: networks trained from different seeds and averaged.
        settings: other fields of :class:`pirank.training.Settings`.
        random_state: seed; an int gives the same model again.
        n_jobs: threads; None: as torch is set.

    Attributes:
        ranker_: the trained :class:`pirank.models.Ranker`.
        history_: what was reported at every validation.
        n_features_in_: columns, without ``qid``.
        feature_names_in_: their names, where they have some.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X, qid = rng.normal(size=(100, 3)), np.repeat(np.arange(10), 10)
        >>> y = (X[:, 0] > 0.5).astype(float)
        >>> ranker = PiRanker(epochs=5, random_state=0).fit(X, y, qid=qid)
        >>> bool(ranker.score(X, y, qid=qid) > 0.8)
        True
        >>> ranker.rank(X[:3], qid[:3]).tolist()
        [2, 3, 1]
    """

    def __init__(
        self,
        loss: str = "pirank-ndcg",
        *,
        k: int | None = 10,
        temperature: float | None = None,
        relative: bool = True,
        hidden: Sequence[int] = tuple(Settings().model_options["hidden"]),
        dropout: float = Settings().model_options["dropout"],
        model: str = Settings().model,
        feature_transform: str = "auto",
        epochs: int = Settings().epochs,
        batch_size: int = Settings().batch_size,
        learning_rate: float = Settings().learning_rate,
        weight_decay: float = Settings().weight_decay,
        patience: int | None = Settings().patience,
        validation_fraction: float | None = None,
        n_ensemble: int = 1,
        settings: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.loss = loss
        self.k = k
        self.temperature = temperature
        self.relative = relative
        self.hidden = hidden
        self.dropout = dropout
        self.model = model
        self.feature_transform = feature_transform
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.n_ensemble = n_ensemble
        self.settings = settings
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        qid: Any = None,
        group: Any = None,
        sample_weight: Any = None,
        eval_set: Any = None,
        eval_qid: Any = None,
        eval_group: Any = None,
        eval_X: Any = None,
        eval_y: Any = None,
        eval_metric: str | Sequence[str] | None = None,
        eval_at: Any = None,
        eval_names: Any = None,
        callbacks: Any = None,
        verbose: Any = None,
    ) -> PiRanker:
        """Train on rows and their labels.

        Args:
            X: ``[N, F]`` features: NumPy, SciPy sparse, pandas or polars, with or without a column ``qid``.
            y: ``[N]`` labels, at least 0; higher is more relevant.
            qid: ``[N]`` query ids; rows of a query may stand anywhere.
            group: ``[Q]`` documents of each query, in the order of the rows.
            sample_weight: one weight a query, or one a row, of which each query takes the mean.
            eval_set: ``(X, y)`` or a list of such pairs, the last of which decides which weights are kept.
            eval_qid: query ids of ``eval_set``, likewise.
            eval_group: group sizes of ``eval_set``, likewise.
            eval_X: instead of ``eval_set``, as newer releases of LightGBM have it: one array or a tuple of them.
            eval_y: the labels of ``eval_X``, likewise.
            eval_metric: the metric that decides, at ``k`` where it says no cutoff; None: ``ndcg@k``.
            eval_at: accepted for the sake of scripts written for LightGBM; ``k`` is the cutoff.
            eval_names: likewise.
            callbacks: likewise; ``patience`` is the early stopping.
            verbose: likewise; nothing is printed.
        """
        X, ids = split_qid(X)
        by_column = ids is not None and qid is None and group is None
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float32, y_numeric=True)
        data = self._data(X, y, ids if by_column else qid, group)
        weights = (
            None
            if sample_weight is None
            else query_weights(sample_weight, qid if qid is not None else ids, data)
        )
        if eval_X is not None:
            eval_set = [(last_of(eval_X), last_of(eval_y))]
        valid = self._eval_data(eval_set, eval_qid, eval_group)
        if valid is None and self.validation_fraction is not None:
            if weights is not None:
                raise ValueError("sample_weight and validation_fraction exclude each other: give an eval_set")
            data, valid = data.split(
                [1 - self.validation_fraction, self.validation_fraction], seed=self._seed()
            )
        self.history_: list[dict[str, Any]] = []

        def report(record: dict[str, Any]) -> None:
            if record["event"] == "validation":
                self.history_.append(record)

        with threads(self.n_jobs):
            settings = self._settings(by_column, eval_metric)
            self.ranker_: Ranker = train_ranker(
                data, valid, settings=settings, report=report, weights=weights
            )
        return self

    def predict(self, X: Any, *, qid: Any = None, group: Any = None) -> np.ndarray:
        """Scores, in the order of the rows, ``[N]``; higher ranks first.

        Query ids are needed only by rankers that look at a query's documents together, as those trained with a
        ``qid`` column do.
        """
        data, order = self._to_rank(X, qid, group)
        with threads(self.n_jobs):
            scores = scores_of(self.ranker_, data)
        return np.asarray(scores[order.argsort()].double().numpy())

    def rank(self, X: Any, qid: Any = None, *, group: Any = None) -> np.ndarray:
        """Each row's rank within its query, ``[N]``; 1 is the best."""
        data, order = self._to_rank(X, qid, group)
        with threads(self.n_jobs):
            ranks = ranks_of(scores_of(self.ranker_, data), data.offsets)
        return np.asarray(ranks[order.argsort()].numpy())

    def score(
        self, X: Any, y: Any, *, qid: Any = None, group: Any = None, sample_weight: Any = None
    ) -> float:
        """Mean NDCG@k over the queries that have a relevant document."""
        data, order = self._to_rank(X, qid, group)
        labels = torch.as_tensor(np.asarray(y, dtype=np.float32))[order]
        with threads(self.n_jobs):
            scores = scores_of(self.ranker_, data)
        weights = None
        if sample_weight is not None:
            weights = query_weights(np.asarray(sample_weight)[order.numpy()], None, data)
        return float(
            metrics.NDCG(k=self.k)(scores, labels, offsets=data.offsets, empty="skip", weights=weights)
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trained ranker to a safetensors file; ``pirank predict`` and ``export`` take it too."""
        check_is_fitted(self, "ranker_")
        params = {
            name: list(v) if isinstance(v, tuple) else v for name, v in self.get_params(deep=False).items()
        }
        if isinstance(params["random_state"], np.random.RandomState):
            params["random_state"] = None
        self.ranker_.save(path, about={"estimator": params})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PiRanker:
        """Read what :meth:`save` wrote; runs no code of the file's author."""
        ranker = Ranker.load(path)
        model = cls(**ranker.about.get("estimator", {}))
        model.ranker_, model.history_, model.n_features_in_ = ranker, [], ranker.in_features
        if ranker.feature_names is not None:
            model.feature_names_in_ = np.array(ranker.feature_names, dtype=object)
        return model

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.positive_only = True
        tags.non_deterministic = False
        return tags

    def _settings(self, by_column: bool, eval_metric: str | Sequence[str] | None) -> Settings:
        known = option_names(self.loss)
        metric = (
            "ndcg" if eval_metric is None else eval_metric if isinstance(eval_metric, str) else eval_metric[0]
        )
        of_loss = {"k": self.k, "temperature": self.temperature, "relative": self.relative}
        of_loss = {
            **default_loss_options(self.loss),
            **{n: v for n, v in of_loss.items() if n in known and (v is not None or n == "k")},
        }
        of_model: dict[str, Any] = {"hidden": list(self.hidden), "dropout": self.dropout}
        transform = self.feature_transform
        if transform == "auto":
            transform = Settings().transform if by_column else _ROW_TRANSFORM
        own = {
            "loss": self.loss, "loss_options": of_loss, "model": self.model, "transform": transform,
            "model_options": of_model if self.model in ("mlp", "attention") else {},
            "epochs": self.epochs, "batch_size": self.batch_size, "learning_rate": self.learning_rate,
            "weight_decay": self.weight_decay, "patience": self.patience, "n_ensemble": self.n_ensemble,
            "metric": f"{metric}@{self.k}" if self.k is not None and metric in _CUT_AT_K else metric,
            "seed": self._seed(),
        }  # fmt: skip
        return Settings().changed(**{**own, **(self.settings or {})})

    def _seed(self) -> int:
        if isinstance(self.random_state, (int, np.integer)):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31))

    def _data(self, X: Any, y: Any, qid: Any, group: Any) -> RankingData:
        if qid is None and group is None:
            warnings.warn(
                "neither qid nor group was given: all rows are one query", UserWarning, stacklevel=3
            )
        names = getattr(self, "feature_names_in_", None)
        return from_arrays(
            X,
            y,
            qid=None if qid is None else np.asarray(qid),
            group=group,
            sort_queries=True,
            feature_names=None if names is None else list(names),
        )

    def _eval_data(self, eval_set: Any, eval_qid: Any, eval_group: Any) -> RankingData | None:
        if not eval_set:
            return None
        X, y = eval_set if isinstance(eval_set, tuple) and len(eval_set) == 2 else eval_set[-1]
        X, ids = split_qid(X)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float32, y_numeric=True, reset=False)
        qid = last_of(eval_qid)
        return self._data(X, y, ids if qid is None and eval_group is None else qid, last_of(eval_group))

    def _to_rank(self, X: Any, qid: Any, group: Any) -> tuple[RankingData, torch.Tensor]:
        """The rows grouped by query, and the row number of each of them."""
        check_is_fitted(self, "ranker_")
        X, ids = split_qid(X)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float32, reset=False)
        qid = ids if qid is None and group is None else qid
        if qid is None and group is None and self.ranker_.looks_at_queries:
            raise ValueError(
                "this ranker looks at the documents of a query together: say which rows belong together with a "
                "qid column in X, qid= or group= (or train with feature_transform='standard')"
            )
        rows = np.arange(X.shape[0], dtype=np.int64)
        data = from_arrays(
            X,
            None,
            qid=None if qid is None else np.asarray(qid),
            group=group,
            sort_queries=True,
            doc_ids=rows,
        )
        order = rows if data.doc_ids is None else data.doc_ids.astype(np.int64)
        return data, torch.from_numpy(order)


def option_names(loss: str) -> Sequence[str]:
    """The options of a loss, by its name."""
    made: Any = losses.get(loss)
    names: Sequence[str] = made.option_names()
    return names


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Torch with so many threads; -1: one a core; None: as it is."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) + 1 + count) if count < 0 else max(1, count))
    try:
        yield
    finally:
        torch.set_num_threads(before)
