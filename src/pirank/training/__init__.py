"""Training: settings and data in, a ranker and a run folder out."""

from pirank.training.checkpoint import Checkpoints
from pirank.training.devices import make_fabric
from pirank.training.errors import Interrupted, TrainingError
from pirank.training.evaluation import Evaluation, evaluate
from pirank.training.export import export_onnx, export_torch
from pirank.training.loop import fit
from pirank.training.prediction import predict_file
from pirank.training.progress import Progress
from pirank.training.recipe import train_ranker
from pirank.training.run import Run, load_ranker
from pirank.training.scoring import scores_of
from pirank.training.settings import PRESETS, Settings, preset

__all__ = [
    "PRESETS",
    "Checkpoints",
    "Evaluation",
    "Interrupted",
    "Progress",
    "Run",
    "Settings",
    "TrainingError",
    "evaluate",
    "export_onnx",
    "export_torch",
    "fit",
    "load_ranker",
    "make_fabric",
    "predict_file",
    "preset",
    "scores_of",
    "train_ranker",
]
