"""`tpuc npz` on files of known arrays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc_driver.cli import main

from tests.families import each

X = np.arange(6, dtype=np.float32).reshape(2, 3)
Y = np.array([[1, 2, 300]], np.int32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`a.npz` with x (2x3 float32) and y (1x3 int32), where the command runs."""
    monkeypatch.chdir(tmp_path)
    np.savez("a.npz", x=X, y=Y)
    return tmp_path


def npz(capture: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What a subcommand says on stdout, or why it fails."""
    capture.readouterr()
    assert main(["npz", *arguments]) == code
    out, err = capture.readouterr()
    return out or err


def read(name: str) -> dict[str, NDArray[Any]]:
    with np.load(name) as arrays:
        return dict(arrays)


def test_dump_lists_arrays_or_shows_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert npz(capsys, "dump", "a.npz") == "x  2x3  float32\ny  1x3  int32\n"
    assert npz(capsys, "dump", "a.npz", "y") == "[[  1   2 300]]\n1x3 int32\n"
    assert npz(capsys, "dump", "a.npz", "x", "2") == "1,2  5.0\n1,1  4.0\n2x3 float32\n"
    capsys.readouterr()
    assert main(["npz_tool.py", "get_shape", "a.npz", "x"]) == 0
    assert capsys.readouterr().out == "[2,3]\n"


def test_statistics_leave_out_what_is_not_finite(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("s.npz", v=np.array([0, 3, -4, np.nan, np.inf], np.float32))
    (found,) = json.loads(npz(capsys, "statistic", "s.npz", "--json")).values()
    assert found["std"] == pytest.approx(np.sqrt((1 / 9 + 100 / 9 + 121 / 9) / 3))  # around -1/3
    del found["std"]
    assert found == {
        "shape": [5],
        "dtype": "float32",
        "min": -4.0,
        "max": 3.0,
        "mean": -1 / 3,
        "absmax": 4.0,
        "zeros": 1,
        "nan": 1,
        "inf": 1,
    }
    assert npz(capsys, "statistic", "a.npz").splitlines()[2].split()[:5] == ["y", "1x3", "int32", "1", "300"]
    assert npz(capsys, "check-nan-inf", "s.npz", code=1) == "v: 1 NaN, 1 infinite\n"
    assert npz(capsys, "check-nan-inf", "a.npz") == "all values are finite\n"


def test_compare_judges_by_cosine_and_euclidean(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # y against y + (0, 0, 3): cosine ~1, euclidean 1 - 3 / |y + 1.5| = 1 - 3 / 301.5...
    near = Y + np.array([[0, 0, 3]], np.int32)
    np.savez("b.npz", x=X, y=near, z=X)
    found = json.loads(npz(capsys, "compare", "b.npz", "a.npz", "--json"))
    assert found["passed"] is True
    assert [(one["name"], one["verdict"]) for one in found["arrays"]] == [("x", "equal"), ("y", "similar")]
    middle = np.linalg.norm((Y + near) / 2)
    assert found["arrays"][1]["euclidean"] == pytest.approx(1 - 3 / middle, rel=1e-12)
    text = npz(capsys, "compare", "b.npz", "a.npz", "--tolerance=0.99,0.995", "--save=table.csv", code=1)
    assert text.splitlines()[-1] == "2 compared, 1 failed"
    assert (folder / "table.csv").read_text().splitlines()[1] == "x,equal,,,"
    assert "1 compared, 0 failed" in npz(capsys, "compare", "b.npz", "a.npz", "--tolerance=1,1", "--excepts=y")
    np.savez("c.npz", x=X[:1], y=Y)
    assert "another shape" in npz(capsys, "compare", "c.npz", "a.npz", code=1)
    np.savez("d.npz", w=X)
    assert "no array name in common" in npz(capsys, "compare", "d.npz", "a.npz", code=1)
    assert "takes two numbers" in npz(capsys, "compare", "b.npz", "a.npz", "--tolerance=1", code=2)


def test_nan_is_never_similar(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("n.npz", x=np.where(X == 2, np.nan, X).astype(np.float32))
    for pair in (("n.npz", "a.npz"), ("a.npz", "n.npz"), ("n.npz", "n.npz")):
        lines = npz(capsys, "compare", *pair, "--tolerance=-1,-9", code=1).splitlines()
        assert lines[1].split() == ["x", "NaN"]
        assert lines[-1] == "1 compared, 1 failed"


def test_values_beyond_all_numbers_have_figures(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ones = np.ones((1, 3, 2, 2))
    files = {"ones": ones, "inf": ones * np.inf, "neginf": ones * -np.inf, "big": ones * 1e300}
    for name, array in files.items():
        np.savez(f"{name}.npz", x=array)
    # 1e300 against 1: their directions are equal, 1 - |a - b| / |(a + b) / 2| is -1, 1e-600 is -6000 dB
    figures = {"inf": ("0.000000", "-inf", "-inf"), "neginf": ("0.000000", "-inf", "-inf")}
    figures["big"] = ("1.000000", "-1.000000", "-6000.00")
    for name, shown in figures.items():
        lines = npz(capsys, "compare", f"{name}.npz", "ones.npz", code=1).splitlines()
        assert lines[1].split() == ["x", "different", *shown]
        assert npz(capsys, "compare", f"{name}.npz", f"{name}.npz").splitlines()[1].split() == ["x", "equal"]
    (found,) = json.loads(npz(capsys, "compare", "inf.npz", "neginf.npz", "--json", code=1))["arrays"]
    assert found == {"name": "x", "verdict": "different", "cosine": 0.0, "euclidean": None, "sqnr_db": None}


def test_statistics_of_huge_numbers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("h.npz", h=np.array([1.5e308, -1.5e308, 1.5e308, -1.5e308]))
    found = json.loads(npz(capsys, "statistic", "h.npz", "--json"))["h"]
    assert (found["mean"], found["std"]) == (0.0, 1.5e308)


def test_a_tolerance_that_is_no_number_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for given in ("nan,nan", "0.9,inf"):
        said = npz(capsys, "compare", "a.npz", "a.npz", f"--tolerance={given}", code=2)
        assert f"'{given}' is not a list of numbers such as 0.9,0.7." in said


def test_print_diff_begins_with_the_largest(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("b.npz", x=X + np.array([[0, 1, 0], [0, 0, -3]], np.float32))
    lines = [line.split() for line in npz(capsys, "print_diff", "a.npz", "b.npz", "x").splitlines()]
    assert lines == [["place", "a.npz", "b.npz"], ["1,2", "5.0", "2.0"], ["0,1", "1.0", "2.0"], ["2", "differ"]]
    assert len(npz(capsys, "print-diff", "a.npz", "b.npz", "x", "1").splitlines()) == 3


def test_files_are_changed_and_combined(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    npz(capsys, "extract", "a.npz", "only.npz", "x")
    assert list(read("only.npz")) == ["x"]
    npz(capsys, "rename", "only.npz", "x", "x2")
    npz(capsys, "merge", "a.npz", "only.npz", "both.npz")
    assert sorted(read("both.npz")) == ["x", "x2", "y"]
    npz(capsys, "remove", "both.npz", "x,y")
    np.testing.assert_array_equal(read("both.npz")["x2"], X)
    npz(capsys, "insert", "a.npz", "both.npz")
    assert sorted(read("both.npz")) == ["x", "x2", "y"]
    npz(capsys, "reshape", "both.npz", "x2", "3,-1")
    np.testing.assert_array_equal(read("both.npz")["x2"], X.reshape(3, 2))
    npz(capsys, "permute", "both.npz", "x2", "1,0")
    np.testing.assert_array_equal(read("both.npz")["x2"], X.reshape(3, 2).T)
    npz(capsys, "permute", "both.npz", "1,0")
    np.testing.assert_array_equal(read("both.npz")["y"], Y.T)


def test_sixteen_bits(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ties go to even: 1 + 2^-8 down to 0x3F80, 1 + 3 * 2^-8 up to 0x3F82."""
    np.savez("f.npz", v=np.array([1.00390625, 1.01171875, -2.5], np.float32), i=Y)
    npz(capsys, "fp32_to_bf16", "f.npz", "b.npz")
    np.testing.assert_array_equal(read("b.npz")["v"], np.array([0x3F80, 0x3F82, 0xC020], np.uint16))
    np.testing.assert_array_equal(read("b.npz")["i"], Y)
    npz(capsys, "bf16_to_fp32", "b.npz", "g.npz")
    np.testing.assert_array_equal(read("g.npz")["v"], np.array([1.0, 1.015625, -2.5], np.float32))
    npz(capsys, "fp32_to_fp16", "f.npz", "h.npz")
    assert read("h.npz")["v"].dtype == np.float16
    npz(capsys, "fp16_to_fp32", "h.npz", "h.npz")
    np.testing.assert_array_equal(read("h.npz")["v"], read("f.npz")["v"])  # all three are float16 numbers
    np.savez("big.npz", v=np.array([1e6], np.float32))
    assert "array 'v': 1 values are too large for fp16" in npz(capsys, "fp32_to_fp16", "big.npz", "h.npz", code=2)


def test_other_formats(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    npz(capsys, "to_dat", "a.npz", "a.dat")
    assert (folder / "a.dat").read_bytes() == X.astype("<f4").tobytes() + Y.astype("<i4").tobytes()
    npz(capsys, "to_bin", "a.npz", "y", "y.bin")
    assert (folder / "y.bin").read_bytes() == bytes([1, 0, 0, 0, 2, 0, 0, 0, 44, 1, 0, 0])
    npz(capsys, "to_bin", "a.npz", "x", "x.bin", "bf16")
    assert (folder / "x.bin").read_bytes()[2:4] == bytes([0x80, 0x3F])
    npz(capsys, "to_npy", "a.npz", "x")
    np.testing.assert_array_equal(np.load("x.npy"), X)
    assert "the array is int32, so it holds no int8 values" in npz(
        capsys, "to_bin", "a.npz", "y", "y.b", "int8", code=2
    )
    assert not (folder / "y.b").exists()


@each(
    ("arguments", "said", "code"),
    [
        (["get-shape", "a.npz", "xx"], "a.npz: no array named 'xx'; did you mean 'x'?", 2),
        (["get-shape", "a.npz", "quite"], "a.npz: no array named 'quite'; there are x, y.", 2),
        (["rename", "a.npz", "x", "y"], "a.npz: an array named 'y' already exists; remove it first.", 2),
        (["reshape", "a.npz", "x", "4,2"], "array 'x' of shape 2x3 cannot become 4x2", 2),
        (["permute", "a.npz", "x", "0,2"], "has 2 axes, and 0,2 is not a permutation of them", 2),
        (["permute", "a.npz"], "permute takes a file, optionally the name of one array, and an order", 2),
        (["merge", "a.npz", "b.npz"], "merge takes two or more input files and the output file", 2),
        (["merge", "a.npz", "other.npz", "c.npz"], "array 'x' is in both files with different values", 2),
        (["dump", "text.npz"], "text.npz: not a readable npz", 1),
        (["dump", "names.npz"], "names.npz: array 'n' holds <U3, not numbers", 2),
        (["dump", "none.npz"], "none.npz: no such file or directory. Check the path.", 1),
        (["extract", "a.npz", "nowhere/b.npz", "x"], "nowhere/b.npz: cannot be written", 1),
        (["print-diff", "a.npz", "wide.npz", "x"], "shapes 2x3 and 2x4 differ", 1),
    ],
)
def test_refusals_change_nothing(
    arguments: list[str], said: str, code: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("other.npz", x=X + 1)
    np.savez("wide.npz", x=np.zeros((2, 4), np.float32))
    np.savez("names.npz", n=np.array(["abc"]))
    (folder / "text.npz").write_text("text")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert said in npz(capsys, *arguments, code=code)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_tolerance_is_two_numbers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = npz(capsys, "compare", "a.npz", "a.npz", "--tolerance", "0.9", code=2)
    assert said == "tpuc: --tolerance takes two numbers, cosine and euclidean; 1 were given.\n"
    said = npz(capsys, "compare", "a.npz", "a.npz", "--tolerance", "high,low", code=2)
    assert "'high,low' is not a list of numbers such as 0.9,0.7." in said
