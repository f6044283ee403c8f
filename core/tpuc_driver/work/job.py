"""Split a job into units and run them on workers; results come in the order of the units."""

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
"""Consecutive samples of one unit of work: enough to hide its overhead, few enough to spread."""


def units_of(count: int, size: int = UNIT_SAMPLES) -> tuple[range, ...]:
    """`count` samples as units of consecutive ones."""
    return tuple(range(start, min(start + size, count)) for start in range(0, count, size))


def small_units_of(count: int) -> tuple[range, ...]:
    """As `units_of`, smaller where there are few samples, for results that do not depend on where units end: so that
    eight workers all have two or more, and none the last one alone.
    """
    return units_of(count, max(1, min(UNIT_SAMPLES, count // (2 * UNIT_SAMPLES))))


def shares(items: Sequence[S], count: int) -> list[Sequence[S]]:
    """`items` in at most `count` runs of consecutive ones, as equal as can be; none is empty."""
    edges = [len(items) * place // count for place in range(count + 1)]
    return [items[first:last] for first, last in pairwise(edges) if first < last]


class Job(ABC, Generic[T]):
    """Something to do with every unit. It is sent to other processes by pickle: keep it data."""

    @abstractmethod
    def prepare(self) -> Callable[[range], T]:
        """What is needed once per process or thread, as a function from a unit to its result.

        The result depends on the unit only, never on which units came before.
        """


class Pool(ABC):
    """Those who work. Use as a context manager. `threads` is how many of them are in this process; where jobs and
    results of `map` stay `in_process`, nothing is copied on the way.

    Executors, named in the group `tpuc.executors`, are subclasses that are made of an address.
    """

    api_version: ClassVar[int] = 1
    threads: int = 1
    in_process: ClassVar[bool] = False

    @abstractmethod
    def map(self, job: Job[T], units: Sequence[range]) -> Iterator[T]:
        """The result of every unit, in order."""

    def here(self, function: Callable[[S], T], items: Sequence[S]) -> Iterator[T]:
        """The result of every item, in order, computed in this process; `function` may run in several threads."""
        with one_blas_thread():
            yield from map(function, items)

    @abstractmethod
    def close(self) -> None:
        """Let the workers go."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LocalPool(Pool):
    """This process, one unit after the other."""

    in_process = True

    def map(self, job: Job[T], units: Sequence[range]) -> Iterator[T]:
        try:
            with one_blas_thread():
                yield from map(job.prepare(), units)
        finally:
            give_back_memory()

    def close(self) -> None:
        """Nobody is there."""


@contextmanager
def one_blas_thread() -> Generator[None]:
    """Matrix products in one thread meanwhile: sums do not depend on how many threads share them."""
    before = blas_threads(1)
    try:
        yield
    finally:
        if before is not None:
            blas_threads(before)


@dataclass(frozen=True)
class Sealed:
    """A job with a token, so that a process prepares it once."""

    job: Job[Any] = field(compare=False)
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    def run(self, unit: range) -> Any:
        """The result of a unit."""
        blas_threads(1)
        return _prepared(self)(unit)


@functools.lru_cache(maxsize=2)
def _prepared(sealed: Sealed) -> Callable[[range], Any]:
    return sealed.job.prepare()
