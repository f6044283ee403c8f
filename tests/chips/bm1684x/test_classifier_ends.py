"""The two ends of a classifier: a first convolution with more filters than lanes, and a row of scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tpuc.interpreter import Interpreter
from tpuc.ir import Module
from tpuc_bm1684x.isa import LaneTransfer, MatrixCopy, TransferOp, TransposeCW
from tpuc_driver.session import Session

from tests.conftest import RunVendor
from tests.families import each

SIZE, FILTERS, CLASSES = 97, 96, 200


def classifier() -> bytes:
    """A window of 7 rows over 3 channels in steps of 2, a maximum, scores of the means."""
    random = np.random.default_rng(3)
    weights = {
        "first": random.normal(0, 0.1, (FILTERS, 3, 7, 7)),
        "bias": random.normal(0, 0.1, FILTERS),
        "last": random.normal(0, 0.1, (CLASSES, FILTERS, 1, 1)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "first", "bias"], ["a"], name="first", kernel_shape=[7, 7], strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("MaxPool", ["b"], ["c"], name="pool", kernel_shape=[3, 3], strides=[2, 2]),
        helper.make_node("Conv", ["c", "last"], ["d"], name="last", kernel_shape=[1, 1]),
        helper.make_node("GlobalAveragePool", ["d"], ["scores"], name="mean"),
    ]
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, SIZE, SIZE])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, CLASSES, 1, 1])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()


def build(mode: str, work: Path) -> tuple[Session, Module, bytes, dict[str, np.ndarray]]:
    path = work / "net.onnx"
    path.write_bytes(classifier())
    session = Session(chip="bm1684x", quantize=mode)
    module = session.transform(path)
    inputs = {"x": np.random.default_rng(4).uniform(-1, 1, (1, 3, SIZE, SIZE)).astype(np.float32)}
    np.savez(work / "samples.npz", **inputs)
    table = session.calibrate(module, dataset=work / "samples.npz", options={"tune_num": 0}) if mode == "int8" else None
    final, data, *_ = session.build(module, table)
    return session, final, data, inputs


@each("mode", ["int8", "f16", "bf16", "f32"])
def test_scores_are_those_of_the_module(mode: str, tmp_path: Path) -> None:
    session, final, data, inputs = build(mode, tmp_path)
    [wanted] = Interpreter(final).run(inputs).values()
    [got] = session.chip.load(data).run(inputs).values()
    # Sums of products in floats depend on their order; a 16-bit float between two layers may round the other way.
    limit = {"int8": 0, "f16": 2**-9, "bf16": 2**-6, "f32": 2**-18}[mode] * float(np.ptp(wanted))
    assert np.abs(got.reshape(-1).astype(np.float64) - wanted.reshape(-1)).max() <= limit


@pytest.mark.parametrize("mode", ["int8", "f16"])
def test_rows_are_packed_once_and_scores_leave_in_one_run(mode: str, tmp_path: Path) -> None:
    session, _, data, _ = build(mode, tmp_path)
    entries = session.chip.load(data).timeline("vendor").entries
    commands = [entry.command.instruction for entry in entries]
    copies = [c for c in commands if isinstance(c, LaneTransfer) and c.operation is TransferOp.COPY]
    rows = sum(copy.shape[2] for copy in copies if copy.shape[1] == 3)
    assert rows == 6 * 46  # 46 result rows with window rows 1 to 6; those with row 0 lie in their lanes already
    assert not any(isinstance(command, MatrixCopy) for command in commands)  # 256 bytes for each score
    turned = [c for c in commands if isinstance(c, TransposeCW)]
    assert [command.result_shape() for command in turned] == [(1, 1, 1, CLASSES)]


@pytest.mark.interop
@pytest.mark.parametrize("mode", ["int8", "f16", "f32"])
def test_the_vendors_model_agrees_on_scores(mode: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    session, _, data, inputs = build(mode, tmp_path)
    path = tmp_path / "net.bmodel"
    path.write_bytes(data)
    [got] = run_vendor(path, inputs).values()
    [wanted] = session.chip.load(data).run(inputs).values()
    assert np.array_equal(got.reshape(-1), wanted.reshape(-1))
