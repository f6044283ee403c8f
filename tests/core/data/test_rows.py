"""Rows of array files: the same as of the whole array, in any order, a block at a time."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc_driver.data.rows import BLOCK_BYTES, ArrayRows

Array = NDArray[Any]
Save = Callable[[Path, Array], ArrayRows]

ROWS = 7
WIDE = BLOCK_BYTES // 4 // 3  # three rows of float32 to a block


def _npy(file: Path, array: Array) -> ArrayRows:
    np.save(file.with_suffix(".npy"), array)
    return ArrayRows(file.with_suffix(".npy"))


def _stored(file: Path, array: Array) -> ArrayRows:
    np.savez(file.with_suffix(".npz"), other=np.zeros(3), x=array)
    return ArrayRows(file.with_suffix(".npz"), "x")


def _compressed(file: Path, array: Array) -> ArrayRows:
    np.savez_compressed(file.with_suffix(".npz"), other=np.zeros(3), x=array)
    return ArrayRows(file.with_suffix(".npz"), "x")


@pytest.fixture(params=[_npy, _stored, _compressed])
def save(request: pytest.FixtureRequest) -> Save:
    return request.param


@pytest.mark.parametrize("order", [range(ROWS), range(ROWS - 1, -1, -1), (3, 0, 6, 3, 1)])
def test_rows_come_in_any_order(save: Save, tmp_path: Path, order: tuple[int, ...]) -> None:
    array = np.arange(ROWS, dtype=np.float32)[:, None] + np.linspace(0, 0.5, WIDE, dtype=np.float32)
    rows = save(tmp_path / "a", array)
    assert rows.shape == (ROWS, WIDE)
    for row in order:
        assert np.array_equal(rows[row], array[row])
    assert np.array_equal(rows.whole(), array)


@pytest.mark.parametrize("array", [np.asfortranarray(np.arange(12.0).reshape(4, 3)), np.zeros((3, 0)), np.arange(5)])
def test_odd_arrays(save: Save, tmp_path: Path, array: Array) -> None:
    rows = save(tmp_path / "a", array)
    assert all(np.array_equal(rows[row], array[row]) for row in range(len(array)))


def test_only_a_block_is_held(save: Save, tmp_path: Path) -> None:
    rows = save(tmp_path / "a", np.ones((ROWS, WIDE), np.float32))
    assert rows[4].base is not None
    assert rows[4].base.nbytes <= BLOCK_BYTES


@pytest.mark.parametrize("array", [np.zeros((3, 2)), np.zeros((0, 2)), np.zeros(())])
@pytest.mark.parametrize("row", [-1, 3, 1 << 40])
def test_rows_that_are_not_there_are_a_sentence(save: Save, tmp_path: Path, array: Array, row: int) -> None:
    rows = save(tmp_path / "a", array)
    with pytest.raises(ValueError, match=f"it has {array.shape[0] if array.ndim else 0} rows, but no row {row}"):
        _ = rows[row]


def test_a_file_that_ends_early(tmp_path: Path) -> None:
    rows = _npy(tmp_path / "a", np.ones((4, 100)))
    file = tmp_path / "a.npy"
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(EOFError, match="it ends within its data"):
        _ = rows[3]


def test_threads_parse_headers_one_at_a_time(tmp_path: Path) -> None:
    """What runs between two steps of a parse lets other threads in; CPython 3.11 then counts both parses' depths as one
    and raises SystemError. Without the lock this fails in one of four parses.
    """
    np.save(tmp_path / "x.npy", np.arange(6.0).reshape(2, 3))
    found: list[object] = []

    def read() -> None:
        try:
            found.extend(ArrayRows(tmp_path / "x.npy").shape for _ in range(100))
        except SystemError as error:
            found.append(error)

    def interrupt(*_: object) -> None:
        sum(range(30))

    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    threads = [threading.Thread(target=read) for _ in range(4)]
    sys.setswitchinterval(1e-6)
    gc.callbacks.append(interrupt)
    gc.set_threshold(3)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(interrupt)
        sys.setswitchinterval(interval)
    assert found == [(2, 3)] * 400
