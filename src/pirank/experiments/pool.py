"""Many trials, several at a time, each in a process of its own with its share of the cores."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import torch

from pirank.experiments.trial import Stop, Store, Trial
from pirank.training import Interrupted

_SECONDS_BETWEEN_LOOKS = 0.5
_KILLED = (
    "its process was killed, as happens when the memory is full; it had the machine to itself the second time"
)

Told = Callable[[Trial, "str | None", float], None]
"""Called after each trial: which, what went wrong (None: nothing), and the seconds it took."""


def run_all(
    trials: Sequence[Trial], root: Path, *, jobs: int | None = None, told: Told, stop: Stop
) -> dict[str, str]:
    """Run all trials that are not finished yet; what went wrong, by the name of the trial.

    Args:
        trials: in the order in which they are started.
        root: the comparison's folder.
        jobs: trials at a time; None: one a GPU, or without GPUs one a core. Each gets cores / jobs threads.
        told: called after each trial, from this process.
        stop: asked all the time; True stops the trials that run, which save what they have.

    Raises:
        Interrupted: someone asked to stop.
    """
    cores, gpus = os.cpu_count() or 1, visible_gpus()
    jobs = default_jobs() if jobs is None else jobs
    check_jobs(jobs)
    # Not less for a few trials at the end: how sums are split over threads decides their last digits.
    threads = max(1, cores // jobs)
    store = Store(root)
    waiting = [trial for trial in trials if not store.finished(trial)]
    failed: dict[str, str] = {}

    def done(trial: Trial, problem: str | None, seconds: float) -> None:
        if problem is not None:
            failed[trial.name] = problem
        told(trial, problem, seconds)

    if min(jobs, len(waiting)) <= 1:
        with _with_threads(threads):
            for trial in waiting:
                problem, seconds = _run(trial, root, threads, stop)
                stopped = stop()
                if problem is None or not stopped:
                    done(trial, problem, seconds)
                if stopped:
                    raise Interrupted(_said(trials, store))
        return failed
    _in_processes(waiting, root, min(jobs, len(waiting)), threads, gpus, done, stop)
    if stop() and not all(store.finished(trial) or trial.name in failed for trial in trials):
        raise Interrupted(_said(trials, store))
    return failed


def check_jobs(jobs: int | None) -> None:
    """Refuse less than one trial at a time."""
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")


def visible_gpus() -> list[str]:
    """The GPUs that a process may see, as ``CUDA_VISIBLE_DEVICES`` names them."""
    if not torch.cuda.is_available():
        return []
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return (
        named.replace(" ", "").split(",")
        if named
        else [str(index) for index in range(torch.cuda.device_count())]
    )


def default_jobs() -> int:
    """Trials at a time: one a GPU, or without GPUs one a core."""
    return len(visible_gpus()) or os.cpu_count() or 1


def _said(trials: Sequence[Trial], store: Store) -> str:
    finished = sum(store.finished(trial) for trial in trials)
    return f"stopped with {finished} of {len(trials)} trials finished; the same command goes on from there"


def _in_processes(
    trials: Sequence[Trial],
    root: Path,
    jobs: int,
    threads: int,
    gpus: Sequence[str],
    done: Callable[[Trial, str | None, float], None],
    stop: Stop,
) -> None:
    left = list(trials)
    while left and not stop():
        lost = _in_one_pool(left, root, jobs, threads, gpus, done, stop)
        # The system ends a process when the memory is full. Whichever trial asked for too much gets all there is.
        while lost and not stop():
            for trial in _in_one_pool(lost, root, 1, threads, gpus, done, stop):
                done(trial, _KILLED, 0.0)


def _in_one_pool(
    left: list[Trial],
    root: Path,
    jobs: int,
    threads: int,
    gpus: Sequence[str],
    done: Callable[[Trial, str | None, float], None],
    stop: Stop,
) -> list[Trial]:
    """Take trials off the list and run them, until a process is killed: the trials that were lost with it."""
    context = multiprocessing.get_context("spawn")
    stopping = context.Event()
    started = context.Value("i", 0)
    lost: list[Trial] = []
    with ProcessPoolExecutor(jobs, context, _prepare, (threads, stopping, started, gpus)) as pool:
        futures: dict[Future[tuple[str | None, float]], Trial] = {}
        broken = False
        while (left and not broken) or futures:
            while left and not broken and len(futures) < jobs and not stopping.is_set():
                try:
                    futures[pool.submit(_run_in_process, left[0], root, threads)] = left[0]
                    left.pop(0)
                except BrokenProcessPool:
                    broken = True
            ready, _ = wait(futures, _SECONDS_BETWEEN_LOOKS, FIRST_COMPLETED)
            for future in ready:
                trial = futures.pop(future)
                try:
                    problem, seconds = future.result()
                except BrokenProcessPool:
                    broken = True
                    lost.append(trial)
                    continue
                if not (stopping.is_set() and problem is not None):
                    done(trial, problem, seconds)
            if stop() and not stopping.is_set():
                stopping.set()
            if stopping.is_set() and not futures:
                break
    return lost


def _run(trial: Trial, root: Path, threads: int, stop: Stop | None) -> tuple[str | None, float]:
    began = time.perf_counter()
    try:
        Store(root).run(trial, threads=threads, stop=stop)
    except Interrupted as stopped:
        return str(stopped), time.perf_counter() - began
    except (ValueError, RuntimeError, OSError, ImportError, MemoryError) as error:
        return " ".join(str(error).split()) or type(error).__name__, time.perf_counter() - began
    return None, time.perf_counter() - began


@contextlib.contextmanager
def _with_threads(threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


_asked_to_stop: list[Any] = []


def _prepare(threads: int, stopping: Any, started: Any, gpus: Sequence[str]) -> None:
    """Set up a process: its threads, its GPU, Ctrl-C left to the parent, and an end with it."""
    import signal

    if gpus:
        with started.get_lock():
            os.environ["CUDA_VISIBLE_DEVICES"] = gpus[started.value % len(gpus)]
            started.value += 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    _asked_to_stop.append(stopping)
    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _run_in_process(trial: Trial, root: Path, threads: int) -> tuple[str | None, float]:
    return _run(trial, root, threads, _asked_to_stop[0].is_set)
