"""Results come in order, whoever computed them and whoever died meanwhile."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpuc.errors import CalibrationError, TpucError, UsageError
from tpuc.work import open_pool, units_of
from tpuc.work.blas import blas_threads

from tests.core.work.jobs import DieAlways, DieOnce, Refuse, Sum

UNITS = units_of(44)
SUMS = [sum(range(start, min(start + 8, 44))) for start in range(0, 44, 8)]


def test_units_are_eight_consecutive_samples() -> None:
    assert units_of(20) == (range(8), range(8, 16), range(16, 20))
    assert units_of(0) == ()
    assert math.prod(len(unit) for unit in units_of(16)) == 64


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_the_order_of_units(workers: int) -> None:
    with open_pool(workers) as pool:
        assert list(pool.map(Sum(), UNITS)) == SUMS
        assert list(pool.map(Sum(), UNITS[:1])) == SUMS[:1]


def test_a_process_that_dies_changes_nothing(tmp_path: Path) -> None:
    with open_pool(2) as pool:
        assert list(pool.map(DieOnce(tmp_path / "mark"), UNITS)) == SUMS
    assert (tmp_path / "mark").exists()


def test_processes_that_always_die_are_an_error_with_a_way_out() -> None:
    with open_pool(2) as pool, pytest.raises(TpucError, match="use fewer --workers"):
        list(pool.map(DieAlways(), UNITS))


def test_errors_of_workers_arrive() -> None:
    with open_pool(2) as pool, pytest.raises(CalibrationError, match="conv1: NaN"):
        list(pool.map(Refuse(), UNITS))


def test_workers_and_cluster_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        open_pool(2, "tcp://127.0.0.1:1")


def test_blas_gets_one_thread_and_its_threads_back() -> None:
    before = blas_threads(1)
    if before is None:
        pytest.skip("numpy has another BLAS here")
    try:
        assert blas_threads(1) == 1
        assert np.eye(3) @ np.eye(3) == pytest.approx(np.eye(3))
    finally:
        blas_threads(before)


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
