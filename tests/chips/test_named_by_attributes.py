"""The module of the book, whose ops have attributes `name` and no locations, goes the way that the book shows."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tpuc_driver.cli import main
from tpuc_driver.session import Session

from tests.core.ir.test_seed_listings import BOOK

X = np.random.default_rng(0).normal(0, 1, (1, 16, 100, 100)).astype(np.float32)
FILTERS = np.random.default_rng(1).normal(0, 0.1, (32, 16, 3, 3)).astype(np.float32)
BIAS = np.random.default_rng(2).normal(0, 1, 32).astype(np.float32)
WINDOWS = np.lib.stride_tricks.sliding_window_view(np.pad(X, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), axis=(2, 3))
EXPECTED = np.einsum("nchwij,ocij->nohw", WINDOWS, FILTERS, optimize=True) + BIAS.reshape(1, -1, 1, 1)


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """The module, its weights and an input."""
    (tmp_path / "book.mlir").write_text(BOOK, "utf-8")
    np.savez(tmp_path / "conv2d_top_f32_all_weight.npz", weight=FILTERS, bias=BIAS)
    np.savez(tmp_path / "x.npz", input=X)
    return tmp_path


def _run(folder: Path, model: str) -> dict[str, np.ndarray]:
    out = folder / "out.npz"
    assert main(["run", "--model", str(folder / model), "--input", str(folder / "x.npz"), "-o", str(out)]) == 0
    with np.load(out) as arrays:
        return dict(arrays)


def test_names_become_locations(book: Path) -> None:
    module = Session().load(book / "book.mlir")
    assert module.name == "Conv2d"
    assert [one.name for one in module.main.operations] == ["", "input", "weight", "bias", "output_Conv", ""]
    assert main(["opt", str(book / "book.mlir"), "--pipeline", "top-optimize", "-o", str(book / "new.mlir")]) == 0
    text = (book / "new.mlir").read_text("utf-8")
    assert re.findall(r'^#loc\d = loc\("(\w+)"\)', text, re.MULTILINE) == ["input", "weight", "bias", "output_Conv"]
    assert "name =" not in text.replace("module.name =", "")
    np.testing.assert_allclose(_run(book, "new.mlir")["output_Conv"], EXPECTED, rtol=0, atol=1e-4)


def test_evaluates(book: Path) -> None:
    np.testing.assert_allclose(_run(book, "book.mlir")["output_Conv"], EXPECTED, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("chip", "mode", "file", "error"),
    [
        pytest.param("bm1684x", "f32", "book.bmodel", 1e-6, marks=pytest.mark.chip("bm1684x")),
        # A step is 1 % of the values in the mean, for input, filters and results each; and thresholds cut off some.
        pytest.param("bm1684x", "int8", "book.bmodel", 0.02, marks=pytest.mark.chip("bm1684x")),
        pytest.param("cv183x", "int8", "book.cvimodel", 0.02, marks=pytest.mark.chip("cv183x")),
    ],
)
def test_compiles(book: Path, chip: str, mode: str, file: str, error: float) -> None:
    table = ["--calibration-table", str(book / "table")] if mode == "int8" else []
    if table:
        given = ["--dataset", str(book / "x.npz"), "-o", str(book / "table")]
        assert main(["calibrate", str(book / "book.mlir"), *given]) == 0
    target, work = book / file, book / "work"
    deploy = ["deploy", "--mlir", str(book / "book.mlir"), "--chip", chip, "--quantize", mode, "-o", str(target)]
    assert main([*deploy, *table, "--work-dir", str(work), "--test-input", str(book / "x.npz")]) == 0
    tag = "int8_sym" if mode == "int8" else mode
    assert (work / f"Conv2d_{chip}_{tag}_final.mlir").exists()
    (got,) = (array.reshape(EXPECTED.shape) for array in _run(book, file).values())
    assert np.linalg.norm(got - EXPECTED) <= error * np.linalg.norm(EXPECTED)


def test_without_any_names(book: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing says which array of the npz is which."""
    text = re.sub(r'(, )?name = "\w+",?', "", BOOK.replace("module.name", "module.title"))
    assert "name" not in text
    (book / "book.mlir").write_text(text, "utf-8")
    assert main(["run", "--model", str(book / "book.mlir"), "--input", str(book / "x.npz"), "-o", "out.npz"]) == 1
    np.savez(book / "x.npz", arg0=X)
    assert main(["run", "--model", str(book / "book.mlir"), "--input", str(book / "x.npz"), "-o", "out.npz"]) == 1
    sentence = (
        r"tpuc: a weight has no name, so its array cannot be found in .*_weight\.npz: write the module with its "
        r'locations, or with an attribute name = "\.\.\." per weight\n'
    )
    assert re.search(sentence, capsys.readouterr().err)
