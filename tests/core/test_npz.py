"""npz files: deterministic, whole or absent, and readable by numpy."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from tpuc.errors import InvalidModel, TpucError
from tpuc.npz import read_npz, write_npz

ARRAYS = {
    "b/weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "a": np.array([1, -2], np.int8),
    "scalar": np.array(3.5),
}


@pytest.mark.parametrize("compressed", [False, True])
def test_arrays_survive_and_numpy_reads_them(tmp_path: Path, compressed: bool) -> None:
    path = tmp_path / "w.npz"
    write_npz(path, ARRAYS, compressed=compressed)
    with np.load(path) as theirs:
        assert theirs.files == ["a", "b/weight", "scalar"]
    back = read_npz(path)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(back[name], array)
        assert back[name].dtype == array.dtype
        assert back[name].shape == array.shape


def test_equal_arrays_give_equal_bytes_whatever_their_order_in_memory(tmp_path: Path) -> None:
    write_npz(tmp_path / "a.npz", ARRAYS)
    other = {name: np.asarray(array, array.dtype.newbyteorder(">"), order="F") for name, array in ARRAYS.items()}
    write_npz(tmp_path / "b.npz", dict(reversed(other.items())))
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_the_bytes_are_those_of_yesterday(tmp_path: Path) -> None:
    write_npz(tmp_path / "w.npz", {"x": np.arange(4, dtype=np.int8)})
    digest = hashlib.sha256((tmp_path / "w.npz").read_bytes()).hexdigest()
    assert digest == "d7df31831a6d5c244a46deb332769a638ff41220b4584e07cbd501ebc6f03412"


def test_bfloat16_is_stored_as_its_bits(tmp_path: Path) -> None:
    write_npz(tmp_path / "w.npz", {"x": np.array([1.0, -2.0], ml_dtypes.bfloat16)})
    back = read_npz(tmp_path / "w.npz")["x"]
    assert back.dtype == np.uint16
    assert [hex(bits) for bits in back] == ["0x3f80", "0xc000"]


def test_a_failed_write_leaves_nothing_and_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "w.npz"
    write_npz(path, ARRAYS)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        write_npz(path, {"a": np.ones(3), "z": np.array([object()])})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(TpucError, match=r"there is no folder"):
        write_npz(tmp_path / "no" / "w.npz", ARRAYS)


def test_files_that_are_no_npz(tmp_path: Path) -> None:
    path = tmp_path / "w.npz"
    with pytest.raises(
        InvalidModel, match=r"w\.npz: there is no such npz; a weight file belongs beside its \.mlir file"
    ):
        read_npz(path)
    with pytest.raises(InvalidModel, match=r"not a readable npz \(Is a directory\); write it again"):
        read_npz(tmp_path)
    for content in (b"", b"not a zip", b"PK\x03\x04 broken"):
        path.write_bytes(content)
        with pytest.raises(InvalidModel, match=r"w\.npz: not a readable npz \(.*\); write it again"):
            read_npz(path)
    write_npz(path, ARRAYS)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InvalidModel, match=r"w\.npz: not a readable npz \(.*\); write it again"):
        read_npz(path)
    np.save(tmp_path / "one.npy", np.ones(3))
    with pytest.raises(InvalidModel, match=r"one\.npy: not a readable npz \(it holds one array without name\)"):
        read_npz(tmp_path / "one.npy")
