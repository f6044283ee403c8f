"""Several processes on this machine. One that dies takes nothing with it: its units are given to others."""

from __future__ import annotations

import functools
import multiprocessing
import pickle
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, TypeVar, cast

from tpuc.errors import TpucError
from tpuc.work.job import Job, Pool, Sealed

T = TypeVar("T")

DEATHS = 3
"""So often may the pool break without any result in between."""


class ProcessPool(Pool):
    """`workers` processes; jobs reach them through files in a private folder, once per process."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._folder = Path(tempfile.mkdtemp(prefix="tpuc-"))
        self._jobs = 0
        self._executor = self._start()

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self.workers, multiprocessing.get_context("spawn"))

    def map(self, job: Job[T], units: Sequence[range]) -> Iterator[T]:
        self._jobs += 1
        path = self._folder / f"{self._jobs}.job"
        path.write_bytes(pickle.dumps(Sealed(job)))
        waiting: deque[tuple[range, Future[Any]]] = deque()
        ahead, deaths = iter(units), 0
        while True:
            # Results that nobody took yet cost memory: only a few units run ahead.
            try:
                while len(waiting) < 2 * self.workers and (unit := next(ahead, None)) is not None:
                    waiting.append((unit, self._submit(path, unit)))
                if not waiting:
                    break
                result = waiting[0][1].result()
            except BrokenProcessPool as error:
                deaths += 1
                if deaths >= DEATHS:
                    raise TpucError(
                        f"worker processes died {deaths} times without a result, perhaps for want of memory; use fewer "
                        "--workers (and in a script of your own start under `if __name__ == '__main__':`)"
                    ) from error
                self._executor.shutdown(wait=False, cancel_futures=True)
                self._executor = self._start()
                waiting = deque((unit, self._submit(path, unit)) for unit, _ in waiting)
                continue
            waiting.popleft()
            deaths = 0
            yield cast("T", result)

    def _submit(self, path: Path, unit: range) -> Future[Any]:
        try:
            return self._executor.submit(run_unit, str(path), unit)
        except BrokenProcessPool as error:
            broken: Future[Any] = Future()
            broken.set_exception(error)
            return broken

    def close(self) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)
        shutil.rmtree(self._folder, ignore_errors=True)


def run_unit(path: str, unit: range) -> Any:
    """In a worker: the result of a unit of the job in a file."""
    return _sealed(path).run(unit)


@functools.lru_cache(maxsize=2)
def _sealed(path: str) -> Sealed:
    return pickle.loads(Path(path).read_bytes())  # noqa: S301  # written by our parent into its private folder
