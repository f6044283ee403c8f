"""Split a job into units and run them on workers; results keep the order of the units."""

from __future__ import annotations

import functools
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, Generic, Self, TypeVar

from tpuc_driver.work.blas import blas_threads
from tpuc_driver.work.memory import give_back_memory

T = TypeVar("T")
S = TypeVar("S")

UNIT_SAMPLES = 8
"""Consecutive samples in one unit of work: enough to amortize its overhead, few enough to balance the load."""


def units_of(count: int, size: int = UNIT_SAMPLES) -> tuple[range, ...]:
    """Split `count` samples into units of at most `size` consecutive ones."""
    return tuple(range(start, min(start + size, count)) for start in range(0, count, size))


def small_units_of(count: int) -> tuple[range, ...]:
    """Like `units_of`, but with smaller units for few samples, so that eight workers all get work until the end. Only
    for results that do not depend on where units end.
    """
    return units_of(count, max(1, min(UNIT_SAMPLES, count // (2 * UNIT_SAMPLES))))


def shares(items: Sequence[S], count: int) -> list[Sequence[S]]:
    """Split `items` into at most `count` nonempty runs of nearly equal length."""
    edges = [len(items) * place // count for place in range(count + 1)]
    return [items[first:last] for first, last in pairwise(edges) if first < last]


class Job(ABC, Generic[T]):
    """Function to apply to every unit. Jobs are pickled to reach other processes: keep them plain data."""

    @abstractmethod
    def prepare(self) -> Callable[[range], T]:
        """Return a function from a unit to its result; called once per process or thread.

        Results must depend on the unit only, never on units before it.
        """


class Pool(ABC):
    """Workers, as a context manager. `threads` is the number of workers in this process. If `in_process`, jobs and
    results of `map` are not copied.

    Executors in the group `tpuc.executors` are subclasses constructed from an address.
    """

    api_version: ClassVar[int] = 1
    threads: int = 1
    in_process: ClassVar[bool] = False

    @abstractmethod
    def map(self, job: Job[T], units: Sequence[range]) -> Iterator[T]:
        """Yield the result of every unit, in order."""

    def here(self, function: Callable[[S], T], items: Sequence[S]) -> Iterator[T]:
        """Yield the result of every item in order, computed in this process; `function` may run in several threads."""
        with one_blas_thread():
            yield from map(function, items)

    @abstractmethod
    def close(self) -> None:
        """Release the workers."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LocalPool(Pool):
    """Run one unit after the other in this process."""

    in_process = True

    def map(self, job: Job[T], units: Sequence[range]) -> Iterator[T]:
        try:
            with one_blas_thread():
                yield from map(job.prepare(), units)
        finally:
            give_back_memory()

    def close(self) -> None:
        """Do nothing: there are no workers to release."""


@contextmanager
def one_blas_thread() -> Generator[None]:
    """Limit BLAS to one thread within the block, because the order of sums depends on the number of threads."""
    before = blas_threads(1)
    try:
        yield
    finally:
        if before is not None:
            blas_threads(before)


@dataclass(frozen=True)
class Sealed:
    """Job with a token, so that each process prepares it only once."""

    job: Job[Any] = field(compare=False)
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    def run(self, unit: range) -> Any:
        """Return the result of a unit."""
        blas_threads(1)
        return _prepared(self)(unit)


@functools.lru_cache(maxsize=2)
def _prepared(sealed: Sealed) -> Callable[[range], Any]:
    return sealed.job.prepare()
