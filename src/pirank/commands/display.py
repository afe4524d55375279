"""What a training shows: a live table on a terminal, plain lines elsewhere, results at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich.live import Live
from rich.progress import DownloadColumn, MofNCompleteColumn
from rich.table import Table
from rich.text import Text

from pirank.data import RankingData
from pirank.terminal import console, progress_bar
from pirank.training.evaluation import Evaluation
from pirank.training.run import Run

Show = Callable[[dict[str, Any]], None]
_SECONDS_BETWEEN_DRAWINGS = 0.2


@contextmanager
def training_display(
    plan: Any, train: RankingData, run: Run, quiet: bool, tensorboard: bool | None
) -> Iterator[Show]:
    """A function that shows the records of a training, and writes them as TensorBoard events.

    Events are written if asked for, and where nothing was said (None) if tensorboard is installed.
    """
    if tensorboard is None:
        tensorboard = find_spec("tensorboard") is not None
    events = _tensorboard(run) if tensorboard else None
    screen = console()
    display = TrainingDisplay(plan, train)
    live = Live(console=screen, auto_refresh=False) if screen.is_terminal and not quiet else None

    def show(record: dict[str, Any]) -> None:
        if events is not None and record["event"] == "validation":
            for name, value in record.items():
                if isinstance(value, (int, float)) and name not in ("member", "step"):
                    events.add_scalar(f"member-{record['member']}/{name}", value, record["step"])
        if quiet:
            return
        if record["event"] == "strategy":
            if record["member"] == 0:
                screen.print(how_it_trains(record))
            return
        line = display.take(record)
        if live is not None:
            if line is not None or display.outdated():
                live.update(display.table(), refresh=True)
        elif line is not None:
            screen.print(line)

    if not quiet:
        screen.print(display.heading(run))
    try:
        if live is None:
            yield show
        else:
            with live:
                yield show
    finally:
        if events is not None:
            events.close()


class TrainingDisplay:
    """The latest of a training, as a table or as lines."""

    def __init__(self, plan: Any, train: RankingData) -> None:
        self.plan = plan
        self.train = train
        self.metric = plan.settings.metric
        self.rows: list[dict[str, Any]] = []
        self.now: dict[str, Any] = {}
        self._drawn = 0.0
        self._began = time.monotonic()
        self._first: tuple[int, float] | None = None

    def heading(self, run: Run) -> str:
        """What is trained on what."""
        settings = self.plan.settings
        return (
            f"{len(self.train):,} queries, {len(self.train.features):,} documents, "
            f"{self.train.features.shape[1]} features; {settings.loss}, {settings.model}, {settings.transform}; "
            f"run: {run.path}"
        )

    def take(self, record: dict[str, Any]) -> str | None:
        """Take note of a record; a line for those that are worth one."""
        self.now |= record
        if record["event"] != "validation":
            return None
        self.rows.append(record)
        return "  ".join(f"{name} {value}" for name, value in self._cells(record).items() if value)

    def outdated(self) -> bool:
        """Whether the live table was drawn long enough ago."""
        return time.monotonic() - self._drawn > _SECONDS_BETWEEN_DRAWINGS

    def table(self) -> Table:
        """The last validations, and the present step."""
        self._drawn = time.monotonic()
        table = Table(box=None, pad_edge=False)
        rows = [self._cells(record) for record in self.rows[-12:]] or [self._cells(self.now)]
        for name in rows[-1]:
            table.add_column(name, justify="right")
        for row in rows:
            table.add_row(*row.values())
        table.caption = f"epoch {self.now['epoch']:.2f} of {self.plan.settings.epochs}, {self._speed()}"
        return table

    def _cells(self, record: dict[str, Any]) -> dict[str, str]:
        several = self.plan.settings.n_ensemble > 1
        cells = {"network": f"{record['member'] + 1}/{self.plan.settings.n_ensemble}"} if several else {}
        cells["epoch"] = f"{record['epoch']:g}" if record["epoch"] % 1 == 0 else f"{record['epoch']:.2f}"
        for name, style in (
            ("loss", ".4f"), ("temperature", ".4g"), ("learning_rate", ".2e"), (self.metric, ".4f"), ("best", ".4f"),
        ):  # fmt: skip
            value = record.get(name)
            if name in record or name in self.now:
                cells[name.replace("_", " ")] = "" if value is None else format(value, style)
        if record.get("documents_per_second"):
            cells["documents/s"] = f"{record['documents_per_second']:,.0f}"
        if record.get("seconds_left") is not None:
            cells["left"] = duration(record["seconds_left"])
        return cells

    def _speed(self) -> str:
        speed = self.now.get("documents_per_second")
        left = self.now.get("seconds_left")
        parts = [] if not speed else [f"{speed:,.0f} documents/s"]
        return ", ".join(parts if left is None else [*parts, f"at most {duration(left)} left"])


def how_it_trains(record: dict[str, Any]) -> str:
    """Whether steps are captured, or why not."""
    if record["captured"]:
        return "steps replayed as CUDA graphs"
    return f"step by step: {record['why']}"


def results_table(evaluation: Evaluation, split: str) -> Table:
    """Metrics under the three rules for blank queries."""
    title = (
        f"{split}: {evaluation.queries:,} queries, {evaluation.blank:,} of them without a relevant document"
    )
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("metric")
    for heading in ("blank skipped", "blank = 0", "blank = 1"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, means in evaluation.means.items():
        if name in evaluation.lower_is_better or name == "arp":
            table.add_row(f"{name} (lower is better)", f"{means['skip']:.4f}", "", "")
        else:
            table.add_row(name, *(f"{means[rule]:.4f}" for rule in ("skip", "zero", "one")))
    if evaluation.left_out:
        why = "\n".join(f"{name} is left out: {reason}" for name, reason in evaluation.left_out.items())
        table.caption, table.caption_justify = Text(why), "left"
    return table


def duration(seconds: float) -> str:
    """Seconds as ``1:02:03`` or ``2:03``."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def _tensorboard(run: Run) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ImportError('--tensorboard needs tensorboard: pip install "pirank[logs]"') from None
    return SummaryWriter(str(run.path / "tensorboard"))


@contextmanager
def file_bar(path: Path, quiet: bool) -> Iterator[Callable[[int], None] | None]:
    """How much of a file was read: its bytes, or the rows of a table; only on a terminal."""
    if quiet or not console(errors=True).is_terminal or not path.exists():
        yield None
        return
    rows = path.suffix.lower() in (".parquet", ".pq")
    total = pq.read_metadata(path).num_rows if rows else path.stat().st_size
    with progress_bar(path.name, total, MofNCompleteColumn() if rows else DownloadColumn()) as progress:
        yield progress
