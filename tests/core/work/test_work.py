"""Results come in order, whoever computed them and whoever died meanwhile."""

from __future__ import annotations

import math
import os
import platform
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from tpuc.errors import CalibrationError, TpucError, UsageError
from tpuc.registry import Offer, Registry
from tpuc_driver.work import give_back_memory, open_pool, shares, small_units_of, units_of
from tpuc_driver.work.blas import blas_threads
from tpuc_driver.work.threads import ThreadPool

from tests.core.work.executors import Bench
from tests.core.work.jobs import DieAlways, DieOnce, Meet, Refuse, Sum
from tests.families import each

UNITS = units_of(44)
SUMS = [sum(range(start, min(start + 8, 44))) for start in range(0, 44, 8)]


def test_units_are_eight_consecutive_samples() -> None:
    assert units_of(20) == (range(8), range(8, 16), range(16, 20))
    assert units_of(0) == ()
    assert math.prod(len(unit) for unit in units_of(16)) == 64


def test_few_samples_make_small_units() -> None:
    assert small_units_of(5) == tuple(range(n, n + 1) for n in range(5))
    assert small_units_of(43) == (*(range(n, n + 2) for n in range(0, 42, 2)), range(42, 43))
    assert small_units_of(128) == units_of(128)


@each("workers", [0, 1, 2])
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


@each("workers", [0, 1, 2])
def test_errors_of_workers_arrive(workers: int) -> None:
    with open_pool(workers) as pool, pytest.raises(CalibrationError, match="conv1: NaN"):
        list(pool.map(Refuse(), UNITS))


class TestThreads:
    def test_each_thread_has_a_job_of_its_own(self) -> None:
        """Two units meet at a barrier: both are under way at once, each with the state of one preparation."""
        job = Meet(threading.Barrier(2), [])
        with ThreadPool(2) as pool:
            assert list(pool.map(job, units_of(16))) == [sum(range(8)), sum(range(8, 16))]
        assert len(job.prepared) == 2

    @each("threads", [1, 3])
    def test_work_here_comes_in_order(self, threads: int) -> None:
        with ThreadPool(threads) as pool:
            assert list(pool.here(lambda n: n * n, range(50))) == [n * n for n in range(50)]

    def test_any_item_is_work(self) -> None:
        with ThreadPool(2) as pool:
            assert list(pool.here(str, [None, 0, None])) == ["None", "0", "None"]

    def test_settings_of_numpy_hold_in_threads(self) -> None:
        with ThreadPool(2) as pool, np.errstate(over="raise"), pytest.raises(FloatingPointError):
            list(pool.here(np.exp, [np.float32(1000.0)]))

    def test_who_takes_only_some_results_leaves_nothing_behind(self) -> None:
        done: list[int] = []
        with ThreadPool(1) as pool:
            results = pool.here(done.append, range(100))
            next(results)
            results.close()  # pyright: ignore[reportAttributeAccessIssue]  # it is a generator
        assert len(done) <= 3  # the result that was taken, and two under way

    def test_blas_keeps_to_one_thread_meanwhile(self) -> None:
        before = blas_threads(1)
        if before is None:
            pytest.skip("numpy has another BLAS here")
        blas_threads(2)
        try:
            with ThreadPool(2) as pool:
                assert list(pool.here(lambda _: blas_threads(1), range(3))) == [1, 1, 1]
            assert blas_threads(2) == 2
        finally:
            blas_threads(before)


@each(
    ("count", "expected"),
    [(1, [[0, 1, 2, 3, 4]]), (2, [[0, 1], [2, 3, 4]]), (5, [[0], [1], [2], [3], [4]]), (9, [[0], [1], [2], [3], [4]])],
)
def test_shares_are_consecutive_and_none_is_empty(count: int, expected: list[list[int]]) -> None:
    assert [list(one) for one in shares(range(5), count)] == expected
    assert shares([], count) == []


def test_memory_goes_back_to_the_system() -> None:
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("no /proc here")

    def resident() -> int:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read_text())[1])  # type: ignore[index]

    kept = [np.ones(1 << 12) for _ in range(4000)]  # 128 MB in small pieces: the library keeps such
    last = kept[-1]
    before = resident()
    del kept
    give_back_memory()
    assert resident() < before - 100_000
    assert last.sum() == 1 << 12


FRESH_PAGES = """
import resource
import numpy as np
from tpuc_driver.work import open_pool

def work(rounds):
    for _ in range(rounds):
        [np.ones(1 << 18, np.float32) for _ in range(32)]

with open_pool(0, "") as pool:
    list(pool.here(work, [1]))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    list(pool.here(work, [20]))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told to keep memory")
def test_threads_keep_memory_for_arrays_to_come() -> None:
    def fresh_pages(**environment: str) -> int:
        given = {name: text for name, text in os.environ.items() if not name.startswith("MALLOC_")}
        done = subprocess.run(
            [sys.executable, "-c", FRESH_PAGES], env=given | environment, capture_output=True, check=True
        )
        return int(done.stdout)

    pages = 20 * 32 * (1 << 20) // os.sysconf("SC_PAGE_SIZE")
    assert fresh_pages() < pages / 10
    assert fresh_pages(MALLOC_TRIM_THRESHOLD_="131072") > pages / 2  # who says what it shall do is obeyed


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


def test_an_address_is_for_the_executor_of_whichever_package_has_one() -> None:
    offers = [Offer("tpuc.executors", "cluster", "acme", "1.0", f"{Bench.__module__}:Bench")]
    with open_pool(cluster="bench:1", registry=Registry(offers=offers)) as pool:
        assert isinstance(pool, Bench)
        assert pool.address == "bench:1"
        assert list(pool.map(Sum(), UNITS)) == SUMS
    with pytest.raises(UsageError, match="no executor named 'cluster': no installed package offers one"):
        open_pool(cluster="bench:1", registry=Registry(offers=[]))
