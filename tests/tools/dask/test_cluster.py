"""A dask cluster gives the results of one process, also when workers die."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from tpuc.api import TpucError, UsageError
from tpuc_driver.api.host import open_pool

from tests.core.work.jobs import DieOnce, Sum
from tests.core.work.test_work import SUMS, UNITS


@pytest.fixture
def cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**options) as running:
        yield running


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # dask's own
def test_a_cluster_whose_worker_dies_changes_nothing(cluster: Any, tmp_path: Path) -> None:
    with open_pool(cluster=cluster.scheduler_address) as pool:
        assert list(pool.map(Sum(), UNITS)) == SUMS
        assert list(pool.map(DieOnce(tmp_path / "mark"), UNITS)) == SUMS
    assert (tmp_path / "mark").exists()


def test_a_cluster_that_is_not_there_is_one_sentence() -> None:
    pytest.importorskip("distributed")
    with pytest.raises(UsageError, match="no dask scheduler answers at 'nowhere:/'"):
        open_pool(cluster="nowhere:/")


class Waits:
    """A client of a cluster whose `scatter` to every worker never ends."""

    def __init__(self, *, always: bool) -> None:
        self.asked: list[bool] = []
        self._always = always

    def scatter(self, job: Any, *, broadcast: bool, hash: bool, asynchronous: bool) -> Any:  # noqa: A002
        self.asked.append(broadcast)
        if broadcast or self._always:
            raise TimeoutError
        return job

    def sync(self, function: Callable[[], Any], *, callback_timeout: float) -> Any:
        assert callback_timeout <= 60
        return function()

    def submit(self, function: Callable[..., Any], *arguments: Any, pure: bool) -> Any:
        future: Future[Any] = Future()
        future.set_result(function(*arguments))
        return future

    def nthreads(self) -> dict[str, int]:
        return {"worker": 1}


def pool_of(client: Waits) -> Any:
    from tpuc_dask.pool import ClusterPool

    pool = ClusterPool.__new__(ClusterPool)
    pool._client, pool._distributed = client, pytest.importorskip("distributed")
    return pool


def test_a_worker_lost_while_it_is_given_a_copy_does_not_hold_the_others_up() -> None:
    client = Waits(always=False)
    assert list(pool_of(client).map(Sum(), UNITS)) == SUMS
    assert client.asked == [True, False]


def test_a_cluster_that_takes_nothing_is_one_sentence() -> None:
    with pytest.raises(TpucError, match=r"the workers of the cluster did not accept the work within 30 s; check their"):
        list(pool_of(Waits(always=True)).map(Sum(), UNITS))
