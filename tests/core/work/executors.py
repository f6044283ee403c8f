"""An executor as somebody else would write it; the how-to page shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from tpuc_driver.api.host import Job, Pool, Sealed, one_blas_thread

T = TypeVar("T")


class Bench(Pool):
    """Runs units here, as a queue of its own would run them elsewhere."""

    def __init__(self, address: str) -> None:
        self.address = address

    def map(self, job: Job[T], units: Sequence[range]) -> Iterator[T]:
        sealed = Sealed(job)  # pickled, it goes to the workers, each of which prepares it once
        with one_blas_thread():
            yield from map(sealed.run, units)

    def close(self) -> None:
        """There is nothing to let go."""
