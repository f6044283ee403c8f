"""Networks that state four or sixteen bits, on chips: they become floats of the numbers that are meant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Session

from tests.chips.floats import run_on_floats
from tests.families import each
from tests.frontends.onnx.networks import node
from tests.frontends.quantized.networks import session_options

Array = NDArray[Any]

BYTES: Mapping[str, Array] = {
    "xs": np.array(0.03, np.float32),
    "xz": np.array(128, np.uint8),
    "ys": np.array(0.1, np.float32),
    "yz": np.array(120, np.uint8),
}
WORDS: Mapping[str, Array] = {
    "xs": np.array(2e-4, np.float32),
    "xz": np.array(0, np.int16),
    "ys": np.array(2e-4, np.float32),
    "yz": np.array(0, np.uint16),
}
AROUND = [
    [node("QuantizeLinear", "x xs xz", "xq"), node("DequantizeLinear", "xq xs xz", "xd")],
    [node("QuantizeLinear", "h ys yz", "hq"), node("DequantizeLinear", "hq ys yz", "y")],
]


def saved(folder: Path, nodes: list[onnx.NodeProto], constants: list[onnx.TensorProto]) -> Path:
    """A file that makes `[3, 24]` of `[3, 64]`."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, n]) for name, n in (("x", 64), ("y", 24))]
    graph = helper.make_graph(nodes, "product", ends[:1], ends[1:], constants)
    path = folder / "product.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def of_blocks(folder: Path, kind: int, *, between_bytes: bool = False) -> Path:
    """A product with columns of four bits, which have a scale for every 16 rows."""
    random, (low, high) = np.random.default_rng(3), (-8, 8) if kind == TensorProto.INT4 else (0, 16)
    constants = [numpy_helper.from_array(random.uniform(0.01, 0.1, (4, 24)).astype(np.float32), "s")]
    for name, dims in (("w", (64, 24)), ("z", (4, 24))):
        constants.append(helper.make_tensor(name, kind, dims, random.integers(low, high, dims).reshape(-1).tolist()))
    columns = node("DequantizeLinear", "w s z", "d", axis=0, block_size=16)
    if not between_bytes:
        return saved(folder, [columns, node("MatMul", "x d", "y")], constants)
    constants += [numpy_helper.from_array(array, name) for name, array in BYTES.items()]
    return saved(folder, [*AROUND[0], columns, node("MatMul", "xd d", "h"), *AROUND[1]], constants)


def of_words(folder: Path) -> Path:
    """A product between values of 16 bits, whose result cannot be below 0."""
    columns = np.random.default_rng(3).normal(0, 0.3, (64, 24)).astype(np.float32)
    constants = [numpy_helper.from_array(array, name) for name, array in {**WORDS, "w": columns}.items()]
    return saved(folder, [*AROUND[0], node("MatMul", "xd w", "h"), *AROUND[1]], constants)


FILES: Mapping[str, Callable[[Path], Path]] = {
    "int4": lambda folder: of_blocks(folder, TensorProto.INT4),
    "uint4": lambda folder: of_blocks(folder, TensorProto.UINT4),
    "int4 between bytes": lambda folder: of_blocks(folder, TensorProto.INT4, between_bytes=True),
    "16 bits": of_words,
}


@each("form", FILES)
@each("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("bm1684x", "cv183x")])
def test_values_are_those_of_the_runtime(chip: str, form: str, tmp_path: Path) -> None:
    path = FILES[form](tmp_path)
    session = Session(chip=chip)
    module = session.transform(path)
    x = np.random.default_rng(4).normal(0, 1, (3, 64)).astype(np.float32)
    runtime = onnxruntime.InferenceSession(path, session_options(plain=True))
    (wanted,) = runtime.run(None, {"x": x})
    largest = np.abs(wanted).max()
    (got,) = Interpreter(module).run({"x": x}).values()
    assert np.abs(got - wanted).max() <= 1e-3 * largest
    (computed,) = run_on_floats(session.chip.load(session.build(module).data), {"x": x}).values()
    # BM1684X computes float32. CV183x computes bfloat16, which has 8 bits, and bytes get symmetric steps there.
    limit = 1e-3 if chip == "bm1684x" else 0.03
    assert np.abs(computed.reshape(wanted.shape) - wanted).max() <= limit * largest
