"""Weights and values that f16 cannot hold are named when a network is compiled, with what to do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc.errors import TpucError
from tpuc_driver.session import Session

from tests.families import each

pytestmark = pytest.mark.chip("bm1684x")

ONES = np.ones((1, 4), np.float32)
WIDER = "keep the ops around them in f32 or bf16 (--quantize-table), or all with --quantize"
WAY_OUT = f"they become infinite; {WIDER}"
CUT_OFF = f"they are clamped to 65,504; {WIDER}"


def _network(path: Path, nodes: list[onnx.NodeProto], constants: Mapping[str, Any]) -> Path:
    """From `x: [1, 4]` to `y`."""
    graph = helper.make_graph(
        nodes,
        "large",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in constants.items()],
    )
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    )
    return path


def _product(folder: Path, largest: float) -> Path:
    """`y = (x @ w) / 1000` in two ops that nothing joins."""
    weight = np.full((4, 4), 0.25, np.float32)
    weight[0, 0] = largest
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Sigmoid", ["p"], ["y"])]
    return _network(folder / "net.onnx", nodes, {"w": weight})


def _samples(folder: Path, scale: float) -> Path:
    np.savez(folder / "x.npz", x=ONES * scale)
    return folder / "x.npz"


def _compile(path: Path, mode: str, **options: Any) -> list[str]:
    """What is remarked on about sizes."""
    said: list[str] = []
    session = Session(chip="bm1684x", quantize=mode, remark=said.append)
    session.compile(path, path.with_suffix(".bmodel"), **options)
    return [text for text in said if "(largest value " in text]


def test_samples_that_nobody_needs_are_named(tmp_path: Path) -> None:
    path, said = _product(tmp_path, 1.0), list[str]()
    for mode in ("f32", "f16", "int8"):
        session = Session(chip="bm1684x", quantize=mode, remark=said.append)
        session.compile(path, path.with_suffix(".bmodel"), dataset=_samples(tmp_path, 1.0))
    assert [text for text in said if "needs no calibration" in text] == [
        "f32 needs no calibration: the samples are ignored; --quantize int8 uses them"
    ]


def test_weights_beyond_f16_are_named(tmp_path: Path) -> None:
    path = _product(tmp_path, 70000.0)
    expected = f"f16 (largest value 65,504) cannot represent weights of 'p' up to 70,000: {CUT_OFF}"
    assert _compile(path, "f16") == [expected]
    for mode in ("bf16", "f32"):
        assert _compile(path, mode) == []
    assert _compile(_product(tmp_path, 65504.0), "f16") == []


def test_values_beyond_f16_are_named_where_samples_show_them(tmp_path: Path) -> None:
    path = _product(tmp_path, 100.0)
    # 2000 * (100 + 3 * 0.25) in the first column
    expected = f"f16 (largest value 65,504) cannot represent value 'p' up to 201,500: {WAY_OUT}"
    large = _samples(tmp_path, 2000.0)
    assert _compile(path, "f16") == []
    assert _compile(path, "f16", dataset=large) == [expected]
    assert _compile(path, "bf16", dataset=large) == []
    assert _compile(path, "f16", dataset=_samples(tmp_path, 600.0)) == []


def test_values_beyond_f16_fail_the_comparison_after_the_remark(tmp_path: Path) -> None:
    path, said = _product(tmp_path, 100.0), list[str]()
    session = Session(chip="bm1684x", quantize="f16", remark=said.append)
    target = tmp_path / "net.bmodel"
    with pytest.raises(TpucError, match="TOP and TPU: 'p' is infinite on one side only in 1 of 4 values; keep"):
        session.compile(path, target, test_input=[_samples(tmp_path, 2000.0)])
    assert ["value 'p' up to 201,500" in text for text in said] == [True]
    assert not target.exists()


def test_calibrated_ranges_count_for_single_ops_in_f16(tmp_path: Path) -> None:
    path, samples = _product(tmp_path, 100.0), _samples(tmp_path, 2000.0)
    said: list[str] = []
    session = Session(chip="bm1684x", quantize="int8", remark=said.append)
    module = session.transform(path)
    table = session.calibrate(module, dataset=samples)
    table.write(tmp_path / "table")
    (tmp_path / "qtable").write_text("p f16\n")
    for given in (table, tmp_path / "table"):
        said.clear()
        session.deploy(module, tmp_path / "net.bmodel", calibration_table=given, quantize_table=tmp_path / "qtable")
        assert [f"value 'p' up to 201,500: {WAY_OUT}" in text for text in said if "cannot represent" in text] == [True]
    said.clear()
    session.deploy(module, tmp_path / "net.bmodel", calibration_table=table)
    assert not [text for text in said if "cannot represent" in text]


LOWEST = float(np.finfo(np.float32).min)


@each("mode", ["f16", "bf16"])
@each("number", [LOWEST, -np.inf, -1e9, 1e9, -LOWEST])
def test_only_infinite_constants_are_infinite(number: float, mode: str, tmp_path: Path) -> None:
    constant: NDArray[Any] = np.array([0, number, 0, number], np.float32)
    nodes = [helper.make_node("Add", ["x", "m"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    path = _network(tmp_path / "net.onnx", nodes, {"m": constant})
    largest = {"f16": 65504.0, "bf16": (2 - 2.0**-7) * 2.0**127}[mode]
    named = [f"weights of 'y' up to {abs(number):,.6g}"] if largest < abs(number) < np.inf else []
    remarks = _compile(path, mode)
    assert [all(name in text for name in named) for text in remarks] == [True] * len(named)


def test_numbers_in_ops_are_named_too(tmp_path: Path) -> None:
    nodes = [helper.make_node("Mul", ["x", "c"], ["t"]), helper.make_node("Sigmoid", ["t"], ["y"])]
    path = _network(tmp_path / "net.onnx", nodes, {"c": 1e6})
    (text,) = _compile(path, "f16")
    assert "number in 't' up to 1e+06" in text
    assert _compile(path, "f32") == []


def test_numbers_that_hide_are_bounded_without_a_remark(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "c"], ["d"]),
        helper.make_node("Add", ["x", "d"], ["s"]),
        helper.make_node("Softmax", ["s"], ["y"]),
    ]
    path = _network(tmp_path / "net.onnx", nodes, {"c": LOWEST})
    assert [_compile(path, mode) for mode in ("f16", "bf16")] == [[], []]
