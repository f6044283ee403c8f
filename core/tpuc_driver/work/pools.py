"""Choose the workers of a run: this process, its threads, other processes, or a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuc.errors import UsageError

from tpuc_driver.work.job import LocalPool, Pool

if TYPE_CHECKING:
    from tpuc.registry import Registry


def open_pool(workers: int = 0, cluster: str = "", registry: Registry | None = None) -> Pool:
    """Open a pool of `workers` processes on this machine (1: this process, in one thread; 0: this process, with a
    thread per core), or of the cluster at an address, by the executor `cluster`.

    Raises UsageError if both are requested, or if the cluster is unreachable.
    """
    if cluster:
        if workers > 1:
            raise UsageError("--workers and --cluster exclude each other; the cluster has its own workers.")
        from tpuc.registry import Registry

        return (registry or Registry()).get("tpuc.executors", "cluster")(cluster)
    if workers > 1:
        from tpuc_driver.work.processes import ProcessPool

        return ProcessPool(workers)
    if workers == 0:
        from tpuc_driver.work.threads import MOST_THREADS, ThreadPool, usable_cores

        return ThreadPool(min(usable_cores(), MOST_THREADS))
    return LocalPool()
