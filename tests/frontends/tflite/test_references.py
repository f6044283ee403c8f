"""`--test-reference` for networks that are quantized already: stored integers and real values are told apart."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.interpreter import Interpreter
from tpuc_driver.cli import main
from tpuc_driver.session import Session

from tests.frontends.tflite.files import Node, Tensor, constant, tflite_file

pytestmark = pytest.mark.chip("bm1684x")

Array = NDArray[Any]
SHAPE = (4, 12)
SCALE, ZERO = 0.04, -100


@pytest.fixture
def deploy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[Array], tuple[int, str, str]]:
    """Compile with this array as the reference of the output."""
    x, y = (Tensor(name, SHAPE, "INT8", None, (scale,), (zero,)) for name, scale, zero in _TENSORS)
    w = constant("w", np.arange(-24, 24).reshape(SHAPE).astype(np.int8), [0.05], [0])
    path = tmp_path / "sum.tflite"
    path.write_bytes(tflite_file([x, w, y], [Node("ADD", ["x", "w"], ["y"], ("AddOptions", {}))], ["x"], ["y"]))
    session = Session()
    session.save(session.transform(path), tmp_path / "sum.mlir")
    np.savez(tmp_path / "x.npz", x=_INPUT)

    def run(reference: Array) -> tuple[int, str, str]:
        np.savez(tmp_path / "ref.npz", y=reference)
        compared = ["--test-input", str(tmp_path / "x.npz"), "--test-reference", str(tmp_path / "ref.npz")]
        chip = ["--chip", "bm1684x", "--quantize", "int8", "-o", str(tmp_path / "sum.bmodel")]
        capsys.readouterr()
        code = main(["deploy", "--mlir", str(tmp_path / "sum.mlir"), *chip, *compared])
        return code, *capsys.readouterr()

    return run


_TENSORS = (("x", 0.03, -20), ("y", SCALE, ZERO))
_INPUT = np.random.default_rng(0).integers(-20, 100, SHAPE).astype(np.int8)


def _stored(tmp_path: Path) -> Array:
    return Interpreter(Session().load(tmp_path / "sum.mlir")).run({"x": _INPUT})["y"]


def test_stored_integers_and_real_values_are_equally_good(
    deploy: Callable[[Array], tuple[int, str, str]], tmp_path: Path
) -> None:
    exact = (_INPUT.astype(np.float64) + 20) * 0.03 + np.arange(-24, 24).reshape(SHAPE) * 0.05
    deploy(exact)
    stored = _stored(tmp_path)
    real = (stored.astype(np.float32) - ZERO) * np.float32(SCALE)
    assert np.abs(real - np.clip(exact, (-128 - ZERO) * SCALE, (127 - ZERO) * SCALE)).max() <= SCALE
    for reference in (stored, stored.astype(np.int32), real, real.astype(np.float64)):
        code, said, _ = deploy(reference)
        assert code == 0
        # The chip rounds this sum once more than TFLite: some results are a step off.
        assert re.search(
            r"ref\.npz and TPU: 1 tensors, cosine >= 0\.999\d+, euclidean >= 0\.99\d+ \(lowest at 'y'\)", said
        )


def test_wrong_integers_are_still_wrong(deploy: Callable[[Array], tuple[int, str, str]], tmp_path: Path) -> None:
    deploy(np.zeros(SHAPE))
    code, _, _ = deploy((-100 - _stored(tmp_path)).astype(np.int8))
    assert code == 1


def test_integers_beyond_the_type_are_refused(deploy: Callable[[Array], tuple[int, str, str]]) -> None:
    code, _, said = deploy(np.full(SHAPE, 200, np.int32))
    assert code == 2
    assert said.endswith(
        "ref.npz: 'y' holds integers from 200 to 200, but is stored as i8 (-128 to 127). Give the stored integers, or "
        "the real values as floats.\n"
    )


def test_stored_integers_as_floats_are_refused(deploy: Callable[[Array], tuple[int, str, str]], tmp_path: Path) -> None:
    deploy(np.zeros(SHAPE))
    code, _, said = deploy(_stored(tmp_path).astype(np.float32))
    assert code == 2
    assert said.endswith(
        "ref.npz: 'y' holds stored integers as float32: its real values lie between -1.12 and 9.08. Give them as i8, "
        "or as (integer - -100) * 0.0399999991.\n"
    )
