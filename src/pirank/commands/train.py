"""``pirank train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pirank.commands import reading
from pirank.commands.changes import changed, given, pairs, widths
from pirank.commands.failing import guarded
from pirank.commands.training_run import RunPlan, carry_out
from pirank.training.run import Run, read_config
from pirank.training.settings import PRESETS, Settings, preset

DEFAULT = Settings()
_DATA, _RANKER, _LOSS, _STEPS, _VALID, _MACHINE = (
    "Data", "Ranker", "Loss", "Optimisation", "Validation", "Run and machine",
)  # fmt: skip


def _option(panel: str, help: str, default: object = None, *names: str, **more: Any) -> Any:
    """An option whose default is the preset's; the help shows the library's own."""
    shown = "none" if default is None else str(default)
    return typer.Option(*names, help=help, show_default=shown, rich_help_panel=panel, **more)


@guarded
def train(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="TRAIN...",
            help="Training files: svmlight, Parquet or CSV, compressed too.",
            show_default=False,
        ),
    ] = None,
    valid: Annotated[
        list[Path] | None,
        _option(
            _DATA, "Validation file; repeat for several.", "a fifth of the queries of TRAIN, chosen by --seed"
        ),
    ] = None,
    test: Annotated[
        list[Path] | None, _option(_DATA, "Test file, evaluated at the end; repeat for several.")
    ] = None,
    label: reading.Label = None,
    query: reading.Query = None,
    features: reading.Features = None,
    sort_queries: reading.SortQueries = None,
    skip_errors: reading.SkipErrors = None,
    cache: reading.Cache = None,
    model: Annotated[
        str | None,
        _option(_RANKER, "Network: mlp, linear, attention, paper-benchmark, paper-ablation.", DEFAULT.model),
    ] = None,
    hidden: Annotated[
        str | None,
        _option(
            _RANKER,
            "Widths of the hidden layers, joined by commas.",
            ",".join(map(str, DEFAULT.model_options["hidden"])),
        ),
    ] = None,
    dropout: Annotated[
        float | None,
        _option(_RANKER, "Share of activations dropped while training.", DEFAULT.model_options["dropout"]),
    ] = None,
    model_option: Annotated[
        list[str] | None, _option(_RANKER, "Another option of the network, as NAME=VALUE; repeatable.")
    ] = None,
    transform: Annotated[
        str | None,
        _option(
            _RANKER,
            "Feature transform: log1p, standard, quantile, query-zscore, query-rank joined by +, or none.",
            DEFAULT.transform,
        ),
    ] = None,
    n_ensemble: Annotated[
        int | None,
        _option(
            _RANKER, "Networks trained from different seeds and averaged in one model.", DEFAULT.n_ensemble
        ),
    ] = None,
    loss: Annotated[
        str | None, _option(_LOSS, "Loss, by a name that `pirank losses` lists.", DEFAULT.loss)
    ] = None,
    k: Annotated[int | None, _option(_LOSS, "Cutoff of the loss.", DEFAULT.loss_options["k"])] = None,
    temperature: Annotated[
        float | None, _option(_LOSS, "Temperature of the relaxed sort.", DEFAULT.loss_options["temperature"])
    ] = None,
    relative: Annotated[
        bool | None,
        _option(
            _LOSS,
            "Temperature in units of list length × score spread, or as it is.",
            "relative",
            "--relative/--absolute",
        ),
    ] = None,
    temperature_schedule: Annotated[
        str | None, _option(_LOSS, "constant, exponential, linear or cosine.", DEFAULT.temperature_schedule)
    ] = None,
    temperature_end: Annotated[
        float | None, _option(_LOSS, "Temperature at the end of the schedule.")
    ] = None,
    loss_option: Annotated[
        list[str] | None, _option(_LOSS, "Another option of the loss, as NAME=VALUE; repeatable.")
    ] = None,
    optimizer: Annotated[str | None, _option(_STEPS, "adamw, adam or sgd.", DEFAULT.optimizer)] = None,
    learning_rate: Annotated[
        float | None,
        _option(_STEPS, "Highest learning rate.", DEFAULT.learning_rate, "--learning-rate", "--lr"),
    ] = None,
    weight_decay: Annotated[float | None, _option(_STEPS, "Weight decay.", DEFAULT.weight_decay)] = None,
    schedule: Annotated[
        str | None, _option(_STEPS, "Learning rate schedule: constant, cosine or step.", DEFAULT.schedule)
    ] = None,
    warmup: Annotated[
        float | None,
        _option(_STEPS, "Share of the steps over which the learning rate rises.", DEFAULT.warmup),
    ] = None,
    clip: Annotated[
        float | None, _option(_STEPS, "Largest norm of the gradient; 0: no clipping.", DEFAULT.clip)
    ] = None,
    accumulate: Annotated[int | None, _option(_STEPS, "Batches a step.", DEFAULT.accumulate)] = None,
    epochs: Annotated[int | None, _option(_STEPS, "How often every query is seen.", DEFAULT.epochs)] = None,
    steps: Annotated[int | None, _option(_STEPS, "Stop after as many steps.")] = None,
    batch_size: Annotated[
        int | None, _option(_STEPS, "Queries a batch, over all processes together.", DEFAULT.batch_size)
    ] = None,
    batch_documents: Annotated[int | None, _option(_STEPS, "Instead, documents a batch.")] = None,
    list_size: Annotated[
        int | None, _option(_STEPS, "Cut or pad every training list to this size.", "whole lists")
    ] = None,
    metric: Annotated[
        str | None, _option(_VALID, "Metric that decides which weights are kept.", DEFAULT.metric)
    ] = None,
    patience: Annotated[
        int | None,
        _option(_VALID, "Validations without a better metric before the end; 0: never.", DEFAULT.patience),
    ] = None,
    validate_every: Annotated[int | None, _option(_VALID, "Steps between validations.", "an epoch")] = None,
    seed: Annotated[int | None, _option(_MACHINE, "Seed of everything random.", DEFAULT.seed)] = None,
    out: Annotated[Path | None, _option(_MACHINE, "Run folder to make.", "runs/<name of TRAIN>")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing run folder.", rich_help_panel=_MACHINE)
    ] = False,
    resume: Annotated[Path | None, _option(_MACHINE, "Go on with this run from its last checkpoint.")] = None,
    config: Annotated[
        Path | None, _option(_MACHINE, "Repeat the run of this config.yaml; other options change it.")
    ] = None,
    preset_name: Annotated[
        str | None, _option(_MACHINE, f"Settings to start from: {', '.join(PRESETS)}.", "default", "--preset")
    ] = None,
    devices: Annotated[int | None, _option(_MACHINE, "Processes, one a GPU where there are some.", 1)] = None,
    accelerator: Annotated[str | None, _option(_MACHINE, "auto, cpu or cuda.", "auto")] = None,
    precision: Annotated[
        str | None,
        _option(_MACHINE, "32-true, tf32 or bf16-mixed; the sort stays float32.", DEFAULT.precision),
    ] = None,
    capture: Annotated[
        str | None,
        _option(
            _MACHINE,
            "Replay steps as CUDA graphs: auto (where possible), on (or fail), off.",
            DEFAULT.capture,
        ),
    ] = None,
    checkpoint_seconds: Annotated[
        float | None, _option(_MACHINE, "Time between checkpoints.", DEFAULT.checkpoint_seconds)
    ] = None,
    tensorboard: Annotated[
        bool | None,
        typer.Option(
            "--tensorboard/--no-tensorboard",
            help="Write TensorBoard events. [default: where tensorboard is installed]",
            rich_help_panel=_MACHINE,
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Only the results.", rich_help_panel=_MACHINE)
    ] = False,
) -> None:
    """Train a ranker, and evaluate it.

    A run is a folder: its configuration, its metrics, its checkpoints and its model. Killed, it goes on with
    --resume; its config.yaml repeats it.

    Example: pirank train train.txt --valid vali.txt --test test.txt --out runs/first
    """
    changes = {
        "model": model, "transform": transform, "n_ensemble": n_ensemble, "loss": loss,
        "temperature_schedule": temperature_schedule, "temperature_end": temperature_end, "optimizer": optimizer,
        "learning_rate": learning_rate, "weight_decay": weight_decay, "schedule": schedule, "warmup": warmup,
        "clip": clip, "accumulate": accumulate, "epochs": epochs, "steps": steps, "batch_size": batch_size,
        "batch_documents": batch_documents, "list_size": list_size, "metric": metric, "patience": patience,
        "validate_every": validate_every, "seed": seed, "precision": precision,
        "capture": capture, "checkpoint_seconds": checkpoint_seconds,
    }  # fmt: skip
    of_model = {
        "hidden": None if hidden is None else widths(hidden),
        "dropout": dropout,
        **pairs("--model-option", model_option),
    }
    of_loss = {
        "k": k,
        "temperature": temperature,
        "relative": relative,
        **pairs("--loss-option", loss_option),
    }
    of_data: dict[str, Any] = {
        "label": label,
        "query": query,
        "features": features,
        "sort_queries": sort_queries,
        "skip_errors": skip_errors,
        "cache": cache,
    }
    if resume is not None:
        fixed = {
            **given(of_data),
            **given(changes),
            **given(of_model),
            **given(of_loss),
            "out": out,
            "config": config,
            "TRAIN": paths,
        }
        for name in [*given(fixed), *(name for name, paths in (("valid", valid), ("test", test)) if paths)]:
            raise ValueError(
                f"--resume goes on with what the run was started with, {name} cannot be given: for another run, "
                f"--config {resume / 'config.yaml'} --out FOLDER"
            )
        run = Run(resume)
        carry_out(RunPlan.from_config(run.config()), run, resume=True, quiet=quiet, tensorboard=tensorboard)
        return
    plan = RunPlan.from_config(read_config(config)) if config is not None else None
    settings = preset(preset_name or "default") if plan is None or preset_name else plan.settings
    settings = changed(settings, given(changes), given(of_model), given(of_loss))
    how = (plan.reading if plan else reading.Reading()).changed(**of_data)
    sources = {"train": paths, "valid": valid, "test": test}
    before = plan.paths if plan else {}
    named = {
        name: [str(p.absolute()) for p in given] if given else before.get(name, [])
        for name, given in sources.items()
    }
    if not named["train"]:
        raise ValueError("no training file was named: pirank train TRAIN... (see pirank train --help)")
    run = Run(out or Path("runs", Path(named["train"][0]).name.split(".")[0]))
    run.check_new(overwrite)
    machine = {"devices": devices, "accelerator": accelerator}
    plan = RunPlan(named, how, settings, {**(plan.machine if plan else {}), **given(machine)})
    carry_out(plan, run, overwrite=overwrite, quiet=quiet, tensorboard=tensorboard)
