"""Run units in several processes; units of a process that dies are run again by others."""

from __future__ import annotations

import functools
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection, reduction
from typing import Any, TypeVar, cast

from tpuc.errors import TpucError
from tpuc.warned import LeftOut, warning_sentence

from tpuc_driver.work.job import Job, Pool, Sealed

T = TypeVar("T")

DEATHS = 3
"""Number of times the pool may break without any result in between before an error is raised."""


class JobFile:
    """Unnamed temporary file that holds the jobs of all workers; deleted when the last process closes it."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # it lives as long as the pool

    def add(self, job: Sealed) -> Place:
        """Append a job; returns its place."""
        start = self._file.seek(0, os.SEEK_END)
        pickle.dump(job, self._file)
        self._file.flush()
        return Place(start, self._file.tell() - start)

    def __reduce__(self) -> tuple[Callable[[Any], int], tuple[Any]]:
        """Pickle for a worker that is being started: pass a descriptor of the same file."""
        return _detached, (reduction.DupFd(self._file.fileno()),)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@dataclass(frozen=True)
class Place:
    """Offset and size in bytes of a job in the file."""

    start: int
    size: int


def _detached(descriptor: Any) -> int:
    return descriptor.detach()


class ProcessPool(Pool):
    """Pool of `workers` processes, which read jobs from a file, once per process."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._jobs = JobFile()
        self._executor = self._start()

    def _start(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.workers, context, initializer=start_worker, initargs=(self._jobs,))

    def map(self, job: Job[T], units: Sequence[range]) -> Iterator[T]:
        place = self._jobs.add(Sealed(job))
        waiting: deque[tuple[range, Future[Any]]] = deque()
        ahead, deaths = iter(units), 0
        while True:
            # Results that nobody took yet cost memory: only a few units run ahead.
            try:
                while len(waiting) < 2 * self.workers and (unit := next(ahead, None)) is not None:
                    waiting.append((unit, self._submit(place, unit)))
                if not waiting:
                    break
                result = waiting[0][1].result()
            except BrokenProcessPool as error:
                deaths += 1
                if deaths >= DEATHS:
                    raise TpucError(
                        f"worker processes died {deaths} times without a result, perhaps because memory ran out; use "
                        "fewer --workers (and in a script of your own start under `if __name__ == '__main__':`)"
                    ) from error
                self._executor.shutdown(wait=False, cancel_futures=True)
                self._executor = self._start()
                waiting = deque((unit, self._submit(place, unit)) for unit, _ in waiting)
                continue
            waiting.popleft()
            deaths = 0
            yield cast("T", result)

    def _submit(self, place: Place, unit: range) -> Future[Any]:
        try:
            with _without_interrupts():  # of workers that this starts
                return self._executor.submit(run_unit, place, unit)
        except BrokenProcessPool as error:
            broken: Future[Any] = Future()
            broken.set_exception(error)
            return broken

    def close(self) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._jobs.close()


@contextmanager
def _without_interrupts() -> Generator[None]:
    """Block Ctrl-C for processes started within the block; the parent handles it and stops them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# In a worker

_jobs: list[int] = []
"""Descriptor of the job file."""


def start_worker(jobs: Any) -> None:
    """Initialize a worker process; `jobs` is the descriptor that the JobFile was pickled to."""
    _jobs[:] = [jobs]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.showwarning = _show_warning
    warnings.simplefilter("ignore", LeftOut)  # the parent has said so
    threading.Thread(target=_end_with_parent, daemon=True).start()


def run_unit(place: Place, unit: range) -> Any:
    """Return the result of a unit of a job."""
    return _sealed(place).run(unit)


@functools.lru_cache(maxsize=2)
def _sealed(place: Place) -> Sealed:
    parts: list[bytes] = []
    at, end = place.start, place.start + place.size
    while at < end and (part := os.pread(_jobs[0], end - at, at)):
        parts.append(part)
        at += len(part)
    return pickle.loads(b"".join(parts))  # noqa: S301  # written by our parent into a file that has no name


def _end_with_parent() -> None:
    """Exit when the parent process ends, even if it was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _show_warning(message: Warning | str, _category: object, filename: str, *_: object) -> None:
    sys.stderr.write(f"{warning_sentence(message, filename)}\n")
