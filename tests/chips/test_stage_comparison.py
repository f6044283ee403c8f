"""A compiler that verifies its stages says so when they compute NaN or infinities, and writes no file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from tpuc.errors import TpucError
from tpuc_driver.session import Session

from tests.families import each

Array = NDArray[Any]
NEGATIVE: Array = np.full((1, 8), -1, np.float32)


def _logarithm(folder: Path) -> Path:
    """`y = log(x)`, and a sample of negative numbers."""
    shape = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 8)) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Log", ["x"], ["y"])], "log", shape[:1], shape[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (folder / "log.onnx").write_bytes(model.SerializeToString())
    np.savez(folder / "x.npz", x=NEGATIVE)
    np.savez(folder / "reference.npz", y=np.full((1, 8), 7, np.float32))
    return folder / "log.onnx"


CELLS = [
    pytest.param(chip, mode, marks=pytest.mark.chip(chip))
    for chip, mode in (("bm1684x", "f32"), ("bm1684x", "f16"), ("bm1684x", "bf16"))
]


@each(("chip", "mode"), CELLS)
@each("reference", [None, "reference.npz"])
def test_nan_in_a_compiled_network_fails_the_comparison(
    reference: str | None, chip: str, mode: str, tmp_path: Path
) -> None:
    session = Session(chip=chip, quantize=mode)
    module = session.transform(_logarithm(tmp_path))
    given = None if reference is None else tmp_path / reference
    target, sample = tmp_path / "log.compiled", tmp_path / "x.npz"
    with pytest.raises(TpucError) as caught:
        session.deploy(module, target, test_input=[sample], test_reference=given, tolerance=(-1, -9))
    assert str(caught.value) == (
        f"{given or 'TOP'} and TPU: 'y' is NaN in 8 of 8 values, which no tolerance accepts; check the op that "
        "computes it, or "
        "leave it out with --excepts"
    )
    assert not target.exists()


def test_nan_in_an_imported_network_fails_the_comparison(tmp_path: Path) -> None:
    path, session = _logarithm(tmp_path), Session()
    with pytest.raises(TpucError, match=r"log\.onnx and TOP: 'y' is NaN in 8 of 8 values"):
        session.verify_transform(path, session.transform(path), test_input=[tmp_path / "x.npz"])


@pytest.mark.chip("bm1684x")
def test_compile_leaves_out_what_it_is_told_to(tmp_path: Path) -> None:
    path, target, samples = _logarithm(tmp_path), tmp_path / "log.bmodel", [tmp_path / "x.npz"]
    session = Session(chip="bm1684x")
    with pytest.raises(TpucError, match="the two sides have no tensor name in common"):
        session.compile(path, target, test_input=samples, excepts=["x", "y", "y_f32"])
    with pytest.raises(TpucError, match="TOP and TPU: 'y' is NaN"):
        session.compile(path, target, test_input=samples, excepts=["x"])


@pytest.mark.chip("bm1684x")
def test_values_without_names_are_not_compared(tmp_path: Path) -> None:
    path = tmp_path / "nameless.mlir"
    path.write_text(
        "module {\n"
        "func.func @main(%arg0: tensor<1x8xf32>) -> tensor<1x8xf32> {\n"
        '%0 = "top.Input"(%arg0) : (tensor<1x8xf32>) -> tensor<1x8xf32>\n'
        '%1 = "top.MulConst"(%0) {const_val = 0.5 : f64} : (tensor<1x8xf32>) -> tensor<1x8xf32>\n'
        "return %1 : tensor<1x8xf32>\n}\n}\n",
        encoding="utf-8",
    )
    np.savez(tmp_path / "x.npz", arg0=NEGATIVE)
    session = Session(chip="bm1684x")
    with pytest.raises(
        TpucError, match="TOP and TPU: nothing to compare, because the two sides have no tensor name in common"
    ):
        session.deploy(session.load(path), tmp_path / "n.bmodel", test_input=[tmp_path / "x.npz"])
