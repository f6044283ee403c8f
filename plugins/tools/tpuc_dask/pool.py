"""A pool of dask workers (extra `tpuc[cluster]`). All workers must find files under the same paths."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, TypeVar

from tpuc.api import TpucError, UsageError, install_command
from tpuc_driver.api.host import Job, Pool, Sealed

T = TypeVar("T")

LOSSES = 5
"""Maximum number of times that a unit may be lost with its worker."""
SHARE_SECONDS = 30.0


class ClusterPool(Pool):
    """Units go to idle workers; those of a worker that dies are repeated by another one."""

    def __init__(self, address: str) -> None:
        try:
            self._distributed: Any = import_module("distributed")
        except ImportError as error:
            raise UsageError(f"--cluster needs the package dask: {install_command('cluster')}.") from error
        try:
            self._client: Any = self._distributed.Client(address, timeout="10s", set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise UsageError(f"no dask scheduler answers at '{address}'; correct --cluster ADDRESS.") from error

    def map(self, job: Job[T], units: Sequence[range]) -> Iterator[T]:
        sealed = Sealed(job)
        shared = self._share(sealed, broadcast=True)
        lost_types = (self._distributed.KilledWorker, self._distributed.CancelledError)
        waiting: deque[tuple[range, Any]] = deque()
        ahead, losses = iter(units), 0
        while True:
            while len(waiting) < self._window() and (unit := next(ahead, None)) is not None:
                waiting.append((unit, self._submit(shared, unit)))
            if not waiting:
                return
            try:
                result = waiting[0][1].result()
            except lost_types as error:
                losses += 1
                if losses > LOSSES:
                    raise TpucError(
                        "the cluster's workers keep dying, perhaps out of memory; check their logs"
                    ) from error
                shared = self._share(sealed)
                waiting = deque((unit, self._submit(shared, unit)) for unit, _ in waiting)
                continue
            waiting.popleft()
            losses = 0
            yield result

    def _share(self, sealed: Sealed, broadcast: bool = False) -> Any:
        """Put the job on the cluster: at every worker if `broadcast`; otherwise workers copy it from one another.

        If a worker dies while receiving a copy, `scatter` waits for it, sometimes forever.
        """
        try:
            return self._client.sync(
                lambda: self._client.scatter(sealed, broadcast=broadcast, hash=False, asynchronous=True),
                callback_timeout=SHARE_SECONDS,
            )
        except (TimeoutError, OSError) as error:
            if broadcast:
                return self._share(sealed)
            raise TpucError(
                f"the workers of the cluster did not accept the work within {SHARE_SECONDS:g} s; check their logs"
            ) from error

    def _submit(self, shared: Any, unit: range) -> Any:
        return self._client.submit(run_unit, shared, unit, pure=False)

    def _window(self) -> int:
        """Number of units in flight, so that every worker has the next one available."""
        return max(8, 4 * sum(self._client.nthreads().values()))

    def close(self) -> None:
        self._client.close()


def run_unit(sealed: Sealed, unit: range) -> Any:
    """Runs on a worker: return the result of a unit."""
    return sealed.run(unit)
