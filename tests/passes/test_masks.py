"""What is a mask, and what is only a number far below 0."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc.errors import CalibrationError
from tpuc.ir import Module
from tpuc_driver.session import Session
from tpuc_optimize.canonicalization.masks import hidden_values, is_hiding, mask_inputs, masked_scores

from tests.families import each

LOWEST = float(np.finfo(np.float32).min)
CAUSAL: NDArray[np.float32] = np.where(np.tri(4, dtype=bool), 0.0, -np.inf).astype(np.float32)
Nodes = Sequence[tuple[str, Sequence[str], str, dict[str, Any]]]


def _network(folder: Path, nodes: Nodes, **constants: Any) -> Path:
    """From scores `x @ w` of 1 x 4 x 4, mask `m` of 1 x 1 x 4, and `b` of bools."""
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4, 4)),
        helper.make_tensor_value_info("m", TensorProto.FLOAT, (1, 1, 4)),
        helper.make_tensor_value_info("b", TensorProto.BOOL, (1, 1, 4)),
    ]
    weights = {"w": np.arange(16).reshape(4, 4) / 8 - 1} | constants
    all_nodes: Nodes = [("MatMul", ("x", "w"), "s", {}), *nodes]
    used = {name for _, operands, _, _ in all_nodes for name in operands}
    graph = helper.make_graph(
        [helper.make_node(op, operands, [result], **attributes) for op, operands, result, attributes in all_nodes],
        "masks",
        [one for one in inputs if one.name in used],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in weights.items()],
    )
    path = folder / "net.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.write_bytes(model.SerializeToString())
    return path


def _module(folder: Path, nodes: Nodes, **constants: Any) -> Module:
    return Session(chip="bm1684x").transform(_network(folder, nodes, **constants))


SOFTMAX: tuple[str, Sequence[str], str, dict[str, Any]] = ("Softmax", ("z",), "y", {"axis": -1})
TURNED: Nodes = [("Sub", ("one", "m"), "o", {}), ("Mul", ("o", "c"), "d", {}), ("Add", ("s", "d"), "z", {})]
MASKS: dict[str, tuple[Nodes, dict[str, Any]]] = {
    "one minus mask": ([*TURNED, SOFTMAX], {"one": 1.0, "c": LOWEST}),
    "minus 10000": ([*TURNED, SOFTMAX], {"one": 1.0, "c": -10000.0}),
    "causal": ([("Add", ("s", "c"), "z", {}), SOFTMAX], {"c": CAUSAL}),
    "windows": ([("Add", ("s", "c"), "z", {}), SOFTMAX], {"c": np.where(np.eye(4) > 0, 0.0, -100.0)}),
    "last columns": ([("Add", ("s", "c"), "z", {}), SOFTMAX], {"c": [0, 0, 0, LOWEST]}),
    "bias of channels": (
        [("Conv", ("x", "k", "c"), "z", {}), ("Softmax", ("z",), "y", {"axis": 1})],
        {"k": np.arange(16).reshape(4, 4, 1) / 8 - 1, "c": [0.5, LOWEST, 0, -np.inf]},
    ),
    "input": ([("Add", ("s", "m"), "z", {}), SOFTMAX], {}),
    "where": ([("Where", ("b", "s", "c"), "z", {}), SOFTMAX], {"c": -1e9}),
    "scaled behind": ([("Add", ("s", "m"), "q", {}), ("Mul", ("q", "c"), "z", {}), SOFTMAX], {"c": 0.5}),
    "logarithm": ([*TURNED, ("LogSoftmax", ("z",), "y", {"axis": -1})], {"one": 1.0, "c": LOWEST}),
    "maximum": ([*TURNED, ("ReduceMax", ("z",), "y", {"axes": [-1]})], {"one": 1.0, "c": -1e9}),
}
OTHERS: dict[str, tuple[Nodes, dict[str, Any]]] = {
    "no mask": ([("Add", ("s", "c"), "z", {}), SOFTMAX], {"c": np.linspace(-3, 3, 4)}),
    "position bias": ([("Add", ("s", "c"), "z", {}), SOFTMAX], {"c": np.arange(16).reshape(4, 4) - 16.0}),
    "all far below": ([("Add", ("s", "c"), "z", {}), SOFTMAX], {"c": np.full((4, 4), -120.0)}),
    "no softmax": ([("Add", ("s", "c"), "z", {}), ("Relu", ("z",), "y", {})], {"c": [0, 0, 0, -1000]}),
    "sum of scores": ([("Add", ("s", "s"), "z", {}), SOFTMAX], {}),
}


@each("name", MASKS)
def test_masks_are_found_by_structure(name: str, tmp_path: Path) -> None:
    nodes, constants = MASKS[name]
    module = _module(tmp_path, nodes, **constants)
    names = {operation.name for operation in masked_scores(module)}
    assert {"z", "y"} <= names
    assert "s" not in names
    assert {"z", "y"} <= hidden_values(module)
    assert [value.name for value in mask_inputs(module)] == (["m"] if name in ("input", "scaled behind") else [])


@each("name", OTHERS)
def test_other_sums_are_no_masks(name: str, tmp_path: Path) -> None:
    nodes, constants = OTHERS[name]
    assert masked_scores(_module(tmp_path, nodes, **constants)) == frozenset()


def test_a_hiding_constant_has_places_that_show() -> None:
    assert is_hiding(CAUSAL)
    assert not is_hiding(np.full(3, -np.inf))
    assert not is_hiding(np.zeros(3))
    assert not is_hiding(np.array([-103.9, -116.8, -123.7]))  # means of pixels


def test_a_mask_is_no_bias_of_a_product(tmp_path: Path) -> None:
    nodes, constants = MASKS["last columns"]
    (product,) = [one for one in _module(tmp_path, nodes, **constants).main.operations if one.op.name == "top.MatMul"]
    assert product.name == "s"


def test_a_bias_that_hides_no_channel_stays_in_its_product(tmp_path: Path) -> None:
    constants = {"k": np.arange(16).reshape(4, 4, 1) / 8 - 1, "c": [-120.0, 3.0, 0.0, -900.0]}
    nodes: Nodes = [("Conv", ("x", "k", "c"), "z", {}), ("Relu", ("z",), "y", {})]
    names = [one.op.name for one in _module(tmp_path, nodes, **constants).main.operations]
    assert "top.Conv" in names
    assert "top.Add" not in names


def _calibrate(folder: Path, nodes: Nodes, mask: NDArray[Any], **constants: Any) -> Any:
    rng = np.random.default_rng(0)
    np.savez(folder / "x.npz", x=rng.standard_normal((4, 1, 4, 4)).astype(np.float32), m=np.stack([mask] * 4))
    session = Session(chip="bm1684x", quantize="int8")
    return session.calibrate(session.transform(_network(folder, nodes, **constants)), dataset=folder / "x.npz")


def test_infinite_masks_are_calibrated(tmp_path: Path) -> None:
    nodes, _ = MASKS["input"]
    mask = np.where([[[True, True, False, True]]], 0.0, -np.inf).astype(np.float32)
    entries = _calibrate(tmp_path, nodes, mask).entries
    assert np.isfinite(entries["z"].minimum)
    assert entries["m"].minimum == 0.0


def test_rows_that_are_hidden_as_a_whole_are_named(tmp_path: Path) -> None:
    nodes, _ = MASKS["input"]
    with pytest.raises(CalibrationError, match="y: NaN during calibration, as from a softmax over a row of -inf"):
        _calibrate(tmp_path, nodes, np.full((1, 1, 4), -np.inf, np.float32))


def test_infinite_samples_of_other_inputs_are_refused(tmp_path: Path) -> None:
    nodes: Nodes = [("Add", ("s", "m"), "z", {}), ("Relu", ("z",), "y", {})]
    with pytest.raises(CalibrationError, match="none of the 4 samples can be read"):
        _calibrate(tmp_path, nodes, np.full((1, 1, 4), -np.inf, np.float32))
