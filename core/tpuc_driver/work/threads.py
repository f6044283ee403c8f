"""Run units in several threads, which share the weights; NumPy releases the GIL while it computes."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from itertools import islice
from queue import Empty, LifoQueue
from typing import TypeVar

from tpuc_driver.work.job import Job, Pool, one_blas_thread
from tpuc_driver.work.memory import give_back_memory, keep_memory

T = TypeVar("T")
S = TypeVar("S")

MOST_THREADS = 8
"""Upper limit, because every thread holds the values of a sample, and Python code in one blocks the others."""


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class ThreadPool(Pool):
    """Pool of `threads` threads, each with its own prepared job."""

    in_process = True

    def __init__(self, threads: int) -> None:
        keep_memory()
        self.threads = threads
        self._executor = ThreadPoolExecutor(threads)

    def map(self, job: Job[T], units: Sequence[range]) -> Iterator[T]:
        idle: LifoQueue[Callable[[range], T]] = LifoQueue()
        preparing = threading.Lock()

        def run(unit: range) -> T:
            try:
                prepared = idle.get_nowait()
            except Empty:
                with preparing:
                    prepared = job.prepare()
            result = prepared(unit)
            idle.put(prepared)
            return result

        try:
            yield from self.here(run, units)
        finally:
            while not idle.empty():
                idle.get()
            give_back_memory()

    def here(self, function: Callable[[S], T], items: Sequence[S]) -> Iterator[T]:
        waiting: deque[Future[T]] = deque()
        ahead = iter(items)
        try:
            with one_blas_thread():
                while True:
                    # Results that nobody took yet cost memory: only a few run ahead.
                    for item in islice(ahead, 2 * self.threads - len(waiting)):
                        # Settings of numpy, such as what is done about overflows, belong to a context.
                        waiting.append(self._executor.submit(copy_context().run, function, item))
                    if not waiting:
                        return
                    yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def close(self) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)
