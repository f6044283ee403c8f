"""TopK of long rows: the best are selected by counting, or ranked within groups first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tpuc_driver.session import Session

from tests.chips.bm1684x.onnx_runtime import Arrays, check_equal, compiled
from tests.conftest import RunVendor

CASES: list[tuple[tuple[int, ...], int, int, int]] = [
    ((1, 8400), 300, -1, 1),
    ((3, 2100, 2), 500, 1, 0),
    ((2, 9000), 31, 1, 1),
    ((1, 2048), 1300, 1, 1),
    ((3, 1000), 5, -1, 1),
    ((2, 333, 3), 7, 1, 0),
    ((5, 200), 40, -1, 0),
    ((1, 777), 10, 1, 1),
    ((1, 900), 100, 1, 1),
]
"""Extents, how many, axis, whether the largest."""


def selections(work: Path, mode: str) -> tuple[Session, bytes, Arrays, Arrays]:
    """Every case, of values many of which are equal or infinite; beside them what ONNX Runtime selects."""
    random = np.random.default_rng(1)
    nodes: list[onnx.NodeProto] = []
    sources: list[onnx.ValueInfoProto] = []
    outputs: list[onnx.ValueInfoProto] = []
    constants: list[onnx.TensorProto] = []
    inputs: Arrays = {}
    for index, (dims, count, axis, largest) in enumerate(CASES):
        x, k, names = f"x{index}", f"k{index}", [f"values{index}", f"places{index}"]
        nodes.append(helper.make_node("TopK", [x, k], names, axis=axis, largest=largest))
        sources.append(helper.make_tensor_value_info(x, TensorProto.FLOAT, dims))
        constants.append(numpy_helper.from_array(np.array([count], np.int64), k))
        kinds = zip(names, (TensorProto.FLOAT, TensorProto.INT64), strict=True)
        outputs += [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds]
        inputs[x] = random.integers(-20, 20, dims).astype(np.float32)
        worst = -np.inf if largest else np.inf
        inputs[x][inputs[x] == (-20 if largest else 19)] = worst
        if count > 1000:  # fewer finite ones than are selected
            inputs[x][random.random(dims) < 0.7] = worst
    graph = helper.make_graph(nodes, "selections", sources, outputs, constants)
    session, data, wanted = compiled(work, graph, inputs, mode)
    return session, data, inputs, wanted


def test_the_simulator_selects_as_onnx_runtime(tmp_path: Path) -> None:
    session, data, inputs, wanted = selections(tmp_path, "f16")
    check_equal(session.chip.load(data).run(inputs), wanted)


@pytest.mark.interop
@pytest.mark.parametrize("mode", ["f32", "f16"])
def test_the_vendors_model_selects_as_onnx_runtime(mode: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    _, data, inputs, wanted = selections(tmp_path, mode)
    path = tmp_path / "net.bmodel"
    path.write_bytes(data)
    check_equal(run_vendor(path, inputs), wanted)


def test_the_best_of_thousands_take_less_than_comparing_all_pairs(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("TopK", ["x", "k"], ["values", "places"])],
        "selection",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 8400))],
        [
            helper.make_tensor_value_info("values", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("places", TensorProto.INT64, None),
        ],
        [numpy_helper.from_array(np.array([300], np.int64), "k")],
    )
    path = tmp_path / "net.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()
    )
    session = Session(chip="bm1684x", quantize="f16")
    loaded = session.chip.load(session.build(session.transform(path)).data)
    assert loaded.timeline("vendor").cycles <= 8_000
