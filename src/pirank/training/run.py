"""A run: the folder that holds a training, complete enough to repeat it, to go on with it, and to use its model."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
import yaml

from pirank.files import write_text
from pirank.models import Ranker
from pirank.training.errors import TrainingError
from pirank.version import __version__

_PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "pyarrow", "safetensors", "lightning-fabric")
_FREE_BYTES = 64 * 2**20


class Run:
    """A run's folder.

    ===================  ====================================================================
    ``config.yaml``      data, settings and devices: ``pirank train --config`` repeats the run
    ``environment.txt``  versions, machine, command
    ``metrics.jsonl``    one line a validation
    ``checkpoints/``     the state of the training, one file a network
    ``model.safetensors``  the trained ranker
    ``results.json``     the test metrics
    ===================  ====================================================================

    Args:
        path: the folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.config_path = self.path / "config.yaml"
        self.metrics_path = self.path / "metrics.jsonl"
        self.model_path = self.path / "model.safetensors"
        self.results_path = self.path / "results.json"
        self.checkpoints = self.path / "checkpoints"

    def check_new(self, overwrite: bool = False) -> None:
        """Refuse, before any work is done, a folder that is taken or cannot be written."""
        if self.path.exists() and not self.path.is_dir():
            raise TrainingError(f"{self.path} is a file, not a folder for a run")
        if self.path.exists() and any(self.path.iterdir()) and not overwrite:
            if self.config_path.exists():
                raise TrainingError(
                    f"the run folder {self.path} exists: go on with --resume {self.path}, replace it with "
                    "--overwrite, or choose another --out"
                )
            raise TrainingError(f"the folder {self.path} is not empty: choose another --out")
        if self.path.exists() and overwrite and any(self.path.iterdir()) and not self.config_path.exists():
            raise TrainingError(
                f"{self.path} is no run folder, it will not be replaced: choose another --out"
            )
        parent = self.path.absolute()
        while not parent.exists():
            parent = parent.parent
        if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
            raise TrainingError(f"cannot write in {parent}: choose another --out")
        free = shutil.disk_usage(parent).free
        if free < _FREE_BYTES:
            raise TrainingError(
                f"only {free / 2**20:.0f} MiB are free in {parent}: a run needs {_FREE_BYTES >> 20}"
            )

    def create(self, config: dict[str, Any], overwrite: bool = False) -> None:
        """Make the folder, with its configuration and environment."""
        try:
            if overwrite and self.path.exists():
                shutil.rmtree(self.path)
            self.path.mkdir(parents=True, exist_ok=True)
            # First what makes it a run: from here on it can be resumed.
            write_text(self.config_path, yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
            write_text(self.path / "environment.txt", environment())
            self.metrics_path.touch()
        except OSError as error:
            raise TrainingError(
                f"cannot write the run folder {self.path}: {error.strerror or error}"
            ) from error

    def config(self) -> dict[str, Any]:
        """What :meth:`create` wrote."""
        if not self.config_path.exists():
            raise TrainingError(f"{self.path} is no run folder: it has no config.yaml")
        return read_config(self.config_path)

    def log(self, record: dict[str, Any]) -> None:
        """Add a line to ``metrics.jsonl``."""
        try:
            with self.metrics_path.open("a") as file:
                file.write(json.dumps(record) + "\n")
        except OSError as error:
            raise TrainingError(f"cannot write {self.metrics_path}: {error.strerror or error}") from error

    def forget_after(self, steps: dict[int, int]) -> None:
        """Drop the lines written after the checkpoints: ``steps`` says where each network goes on."""
        kept = [r for r in self.history() if r["step"] <= steps.get(r["member"], 0)]
        write_text(self.metrics_path, "".join(json.dumps(record) + "\n" for record in kept))

    def history(self) -> list[dict[str, Any]]:
        """The lines of ``metrics.jsonl``; one that was cut off in the middle is left out."""
        records = []
        for line in self.metrics_path.read_text().splitlines() if self.metrics_path.exists() else []:
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError:
                continue
        return records

    def model(self) -> Ranker:
        """The trained ranker."""
        return load_ranker(self.path)


def load_ranker(path: str | os.PathLike[str]) -> Ranker:
    """The ranker of a run folder or of a ``model.safetensors`` file.

    Example:
        >>> import tempfile, pathlib
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Ranker(3).save(pathlib.Path(folder) / "model.safetensors")
        ...     load_ranker(folder).in_features
        3
    """
    path = Path(path)
    if path.is_dir():
        if not (path / "model.safetensors").exists() and (path / "config.yaml").exists():
            raise TrainingError(
                f"the run {path} has no model yet: its training has not ended; "
                f"go on with: pirank train --resume {path}"
            )
        path = path / "model.safetensors"
    return Ranker.load(path)


def read_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """A run's ``config.yaml``."""
    try:
        config = yaml.safe_load(Path(path).read_text())
    except FileNotFoundError:
        raise TrainingError(f"no configuration at {path}") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise TrainingError(f"cannot read {path}: {' '.join(str(error).split())}") from error
    if not isinstance(config, dict) or not {"data", "settings"} <= set(config):
        raise TrainingError(f"{path} is no run configuration: it must have the keys 'data' and 'settings'")
    return config


def environment() -> str:
    """Versions, machine and command, as text."""
    lines = [f"pirank {__version__}", f"python {platform.python_version()}"]
    lines += [f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES]
    lines += [f"machine {platform.machine()} {platform.system()}, {os.cpu_count()} CPUs"]
    lines += [f"threads {torch.get_num_threads()}"]
    if torch.cuda.is_available():
        lines += [f"gpu {torch.cuda.get_device_name(i)}" for i in range(torch.cuda.device_count())]
    return "\n".join([*lines, f"command {' '.join(sys.argv)}"]) + "\n"
