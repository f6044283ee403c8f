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

from tests.families import each

ARRAYS = {
    "b/weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "a": np.array([1, -2], np.int8),
    "scalar": np.array(3.5),
}


@each("compressed", [False, True])
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
    with pytest.raises(InvalidModel, match=r"w\.npz: no such npz; the weight file belongs next to its \.mlir file"):
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


HOSTILE = ("../x", "/x", "a/../../x", "C:x", "a\\b", "x\0y", "x\ny", "percent-encoded:y", "..", "%2E")


def test_no_name_of_an_array_is_a_way_out_of_the_folder(tmp_path: Path) -> None:
    arrays = {name: np.array(index) for index, name in enumerate(HOSTILE)}
    write_npz(tmp_path / "w.npz", arrays)
    assert {name: int(array) for name, array in read_npz(tmp_path / "w.npz").items()} == {
        name: index for index, name in enumerate(HOSTILE)
    }
    with zipfile.ZipFile(tmp_path / "w.npz") as archive:
        entries = archive.namelist()
    for entry in entries:
        assert not {"..", ""} & set(entry.split("/"))
        assert "\\" not in entry
        assert entry.isprintable()
        assert not entry.startswith("C:")
    assert "%2E.npy" in entries  # harmless names stay what they are


def _npz(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "."), content)
    return path


def _npy(header: str, data: bytes = b"", major: int = 1) -> bytes:
    text = header.encode("latin-1")
    return b"\x93NUMPY" + bytes([major, 0]) + len(text).to_bytes(2 if major == 1 else 4, "little") + text + data


SOUND = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"


@each(
    ("content", "said"),
    [
        (b"bytes", "array 'x': not an array in numpy's format"),
        (_npy("{'descr': '<f4', "), "array 'x': its header is damaged"),
        (_npy("(" * 9000), "array 'x': its header is damaged"),
        (_npy("{}"), "array 'x': its header is damaged"),
        (_npy(SOUND.replace("(2,)", "(1 << 40,)")), "array 'x': its header is damaged"),
        (
            _npy(SOUND.replace("(2,)", "(1099511627776,)")),
            "array 'x': its header claims 4398046511104 bytes of data, and there are 0",
        ),
        (_npy(SOUND.replace("(2,)", "(-2,)")), "array 'x': its header claims an impossible shape"),
        (_npy(SOUND.replace("<f4", "<q9")), "array 'x': its header claims the impossible type <q9"),
        (_npy(SOUND.replace("<f4", "|S0")), "array 'x': its header claims an impossible type"),
        (_npy(SOUND.replace("<f4", "|O"), bytes(16)), "array 'x': it holds Python objects, not plain values"),
        (_npy(SOUND.replace("'<f4'", "[('a', '<f4')]")), "array 'x': it holds records, not plain values"),
        (_npy(SOUND, bytes(7)), "array 'x': its header claims 8 bytes of data, and there are 7"),
        (_npy(SOUND, bytes(9)), "array 'x': its header claims 8 bytes of data, and there are 9"),
        (_npy(SOUND, bytes(8), major=7), "array 'x': numpy's format 7 is not known"),
        (b"\x93NUMPY\x01\x00\xff", "array 'x': it ends within its header"),
        (b"\x93NUMPY\x01\x00\xff\x00{", "array 'x': it ends within its header"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\x00{", "array 'x': its header claims to be 16777215 bytes long"),
    ],
)
def test_damaged_arrays_are_refused_before_memory_is_taken(content: bytes, said: str, tmp_path: Path) -> None:
    path = _npz(tmp_path / "w.npz", x__npy=content)
    with pytest.raises(InvalidModel) as caught:
        read_npz(path)
    assert str(caught.value) == f"{path}: not a readable npz ({said}); write it again"


def test_members_that_are_no_arrays_are_refused(tmp_path: Path) -> None:
    path = _npz(tmp_path / "w.npz", readme__txt=b"hello")
    with pytest.raises(InvalidModel, match=r"not a readable npz \(its member 'readme\.txt' is not an array\)"):
        read_npz(path)
    content = _npz(path, x__npy=_npy(SOUND, bytes(8)), y__npy=_npy(SOUND, bytes(8))).read_bytes()
    path.write_bytes(content.replace(b"y.npy", b"x.npy"))
    with pytest.raises(InvalidModel, match=r"not a readable npz \(array 'x' is there twice\)"):
        read_npz(path)
    content = _npz(path, x__npy=_npy(SOUND, bytes(8))).read_bytes()
    place = content.index(b"PK\x01\x02") + 8
    path.write_bytes(content[:place] + b"\x01" + content[place + 1 :])
    with pytest.raises(InvalidModel, match=r"not a readable npz \(member 'x\.npy' is encrypted\)"):
        read_npz(path)


def test_what_numpy_wrote_long_ago_is_read(tmp_path: Path) -> None:
    header = "{'descr': '>i2', 'fortran_order': True, 'shape': (2L, 3L), }"
    path = _npz(tmp_path / "w.npz", x__npy=_npy(header, np.arange(6, dtype=">i2").tobytes()))
    assert read_npz(path)["x"].tolist() == [[0, 2, 4], [1, 3, 5]]


def test_numpy_writes_names_as_they_are_and_samples_are_found_all_the_same(tmp_path: Path) -> None:
    from tpuc_driver.data.rows import ArrayRows

    np.savez(tmp_path / "plain.npz", **{"x\ny": np.arange(4, dtype=np.float32).reshape(2, 2)})
    write_npz(tmp_path / "ours.npz", {"x\ny": np.arange(4, dtype=np.float32).reshape(2, 2)})
    for name in ("plain", "ours"):
        assert ArrayRows(tmp_path / f"{name}.npz", "x\ny").shape == (2, 2)


def test_archives_that_unpack_into_no_array_of_a_network_are_refused(tmp_path: Path) -> None:
    size = (1 << 28) + 4096
    header = str({"descr": "|u1", "fortran_order": False, "shape": (size,)}).ljust(117).encode() + b"\n"
    with (
        zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w") as member,
    ):
        member.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
        for _ in range(size >> 12):
            member.write(bytes(4096))
    with pytest.raises(InvalidModel, match=r"its 26\d,\d{3} bytes would become 268,\d{3},\d{3}, which no array"):
        read_npz(tmp_path / "bomb.npz")
